"""Windows of a monitor: which buckets they are made of, and the tallies of those buckets added up."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import numpy.typing as npt

from backend.monitors.readings import BINS, FIELDS
from backend.store.monitors.buckets import MEASURED, ROWS_OF, Buckets, Version, by_span
from backend.store.monitors.reference import Reference, add_to_reference, read_reference
from backend.store.store import Store
from calibrant.batch import Batch
from calibrant.cells import Floats
from calibrant.errors import InvalidOption, ScaleMismatch, WrongShape
from calibrant.evaluation import calibrated
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.tally import CELLS, FOLDS, Tally, merged, tally_of
from calibrant.reductions import Event, reduce
from schemas.monitors import MINUTE, MonitorBody, MonitorRecord, WindowSpec

# --- Which buckets a window, or any span of time, is made of


@dataclass(frozen=True)
class Span:
    """The time buckets from ``first`` to ``last``, both included, of ``bucket`` seconds each."""

    first: int
    last: int
    bucket: int

    @property
    def start(self) -> float:
        """When it begins, in seconds since 1970."""
        return float(self.first * self.bucket)

    @property
    def end(self) -> float:
        """When it ends."""
        return float((self.last + 1) * self.bucket)


def bucket_seconds(record: MonitorRecord) -> int:
    """The length of a monitor's time buckets."""
    return record.bucket or MINUTE


def window_span(record: MonitorRecord, seconds: int, now: float) -> Span:
    """The buckets of the last ``seconds``: the one in which they begin is taken whole.

    Rows may be stamped by ``skew`` later than now.
    """
    bucket = bucket_seconds(record)
    return Span(_floor(now - seconds, bucket), _floor(now + record.skew, bucket), bucket)


def time_span(record: MonitorRecord, start: float, end: float) -> Span:
    """The buckets that touch the time from ``start`` up to, but without, ``end``."""
    bucket = bucket_seconds(record)
    first = _floor(start, bucket)
    return Span(first, max(first, math.ceil(end / bucket) - 1), bucket)


def kept_span(record: MonitorRecord, now: float) -> Span:
    """All buckets that are kept."""
    return window_span(record, record.retention, now)


def window_named(record: MonitorBody, name: str | None) -> WindowSpec | None:
    """The window of a name; the first where there is no name; None where no window is called so."""
    if name is None:
        return record.windows[0]
    return next((window for window in record.windows if window.name == name), None)


def _floor(moment: float, bucket: int) -> int:
    return math.floor(moment / bucket)


# --- The rows of one bucket as a process keeps them: all of them in the fixed cells, whatever their number

#: Cells and outcomes.
WIDTH = 2 * CELLS
#: Keys of a group.
GROUP_KEYS = np.uint32(WIDTH * FOLDS)

Delays = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """Rows by cell and outcome: ``cells (2, WIDTH)`` holds their number and the sum of their predictions.

    ``groups`` tells the same by group, of one fold; None where no row has one. ``generation`` and ``length`` are what
    the list was that it was read from; ``joined`` the labels of which ``delays`` tells.
    """

    generation: int
    length: int
    cells: Floats
    groups: Tally | None
    joined: int = -1
    delays: Delays | None = None

    @property
    def size(self) -> int:
        """Bytes, about."""
        own = self.cells.nbytes + (0 if self.delays is None else self.delays.nbytes)
        return own + 200 + (0 if self.groups is None else 20 * len(self.groups.keys))

    def grown(self, parts: Sequence[Tally]) -> Leaf:
        """The leaf with more tallies behind those it was read from."""
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
    """The rows of tallies by cell and outcome, whatever their group and fold: ``(2, WIDTH)``."""
    found = np.zeros((2, WIDTH))
    if parts:
        keys = np.concatenate([part.keys for part in parts]) % np.uint32(WIDTH)
        found[0] = np.bincount(keys, np.concatenate([part.rows for part in parts]), WIDTH)
        found[1] = np.bincount(keys, np.concatenate([part.p_sum for part in parts]), WIDTH)
    return found


def by_group(parts: Sequence[Tally]) -> Tally | None:
    """The rows of tallies by group, of one fold; None where no row has a group."""
    if not any(len(part.keys) and part.keys[-1] >= GROUP_KEYS for part in parts):
        return None
    return groups_together(parts)


