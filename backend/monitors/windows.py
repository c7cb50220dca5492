"""Windows of a monitor: their buckets, and the sums of the buckets' tallies."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from backend.monitors.outcomes import DELAY_BINS, DELAY_FIELDS
from backend.store.monitors.buckets import MEASURED, ROWS_OF, WAITING, Buckets, Version, by_span
from backend.store.monitors.reference import (
    StoredReference,
    add_reference_vectors,
    add_to_reference,
    read_reference,
)
from backend.store.store import Store
from calibrant.core.batch import Batch
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.core.reductions import Event, reduce
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.measures.cross_fitting import calibrated
from calibrant.monitoring.reservoir import Reservoir
from calibrant.monitoring.tally import CELLS, FOLDS, Tally, borders, merged, tally_of
from schemas.base import MINUTE
from schemas.monitors import MonitorBody, MonitorRecord, WindowSpec

# --- The buckets of a window or of any span of time


@dataclass(frozen=True)
class Span:
    """The time buckets from ``first`` to ``last``, inclusive, of ``bucket`` seconds each."""

    first: int
    last: int
    bucket: int

    @property
    def start(self) -> float:
        """The start, in seconds since 1970."""
        return float(self.first * self.bucket)

    @property
    def end(self) -> float:
        """The end, in seconds since 1970."""
        return float((self.last + 1) * self.bucket)


def bucket_seconds(record: MonitorRecord) -> int:
    """The length of a monitor's time buckets."""
    return record.bucket or MINUTE


def window_span(record: MonitorRecord, seconds: int, now: float) -> Span:
    """The buckets of the last ``seconds``, including the whole first bucket.

    Timestamps of rows may be up to ``skew`` seconds in the future.
    """
    bucket = bucket_seconds(record)
    return Span(_floor(now - seconds, bucket), _floor(now + record.skew, bucket), bucket)


def time_span(record: MonitorRecord, start: float, end: float) -> Span:
    """The buckets that overlap the time from ``start`` to before ``end``."""
    bucket = bucket_seconds(record)
    first = _floor(start, bucket)
    return Span(first, max(first, math.ceil(end / bucket) - 1), bucket)


def kept_span(record: MonitorRecord, now: float) -> Span:
    """All stored buckets."""
    return window_span(record, record.retention, now)


def window_named(record: MonitorBody, name: str | None) -> WindowSpec | None:
    """The window with this name, by default the first; None if there is no such window."""
    if name is None:
        return record.windows[0]
    return next((window for window in record.windows if window.name == name), None)


def check_window(record: MonitorBody, name: str, where: str) -> None:
    """Raise ``InvalidOption`` at ``where`` if there is no window with this name."""
    if window_named(record, name) is None:
        names = sorted(window.name for window in record.windows)
        raise InvalidOption.at(where, f"must be one of the monitor's windows: {', '.join(names)}")


def _floor(moment: float, bucket: int) -> int:
    return math.floor(moment / bucket)


# --- What is computed from single buckets; only changed buckets are read again

Computed = TypeVar("Computed")


class BucketCache(Generic[Computed]):
    """A cache of what is computed from the tallies of buckets; the least recently used are dropped."""

    def __init__(self, series: Sequence[str], most: int) -> None:
        self._series, self._most = series, most
        self._kept: OrderedDict[tuple[str, int], tuple[tuple[Version, ...], Computed]] = OrderedDict()

    def of(
        self, buckets: Buckets, uid: str, numbers: list[int], compute: Callable[..., Computed]
    ) -> dict[int, Computed]:
        """The values of some buckets of a monitor; ``compute`` gets the tail of each series."""
        versions = dict(
            zip(numbers, zip(*(buckets.versions(entry, numbers) for entry in self._series), strict=True), strict=True)
        )
        held = {n: self._kept.pop((uid, n), None) for n in numbers}
        stale = [n for n, entry in held.items() if entry is None or entry[0] != versions[n]]
        read = [buckets.tails(entry, [(n, 0) for n in stale]) for entry in self._series]
        fresh = {n: (versions[n], compute(*tails)) for n, *tails in zip(stale, *read, strict=True)}
        cached = {n: entry for n, entry in (held | fresh).items() if entry is not None}
        self._kept.update({(uid, n): entry for n, entry in cached.items()})
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return {n: computed for n, (_, computed) in cached.items()}


