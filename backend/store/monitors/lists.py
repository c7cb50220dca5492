"""The lists of a monitor, of tallies or of reservoirs: read, replaced and deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, cast

import numpy as np
from redis import Redis

from backend.store.keyspace import MonitorKeys
from backend.store.server.connection import Script
from calibrant.monitoring.tally import Tally, from_bytes, merged

# --- The series of lists
#
# The kinds measured and raw have three series: by time bucket, by span (a fixed number of time buckets), and by row
# bucket, which holds rows in the order in which they were counted. Rows of a bucket are also counted in its span, so
# that a long window needs few lists, even while labels of old rows still arrive. The kind waiting has the first two: it
# counts predictions that arrived without a label (outcome 0), and again when their label has arrived (outcome 1).
# The series vectors has reservoirs instead of tallies, by time bucket alone.

TallyKind = Literal["measured", "raw", "waiting"]
KINDS: tuple[TallyKind, ...] = ("measured", "raw", "waiting")
VECTORS = "vectors"
#: The series by time bucket.
OF_BUCKETS = (*KINDS, VECTORS)

#: Number of time buckets per span.
SPAN = 64


def by_span(kind: TallyKind) -> str:
    """The series by span of a kind; the series by time bucket has the name of the kind."""
    return f"{kind}-spans"


def by_rows(kind: TallyKind) -> str:
    """The series by row bucket of a kind."""
    return f"{kind}-rows"


# --- Reading and replacing their content

#: A list of this many parts is compacted to one; retried at every multiple of the step if that fails.
LONG = (64, 32)
#: Number of parts merged at once.
MOST_MERGED = 512
#: Number of lists read at once.
_LISTS_AT_ONCE = 100
#: Number of lists queried at once.
_ASKED = 1000

_COMPACT, _VERSIONS = Script("lists/compact"), Script("lists/versions")


class Version(NamedTuple):
    """The state of a list: its content is determined by generation and length; and three of its counts."""

    generation: int
    length: int
    predictions: int = 0
    joined: int = 0
    expired: int = 0


class Tail(NamedTuple):
    """The tallies of a list after the first ``since``, with its generation at that time."""

    generation: int
    since: int
    parts: list[Tally]


class Listed(NamedTuple):
    """The first parts of a list as they are stored, with its generation at that time."""

    number: int
    generation: bytes
    parts: list[bytes]


class Lists:
    """The lists of one monitor, each identified by a series and a number."""

    def __init__(self, redis: Redis, keys: MonitorKeys) -> None:
        self._redis = redis
        self._keys = keys

    def buckets(self, first: int, last: int) -> list[int]:
        """The existing time buckets from ``first`` to ``last``, inclusive, in ascending order."""
        members = cast(list[bytes], self._redis.zrangebyscore(self._keys.buckets(), first, last))
        return [int(bucket) for bucket in members]

    def tally(self, series: str, numbers: Sequence[int]) -> Tally:
        """The rows of some lists of a series."""
        total = merged([])
        for some in self._read(series, numbers):
            total = merged([total, *(part for _, parts in some for part in parts)])
        return total

    def tallies(self, series: str, numbers: Sequence[int]) -> dict[int, Tally]:
        """The rows of each of some lists."""
        return {number: merged(parts) for some in self._read(series, numbers) for number, parts in some}

    def versions(self, series: str, numbers: Sequence[int], stem_of_counts: str) -> list[Version]:
        """The current version of each list, with counts whose keys have this prefix (empty for none)."""
        stems = (self._keys.stem(series), stem_of_counts)
        current: list[Version] = []
        for start in range(0, len(numbers), _ASKED):
            some = map(str, numbers[start : start + _ASKED])
            answer: bytes = _VERSIONS.run(self._redis, [self._keys.generations()], series, *stems, *some)
            rows = np.frombuffer(answer, "<f8").astype(np.int64).reshape(-1, 5)
            current += [Version(*row) for row in rows.tolist()]
        return current

    def tails(self, series: str, wanted: Sequence[tuple[int, int]]) -> list[Tail]:
        """The tallies of each list after a given number, with the generation."""
        tails: list[Tail] = []
        for start in range(0, len(wanted), _LISTS_AT_ONCE):
            some = wanted[start : start + _LISTS_AT_ONCE]
            with self._redis.pipeline() as pipe:
                pipe.hmget(self._keys.generations(), [f"{series}:{number}" for number, _ in some])
                for number, since in some:
                    pipe.lrange(self._keys.tallies(series, number), since, -1)
                generations, *answers = pipe.execute()
            for (_, since), generation, parts in zip(some, generations, answers, strict=True):
                tails.append(Tail(int(generation or 0), since, [from_bytes(part) for part in parts]))
        return tails

    def compact(self, series: str, number: int) -> bool:
        """Merge the tallies of a list, keeping new ones; returns False if another process did, or the list is gone."""
        for content in self.listed(series, [number], MOST_MERGED):
            if len(content.parts) > 1:
                return self.replace(series, content, merged(map(from_bytes, content.parts)).to_bytes())
        return False

    def listed(self, series: str, numbers: Sequence[int], most: int = 0) -> list[Listed]:
        """The content of those lists that are not empty: the first ``most`` parts of each (0: all)."""
        contents: list[Listed] = []
        for start in range(0, len(numbers), _LISTS_AT_ONCE):
            some = numbers[start : start + _LISTS_AT_ONCE]
            with self._redis.pipeline() as pipe:
                pipe.hmget(self._keys.generations(), [f"{series}:{number}" for number in some])
                for number in some:
                    pipe.lrange(self._keys.tallies(series, number), 0, most - 1)
                generations, *answers = pipe.execute()
            contents += [
                Listed(number, generation, parts)
                for number, generation, parts in zip(some, generations, answers, strict=True)
                if generation is not None and parts
            ]
        return contents

    def replace(self, series: str, content: Listed, merged_part: bytes) -> bool:
        """Replace the listed parts of a list by one; returns False if another process did, or the list is gone."""
        key = self._keys.tallies(series, content.number)
        keys = (key, self._keys.generations(), self._keys.loose(), self._keys.state())
        field = f"{series}:{content.number}"
        return bool(_COMPACT.run(self._redis, keys, field, content.generation, len(content.parts), merged_part))

    def loose(self) -> list[tuple[str, int]]:
        """The lists with more than one tally, longest first."""
        fields = [read_field(field) for field in cast(set[bytes], self._redis.smembers(self._keys.loose()))]
        with self._redis.pipeline(transaction=False) as pipe:
            for series, number in fields:
                pipe.llen(self._keys.tallies(series, number))
            lengths = pipe.execute()
        return [series_and_number for _, series_and_number in sorted(zip(lengths, fields, strict=True), reverse=True)]

    def forget(self, lists: Sequence[tuple[str, int]]) -> None:
        """Delete lists and the data about them."""
        if not lists:
            return
        fields = [f"{series}:{number}" for series, number in lists]
        with self._redis.pipeline() as pipe:
            pipe.unlink(*(self._keys.tallies(series, number) for series, number in lists))
            pipe.hdel(self._keys.generations(), *fields)
            pipe.srem(self._keys.loose(), *fields)
            pipe.execute()

    def _read(self, series: str, numbers: Sequence[int]) -> Iterator[list[tuple[int, list[Tally]]]]:
        """Yield the tallies of lists, some lists at a time."""
        for start in range(0, len(numbers), _LISTS_AT_ONCE):
            some = numbers[start : start + _LISTS_AT_ONCE]
            with self._redis.pipeline(transaction=False) as pipe:
                for number in some:
                    pipe.lrange(self._keys.tallies(series, number), 0, -1)
                answers = pipe.execute()
            yield [(number, list(map(from_bytes, parts))) for number, parts in zip(some, answers, strict=True)]


def read_field(field: bytes) -> tuple[str, int]:
    """The series and number of a list from its name in hashes and sets."""
    series, _, number = field.decode().rpartition(":")
    return series, int(number)
