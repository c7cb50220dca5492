"""The ledger of a monitor: an entry for each id, and the transaction that counts rows, all or none."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import orjson
from redis import Redis

from backend.store.errors import MonitorFull, UnknownMonitor
from backend.store.keyspace import Keyspace, MonitorKeys
from backend.store.monitors.buckets import LONG, SPAN, VECTORS, Buckets, TallyKind, by_rows, by_span, rows_of_bucket
from backend.store.monitors.definitions import unknown_monitor
from backend.store.monitors.ids import (
    FIRST_GROUP,
    Ids,
    Records,
    read_pieces,
    without_padding,
)
from backend.store.server.connection import Script
from calibrant.monitoring.reservoir import Reservoir
from calibrant.monitoring.tally import Tally, merged
from schemas.monitors import MonitorRecord

# --- The additions of a change to lists and counts, as arguments of the commit script

Tallies = Mapping[int, tuple[Tally, Tally | None]]
Waiting = Mapping[int, Tally]
Reservoirs = Mapping[int, Reservoir]
Counts = Mapping[int, Mapping[str, int]]
#: The kinds of the two tallies of counted rows.
_COUNTED: tuple[TallyKind, ...] = ("measured", "raw")


@dataclass
class Additions:
    """Keys and blobs, and the plan of which blob is added to which key.

    A tally that is added to several lists is one blob, counted from 1.
    """

    keys: list[str] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    plan: dict[str, Any] = field(default_factory=dict)


def additions(
    keys: MonitorKeys, tallies: Tallies, waiting: Waiting, vectors: Reservoirs, counts: Counts, close: int
) -> Additions:
    """The additions to time buckets, to their spans and, if ``close`` is not 0, to the open row bucket."""
    added = Additions()
    lists: list[tuple[str, int, int]] = []
    rows: list[tuple[str, str, int]] = []
    for i, kind in enumerate(_COUNTED):
        own = {bucket: tally for bucket, both in tallies.items() if (tally := both[i]) is not None}
        if own:
            lists += _of_kind(added, kind, own)
            if close:
                whole = _joined(added, [(at, own[bucket]) for series, bucket, at in lists if series == kind])
                rows.append((by_rows(kind), keys.stem(by_rows(kind)), whole))
    lists += _of_kind(added, "waiting", waiting)
    for bucket, reservoir in vectors.items():
        added.blobs.append(reservoir.to_bytes())
        lists.append((VECTORS, bucket, len(added.blobs)))
    added.keys = [keys.tallies(series, number) for series, number, _ in lists]
    added.keys += [keys.counts(bucket) for bucket in counts]
    spans = _by_span(counts)
    added.keys += [keys.span_counts(span) for span in spans]
    added.plan = {"lists": lists, "counts": [*counts.values(), *spans.values()], "long": LONG}
    added.plan["buckets"] = sorted({*tallies, *waiting, *vectors, *counts})
    if rows:
        added.plan["rows"] = (sum(len(measured) for measured, _ in tallies.values()), close, rows)
    return added


def _of_kind(added: Additions, kind: TallyKind, own: Mapping[int, Tally]) -> list[tuple[str, int, int]]:
    """The series, number and blob of every list of time buckets and spans."""
    lists: list[tuple[str, int, int]] = []
    spans: defaultdict[int, list[tuple[int, Tally]]] = defaultdict(list)
    for bucket, tally in own.items():
        added.blobs.append(tally.to_bytes())
        lists.append((kind, bucket, len(added.blobs)))
        spans[bucket // SPAN].append((len(added.blobs), tally))
    return lists + [(by_span(kind), span, _joined(added, parts)) for span, parts in spans.items()]


def _joined(added: Additions, parts: list[tuple[int, Tally]]) -> int:
    """The blob of all rows of some tallies, each of which has a blob."""
    if len(parts) > 1:
        added.blobs.append(merged(tally for _, tally in parts).to_bytes())
        return len(added.blobs)
    return parts[0][0]


def _by_span(counts: Counts) -> dict[int, Counter[str]]:
    by_span: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for bucket, counted in counts.items():
        by_span[bucket // SPAN].update(counted)
    return by_span


# --- The entries of all ids, and the transaction that counts rows: all or none, exactly once

#: Maximum rows per change, because Redis serves no other client while it processes a change.
MOST_ROWS = 5000
#: Number of slots of a horizon: ids are kept for the horizon, and up to one slot longer.
SLOTS = 32
#: Maximum difference in seconds between clocks of processes, including the duration of a request.
_MARGIN = 60
#: Seconds for which it is recorded that a change was made, longer than any connection is retried.
_KNOWN_FOR = 300
#: Number of ids read at once.
_AT_ONCE = 1000

_COMMIT, _GROUPS = Script("ledger/commit"), Script("ledger/groups")


@dataclass(frozen=True)
class OldestIds:
    """The oldest ids of a slot: its first ``number`` chunks, when ``taken`` had been deleted.

    The slot ended at ``end``, in seconds since 1970.
    """

    slot: int
    number: int
    taken: str
    ids: Ids
    end: float


@dataclass(frozen=True)
class Once:
    """The name of a change that is made only once, and for how many seconds that is recorded."""

    name: str
    seconds: int


@dataclass(frozen=True)
class RowChanges:
    """The changes of up to ``MOST_ROWS`` rows.

    ``ids`` is None for rows without ids. ``expected (n,)`` are the entries as read, zeros for missing ones; None if all
    were missing. ``entries (n,)`` are the new entries, zeros for none; None deletes all. Both may be records of any
    size, because trailing zeros are not stored. If a change ``forgets`` chunks, those of its ids that keep an entry are
    stored as if they had arrived now. ``tallies`` are added to each time bucket, measured and raw, as are ``waiting``,
    ``vectors``, ``counts`` and ``totals``; ``first`` is the time of the first new prediction. A change with ``once`` is
    not repeated; with None only retries of this call are recognized. ``account`` has the key of a hash outside the
    monitor, and what is added to its fields.
    """

    ids: Ids | None
    expected: Records | None
    entries: Records | None
    now: float
    tallies: Tallies = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    forgets: OldestIds | None = None
    once: Once | None = None
    waiting: Waiting = field(default_factory=dict)
    vectors: Reservoirs = field(default_factory=dict)
    first: float | None = None
    account: tuple[str, Mapping[str, int]] | None = None


@dataclass(frozen=True)
class Conflict:
    """The reason why nothing was written: rows ``indices (m,)`` with unexpected ``entries``.

    A row with the expected entry repeats the id of an earlier row. With m = 0 the chunks to be deleted were no
    longer the oldest.
    """

    indices: npt.NDArray[np.int64]
    entries: list[bytes | None]


class Ledger:
    """The ids, tallies and counts of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._names = keys.monitor_names()
        self._keys = keys.monitor(record.id)
        self._record = record
        self._commit = redis.register_script(_COMMIT.text)
        self._slot_seconds = max(1.0, record.horizon / SLOTS)
        # The row of an expired id lies before the horizon, for any time within the skew.
        self._life = record.horizon + record.skew + _MARGIN
        self.buckets = Buckets(redis, keys, record)

    def entries(self, ids: Ids) -> list[bytes | None]:
        """The entry of each id; None for an unknown one."""
        names = ids.strings()
        with self._redis.pipeline(transaction=False) as pipe:
            for start in range(0, len(names), _AT_ONCE):
                pipe.hmget(self._keys.ids(), cast(list[str], names[start : start + _AT_ONCE]))
            return [entry for answer in pipe.execute() for entry in answer]

    def known(self) -> int:
        """The number of stored ids."""
        return int(self._redis.hlen(self._keys.ids()))

    def totals(self) -> dict[str, int]:
        """The counts since the monitor was created."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.totals()))
        return {name.decode(): int(count) for name, count in stored.items()}

    def commit(self, change: RowChanges) -> Conflict | None:
        """Write a change completely, or write nothing and return the conflict.

        Raises ``MonitorFull`` if there would be too many ids, and ``UnknownMonitor``.
        """
        keys, args = self._plan(change)
        outcome, *details = cast(list[Any], self._commit(keys, args))
        match outcome:
            case b"done":
                self.buckets.after_commit(details[0], details[1], change.vectors)
                return None
            case b"conflict":
                return Conflict(np.array(details[0], dtype=np.int64), [entry or None for entry in details[1]])
            case b"full":
                raise MonitorFull(f"this monitor may store at most {self._record.max_ids} ids at a time")
            case _:
                raise UnknownMonitor("there is no monitor with this name")

    def due_slots(self, now: float) -> list[int]:
        """The slots with expired ids, oldest first."""
        last = int((now - self._life) // self._slot_seconds) - 1
        slots = cast(list[bytes], self._redis.zrangebyscore(self._keys.slots(), "-inf", last))
        return [int(slot) for slot in slots]

    def oldest(self, slot: int) -> OldestIds | None:
        """The oldest chunks of a slot, to be deleted by a change of exactly their ids; None if none is left."""
        with self._redis.pipeline() as pipe:
            pipe.lrange(self._keys.slot(slot), 0, _AT_ONCE - 1)
            pipe.hget(self._keys.state(), "taken")
            chunks, taken = pipe.execute()
        pieces: list[bytes] = []
        n = 0
        for piece in chunks:
            n += int.from_bytes(piece[1:5], "big")
            if pieces and n > MOST_ROWS:
                break
            pieces.append(piece)
        if not pieces:
            return None
        end = (slot + 1) * self._slot_seconds
        return OldestIds(slot, len(pieces), "0" if taken is None else taken.decode(), read_pieces(pieces), end)

    def _plan(self, change: RowChanges) -> tuple[list[str], list[bytes]]:
        """The keys and arguments of the script."""
        k, slot, forgets = self._keys, int(change.now // self._slot_seconds), change.forgets
        once = change.once or Once(uuid4().hex, _KNOWN_FOR)
        strings, piece, fresh = _strings(change)
        close = rows_of_bucket(self._record)
        added = additions(k, change.tallies, change.waiting, change.vectors, change.counts, close)
        if change.account is not None:
            added.keys.append(change.account[0])
            added.plan["counts"].append(change.account[1])
        plan = {"once": (once.name, once.seconds), "max_ids": self._record.max_ids, "fresh": fresh, "slot": slot}
        plan |= {"totals": change.totals} | added.plan
        if change.first is not None:
            plan["first"] = math.ceil(change.first * 1000.0) / 1000.0
        if forgets is not None:
            plan["forgets"] = (forgets.number, forgets.taken, forgets.slot)
        fixed = [self._names, k.ids(), k.slots(), k.slot(slot), k.slot(slot if forgets is None else forgets.slot)]
        fixed += [k.state(), k.totals(), k.buckets(), k.generations(), k.loose(), k.row_buckets(), k.once()]
        plan_json = orjson.dumps(plan, option=orjson.OPT_SERIALIZE_NUMPY)
        return fixed + added.keys, [self._record.id.encode(), plan_json, *strings, piece, *added.blobs]


def _strings(change: RowChanges) -> tuple[list[bytes], bytes, int]:
    """The six strings of ids, expected and new entries; the ids to store, in one chunk; the number of new ids."""
    if change.ids is None:
        return [b""] * 6, b"", 0
    before, after = (None if rows is None else without_padding(rows) for rows in (change.expected, change.entries))
    texts = [change.ids.text, change.ids.script_ends()]
    for strings in (before, after):
        texts += [b"", b""] if strings is None else [strings.text, strings.script_ends()]
    fresh = np.broadcast_to(_empty(before) & _filled(after), len(change.ids))
    stays = fresh if change.forgets is None else np.broadcast_to(_filled(after), len(change.ids))
    piece = b"" if not stays.any() else (change.ids if stays.all() else change.ids.taken(stays)).to_bytes()
    return texts, piece, int(np.count_nonzero(fresh))


def _empty(strings: Ids | None) -> npt.NDArray[np.bool_]:
    """Where there is no string, or none at all."""
    return np.ones(1, dtype=bool) if strings is None else np.diff(strings.ends, prepend=np.uint32(0)) == 0


def _filled(strings: Ids | None) -> npt.NDArray[np.bool_]:
    return ~_empty(strings)


# --- The groups of a monitor: numbered in order of arrival, up to a limit


class MonitorGroups:
    """The groups of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._names = keys.monitor_names()
        self._groups = keys.monitor(record.id).groups()
        self._record = record

    def indices(self, names: Sequence[str]) -> list[int]:
        """The index of each name; new names get the next one, or ``OTHER_GROUP`` beyond the monitor's limit.

        Raises ``UnknownMonitor``.
        """
        if not names:
            return []
        record = self._record
        keys = (self._names, self._groups)
        indices: list[int] | None = _GROUPS.run(self._redis, keys, record.id, record.max_groups, FIRST_GROUP, *names)
        if indices is None:
            raise unknown_monitor()
        return indices

    def all(self) -> dict[str, int]:
        """Every name with an index, in the order of the indices."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._groups))
        return dict(sorted(((name.decode(), int(index)) for name, index in stored.items()), key=lambda item: item[1]))