# --- The rows of one bucket in memory, in fixed cells

#: Number of cells and outcomes.
WIDTH = 2 * CELLS
#: Number of keys per group.
GROUP_KEYS = np.uint32(WIDTH * FOLDS)

_BORDERS = borders()

Delays = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """Rows by cell and outcome: ``cells (2, WIDTH)`` holds their number and the sum of their predictions.

    ``groups`` holds the same by group, in one fold; None if no row has a group. ``generation`` and ``length`` identify
    the state of the list that was read; ``joined`` is the number of labels in ``delays``.
    """

    generation: int
    length: int
    cells: Floats
    groups: Tally | None
    joined: int = -1
    delays: Delays | None = None

    @property
    def size(self) -> int:
        """The approximate size in bytes."""
        own = self.cells.nbytes + (0 if self.delays is None else self.delays.nbytes)
        return own + 200 + (0 if self.groups is None else 20 * len(self.groups.keys))

    def grown(self, parts: Sequence[Tally]) -> Leaf:
        """The leaf with further tallies added."""
        if not parts:
            return self
        grouped = [] if self.groups is None else [self.groups]
        return replace(
            self,
            length=self.length + len(parts),
            cells=self.cells + pooled(parts),
            groups=by_group([*grouped, *parts]),
        )


def leaf_of(generation: int, parts: Sequence[Tally]) -> Leaf:
    """The leaf of a whole list."""
    return Leaf(generation, len(parts), pooled(parts), by_group(parts))


def pooled(parts: Sequence[Tally]) -> Floats:
    """The rows of tallies by cell and outcome, summed over groups and folds: ``(2, WIDTH)``."""
    cells = np.zeros((2, WIDTH))
    if parts:
        keys = np.concatenate([part.keys for part in parts]) % np.uint32(WIDTH)
        cells[0] = np.bincount(keys, np.concatenate([part.rows for part in parts]), WIDTH)
        cells[1] = np.bincount(keys, np.concatenate([part.p_sum for part in parts]), WIDTH)
    return cells


def by_group(parts: Sequence[Tally]) -> Tally | None:
    """The rows of tallies by group, in one fold; None if no row has a group."""
    if not any(len(part.keys) and part.keys[-1] >= GROUP_KEYS for part in parts):
        return None
    return groups_together(parts)


