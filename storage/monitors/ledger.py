"""What a monitor knows of each id, and the one step in which rows are counted: whole or not at all, once each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import orjson
from redis import Redis

from schemas.monitors import MonitorRecord
from storage.errors import MonitorFull, UnknownMonitor
from storage.keyspace import Keyspace
from storage.monitors.additions import Counts, Tallies, additions
from storage.monitors.buckets import Buckets
from storage.monitors.scripts import COMMIT
from storage.monitors.series import rows_of_bucket
from storage.monitors.strings import Ids, Rows, read_pieces, without_padding

#: Rows of a change at most: Redis serves nobody else while it takes one in.
MOST_ROWS = 5000
#: The horizon is so many slots long: ids are known for their life, and up to one slot more.
SLOTS = 32
#: Seconds by which the clocks of processes may differ, and a request take from its beginning to its last row.
_MARGIN = 60
#: Seconds for which it is known that a change was made: longer than any connection is tried again.
_KNOWN_FOR = 300
#: Ids that are asked for at once.
_AT_ONCE = 1000


@dataclass(frozen=True)
class Pieces:
    """The oldest ids that arrived in a slot: of its first ``number`` pieces, when ``taken`` had been forgotten.

    The slot was over at ``end``, in seconds since 1970.
    """

    slot: int
    number: int
    taken: str
    ids: Ids
    end: float


@dataclass(frozen=True)
class Once:
    """The name of a change that is made once, and for how many seconds that is known."""

    name: str
    seconds: int


@dataclass(frozen=True)
class Change:
    """What some rows, at most ``MOST_ROWS``, change.

    ``ids`` is None for rows without ids. ``expected (n,)`` are the entries as they were read, zeros where there was
    none; None where there was none at all. ``entries (n,)`` are what they become, zeros for none; None deletes all.
    Either may be records of any size: zeros at their ends are not stored. A change that ``forgets`` pieces remembers
    those of its ids that keep an entry as if they had arrived now. ``tallies`` are what is added to each time
    bucket, measured and raw, ``counts`` and ``totals`` too. What was done ``once`` is not done again; None: however
    often this one call is sent to the store.
    """

    ids: Ids | None
    expected: Rows | None
    entries: Rows | None
    now: float
    tallies: Tallies = field(default_factory=dict)
    counts: Counts = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    forgets: Pieces | None = None
    once: Once | None = None


@dataclass(frozen=True)
class Conflict:
    """Why nothing was written: the rows ``indices (m,)`` whose ``entries`` were not as expected.

    One whose entry is as expected repeats the id of an earlier row. With m = 0 the pieces to be forgotten no longer
    were the oldest.
    """

    indices: npt.NDArray[np.int64]
    entries: list[bytes | None]


class Ledger:
    """The ids, tallies and counts of one monitor."""

    def __init__(self, redis: Redis, keys: Keyspace, record: MonitorRecord) -> None:
        self._redis = redis
        self._names = keys.monitor_names()
        self._keys = keys.monitor(record.uid)
        self._record = record
        self._commit = redis.register_script(COMMIT)
        self._slot_seconds = max(1.0, record.horizon / SLOTS)
        # The row of an id that is forgotten lies before the horizon, whatever time within the skew it named.
        self._life = record.horizon + record.skew + _MARGIN
        self.buckets = Buckets(redis, keys, record)

    def entries(self, ids: Ids) -> list[bytes | None]:
        """The entry of each id; None for one that is not known."""
        names = ids.strings()
        with self._redis.pipeline(transaction=False) as pipe:
            for start in range(0, len(names), _AT_ONCE):
                pipe.hmget(self._keys.ids(), cast(list[str], names[start : start + _AT_ONCE]))
            return [entry for answer in pipe.execute() for entry in answer]

    def known(self) -> int:
        """How many ids are known."""
        return int(self._redis.hlen(self._keys.ids()))

    def totals(self) -> dict[str, int]:
        """The counts since the monitor began."""
        found = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.totals()))
        return {name.decode(): int(count) for name, count in found.items()}

    def commit(self, change: Change) -> Conflict | None:
        """Write all of a change, or nothing and tell what is not as expected.

        Raises ``MonitorFull`` where more ids would be known than may be, and ``UnknownMonitor``.
        """
        keys, args = self._plan(change)
        outcome, *told = cast(list[Any], self._commit(keys, args))
        match outcome:
            case b"done":
                self.buckets.after_commit(told[0], told[1])
                return None
            case b"conflict":
                return Conflict(np.array(told[0], dtype=np.int64), [entry or None for entry in told[1]])
            case b"full":
                raise MonitorFull(f"this monitor may know {self._record.max_ids} ids at once")
            case _:
                raise UnknownMonitor("there is no such monitor")

    def due_slots(self, now: float) -> list[int]:
        """The slots that hold ids whose life is over, oldest first."""
        last = int((now - self._life) // self._slot_seconds) - 1
        found = cast(list[bytes], self._redis.zrangebyscore(self._keys.slots(), "-inf", last))
        return [int(slot) for slot in found]

    def oldest(self, slot: int) -> Pieces | None:
        """The oldest pieces of a slot, to be forgotten by a change of exactly their ids; None where none is left."""
        with self._redis.pipeline() as pipe:
            pipe.lrange(self._keys.slot(slot), 0, _AT_ONCE - 1)
            pipe.hget(self._keys.state(), "taken")
            found, taken = pipe.execute()
        pieces: list[bytes] = []
        n = 0
        for piece in found:
            n += int.from_bytes(piece[1:5], "big")
            if pieces and n > MOST_ROWS:
                break
            pieces.append(piece)
        if not pieces:
            return None
        end = (slot + 1) * self._slot_seconds
        return Pieces(slot, len(pieces), "0" if taken is None else taken.decode(), read_pieces(pieces), end)

    def _plan(self, change: Change) -> tuple[list[str], list[bytes]]:
        """The keys and arguments of the script."""
        k, slot, forgets = self._keys, int(change.now // self._slot_seconds), change.forgets
        once = change.once or Once(uuid4().hex, _KNOWN_FOR)
        strings, piece, fresh = _strings(change)
        added = additions(k, change.tallies, change.counts, rows_of_bucket(self._record))
        plan = {"once": (once.name, once.seconds), "max_ids": self._record.max_ids, "fresh": fresh, "slot": slot}
        plan |= {"totals": change.totals} | added.plan
        if forgets is not None:
            plan["forgets"] = (forgets.number, forgets.taken, forgets.slot)
        fixed = [self._names, k.ids(), k.slots(), k.slot(slot), k.slot(slot if forgets is None else forgets.slot)]
        fixed += [k.state(), k.totals(), k.buckets(), k.generations(), k.loose(), k.row_buckets(), k.once()]
        told = orjson.dumps(plan, option=orjson.OPT_SERIALIZE_NUMPY)
        return fixed + added.keys, [self._record.uid.encode(), told, *strings, piece, *added.blobs]


def _strings(change: Change) -> tuple[list[bytes], bytes, int]:
    """The six strings of ids, entries expected and to come; the ids to be remembered, in a piece; how many are new."""
    if change.ids is None:
        return [b""] * 6, b"", 0
    before, after = (None if rows is None else without_padding(rows) for rows in (change.expected, change.entries))
    told = [change.ids.text, change.ids.told_ends()]
    for strings in (before, after):
        told += [b"", b""] if strings is None else [strings.text, strings.told_ends()]
    fresh = np.broadcast_to(_empty(before) & _filled(after), len(change.ids))
    kept = fresh if change.forgets is None else np.broadcast_to(_filled(after), len(change.ids))
    piece = b"" if not kept.any() else (change.ids if kept.all() else change.ids.taken(kept)).to_bytes()
    return told, piece, int(np.count_nonzero(fresh))


def _empty(strings: Ids | None) -> npt.NDArray[np.bool_]:
    """Where there is no string, or none at all."""
    return np.ones(1, dtype=bool) if strings is None else np.diff(strings.ends, prepend=np.uint32(0)) == 0


def _filled(strings: Ids | None) -> npt.NDArray[np.bool_]:
    return ~_empty(strings)