def groups_together(parts: Iterable[Tally]) -> Tally:
    """The rows of tallies by group, of one fold. O(sum of their cells)."""
    # Without the folds between them the keys of the groups lie close, and are added up in a small table.
    width = np.uint32(WIDTH)
    found = merged(replace(part, keys=part.keys // GROUP_KEYS * width + part.keys % width) for part in parts)
    return replace(found, keys=found.keys // width * GROUP_KEYS + found.keys % width)


def tally_of_cells(cells: Floats) -> Tally:
    """Pooled rows as a tally, of one group and fold."""
    keys = np.flatnonzero(cells[0])
    return Tally(keys.astype(np.uint32), cells[0, keys].astype(np.int64), cells[1, keys])


# --- The rows of many buckets added up: what did not change since it was last read is not read again
#
# A list of tallies of one generation only grows, so what was read of it stays true, and what came since is read
# alone.

#: Bytes of buckets that a process keeps.
MOST_BYTES = 64 * 1024 * 1024
#: More buckets than this are added up as they are read, and not kept.
_MOST_KEPT = 900

#: The series by span of time buckets, and those of which the labels' delays are counted.
SPANS = by_span("measured")
TIMED = (MEASURED, SPANS)

Key = tuple[str, str, int]


@dataclass(frozen=True)
class Gathered:
    """The rows of some buckets: ``tally`` of all, ``groups`` the same by group (None: no row has one), and counts.

    ``delays`` are the labels by how long they took; None of row buckets, of which nothing but the rows is counted.
    """

    tally: Tally
    groups: Tally | None
    predictions: int = 0
    joined: int = 0
    expired: int = 0
    delays: Mapping[str, int] | None = None

    @property
    def coverage(self) -> float | None:
        """The share of the predictions that have a label; None of none."""
        return self.joined / self.predictions if self.predictions else None


class Leaves:
    """The buckets that a process keeps, of all monitors; the longest unused are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = 0
        self._leaves: OrderedDict[Key, Leaf] = OrderedDict()
        self._turn = Lock()

    def get(self, key: Key) -> Leaf | None:
        """The leaf of a bucket as it was last read."""
        with self._turn:
            leaf = self._leaves.get(key)
            if leaf is not None:
                self._leaves.move_to_end(key)
            return leaf

    def put(self, key: Key, leaf: Leaf) -> None:
        """Keep a leaf in the place of what was read before."""
        with self._turn:
            before = self._leaves.pop(key, None)
            self._leaves[key] = leaf
            self._held += leaf.size - (0 if before is None else before.size)
            while self._held > self._most:
                _, dropped = self._leaves.popitem(last=False)
                self._held -= dropped.size


class Gatherer:
    """Reads the buckets of one monitor, by way of what the process keeps."""

    def __init__(self, leaves: Leaves, buckets: Buckets, uid: str) -> None:
        self._leaves = leaves
        self._buckets = buckets
        self._uid = uid

    def span(self, first: int, last: int) -> Gathered:
        """The rows of the time buckets from ``first`` to ``last``, both included."""
        spans, buckets = self._buckets.cover(first, last)
        return joined(self.of(spans, SPANS), self.of(buckets))

    def window(self, record: MonitorRecord, window: WindowSpec, now: float) -> Gathered:
        """The rows of a window of the monitor as ``record`` defines it."""
        if window.seconds is not None:
            span = window_span(record, window.seconds, now)
            return self.span(span.first, span.last)
        return self.of(self._buckets.latest_row_buckets(window.rows or 0)[::-1], ROWS_OF["measured"])

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
        found = self._current(series, numbers, versions, held)
        if series in TIMED:
            found = self._with_delays(series, numbers, versions, found)
        for bucket, leaf, before in zip(numbers, found, held, strict=True):
            if leaf is not before:
                self._leaves.put((self._uid, series, bucket), leaf)
        return found

    def _current(
        self, series: str, numbers: Sequence[int], versions: Sequence[Version], held: Sequence[Leaf | None]
    ) -> list[Leaf]:
        """Each bucket's leaf as its list is now, or was a moment ago."""
        found: dict[int, Leaf] = {}
        wanted: list[tuple[int, int]] = []
        for i, (version, leaf) in enumerate(zip(versions, held, strict=True)):
            # A list that is shorter than it was is another, whatever its generation says.
            if leaf is None or leaf.generation != version.generation or leaf.length > version.length:
                wanted.append((i, 0))
            elif leaf.length < version.length:
                wanted.append((i, leaf.length))
            else:
                found[i] = leaf
        while wanted:
            tails = self._buckets.tails(series, [(numbers[i], since) for i, since in wanted])
            again = []
            for (i, since), tail in zip(wanted, tails, strict=True):
                before = held[i]
                if since and before is not None and before.generation == tail.generation:
                    found[i] = before.grown(tail.parts)
                elif since:  # made short in between
                    again.append((i, 0))
                else:
                    found[i] = leaf_of(tail.generation, tail.parts)
            wanted = again
        return [found[i] for i in range(len(numbers))]

    def _with_delays(
        self, series: str, numbers: Sequence[int], versions: Sequence[Version], found: list[Leaf]
    ) -> list[Leaf]:
        """The leaves with the delays of their labels, read anew where labels have come since."""
        stale = [
            i for i, (leaf, version) in enumerate(zip(found, versions, strict=True)) if leaf.joined != version.joined
        ]
        counts = self._buckets.counts_of([numbers[i] for i in stale], series)
        for i, counted in zip(stale, counts, strict=True):
            found[i] = replace(found[i], joined=counted.get("joined", 0), delays=_delays(counted))
        return found

    def _passing(self, series: str, numbers: Sequence[int], versions: Sequence[Version]) -> Gathered:
        """The rows of more buckets than are kept, added up as they are read."""
        cells, groups, delays = np.zeros((2, WIDTH)), [], np.zeros(BINS, dtype=np.int64)
        for start in range(0, len(numbers), _MOST_KEPT):
            some = numbers[start : start + _MOST_KEPT]
            parts = [part for tail in self._buckets.tails(series, [(b, 0) for b in some]) for part in tail.parts]
            one = leaf_of(0, parts)
            cells += one.cells
            if one.groups is not None:
                groups.append(one.groups)
            if series in TIMED:
                for counted in self._buckets.counts_of(some, series):
                    delays += _delays(counted)
        return _gathered(cells, groups, delays if series in TIMED else None, versions)


def added(leaves: Sequence[Leaf], versions: Sequence[Version], *, timed: bool) -> Gathered:
    """The rows of several leaves together."""
    cells = np.zeros((2, WIDTH))
    delays = np.zeros(BINS, dtype=np.int64)
    for leaf in leaves:
        cells += leaf.cells
        if leaf.delays is not None:
            delays += leaf.delays
    return _gathered(
        cells, [leaf.groups for leaf in leaves if leaf.groups is not None], delays if timed else None, versions
    )


def joined(one: Gathered, other: Gathered) -> Gathered:
    """The rows of both."""
    groups = [part.groups for part in (one, other) if part.groups is not None]
    delays = Counter(one.delays or {})
    delays.update(other.delays or {})
    return Gathered(
        merged([one.tally, other.tally]),
        groups_together(groups) if groups else None,
        one.predictions + other.predictions,
        one.joined + other.joined,
        one.expired + other.expired,
        dict(delays),
    )


def _gathered(cells: Floats, groups: Sequence[Tally], delays: Delays | None, versions: Sequence[Version]) -> Gathered:
    found = None if delays is None else {field: int(n) for field, n in zip(FIELDS, delays.tolist(), strict=True) if n}
    return Gathered(
        tally_of_cells(cells),
        groups_together(groups) if groups else None,
        sum(version.predictions for version in versions),
        sum(version.joined for version in versions),
        sum(version.expired for version in versions),
        found,
    )


def _delays(counts: Mapping[str, int]) -> Delays:
    return np.array([counts.get(field, 0) for field in FIELDS], dtype=np.int64)


# --- What windows are compared with: a batch, or a span of buckets

_WHERE = "/reference/batch"


def tally_of_batch(batch: Batch, body: MonitorBody, fitted: CalibrationMap | None) -> Tally:
    """The rows of a batch as the monitor would count them; ``body`` is settled. O(n log n).

    Raises ``WrongShape``, ``ScaleMismatch`` or ``InvalidOption`` for a batch that the monitor would not take.
    """
    given = batch.predictions
    if given.n_classes != body.n_classes:
        wanted = "(n,)" if body.n_classes is None else f"(n, {body.n_classes})"
        raise WrongShape.at(_WHERE, f"must have predictions {wanted}, as the monitor")
    if given.scale != body.scale:
        raise ScaleMismatch.at(_WHERE, f"is on the scale {given.scale}, where the monitor is on {body.scale}")
    if batch.weights is not None:
        raise InvalidOption.at(_WHERE, "has weights, and a monitor counts rows")
    event = _event(batch, body.reduction or "binary", fitted)
    return tally_of(event.p, event.y)


def reference_span(record: MonitorRecord) -> Span | None:
    """The buckets that a monitor's windows are compared with; None where it is a batch, or nothing."""
    reference = record.reference
    if reference is None or reference.start is None or reference.end is None:
        return None
    return time_span(record, reference.start, reference.end)


def buckets_left(span: Span, kept: Reference) -> tuple[int, int]:
    """The first and the last of a reference's buckets that are not in what is kept; the first is past it for none."""
    return max(span.first, span.first if kept.following is None else kept.following), span.last


def keep_reference(store: Store, record: MonitorRecord, buckets: Buckets, before: int) -> None:
    """Keep with a monitor what its windows are compared with of the buckets before one, which are to be dropped.

    Not sooner: as long as a bucket is there, labels and rows of it may come. Raises ``UnknownMonitor``.
    """
    span = reference_span(record)
    if span is None or span.first >= before:
        return
    kept = read_reference(store.redis, store.keys, record.uid)
    first, last = buckets_left(span, kept)
    last = min(last, before - 1)
    if first <= last:
        rows = tally_of_cells(pooled([buckets.tally(first, last)]))
        add_to_reference(store.redis, store.keys, record, kept, rows, last + 1)


def _event(batch: Batch, reduction: str, fitted: CalibrationMap | None) -> Event:
    event = reduce(batch, reduction)
    if fitted is None:
        return event
    after, _, _ = calibrated(event, batch, reduction, fitted)
    if not isinstance(after, Event):
        raise TypeError("one event stays one event under a map")
    return after