def groups_together(parts: Iterable[Tally]) -> Tally:
    """The rows of tallies by group, in one fold. O(sum of their cells)."""
    # Without folds the keys of the groups are dense, and are added up in a small table.
    width = np.uint32(WIDTH)
    together = merged(replace(part, keys=part.keys // GROUP_KEYS * width + part.keys % width) for part in parts)
    return replace(together, keys=together.keys // width * GROUP_KEYS + together.keys % width)


def tally_of_cells(cells: Floats) -> Tally:
    """Pooled rows as a tally of one group and fold."""
    keys = np.flatnonzero(cells[0])
    return Tally(keys.astype(np.uint32), cells[0, keys].astype(np.int64), cells[1, keys])


def without_label(waiting: Tally) -> Tally:
    """The predictions that still wait for a label: those that arrived without one, less those that got it later.

    A prediction that arrived before such tallies were kept is only subtracted; counts below 0 are set to 0.
    """
    arrived, later = np.moveaxis(pooled([waiting]).reshape(2, CELLS, 2), 2, 0)
    rows, p_sum = arrived - later
    cells = np.flatnonzero(rows > 0.0)
    left = rows[cells]
    means = np.clip(p_sum[cells] / left, _BORDERS[cells], _BORDERS[cells + 1])
    return Tally((2 * cells).astype(np.uint32), left.astype(np.int64), means * left)


# --- The sums of many buckets, with a cache: unchanged data is not read again
#
# A list of tallies only grows within one generation, so cached data stays valid and only new tallies are read.

#: Bytes of buckets that a process caches.
MOST_BYTES = 64 * 1024 * 1024
#: If more buckets than this are read, they are not cached.
_MOST_KEPT = 900

#: The series of spans of time buckets, and the series with label delays.
SPANS = by_span("measured")
_WAITING_SPANS = by_span("waiting")
TIMED = (MEASURED, SPANS)

Key = tuple[str, str, int]


@dataclass(frozen=True)
class Gathered:
    """The rows of some buckets: the ``tally`` of all, ``groups`` by group (None: no row has one), and counts.

    ``delays`` counts labels by delay; None for row buckets, which only count rows.
    """

    tally: Tally
    groups: Tally | None
    predictions: int = 0
    joined: int = 0
    expired: int = 0
    delays: Mapping[str, int] | None = None

    @property
    def coverage(self) -> float | None:
        """The share of predictions with a label; None without predictions."""
        return self.joined / self.predictions if self.predictions else None


class Leaves:
    """A cache of buckets of all monitors; the least recently used are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = 0
        self._leaves: OrderedDict[Key, Leaf] = OrderedDict()
        self._turn = Lock()

    def get(self, key: Key) -> Leaf | None:
        """The cached leaf of a bucket."""
        with self._turn:
            leaf = self._leaves.get(key)
            if leaf is not None:
                self._leaves.move_to_end(key)
            return leaf

    def put(self, key: Key, leaf: Leaf) -> None:
        """Store a leaf, replacing the previous one."""
        with self._turn:
            before = self._leaves.pop(key, None)
            self._leaves[key] = leaf
            self._held += leaf.size - (0 if before is None else before.size)
            while self._held > self._most:
                _, dropped = self._leaves.popitem(last=False)
                self._held -= dropped.size


class Gatherer:
    """Reads the buckets of one monitor through the cache."""

    def __init__(self, leaves: Leaves, buckets: Buckets, uid: str) -> None:
        self._leaves = leaves
        self._buckets = buckets
        self._uid = uid

    def span(self, first: int, last: int) -> Gathered:
        """The rows of the time buckets from ``first`` to ``last``, inclusive."""
        spans, buckets = self._buckets.cover(first, last)
        return joined(self.of(spans, SPANS), self.of(buckets))

    def window(self, record: MonitorRecord, window: WindowSpec, now: float) -> Gathered:
        """The rows of a window, as defined by ``record``."""
        if window.seconds is not None:
            span = window_span(record, window.seconds, now)
            return self.span(span.first, span.last)
        return self.of(self._buckets.latest_row_buckets(window.rows or 0)[::-1], ROWS_OF["measured"])

    def unlabelled(self, first: int, last: int) -> Tally:
        """The predictions without a label in the time buckets from ``first`` to ``last``, all with outcome 0."""
        spans, buckets = self._buckets.cover(first, last)
        return without_label(joined(self.of(spans, _WAITING_SPANS), self.of(buckets, WAITING)).tally)

    def of(self, numbers: Sequence[int], series: str = MEASURED) -> Gathered:
        """The rows of buckets of a series."""
        versions = self._buckets.versions(series, numbers)
        if len(numbers) > _MOST_KEPT:
            return self._passing(series, numbers, versions)
        return added(self.leaves(numbers, series, versions), versions, timed=series in TIMED)

    def leaves(
        self, numbers: Sequence[int], series: str = MEASURED, versions: Sequence[Version] | None = None
    ) -> list[Leaf]:
        """The rows of each bucket."""
        versions = self._buckets.versions(series, numbers) if versions is None else versions
        held = [self._leaves.get((self._uid, series, bucket)) for bucket in numbers]
        current = self._current(series, numbers, versions, held)
        if series in TIMED:
            current = self._with_delays(series, numbers, versions, current)
        for bucket, leaf, before in zip(numbers, current, held, strict=True):
            if leaf is not before:
                self._leaves.put((self._uid, series, bucket), leaf)
        return current

    def _current(
        self, series: str, numbers: Sequence[int], versions: Sequence[Version], held: Sequence[Leaf | None]
    ) -> list[Leaf]:
        """The current leaf of each bucket."""
        current: dict[int, Leaf] = {}
        wanted: list[tuple[int, int]] = []
        for i, (version, leaf) in enumerate(zip(versions, held, strict=True)):
            # A list that became shorter is a different list, even if its generation is equal.
            if leaf is None or leaf.generation != version.generation or leaf.length > version.length:
                wanted.append((i, 0))
            elif leaf.length < version.length:
                wanted.append((i, leaf.length))
            else:
                current[i] = leaf
        while wanted:
            tails = self._buckets.tails(series, [(numbers[i], since) for i, since in wanted])
            again = []
            for (i, since), tail in zip(wanted, tails, strict=True):
                before = held[i]
                if since and before is not None and before.generation == tail.generation:
                    current[i] = before.grown(tail.parts)
                elif since:  # compacted in the meantime
                    again.append((i, 0))
                else:
                    current[i] = leaf_of(tail.generation, tail.parts)
            wanted = again
        return [current[i] for i in range(len(numbers))]

    def _with_delays(
        self, series: str, numbers: Sequence[int], versions: Sequence[Version], leaves: list[Leaf]
    ) -> list[Leaf]:
        """The leaves with the delays of their labels, read again if there are new labels."""
        stale = [
            i for i, (leaf, version) in enumerate(zip(leaves, versions, strict=True)) if leaf.joined != version.joined
        ]
        counts = self._buckets.counts_of([numbers[i] for i in stale], series)
        for i, counted in zip(stale, counts, strict=True):
            leaves[i] = replace(leaves[i], joined=counted.get("joined", 0), delays=_delays(counted))
        return leaves

    def _passing(self, series: str, numbers: Sequence[int], versions: Sequence[Version]) -> Gathered:
        """The rows of more buckets than the cache holds, added up while they are read."""

        def leaves() -> Iterator[Leaf]:
            for start in range(0, len(numbers), _MOST_KEPT):
                some = numbers[start : start + _MOST_KEPT]
                tails = self._buckets.tails(series, [(bucket, 0) for bucket in some])
                leaf = leaf_of(0, [part for tail in tails for part in tail.parts])
                counts = self._buckets.counts_of(some, series) if series in TIMED else []
                yield replace(leaf, delays=sum(map(_delays, counts), np.zeros(DELAY_BINS, dtype=np.int64)))

        return added(leaves(), versions, timed=series in TIMED)


def added(leaves: Iterable[Leaf], versions: Sequence[Version], *, timed: bool) -> Gathered:
    """The sum of several leaves."""
    cells, groups, delays = np.zeros((2, WIDTH)), [], np.zeros(DELAY_BINS, dtype=np.int64)
    for leaf in leaves:
        cells += leaf.cells
        if leaf.groups is not None:
            groups.append(leaf.groups)
        if leaf.delays is not None:
            delays += leaf.delays
    return Gathered(
        tally_of_cells(cells),
        groups_together(groups) if groups else None,
        sum(version.predictions for version in versions),
        sum(version.joined for version in versions),
        sum(version.expired for version in versions),
        {field: n for field, n in zip(DELAY_FIELDS, delays.tolist(), strict=True) if n} if timed else None,
    )


def joined(rows: Gathered, other: Gathered) -> Gathered:
    """The sum of two sets of rows."""
    groups = [part.groups for part in (rows, other) if part.groups is not None]
    delays = Counter(rows.delays or {})
    delays.update(other.delays or {})
    return Gathered(
        merged([rows.tally, other.tally]),
        groups_together(groups) if groups else None,
        rows.predictions + other.predictions,
        rows.joined + other.joined,
        rows.expired + other.expired,
        dict(delays),
    )


def _delays(counts: Mapping[str, int]) -> Delays:
    return np.array([counts.get(field, 0) for field in DELAY_FIELDS], dtype=np.int64)


# --- The reference of windows: a batch, or a span of buckets

_WHERE = "/reference/batch"


def tally_of_batch(batch: Batch, body: MonitorBody, fitted: CalibrationMap | None) -> Tally:
    """Count the rows of a batch like the monitor would; ``body`` is a complete definition. O(n log n).

    Consecutive fifths of the rows are folds, as parts of the reference.

    Raises ``WrongShape``, ``ScaleMismatch`` or ``InvalidOption`` if the batch does not fit the monitor.
    """
    event = event_of_batch(batch, body, fitted, _WHERE)
    if batch.weights is not None:
        raise InvalidOption.at(_WHERE, "has weights, which belong to one window; name the batch when you read it")
    n = len(event.p)
    return tally_of(event.p, event.y, None, np.arange(n) * FOLDS // max(n, 1))


def event_of_batch(batch: Batch, body: MonitorBody, fitted: CalibrationMap | None, where: str) -> Event:
    """Reduce the rows of a batch like the monitor would; raises ``WrongShape`` or ``ScaleMismatch`` at ``where``."""
    predictions = batch.predictions
    if predictions.n_classes != body.n_classes:
        wanted = "(n,)" if body.n_classes is None else f"(n, {body.n_classes})"
        raise WrongShape.at(where, f"must have predictions {wanted}, like the monitor")
    if predictions.scale != body.scale:
        raise ScaleMismatch.at(where, f"has the scale {predictions.scale}, but the monitor has {body.scale}")
    return _event(batch, body.reduction or "binary", fitted)


def reference_span(record: MonitorRecord) -> Span | None:
    """The buckets of the reference; None if the reference is a batch or absent."""
    reference = record.reference
    if reference is None or reference.start is None or reference.end is None:
        return None
    return time_span(record, reference.start, reference.end)


def parts_of_span(span: Span) -> list[tuple[int, int]]:
    """The first and last bucket of each of the consecutive parts of a reference; first > last for an empty part."""
    n = span.last + 1 - span.first
    cuts = [span.first + n * part // FOLDS for part in range(FOLDS + 1)]
    return [(cuts[part], cuts[part + 1] - 1) for part in range(FOLDS)]


def in_parts(span: Span, first: int, last: int, read: Callable[[int, int], Tally]) -> Tally:
    """The rows of the buckets from ``first`` to ``last`` of a reference, with the parts of the span as folds."""
    tallies = []
    for part, (begin, end) in enumerate(parts_of_span(span)):
        begin, end = max(begin, first), min(end, last)
        if begin <= end:
            rows = tally_of_cells(pooled([read(begin, end)]))
            tallies.append(replace(rows, keys=rows.keys + np.uint32(part * WIDTH)))
    return merged(tallies)


def buckets_left(span: Span, stored: StoredReference) -> tuple[int, int]:
    """The first and last bucket of a reference that are not in its stored tally; first > last if there are none."""
    return max(span.first, span.first if stored.following is None else stored.following), span.last


def keep_reference(store: Store, record: MonitorRecord, buckets: Buckets, before: int) -> None:
    """Add the reference's rows in buckets before ``before``, which will be dropped, to its stored tally.

    Buckets are not added earlier, because labels and rows may still arrive. Raises ``UnknownMonitor``.
    """
    span = reference_span(record)
    if span is None or span.first >= before:
        return
    stored = read_reference(store.redis, store.keys, record.id)
    first, last = buckets_left(span, stored)
    last = min(last, before - 1)
    if first <= last:
        if record.reservoir is not None:  # first, because the tally records which buckets it has
            vectors = buckets.vectors.sample(first, last)
            add_reference_vectors(store.redis, store.keys, record, vectors)
        rows = in_parts(span, first, last, buckets.tally)
        add_to_reference(store.redis, store.keys, record, stored, rows, last + 1)


def reservoir_of_batch(batch: Batch, size: int) -> Reservoir:
    """A uniform sample of ``size`` labelled rows of a batch that ``tally_of_batch`` accepts."""
    priorities = np.random.default_rng(0).random(len(batch))
    rows = np.sort(np.argsort(priorities)[: size + 1])
    return Reservoir.of(priorities[rows], batch.predictions.given[rows], batch.labels[rows]).at_most(size)


def _event(batch: Batch, reduction: str, fitted: CalibrationMap | None) -> Event:
    event = reduce(batch, reduction)
    if fitted is None:
        return event
    after, _, _ = calibrated(event, batch, reduction, fitted)
    if not isinstance(after, Event):
        raise TypeError("a map of one event must return one event")
    return after
