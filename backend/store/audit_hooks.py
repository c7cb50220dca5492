"""The hooks of a tenant's audit log: their definitions, and the position of each in the log."""

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


class AuditHooks:
    """The hooks of one tenant."""

    def __init__(self, redis: Redis, keys: Keyspace, trail: AuditTrail) -> None:
        self._redis = redis
        self._keys = keys
        self._trail = trail

    def all(self) -> list[tuple[StoredHook, HookProgress]]:
        """The hooks with their positions, by name."""
        with self._redis.pipeline() as pipe:
            pipe.hgetall(self._keys.audit_hooks())
            pipe.hgetall(self._keys.audit_positions())
            hooks, positions = pipe.execute()
        return [
            (read_stored(StoredHook, hooks[name]), read_stored(HookProgress, positions[name]))
            for name in sorted(hooks)
            if name in positions
        ]

    def get(self, name: str) -> tuple[StoredHook, HookProgress]:
        """A hook and its position; raises ``UnknownHook``."""
        for hook, progress in self.all():
            if hook.name == name:
                return hook, progress
        raise UnknownHook("the audit log has no such hook")

    def put(self, hook: StoredHook, *chores: Chore) -> None:
        """Store a hook; a new one gets the entries from now on, the first of which is its own.

        ``chores`` are scheduled with it. A hook that changes nothing adds no entry. Raises ``QuotaExceeded``.
        """
        keys = self._keys

        def write(pipe: Pipeline) -> None:
            known = cast(dict[bytes, bytes], pipe.hgetall(keys.audit_hooks()))
            stored = known.get(hook.name.encode())
            before = None if stored is None else read_stored(StoredHook, stored)
            latest = cast(list[bytes], pipe.zrange(keys.audit_order(), -1, -1))
            if before is None and len(known) >= MAX_AUDIT_HOOKS:
                raise QuotaExceeded(f"an audit log may have at most {MAX_AUDIT_HOOKS} hooks; delete some")
            pipe.multi()
            for chore in chores:
                schedule(pipe, chore)
            if hook == before:
                return
            pipe.sadd(Shared.tenants(), keys.tenant)
            pipe.hset(keys.audit_hooks(), hook.name, hook.model_dump_json())
            if before is None:
                progress = HookProgress(sent=latest[0].decode() if latest else "")
                pipe.hset(keys.audit_positions(), hook.name, progress.model_dump_json())
            old = None if before is None else _audited(before)
            self._trail.add(pipe, AuditFact(action="audit-hook-set", before=old, after=_audited(hook)))

        transact(self._redis, write, keys.audit_hooks(), keys.audit_order())

    def delete(self, name: str) -> None:
        """Delete a hook; raises ``UnknownHook``."""

        def write(pipe: Pipeline) -> None:
            stored = cast("bytes | None", pipe.hget(self._keys.audit_hooks(), name))
            if stored is None:
                raise UnknownHook("the audit log has no such hook")
            pipe.multi()
            pipe.hdel(self._keys.audit_hooks(), name)
            pipe.hdel(self._keys.audit_positions(), name)
            before = _audited(read_stored(StoredHook, stored))
            self._trail.add(pipe, AuditFact(action="audit-hook-deleted", before=before))

        transact(self._redis, write, self._keys.audit_hooks())

    def note(self, name: str, progress: HookProgress) -> None:
        """Store the position of a hook, unless it was deleted."""

        def write(pipe: Pipeline) -> None:
            there = pipe.hexists(self._keys.audit_hooks(), name)
            pipe.multi()
            if there:
                pipe.hset(self._keys.audit_positions(), name, progress.model_dump_json())

        transact(self._redis, write, self._keys.audit_hooks())


def _audited(hook: StoredHook) -> dict[str, str]:
    return {"name": hook.name, "url": hook.shown_url}
