"""The tallies of a monitor by bucket: lists that are appended to, and made short again.

Of each kind, measured and raw, there are two series: by time buckets, and by row buckets, which hold the rows in the
order in which they were counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np
from redis import Redis

from calibrant.tallies.tally import Tally, from_bytes, merged
from schemas.monitors import MonitorRecord
from storage.keyspace import Keyspace
from storage.monitors.scripts import COMPACT, VERSIONS

TallyKind = Literal["measured", "raw"]

#: The series by time, and those by rows.
MEASURED, RAW = "measured", "raw"
ROWS_OF = {MEASURED: "rows", RAW: "raw-rows"}
#: A list of so many tallies is made one; and again at every so many more, where that came to nothing.
LONG = (64, 32)
#: A row window is so many row buckets; all of them together are at most so many.
_OF_A_WINDOW, _OF_ALL = 16, 4096
#: Tallies that are made one at once.
_MOST_MERGED = 512
#: Lists that are asked for at once.
_AT_ONCE = 500


class Version(NamedTuple):
    """What a bucket's list was: of one generation and length it always holds the same; and three of its counts."""

    generation: int
    length: int
    predictions: int = 0
    joined: int = 0
    expired: int = 0


class Tail(NamedTuple):
    """The tallies of a list behind its first ``since``, and its generation as they were read."""

    generation: int
    since: int
    parts: list[Tally]


