"""Aliases: each points at one version of a map and is moved atomically, with a revision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from backend.store.api_keys import is_live
from backend.store.audit import AuditTrail
from backend.store.clock import seconds, stamp
from backend.store.errors import UnknownAlias, UnknownMapReference
from backend.store.formats import read_stored
from backend.store.keyspace import DEFAULT_TENANT, Keyspace, Shared
from backend.store.link import Invalidation, announce
from backend.store.registry.maps import facet, is_name, next_version, read_map, unknown_map, write_summary
from backend.store.server.connection import transact
from schemas.aliases import AliasRecord, StoredAlias
from schemas.audit import AuditFact, Promoter
from schemas.keys import KeyRecord, TokenMapping, scopes_of

# --- Who can move an alias: API keys, holders of tokens with some claims, and monitors by themselves


def promoters(pipe: Pipeline, keys: Keyspace, name: str, alias: str) -> list[Promoter] | None:
    """Everyone who can move an alias, as read and watched by ``pipe``; None if every local caller can."""
    pipe.watch(Shared.api_keys(), Shared.token_mapping(), keys.monitor_definitions())  # type: ignore[no-untyped-call]
    stored = cast(list[bytes], pipe.hvals(Shared.api_keys()))
    mapping = cast("bytes | None", pipe.get(Shared.token_mapping()))
    monitors = cast(list[bytes], pipe.hvals(keys.monitor_definitions()))
    if not stored and mapping is None:
        return None
    tokens = [] if mapping is None else _of_tokens(read_stored(TokenMapping, mapping), keys.tenant)
    return [*_of_keys(stored, keys.tenant), *tokens, *_of_monitors(monitors, name, alias)]


def _of_keys(stored: Iterable[bytes], tenant: str) -> list[Promoter]:
    """The valid keys of a tenant that grant it, oldest first."""
    own = [data for data in stored if orjson.loads(data).get("tenant") == tenant]
    records = sorted((read_stored(KeyRecord, data) for data in own), key=lambda record: record.created_at)
    return [
        Promoter(id=record.id, name=record.name, scope=record.scope)
        for record in records
        if "maps:promote" in scopes_of(record.scope) and any(map(is_live, record.secrets))
    ]


def _of_tokens(mapping: TokenMapping, tenant: str) -> list[Promoter]:
    """The claims of tokens that grant it in a tenant."""
    if not mapping.tenant_claim and tenant != DEFAULT_TENANT:
        return []
    own = {mapping.tenant_claim: tenant} if mapping.tenant_claim else {}
    return [
        Promoter(kind="tokens", issuer=mapping.issuer, scope=scope, claims={mapping.scopes_claim: value} | own)
        for value, scope in mapping.scopes.items()
        if "maps:promote" in scopes_of(scope)
    ]


def _of_monitors(stored: Iterable[bytes], name: str, alias: str) -> list[Promoter]:
    """The monitors that move this alias by themselves."""
    from schemas.monitors import PROMOTING, StoredMonitor

    # Definitions without one of these words need not be read.
    words = [f'"{policy}"'.encode() for policy in PROMOTING]
    records = (read_stored(StoredMonitor, data) for data in stored if any(word in data for word in words))
    return [
        Promoter(kind="monitor", id=record.id, name=record.name)
        for record in records
        if record.recalibration.promotes
        and record.recalibration.alias == alias
        and (record.recalibration.name or record.name if record.map is None else record.map.partition("@")[0]) == name
    ]


# --- Aliases: each points at one version and is moved atomically, with a revision

#: Receives the current alias or None; raises an error to prevent a change.
Check = Callable[[AliasRecord | None], None]


class AliasStore:
    """The aliases of one tenant's maps."""

    def __init__(self, redis: Redis, keys: Keyspace, trail: AuditTrail | None = None) -> None:
        self._redis = redis
        self._keys = keys
        self._trail = AuditTrail(redis, keys) if trail is None else trail

    def all(self, name: str) -> list[AliasRecord]:
        """The aliases of a name, sorted; raises ``UnknownMap`` for a name without versions."""
        if not is_name(name):
            raise unknown_map()
        with self._redis.pipeline() as pipe:
            pipe.exists(self._keys.versions(name))
            pipe.hgetall(self._keys.aliases(name))
            known, stored = pipe.execute()
        if not known:
            raise unknown_map()
        return sorted(map(_read, stored.values()), key=lambda record: record.alias)

    def get(self, name: str, alias: str) -> AliasRecord:
        """An alias; raises ``UnknownAlias``."""
        stored = is_name(name) and is_name(alias) and self._redis.hget(self._keys.aliases(name), alias)
        if not stored:
            raise _unknown()
        return _read(stored)

    def point(self, name: str, alias: str, version: int, *, who: str | None, check: Check) -> AliasRecord:
        """Point an alias at a version of its name; an alias that already points there is kept unchanged.

        Raises ``UnknownMap`` without a map of this name, ``UnknownMapReference`` without such a version, and the errors
        of ``check``.
        """
        keys = self._keys
        if not is_name(name):
            raise unknown_map()

        def write(pipe: Pipeline) -> AliasRecord:
            map_id = pipe.hget(keys.versions(name), str(version))
            if map_id is None:
                if not pipe.exists(keys.versions(name)):
                    raise unknown_map()
                raise UnknownMapReference("must be a version of a map with this name", "/version")
            before = read_if_any(pipe.hget(keys.aliases(name), alias))
            check(before)
            after = moved(before, name, alias, version, cast(bytes, map_id).decode(), who)
            created = pipe.zscore(keys.maps(), after.map)
            permitted = None if after is before else promoters(pipe, keys, name, alias)
            pipe.multi()
            if after is not before:
                write_alias(pipe, keys, before, after, created or 0.0)
                self._trail.add(pipe, _moved_fact(before, after, permitted))
                announce(pipe, Invalidation("map", keys.tenant, name=name))
            return after

        # Deleting a version changes the hash of versions, and checks the aliases.
        return transact(self._redis, write, keys.versions(name), keys.aliases(name))

    def restore(self, record: AliasRecord) -> bool:
        """Restore an alias from a backup; returns False if it exists, or its map does not have that version."""
        keys, name = self._keys, record.name

        def write(pipe: Pipeline) -> bool:
            at = pipe.hget(keys.versions(name), str(record.version))
            pointing = pipe.hexists(keys.aliases(name), record.alias)
            created = pipe.zscore(keys.maps(), record.map)
            pipe.multi()
            if pointing or at is None or cast(bytes, at).decode() != record.map:
                return False
            pipe.hset(keys.aliases(name), record.alias, StoredAlias.of(record).model_dump_json())
            pipe.zadd(keys.index(facet("alias", record.alias)), {record.map: created or 0.0})
            announce(pipe, Invalidation("map", keys.tenant, name=name))
            return True

        return transact(self._redis, write, keys.versions(name), keys.aliases(name))

    def delete(self, name: str, alias: str, *, check: Check) -> None:
        """Delete an alias; raises ``UnknownAlias``, and the errors of ``check``."""
        keys = self._keys
        if not (is_name(name) and is_name(alias)):
            raise _unknown()

        def write(pipe: Pipeline) -> None:
            before = read_if_any(pipe.hget(keys.aliases(name), alias))
            if before is None:
                raise _unknown()
            check(before)
            pipe.multi()
            pipe.hdel(keys.aliases(name), alias)
            pipe.zrem(keys.index(facet("alias", alias)), before.map)
            self._trail.add(
                pipe, AuditFact(action="alias-deleted", map=name, alias=alias, before=_audited_alias(before))
            )
            announce(pipe, Invalidation("map", keys.tenant, name=name))

        transact(self._redis, write, keys.aliases(name))


