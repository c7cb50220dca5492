"""The audit log of a tenant: entries written in the transactions of the changes that they describe."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import orjson
from redis import Redis
from redis.client import Pipeline

from backend.settings import SharedSettings, variable_of
from backend.store.clock import at, now, seconds
from backend.store.errors import InvalidCursor
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared
from backend.store.pages import Page, PageRequest, read_page
from backend.store.scripts import Script
from schemas.audit import ROUTINE, AuditFact, AuditQuery, Author, ChangeRecord, KeyGrant, StoredFact
from schemas.base import DAY
from schemas.keys import KeyRecord, Scope

_APPEND = Script("audit/append")
#: The author of changes that no caller requested.
SERVICE = Author()
#: Maximum number of keys that an entry lists.
_MOST_KEYS = 100
#: Number of ids read at once.
_IDS = 10
#: Length of the prefix of an id and of the hexadecimal time after it.
_PREFIX, _TIME = len("audit_"), 12


@dataclass(frozen=True)
class AuditBounds:
    """The maximum number of entries of a tenant, and the days that they are kept; 0: nothing is removed."""

    entries: int = SharedSettings.audit_entries
    days: int = SharedSettings.audit_days

    @classmethod
    def of_environment(cls) -> AuditBounds:
        """The bounds in the settings of a process that has no others, such as a worker."""
        values = (os.environ.get(variable_of(name)) for name in ("audit_entries", "audit_days"))
        defaults = (SharedSettings.audit_entries, SharedSettings.audit_days)
        return cls(*(int(value) if value else default for value, default in zip(values, defaults, strict=True)))


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
            stored = StoredFact(**dict(fact), actor=by.actor, note=by.note, request_id=by.request_id)
            routine = "1" if fact.action in ROUTINE else "0"
            arguments += [secrets.token_hex(4), routine, stored.model_dump_json(exclude_none=True)]
        _APPEND.run(pipe, self._all_keys(), *arguments)

    def permitted(self, pipe: Pipeline, scope: Scope) -> list[KeyGrant] | None:
        """The valid keys of the tenant that grant a scope, read and watched by ``pipe``; None without any keys."""
        pipe.watch(Shared.api_keys())  # type: ignore[no-untyped-call]
        stored = cast(dict[bytes, bytes], pipe.hgetall(Shared.api_keys()))
        if not stored:
            return None
        moment, tenant = now().timestamp(), self._keys.tenant
        own = [data for data in stored.values() if orjson.loads(data).get("tenant") == tenant]
        records = sorted((read_stored(KeyRecord, data) for data in own), key=lambda record: record.created_at)
        valid = (
            record
            for record in records
            if record.may(scope)
            and any(secret.expires_at is None or seconds(secret.expires_at) > moment for secret in record.secrets)
        )
        return [KeyGrant(id=key.id, name=key.name, scope=key.scope) for key in islice(valid, _MOST_KEYS)]

    def page(self, request: PageRequest, query: AuditQuery) -> Page[ChangeRecord]:
        """Entries that match the filters, newest first; raises ``InvalidCursor``.

        A page may have fewer entries than requested although more follow: its cost is bounded.
        """
        page = PageRequest(request.limit, request.cursor, 1000.0 * request.low, 1000.0 * request.high)
        return read_page(self._redis, self._keys.audit(), page, self._of_ids, lambda entry: _matches(entry, query))

    def all(self, query: AuditQuery, request: PageRequest) -> Iterator[Sequence[ChangeRecord]]:
        """Every entry that matches the filters, from a cursor on, in pages; raises ``InvalidCursor``."""
        while True:
            page = self.page(request, query)
            yield page.items
            if page.next is None:
                return
            request = PageRequest(request.limit, page.next, request.low, request.high)

    def next_after(self, entry_id: str) -> ChangeRecord | None:
        """The first entry after one of this id, which may have been removed; None if there is none yet."""
        key, low = self._keys.audit(), _time_of(entry_id) if entry_id else 0
        start = 0
        while ids := cast(list[bytes], self._redis.zrangebyscore(key, low, "+inf", start=start, num=_IDS)):
            # Of ids of the same time, the serial number determines the order.
            later = [text for text in map(bytes.decode, ids) if text > entry_id]
            entries = self._of_ids(later) if later else []
            first = next((entry for entry in entries if entry is not None), None)
            if first is not None:
                return first
            start += len(ids)
        return None

    def restore(self, entry_id: str, fact: StoredFact) -> bool:
        """Restore an entry from a backup; returns False if it exists, which is kept."""
        moment = _time_of(entry_id)
        with self._redis.pipeline() as pipe:
            pipe.hsetnx(self._keys.audit_entries(), entry_id, fact.model_dump_json(exclude_none=True))
            pipe.zadd(self._keys.audit(), {entry_id: moment})
            if fact.action in ROUTINE:
                pipe.zadd(self._keys.audit_routine(), {entry_id: moment})
            is_new = bool(pipe.execute()[0])
        if is_new:
            self._redis.incr(self._keys.audit_serial())
        return is_new

    def _of_ids(self, ids: Sequence[str]) -> list[ChangeRecord | None]:
        stored = cast(list[bytes | None], self._redis.hmget(self._keys.audit_entries(), list(ids)))
        return [None if data is None else _entry(entry_id, data) for entry_id, data in zip(ids, stored, strict=True)]

    def _all_keys(self) -> list[str]:
        keys = self._keys
        return [keys.audit(), keys.audit_entries(), keys.audit_routine(), keys.audit_serial()]


def _entry(entry_id: str, data: bytes) -> ChangeRecord:
    fact = read_stored(StoredFact, data)
    fields = {name: value for name, value in dict(fact).items() if name != "format"}
    return ChangeRecord(id=entry_id, at=at(_time_of(entry_id) / 1000), **fields)


def _time_of(entry_id: str) -> int:
    """The time in an id in milliseconds since 1970; raises ``InvalidCursor`` for another text."""
    try:
        return int(entry_id[_PREFIX:][:_TIME], 16)
    except ValueError as error:
        raise InvalidCursor("is no id of an entry", "/cursor") from error


def _matches(entry: ChangeRecord, query: AuditQuery) -> bool:
    wanted = (("action", query.action), ("map", query.map), ("alias", query.alias), ("monitor", query.monitor))
    if any(value is not None and getattr(entry, name) != value for name, value in wanted):
        return False
    return query.actor is None or query.actor in (entry.actor.id, entry.actor.name)