def rows_of_bucket(record: MonitorRecord) -> int:
    """Rows at which a row bucket is closed; 0 for a monitor without windows by rows."""
    windows = [window.rows for window in record.windows if window.rows is not None]
    return max(1, min(windows) // _OF_A_WINDOW, max(windows) // _OF_ALL) if windows else 0


class Buckets:
    """The buckets of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._keys = keys.monitor(record.uid)
        self._record = record

    def numbers(self, first: int, last: int) -> list[int]:
        """The time buckets that there are from ``first`` to ``last``, both included, ascending."""
        found = cast(list[bytes], self._redis.zrangebyscore(self._keys.buckets(), first, last))
        return [int(bucket) for bucket in found]

    def tally(self, first: int, last: int, kind: TallyKind = "measured") -> Tally:
        """The rows of the time buckets from ``first`` to ``last``, both included."""
        return merged(part for _, parts in self._read(kind, self.numbers(first, last)) for part in parts)

    def tallies(self, first: int, last: int, kind: TallyKind = "measured") -> dict[int, Tally]:
        """The rows of each time bucket from ``first`` to ``last`` that there is."""
        return {bucket: merged(parts) for bucket, parts in self._read(kind, self.numbers(first, last))}

    def counts(self, first: int, last: int) -> dict[str, int]:
        """The counts of the time buckets from ``first`` to ``last``, both included, added up."""
        total: Counter[str] = Counter()
        for counts in self.counts_by_bucket(first, last).values():
            total.update(counts)
        return dict(total)

    def counts_by_bucket(self, first: int, last: int) -> dict[int, dict[str, int]]:
        """The counts of each time bucket from ``first`` to ``last`` that there is."""
        numbers = self.numbers(first, last)
        return dict(zip(numbers, self.counts_of(numbers), strict=True))

    def latest_rows(self, n: int, kind: TallyKind = "measured") -> Tally:
        """The last ``n`` rows that were counted, and those before them in the same row bucket."""
        numbers = self.latest_row_buckets(n)
        return merged(part for _, parts in self._read(ROWS_OF[kind], numbers) for part in parts)

    def latest_row_buckets(self, n: int) -> list[int]:
        """The row buckets that hold the last ``n`` rows that were counted, newest first."""
        numbers, found = [], 0
        for bucket, rows in self._row_buckets():
            if found >= n:
                break
            numbers.append(bucket)
            found += rows
        return numbers

    def versions(self, series: str, numbers: Sequence[int]) -> list[Version]:
        """What the list of each bucket is now: ``tails`` tells what came to it since."""
        stems = (self._keys.stem(series), self._keys.stem("counts") if series == MEASURED else "")
        found: list[Version] = []
        for start in range(0, len(numbers), 2 * _AT_ONCE):
            some = map(str, numbers[start : start + 2 * _AT_ONCE])
            told = self._redis.eval(VERSIONS, 1, self._keys.generations(), series, *stems, *some)
            rows = np.frombuffer(cast(bytes, told), "<f8").astype(np.int64).reshape(-1, 5)
            found += [Version(*row) for row in rows.tolist()]
        return found

    def tails(self, series: str, wanted: Sequence[tuple[int, int]]) -> list[Tail]:
        """Of each bucket the tallies behind its first so many, with the generation in which they stand."""
        found: list[Tail] = []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            with self._redis.pipeline() as pipe:
                pipe.hmget(self._keys.generations(), [f"{series}:{bucket}" for bucket, _ in some])
                for bucket, since in some:
                    pipe.lrange(self._keys.tallies(series, bucket), since, -1)
                generations, *answers = pipe.execute()
            for (_, since), generation, parts in zip(some, generations, answers, strict=True):
                found.append(Tail(int(generation or 0), since, [from_bytes(part) for part in parts]))
        return found

    def counts_of(self, numbers: Sequence[int]) -> list[dict[str, int]]:
        """The counts of each time bucket."""
        found: list[dict[str, int]] = []
        for start in range(0, len(numbers), _AT_ONCE):
            with self._redis.pipeline(transaction=False) as pipe:
                for bucket in numbers[start : start + _AT_ONCE]:
                    pipe.hgetall(self._keys.counts(bucket))
                found += [{name.decode(): int(n) for name, n in counts.items()} for counts in pipe.execute()]
        return found

    def compact(self, series: str, bucket: int) -> bool:
        """Make the tallies of a list one; False where another did, or the list is gone. What comes meanwhile stays."""
        field, key = f"{series}:{bucket}", self._keys.tallies(series, bucket)
        with self._redis.pipeline() as pipe:
            pipe.lrange(key, 0, _MOST_MERGED - 1)
            pipe.hget(self._keys.generations(), field)
            parts, generation = pipe.execute()
        if generation is None or len(parts) < 2:
            return False
        one = merged(map(from_bytes, parts)).to_bytes()
        keys = (key, self._keys.generations(), self._keys.loose(), self._keys.state())
        args = (field, generation, len(parts), one)
        return bool(self._redis.eval(COMPACT, len(keys), *keys, *cast(tuple[str, ...], args)))

    def compact_closed(self, now: float) -> None:
        """Make the tallies of every bucket one that is no longer the newest."""
        newest = int(now // (self._record.bucket or 1))
        for field in cast(set[bytes], self._redis.smembers(self._keys.loose())):
            series, bucket = _read_field(field.decode())
            if series not in (MEASURED, RAW) or bucket < newest:
                self.compact(series, bucket)

    def drop(self, before: int) -> None:
        """Forget the time buckets before one; what was counted since the monitor began stays."""
        keys = self._keys
        for bucket in self.numbers(0, before - 1):
            fields = [f"{series}:{bucket}" for series in (MEASURED, RAW)]
            with self._redis.pipeline() as pipe:
                pipe.unlink(*(keys.tallies(series, bucket) for series in (MEASURED, RAW)), keys.counts(bucket))
                pipe.hdel(keys.generations(), *fields)
                pipe.srem(keys.loose(), *fields)
                pipe.zrem(keys.buckets(), str(bucket))
                pipe.execute()

    def drop_rows(self) -> None:
        """Forget the row buckets that no window reaches."""
        most = max((window.rows or 0 for window in self._record.windows), default=0)
        found = 0
        for bucket, rows in self._row_buckets():
            if found >= most:
                self._forget_rows(bucket)
            found += rows

    def after_commit(self, long: Iterable[str], *, closed: bool) -> None:
        """Do what a commit has made due."""
        for field in long:
            self.compact(*_read_field(field))
        if closed:
            self.drop_rows()

    def _row_buckets(self) -> list[tuple[int, int]]:
        """The row buckets, newest first, and the rows of each."""
        found = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.row_buckets()))
        return sorted(((int(bucket), int(rows)) for bucket, rows in found.items()), reverse=True)

    def _forget_rows(self, bucket: int) -> None:
        keys = self._keys
        fields = [f"{series}:{bucket}" for series in ROWS_OF.values()]
        with self._redis.pipeline() as pipe:
            pipe.unlink(*(keys.tallies(series, bucket) for series in ROWS_OF.values()))
            pipe.hdel(keys.generations(), *fields)
            pipe.srem(keys.loose(), *fields)
            pipe.hdel(keys.row_buckets(), str(bucket))
            pipe.execute()

    def _read(self, series: str, numbers: list[int]) -> Iterable[tuple[int, list[Tally]]]:
        """The tallies of lists, some lists at a time."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            with self._redis.pipeline(transaction=False) as pipe:
                for bucket in some:
                    pipe.lrange(self._keys.tallies(series, bucket), 0, -1)
                answers = pipe.execute()
            for bucket, parts in zip(some, answers, strict=True):
                yield bucket, [from_bytes(part) for part in parts]


def _read_field(field: str) -> tuple[str, int]:
    series, _, bucket = field.rpartition(":")
    return series, int(bucket)