def _moved_fact(before: AliasRecord | None, after: AliasRecord, permitted: list[Promoter] | None) -> AuditFact:
    old = None if before is None else _audited_alias(before)
    about = {"map": after.name, "alias": after.alias, "permitted": permitted}
    return AuditFact(action="alias-moved", before=old, after=_audited_alias(after), **about)


def _audited_alias(record: AliasRecord) -> dict[str, Any]:
    return {"version": record.version, "id": record.map, "revision": record.revision}


def write_alias(pipe: Pipeline, keys: Keyspace, before: AliasRecord | None, after: AliasRecord, created: float) -> None:
    """Queue the writes of a moved alias; ``created`` is when its map was created, in seconds since 1970."""
    index = keys.index(facet("alias", after.alias))
    pipe.hset(keys.aliases(after.name), after.alias, StoredAlias.of(after).model_dump_json())
    if before is not None:
        pipe.zrem(index, before.map)
    pipe.zadd(index, {after.map: created})


def moved(before: AliasRecord | None, name: str, alias: str, version: int, map_id: str, who: str | None) -> AliasRecord:
    """An alias that points at a version; the previous record if it already does."""
    if before is not None and before.version == version:
        return before
    revision = 1 if before is None else before.revision + 1
    return AliasRecord(
        name=name, alias=alias, version=version, map=map_id, revision=revision, updated_at=stamp(), updated_by=who
    )


def _read(data: object) -> AliasRecord:
    return read_stored(StoredAlias, data).record()


def read_if_any(data: object) -> AliasRecord | None:
    """Parse a stored alias, if there is one."""
    return None if data is None else _read(data)


def _unknown() -> UnknownAlias:
    return UnknownAlias("there is no alias with this name")


# --- Promotion: an unnamed map becomes the next version of a name and an alias moves to it, in one transaction


def promote(
    redis: Redis,
    keys: Keyspace,
    map_id: str,
    name: str,
    alias: str,
    *,
    who: str | None,
    check: Check,
    trail: AuditTrail | None = None,
) -> AliasRecord:
    """Make a map the next version of a name, and point an alias at it; no change if the alias already points there.

    Until then the map is not used for the name. Raises ``UnknownMap`` if the map does not exist or has another name,
    and the errors of ``check`` for the current alias.
    """
    trail = AuditTrail(redis, keys) if trail is None else trail

    def write(pipe: Pipeline) -> AliasRecord:
        draft = read_map(pipe.get(keys.map(map_id)), name)
        before = read_if_any(pipe.hget(keys.aliases(name), alias))
        check(before)
        newest = next_version(pipe.hget(keys.newest_versions(), name))
        version = newest if draft.version is None else draft.version
        after = moved(before, name, alias, version, map_id, who)
        permitted = None if after is before else promoters(pipe, keys, name, alias)
        pipe.multi()
        if draft.version is None:
            record = draft.model_copy(update={"name": name, "version": version})
            pipe.set(keys.map(map_id), record.model_dump_json())
            write_summary(pipe, keys, record, draft)
            pipe.hset(keys.newest_versions(), name, str(version))
            pipe.hset(keys.versions(name), str(version), map_id)
        if after is not before:
            write_alias(pipe, keys, before, after, seconds(draft.created_at))
            trail.add(pipe, _moved_fact(before, after, permitted))
        # Processes also cache the map by its id, without a version.
        announce(pipe, Invalidation("map", keys.tenant, name=name, id=map_id))
        return after

    # Assigning or deleting a version changes the hash of versions or that of the newest versions.
    watched = (keys.map(map_id), keys.newest_versions(), keys.versions(name), keys.aliases(name))
    return transact(redis, write, *watched)
