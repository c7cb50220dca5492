"""The buckets of a monitor, which are lists of tallies and of reservoirs: read, compacted and expired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, cast

import numpy as np
from redis import Redis

from backend.store.keyspace import Keyspace, MonitorKeys
from backend.store.server.connection import Script
from calibrant.core.cells import Floats
from calibrant.monitoring.reservoir import Reservoir, thinned, together
from calibrant.monitoring.reservoir import from_bytes as reservoir_from_bytes
from calibrant.monitoring.tally import Tally, from_bytes, merged
from schemas.base import MINUTE
from schemas.monitors import MonitorRecord

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


# --- Lists: read, replaced and deleted

#: A list of this many parts is compacted to one; retried at every multiple of the step if that fails.
LONG = (64, 32)
#: Number of parts merged at once.
MOST_MERGED = 512
#: Number of lists read at once.
_LISTS_AT_ONCE = 100
#: Number of lists queried at once.
_ASKED = 1000

_COMPACT, _VERSIONS = Script("buckets/compact"), Script("buckets/versions")


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


# --- The reservoirs of a monitor
#
# A reservoir is a uniform sample of rows with their vectors, in bounded memory. A list per time bucket has reservoirs,
# to be merged. A row's priority is derived from its id, so its label finds it. Any window that ends now has its
# ``size`` rows of the lowest priorities, and so has the span of the reference; other rows are removed (``thin``). Rows
# that a reservoir would remove anyway are not added to it (``bounds``).

#: Additions of more than this part of the size are merged at once, so that a list of 64 has at most 16 times the size.
_MANY = 4
#: A list is replaced only if less than this share of its rows stays.
_STAYS = 0.9


class Vectors:
    """The reservoirs of one monitor, which has a size of them."""

    def __init__(self, redis: Redis, lists: Lists, keys: MonitorKeys, record: MonitorRecord) -> None:
        self._redis = redis
        self._lists = lists
        self._keys = keys
        self.size = record.reservoir or 0
        self._classes = record.n_classes or 0

    def bounds(self, buckets: Sequence[int]) -> Floats:
        """For each time bucket the priority from which its rows are not kept, at most 1."""
        if not len(buckets):
            return np.zeros(0)
        scores = self._redis.zmscore(self._keys.vector_bounds(), [str(bucket) for bucket in buckets])
        return np.array([1.0 if bound is None else float(bound) for bound in scores])

    def sample(self, first: int, last: int) -> Reservoir:
        """A uniform sample of the rows of the time buckets from ``first`` to ``last``, inclusive."""
        parts = [part for content in self._listed(first, last) for part in map(reservoir_from_bytes, content.parts)]
        return together([Reservoir.empty(self._classes), *parts], self.size)

    def after_addition(self, bucket: int, added: Reservoir) -> None:
        """Merge the reservoirs of a time bucket if many rows were added, which lowers its bound."""
        if len(added) > self.size // _MANY:
            self.compact(bucket)

    def compact(self, bucket: int) -> None:
        """Merge the reservoirs of a time bucket, unless another process does."""
        for content in self._lists.listed(VECTORS, [bucket], MOST_MERGED):
            self._replace(content, self._whole(content))

    def thin(self, first: int, last: int) -> None:
        """Remove rows that no window that ends now needs, and no sample of the buckets from ``first`` to ``last``."""
        lists = self._listed(0, 2**53)
        whole = [self._whole(content) for content in lists]
        thin = thinned(whole, self.size)
        span = [i for i, content in enumerate(lists) if first <= content.number <= last]
        if span:
            bound = together([whole[i] for i in span], self.size).below
            for i in span:
                thin[i] = whole[i].cut(max(thin[i].below, bound))
        for content, reservoir in zip(lists, thin, strict=True):
            if len(reservoir) < _STAYS * sum(len(reservoir_from_bytes(part)) for part in content.parts):
                self._replace(content, reservoir)

    def _listed(self, first: int, last: int) -> list[Listed]:
        return self._lists.listed(VECTORS, self._lists.buckets(first, last))

    def _whole(self, content: Listed) -> Reservoir:
        return together(map(reservoir_from_bytes, content.parts), self.size)

    def _replace(self, content: Listed, whole: Reservoir) -> None:
        """Replace the listed reservoirs by one, unless another process has."""
        if self._lists.replace(VECTORS, content, whole.to_bytes()) and whole.below < 1.0:
            self._redis.zadd(self._keys.vector_bounds(), {str(content.number): whole.below}, lt=True)


# --- Buckets

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
