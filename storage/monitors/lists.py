"""Lists of tallies: appended to, read, and made short again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
from redis import Redis

from calibrant.tallies.tally import Tally, from_bytes, merged
from storage.monitor_keys import MonitorKeys
from storage.monitors.scripts import COMPACT, VERSIONS

#: A list of so many tallies is made one; and again at every so many more, where that came to nothing.
LONG = (64, 32)
#: Tallies that are made one at once.
_MOST_MERGED = 512
#: Lists that are read at once.
_AT_ONCE = 100
#: Lists that are asked after at once.
_ASKED = 1000


class Version(NamedTuple):
    """What a list was: of one generation and length it always holds the same; and three of the counts beside it."""

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


class Lists:
    """The lists of one monitor, each of a series and a number."""

    def __init__(self, redis: Redis, keys: MonitorKeys) -> None:
        self._redis = redis
        self._keys = keys

    def tally(self, series: str, numbers: Sequence[int]) -> Tally:
        """The rows of some lists of a series."""
        found = merged([])
        for some in self._read(series, numbers):
            found = merged([found, *(part for _, parts in some for part in parts)])
        return found

    def tallies(self, series: str, numbers: Sequence[int]) -> dict[int, Tally]:
        """The rows of each of some lists."""
        return {number: merged(parts) for some in self._read(series, numbers) for number, parts in some}

    def versions(self, series: str, numbers: Sequence[int], stem_of_counts: str) -> list[Version]:
        """What each list is now, and the counts beside it, whose names begin with a stem, or nothing for none."""
        stems = (self._keys.stem(series), stem_of_counts)
        found: list[Version] = []
        for start in range(0, len(numbers), _ASKED):
            some = map(str, numbers[start : start + _ASKED])
            told = self._redis.eval(VERSIONS, 1, self._keys.generations(), series, *stems, *some)
            rows = np.frombuffer(cast(bytes, told), "<f8").astype(np.int64).reshape(-1, 5)
            found += [Version(*row) for row in rows.tolist()]
        return found

    def tails(self, series: str, wanted: Sequence[tuple[int, int]]) -> list[Tail]:
        """Of each list the tallies behind its first so many, with the generation in which they stand."""
        found: list[Tail] = []
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            with self._redis.pipeline() as pipe:
                pipe.hmget(self._keys.generations(), [f"{series}:{number}" for number, _ in some])
                for number, since in some:
                    pipe.lrange(self._keys.tallies(series, number), since, -1)
                generations, *answers = pipe.execute()
            for (_, since), generation, parts in zip(some, generations, answers, strict=True):
                found.append(Tail(int(generation or 0), since, [from_bytes(part) for part in parts]))
        return found

    def compact(self, series: str, number: int) -> bool:
        """Make the tallies of a list one; False where another did, or the list is gone. What comes meanwhile stays."""
        field, key = f"{series}:{number}", self._keys.tallies(series, number)
        with self._redis.pipeline() as pipe:
            pipe.lrange(key, 0, _MOST_MERGED - 1)
            pipe.hget(self._keys.generations(), field)
            parts, generation = pipe.execute()
        if generation is None or len(parts) < 2:
            return False
        one = merged(map(from_bytes, parts)).to_bytes()
        keys = (key, self._keys.generations(), self._keys.loose(), self._keys.state())
        args = (field, generation, str(len(parts)), one)
        return bool(self._redis.eval(COMPACT, len(keys), *keys, *cast(tuple[str, ...], args)))

    def loose(self) -> list[tuple[str, int]]:
        """The lists of more than one tally, the longest first."""
        found = [read_field(field) for field in cast(set[bytes], self._redis.smembers(self._keys.loose()))]
        with self._redis.pipeline(transaction=False) as pipe:
            for series, number in found:
                pipe.llen(self._keys.tallies(series, number))
            lengths = pipe.execute()
        return [one for _, one in sorted(zip(lengths, found, strict=True), reverse=True)]

    def forget(self, lists: Sequence[tuple[str, int]]) -> None:
        """Remove lists, and what is kept about them."""
        if not lists:
            return
        fields = [f"{series}:{number}" for series, number in lists]
        with self._redis.pipeline() as pipe:
            pipe.unlink(*(self._keys.tallies(series, number) for series, number in lists))
            pipe.hdel(self._keys.generations(), *fields)
            pipe.srem(self._keys.loose(), *fields)
            pipe.execute()

    def _read(self, series: str, numbers: Sequence[int]) -> Iterator[list[tuple[int, list[Tally]]]]:
        """The tallies of lists, some lists at a time."""
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            with self._redis.pipeline(transaction=False) as pipe:
                for number in some:
                    pipe.lrange(self._keys.tallies(series, number), 0, -1)
                answers = pipe.execute()
            yield [(number, list(map(from_bytes, parts))) for number, parts in zip(some, answers, strict=True)]


def read_field(field: bytes) -> tuple[str, int]:
    """The series and number of a list by its name in hashes and sets."""
    series, _, number = field.decode().rpartition(":")
    return series, int(number)
