"""The buckets of a monitor: read, compacted and expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast

import numpy as np
from redis import Redis

from backend.store.keyspace import Keyspace
from backend.store.monitors.lists import (
    KINDS,
    OF_BUCKETS,
    SPAN,
    VECTORS,
    Lists,
    Tail,
    TallyKind,
    Version,
    by_rows,
    by_span,
    read_field,
)
from backend.store.monitors.vectors import Vectors
from backend.store.server.connection import Script
from calibrant.monitoring.reservoir import Reservoir
from calibrant.monitoring.tally import Tally, merged
from schemas.base import MINUTE
from schemas.monitors import MonitorRecord

#: Number of row buckets per row window, and maximum number of all row buckets.
_OF_A_WINDOW, _OF_ALL = 16, 4096


def rows_of_bucket(record: MonitorRecord) -> int:
    """Number of rows at which a row bucket is closed; 0 for a monitor without row windows."""
    windows = [window.rows for window in record.windows if window.rows is not None]
    return max(1, min(windows) // _OF_A_WINDOW, max(windows) // _OF_ALL) if windows else 0


#: The series by time bucket of the measured tallies, and the series by row bucket of each kind.
MEASURED: Final = "measured"
#: The series by time bucket of the predictions without a label.
WAITING: Final = "waiting"
ROWS_OF: Mapping[str, str] = {kind: by_rows(kind) for kind in KINDS}

#: Number of lists compacted per check.
_COMPACTED = 50
#: Number of row buckets deleted at once.
_DROPPED = 16
#: Number of buckets whose counts are read, or that are deleted, at once.
_AT_ONCE = 500

_DROP, _COVER = Script("buckets/drop"), Script("buckets/cover")


class Buckets:
    """The buckets of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._keys = keys.monitor(record.id)
        self._record = record
        self._lists = Lists(redis, self._keys)
        self.vectors = Vectors(redis, self._lists, self._keys, record)

    def numbers(self, first: int, last: int) -> list[int]:
        """The existing time buckets from ``first`` to ``last``, inclusive, in ascending order."""
        return self._lists.buckets(first, last)

    def oldest(self, first: int, last: int) -> int | None:
        """The first existing time bucket from ``first`` to ``last``; None if there is none."""
        members = cast(list[bytes], self._redis.zrangebyscore(self._keys.buckets(), first, last, start=0, num=1))
        return int(members[0]) if members else None

    def tally(self, first: int, last: int, kind: TallyKind = "measured") -> Tally:
        """The rows of the time buckets from ``first`` to ``last``, inclusive."""
        spans, buckets = self.cover(first, last)
        return merged([self._lists.tally(by_span(kind), spans), self._lists.tally(kind, buckets)])

    def tallies(self, first: int, last: int, kind: TallyKind = "measured") -> dict[int, Tally]:
        """The rows of each existing time bucket from ``first`` to ``last``."""
        return self._lists.tallies(kind, self.numbers(first, last))

    def versions(self, series: str, numbers: Sequence[int]) -> list[Version]:
        """The current version of each bucket's list; ``tails`` returns what was added since."""
        of_counts = {MEASURED: self._keys.counts_stem(), by_span(MEASURED): self._keys.span_counts_stem()}
        return self._lists.versions(series, numbers, of_counts.get(series, ""))

    def tails(self, series: str, wanted: Sequence[tuple[int, int]]) -> list[Tail]:
        """The tallies of each bucket after a given number, with the generation."""
        return self._lists.tails(series, wanted)

    def counts(self, first: int, last: int) -> dict[str, int]:
        """The summed counts of the time buckets from ``first`` to ``last``, inclusive."""
        spans, buckets = self.cover(first, last)
        total: Counter[str] = Counter()
        for counts in (*self._counts(self._keys.span_counts, spans), *self._counts(self._keys.counts, buckets)):
            total.update(counts)
        return dict(total)

    def counts_by_bucket(self, first: int, last: int) -> dict[int, dict[str, int]]:
        """The counts of each existing time bucket from ``first`` to ``last``."""
        numbers = self.numbers(first, last)
        return dict(zip(numbers, self.counts_of(numbers), strict=True))

    def counts_of(self, numbers: Sequence[int], series: str = MEASURED) -> list[dict[str, int]]:
        """The counts of each time bucket, or of each span."""
        return self._counts(self._keys.counts if series == MEASURED else self._keys.span_counts, numbers)

    def latest_rows(self, n: int, kind: TallyKind = "measured") -> Tally:
        """The last ``n`` counted rows, and earlier rows in the same row bucket."""
        return self._lists.tally(by_rows(kind), self.latest_row_buckets(n))

    def latest_row_buckets(self, n: int) -> list[int]:
        """The row buckets with the last ``n`` counted rows, newest first."""
        numbers, n_rows = [], 0
        for bucket, rows in self._row_buckets():
            if n_rows >= n:
                break
            numbers.append(bucket)
            n_rows += rows
        return numbers

    def compact_closed(self, now: float) -> None:
        """Merge the tallies of all buckets except the newest, starting with the longest lists."""
        bucket = int(now // (self._record.bucket or 1))
        row = int(cast(bytes | None, self._redis.hget(self._keys.state(), "row")) or 0)
        open_ones = {series: at for k in KINDS for series, at in ((k, bucket), (by_span(k), bucket // SPAN))}
        open_ones[VECTORS] = bucket
        closed = [(series, n) for series, n in self._lists.loose() if n < open_ones.get(series, row)]
        for series, number in closed[:_COMPACTED]:
            self._compact(series, number)

    def drop(self, before: int) -> None:
        """Delete the time buckets before ``before``; the totals of the monitor are kept."""
        _DROP.run(self._redis, [self._keys.state()], before)
        numbers = self.numbers(0, before - 1)
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            # A span with some remaining buckets is no longer read, and is deleted with the last of them.
            spans = sorted({b // SPAN for b in some} - {b // SPAN for b in self.numbers(before, before + SPAN)})
            lists = [(by_span(kind), span) for kind in KINDS for span in spans]
            self._lists.forget(lists + [(series, bucket) for series in OF_BUCKETS for bucket in some])
            # The index is updated last, so that an interrupted deletion is repeated.
            with self._redis.pipeline() as pipe:
                pipe.zrem(self._keys.vector_bounds(), *map(str, some))
                pipe.unlink(*map(self._keys.counts, some), *map(self._keys.span_counts, spans))
                pipe.zrem(self._keys.buckets(), *map(str, some))
                pipe.execute()

    def dropped(self) -> int:
        """The number of the bucket before which all were deleted."""
        return int(cast(bytes | None, self._redis.hget(self._keys.state(), "dropped")) or 0)

    def began(self, number: int) -> float:
        """When a time bucket began, or the first row of the monitor came if that is later; old ones do not have it."""
        first = float(cast(bytes | None, self._redis.hget(self._keys.state(), "first")) or 0.0)
        return max(first, float(number * (self._record.bucket or MINUTE)))

    def drop_rows(self) -> None:
        """Delete the row buckets outside of all windows."""
        most = max((window.rows or 0 for window in self._record.windows), default=0)
        n_rows, passed = 0, []
        for bucket, rows in self._row_buckets():
            if n_rows >= most:
                passed.append(bucket)
            n_rows += rows
        if passed:
            self._lists.forget([(by_rows(kind), bucket) for kind in KINDS for bucket in passed])
            self._redis.hdel(self._keys.row_buckets(), *map(str, passed))

    def after_commit(self, long: Iterable[bytes], opened: int, vectors: Mapping[int, Reservoir]) -> None:
        """Do the maintenance after a commit: compact long lists, and occasionally delete row buckets.

        ``opened`` is the row bucket that the commit opened, 0 for none; ``vectors`` are the added reservoirs.
        """
        for bucket, added in vectors.items():
            self.vectors.after_addition(bucket, added)
        for field in long:
            self._compact(*read_field(field))
        if opened and opened % _DROPPED == 0:
            self.drop_rows()

    def _compact(self, series: str, number: int) -> None:
        if series == VECTORS:
            self.vectors.compact(number)
        else:
            self._lists.compact(series, number)

    def cover(self, first: int, last: int) -> tuple[list[int], list[int]]:
        """The spans that lie completely between ``first`` and ``last``, and the other existing buckets there."""
        keys = (self._keys.buckets(), self._keys.state())
        answer: list[bytes] = _COVER.run(self._redis, keys, first, last, SPAN)
        # Thousands of numbers are read as two strings, several times faster than individually.
        spans, single = (np.frombuffer(text, "<f8").astype(np.int64).tolist() for text in answer)
        return spans, single

    def _counts(self, key_of: Callable[[int], str], numbers: Sequence[int]) -> list[dict[str, int]]:
        answers: list[dict[bytes, bytes]] = []
        for start in range(0, len(numbers), _AT_ONCE):
            with self._redis.pipeline(transaction=False) as pipe:
                for number in numbers[start : start + _AT_ONCE]:
                    pipe.hgetall(key_of(number))
                answers += pipe.execute()
        return [{name.decode(): int(count) for name, count in counts.items()} for counts in answers]

    def _row_buckets(self) -> list[tuple[int, int]]:
        """The row buckets, newest first, with their numbers of rows."""
        rows_by_bucket = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.row_buckets()))
        return sorted(((int(bucket), int(rows)) for bucket, rows in rows_by_bucket.items()), reverse=True)
