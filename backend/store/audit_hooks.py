"""The hooks of a tenant's audit log, each with its position in the log."""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from backend.store.audit import AuditTrail
from backend.store.chores import Chore, schedule
from backend.store.errors import QuotaExceeded, UnknownHook
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace, Shared
from backend.store.server.connection import transact
from schemas.audit import AuditFact
from schemas.audit_hooks import MAX_AUDIT_HOOKS, HookProgress, StoredHook
from schemas.monitors import HookSpec


class AuditHooks:
    """The hooks of one tenant."""

    def __init__(self, redis: Redis, keys: Keyspace, trail: AuditTrail) -> None:
        self._redis = redis
        self._keys = keys
        self._trail = trail

    def all(self) -> list[StoredHook]:
        """The hooks, by name."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.audit_hooks()))
        return [read_stored(StoredHook, stored[name]) for name in sorted(stored)]

    def get(self, name: str) -> StoredHook:
        """A hook; raises ``UnknownHook``."""
        return _read(self._redis.hget(self._keys.audit_hooks(), name))

    def put(self, spec: HookSpec, *chores: Chore) -> StoredHook:
        """Store a hook; a new one gets the entries from now on, the first of which is its own.

        ``chores`` are scheduled with it. A hook that changes nothing adds no entry. Raises ``QuotaExceeded``.
        """
        keys = self._keys

        def write(pipe: Pipeline) -> StoredHook:
            known = cast(dict[bytes, bytes], pipe.hgetall(keys.audit_hooks()))
            before = _read(known[spec.name.encode()]) if spec.name.encode() in known else None
            latest = cast(list[bytes], pipe.zrange(keys.audit_order(), -1, -1))
            if before is None and len(known) >= MAX_AUDIT_HOOKS:
                raise QuotaExceeded(f"an audit log may have at most {MAX_AUDIT_HOOKS} hooks; delete some")
            progress = HookProgress(sent=latest[0].decode() if latest else "") if before is None else before.progress
            hook = StoredHook(**{field: getattr(spec, field) for field in HookSpec.model_fields}, progress=progress)
            pipe.multi()
            for chore in chores:
                schedule(pipe, chore)
            if hook != before:
                pipe.sadd(Shared.tenants(), keys.tenant)
                pipe.hset(keys.audit_hooks(), hook.name, hook.model_dump_json())
                old = None if before is None else _audited(before)
                self._trail.add(pipe, AuditFact(action="audit-hook-set", before=old, after=_audited(hook)))
            return hook

        return transact(self._redis, write, keys.audit_hooks(), keys.audit_order())

    def delete(self, name: str) -> None:
        """Delete a hook; raises ``UnknownHook``."""

        def write(pipe: Pipeline) -> None:
            before = _read(pipe.hget(self._keys.audit_hooks(), name))
            pipe.multi()
            pipe.hdel(self._keys.audit_hooks(), name)
            self._trail.add(pipe, AuditFact(action="audit-hook-deleted", before=_audited(before)))

        transact(self._redis, write, self._keys.audit_hooks())

    def note(self, sent: StoredHook, progress: HookProgress) -> None:
        """Store how far a hook is, unless it was deleted or set again since it was read for this attempt."""

        def write(pipe: Pipeline) -> None:
            stored = pipe.hget(self._keys.audit_hooks(), sent.name)
            pipe.multi()
            if stored is not None and _read(stored) == sent:
                hook = sent.model_copy(update={"progress": progress})
                pipe.hset(self._keys.audit_hooks(), sent.name, hook.model_dump_json())

        transact(self._redis, write, self._keys.audit_hooks())


def _read(stored: object) -> StoredHook:
    if stored is None:
        raise UnknownHook("the audit log has no such hook")
    return read_stored(StoredHook, stored)


def _audited(hook: StoredHook) -> dict[str, str]:
    return {"name": hook.name, "url": hook.shown_url}
