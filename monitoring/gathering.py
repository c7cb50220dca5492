"""The rows of many buckets added up: what did not change since it was last read is not read again.

A list of tallies of one generation only grows, so what was read of it stays true, and what came since is read alone.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np

from calibrant.cells import Floats
from calibrant.tallies.tally import Tally, merged
from monitoring.delays import BINS, FIELDS
from monitoring.leaves import WIDTH, Delays, Leaf, groups_together, leaf_of, tally_of_cells
from monitoring.windows import window_span
from schemas.monitors import MonitorRecord, WindowSpec
from storage.monitors.buckets import MEASURED, ROWS_OF, Buckets, Version
from storage.monitors.series import by_span

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
        for i, told in zip(stale, counts, strict=True):
            found[i] = replace(found[i], joined=told.get("joined", 0), delays=_delays(told))
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
                for told in self._buckets.counts_of(some, series):
                    delays += _delays(told)
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
    told = None if delays is None else {field: int(n) for field, n in zip(FIELDS, delays.tolist(), strict=True) if n}
    return Gathered(
        tally_of_cells(cells),
        groups_together(groups) if groups else None,
        sum(version.predictions for version in versions),
        sum(version.joined for version in versions),
        sum(version.expired for version in versions),
        told,
    )


def _delays(counts: Mapping[str, int]) -> Delays:
    return np.array([counts.get(field, 0) for field in FIELDS], dtype=np.int64)
