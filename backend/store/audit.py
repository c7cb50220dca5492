"""The audit log of a tenant: entries written in the transactions of the changes that they describe."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from backend.settings import SharedSettings, shared_setting
from backend.store.clock import at
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import Script
from schemas.audit import ROUTINE, AuditFact, AuditQuery, Author, ChangeAction, ChangeRecord, StoredFact
from schemas.base import DAY
from schemas.pages import PageQuery

_APPEND = Script("audit/append")
#: The author of changes that no caller requested.
SERVICE = Author()
#: Number of ids read for the next entry: several, because the first may be removed in between.
_IDS = 10
#: Lengths of the parts of an id: its prefix, and the hexadecimal time and serial number.
_PREFIX, _TIME, _SERIAL = len("audit_"), 12, 10
#: Fields of a query that are those of entries.
_FILTERS = set(AuditQuery.model_fields) - {"actor", *PageQuery.model_fields}


@dataclass(frozen=True)
class AuditBounds:
    """The maximum number of entries of a tenant, and the days that they are kept; 0: nothing is removed."""

    entries: int = SharedSettings.audit_entries
    days: int = SharedSettings.audit_days

    @classmethod
    def of_environment(cls) -> AuditBounds:
        """The bounds in the settings of a process that has no others, such as a worker."""
        return cls(shared_setting("audit_entries"), shared_setting("audit_days"))


#: The bounds of a command, which does not know those of the service: the next change removes what is too much.
UNBOUNDED = AuditBounds(0, 0)


class AuditTrail:
    """The audit log of one tenant; the entries that it adds are by ``author``."""

    def __init__(
        self, redis: Redis, keys: Keyspace, author: Author = SERVICE, bounds: AuditBounds | None = None
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._author = author
        self._bounds = bounds

    def add(self, pipe: Pipeline, *facts: AuditFact, author: Author | None = None) -> None:
        """Queue the writes of entries, so that they are in the transaction of ``pipe``. O(log entries)."""
        if not facts:
            return
        by = self._author if author is None else author
        bounds = self._bounds or AuditBounds.of_environment()
        arguments: list[str | int] = [bounds.entries, bounds.days * DAY * 1000]
        for fact in facts:
            stored = StoredFact(**dict(fact), **dict(by)).model_dump_json(exclude_none=True)
            arguments += [secrets.token_hex(4), int(fact.action in ROUTINE), stored]
        keys = self._keys
        places = [keys.audit(), keys.audit_entries(), keys.audit_routine(), keys.audit_serial(), keys.audit_order()]
        _APPEND.run(pipe, places, *arguments)

    def page(
        self, request: PageRequest, query: AuditQuery, hidden: Collection[ChangeAction] = ()
    ) -> Page[ChangeRecord]:
        """Entries that match the filters, newest first, without ``hidden`` actions; raises ``InvalidCursor``.

        A page may have fewer entries than requested although more follow: its cost is bounded.
        """
        page = PageRequest(request.limit, request.cursor, 1000.0 * request.low, 1000.0 * request.high)
        wanted = query.model_dump(include=_FILTERS, exclude_none=True)

        def matches(entry: ChangeRecord) -> bool:
            if entry.action in hidden or query.actor not in (None, entry.actor.id, entry.actor.name):
                return False
            return all(getattr(entry, name) == value for name, value in wanted.items())

        return read_page(self._redis, self._keys.audit(), page, self._of_ids, matches)

    def next_after(self, entry_id: str) -> ChangeRecord | None:
        """The first entry that was written after one, which may have been removed; None if there is none yet.

        Serial numbers give the order, whatever the clock did; entries of a restored backup are not among them.
        """
        serial = int(entry_id[_PREFIX + _TIME :][:_SERIAL] or "0", 16)
        ids = self._redis.zrangebyscore(self._keys.audit_order(), f"({serial}", "+inf", start=0, num=_IDS)
        entries = self._of_ids([text.decode() for text in cast(list[bytes], ids)]) if ids else []
        return next((entry for entry in entries if entry is not None), None)

    def restore(self, entry_id: str, fact: StoredFact) -> bool:
        """Restore an entry from a backup; returns False if it exists, which is kept."""
        moment = _time_of(entry_id)
        with self._redis.pipeline() as pipe:
            pipe.hsetnx(self._keys.audit_entries(), entry_id, fact.model_dump_json(exclude_none=True))
            pipe.zadd(self._keys.audit(), {entry_id: moment})
            if fact.action in ROUTINE:
                pipe.zadd(self._keys.audit_routine(), {entry_id: moment})
            return bool(pipe.execute()[0])

    def _of_ids(self, ids: Sequence[str]) -> list[ChangeRecord | None]:
        stored = cast(list[bytes | None], self._redis.hmget(self._keys.audit_entries(), list(ids)))
        return [None if data is None else _entry(entry_id, data) for entry_id, data in zip(ids, stored, strict=True)]


def _entry(entry_id: str, data: bytes) -> ChangeRecord:
    fact = read_stored(StoredFact, data)
    fields = {name: value for name, value in dict(fact).items() if name != "format"}
    return ChangeRecord(id=entry_id, at=at(_time_of(entry_id) / 1000), **fields)


def _time_of(entry_id: str) -> int:
    """The time in an id in milliseconds since 1970."""
    return int(entry_id[_PREFIX:][:_TIME], 16)
