"""A monitor as lines: its tallies and counts span by span, what else is kept of it, its ids, then its definition.

Rows may come meanwhile. A span is told as it stood in one moment, and ids are told last: a row that comes while a
backup is taken may be known in it and not counted, and is never counted twice when it is sent again.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from schemas.monitors import StoredMonitor
from storage.backup.file import Text
from storage.backup.records import chunks, life_of
from storage.formats import read_stored
from storage.keyspace import Keyspace
from storage.monitor_keys import MonitorKeys
from storage.monitors.series import KINDS, SPAN, by_rows, by_span
from storage.monitors.strings import Ids, read_pieces

Kind = Literal["hash", "list", "zset", "string"]

#: Pieces of ids that are read at once, and ids whose entries are.
_PIECES, _AT_ONCE = 20, 1000


def monitor_lines(redis: Redis, keys: Keyspace, record: bytes) -> Iterator[Text]:
    """The lines of a monitor whose stored definition was read."""
    told = read_stored(StoredMonitor, record)
    return _Monitor(redis, keys, told.uid).lines(told.name, record)


class _Monitor:
    def __init__(self, redis: Redis, keys: Keyspace, uid: str) -> None:
        self._redis = redis
        self._of_tenant = keys
        self._keys = keys.monitor(uid)
        self._uid = uid

    def lines(self, name: str, record: bytes) -> Iterator[Text]:
        found = cast(list[bytes], self._redis.zrange(self._keys.buckets(), 0, -1))
        for span, buckets in groupby(map(int, found), lambda bucket: bucket // SPAN):
            yield from self._span(span, list(buckets))
        for row in cast(list[bytes], self._redis.hkeys(self._keys.row_buckets())):
            yield from self._row_bucket(int(row))
        yield from self._parts([*_others(self._keys)], [])
        for slot in cast(list[bytes], self._redis.zrange(self._keys.slots(), 0, -1)):
            yield from self._slot(int(slot))
        # One that was deleted meanwhile is told as it was: its other lines stand already.
        last = cast(bytes | None, self._redis.hget(self._of_tenant.monitor_definitions(), name))
        same = last is not None and read_stored(StoredMonitor, last).uid == self._uid
        yield self._line("monitor", record=orjson.Fragment(cast(bytes, last) if same else record))

    def _span(self, span: int, buckets: Sequence[int]) -> Iterator[Text]:
        k = self._keys
        lists = [(kind, bucket) for kind in KINDS for bucket in buckets] + [(by_span(kind), span) for kind in KINDS]
        hashes: list[tuple[str, Kind]] = [(k.counts(bucket), "hash") for bucket in buckets]
        # First, so that a restore which was interrupted is found to have written the others.
        yield self._part(k.buckets(), "zset", [word for bucket in buckets for word in (b"%d" % bucket, b"%d" % bucket)])
        yield from self._parts([*hashes, (k.span_counts(span), "hash")], lists)

    def _row_bucket(self, row: int) -> Iterator[Text]:
        rows = cast(bytes | None, self._redis.hget(self._keys.row_buckets(), str(row)))
        if rows is not None:
            yield self._part(self._keys.row_buckets(), "hash", [b"%d" % row, rows])
            yield from self._parts([], [(by_rows(kind), row) for kind in KINDS])

    def _parts(self, keys: Sequence[tuple[str, Kind]], lists: Sequence[tuple[str, int]]) -> Iterator[Text]:
        """The parts at these keys, and lists of tallies with their generations, as they stand in one moment."""
        every: list[tuple[str, Kind]] = [*keys, *((self._keys.tallies(*one), "list") for one in lists)]
        with self._redis.pipeline() as pipe:
            for key, kind in every:
                _READ[kind](pipe, key)
                pipe.pttl(key)
            for series, number in lists:
                pipe.hget(self._keys.generations(), f"{series}:{number}")
            answers = pipe.execute()
        generations = [None] * len(keys) + answers[2 * len(every) :]
        for i, ((key, kind), generation) in enumerate(zip(every, generations, strict=True)):
            if answers[2 * i]:
                items = _items(kind, answers[2 * i])
                yield self._part(key, kind, items, generation=generation, life=life_of(answers[2 * i + 1]))

    def _slot(self, slot: int) -> Iterator[Text]:
        """The ids of a slot that are known, each with its entry."""
        at = 0
        while pieces := cast(list[bytes], self._redis.lrange(self._keys.slot(slot), at, at + _PIECES - 1)):
            at += len(pieces)
            for piece in pieces:
                names = read_pieces([piece]).strings()
                entries: list[bytes | None] = []
                for some in chunks(names, _AT_ONCE):
                    found = self._redis.hmget(self._keys.ids(), cast(list[str], some))
                    entries += cast(list[bytes | None], found)
                known = [(name, entry) for name, entry in zip(names, entries, strict=True) if entry is not None]
                if known:
                    ids, told = (_base64(Ids.of(column).to_bytes()) for column in zip(*known, strict=True))
                    yield self._line("monitor-ids", uid=self._uid, slot=slot, ids=ids, entries=told)

    def _part(
        self, key: str, kind: Kind, items: Sequence[bytes], *, generation: bytes | None = None, life: int | None = None
    ) -> Text:
        told = {"uid": self._uid, "name": self._keys.name_of(key), "type": kind, "items": list(map(_base64, items))}
        number = None if generation is None else int(generation)
        return self._line("monitor-part", **told, generation=number, life=life)

    def _line(self, kind: str, **told: Any) -> Text:
        return Text(kind, orjson.dumps({"kind": kind, "tenant": self._of_tenant.tenant, **told}))


def _others(k: MonitorKeys) -> Iterator[tuple[str, Kind]]:
    """The keys that belong to no bucket and no slot; the numbers that others take from ``state`` come last."""
    for key in (k.totals(), k.groups(), k.deliveries()):
        yield key, "hash"
    for key in (k.once(), k.alarms(), k.audit(), k.delivery_times()):
        yield key, "zset"
    yield k.untold(), "list"
    for key in (k.standing(), k.reference()):
        yield key, "string"
    yield k.state(), "hash"


_READ = {
    "hash": Pipeline.hgetall,
    "list": lambda pipe, key: pipe.lrange(key, 0, -1),
    "zset": lambda pipe, key: pipe.zrange(key, 0, -1, withscores=True),
    "string": Pipeline.get,
}


def _items(kind: Kind, found: Any) -> list[bytes]:
    """What stands at a key as a list: fields and values, members and scores, items, or one string."""
    match kind:
        case "hash":
            return [word for pair in found.items() for word in pair]
        case "zset":
            return [word for member, score in found for word in (member, repr(score).encode())]
        case "list":
            return list(found)
        case "string":
            return [found]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
