"""Reads of the registry for maps in memory: of many names, or of many maps, at once."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import orjson
from redis import Redis

from backend.store.errors import UnknownMap
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.registry.maps import MapStore
from schemas.aliases import StoredAlias
from schemas.held import MapOrigin

#: Aliases of a name that are read at least; of a name with more, not all.
_ALIASES = 100


def read_origins(redis: Redis, maps: Sequence[tuple[str, str]]) -> list[MapOrigin | None]:
    """The origins of maps, each a tenant and an id; None for one that is not stored."""
    with redis.pipeline(transaction=False) as pipe:
        for tenant, map_id in maps:
            pipe.hget(Keyspace(tenant).summaries(), map_id)
        read = pipe.execute()
    summaries = [None if data is None else orjson.loads(data) for data in read]
    return [None if s is None else MapOrigin(s["name"], s["version"], s["created_at"]) for s in summaries]


def read_references(redis: Redis, names: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """For each tenant and name, the ids of the maps of the name and of its aliases, by reference."""
    with redis.pipeline(transaction=False) as pipe:
        for tenant, name in names:
            pipe.hget(Keyspace(tenant).newest_versions(), name)
            pipe.hscan(Keyspace(tenant).aliases(name), count=_ALIASES)
        read = pipe.execute()
    newest, aliases = read[::2], [hash_of_aliases for _, hash_of_aliases in read[1::2]]
    with redis.pipeline(transaction=False) as pipe:
        for (tenant, name), version in zip(names, newest, strict=True):
            pipe.hget(Keyspace(tenant).versions(name), version or b"")
        ids = pipe.execute()
    references = []
    for (tenant, name), version, stored, map_id in zip(names, newest, aliases, ids, strict=True):
        aliased = {f"{name}@{alias.decode()}": read_stored(StoredAlias, data).map for alias, data in stored.items()}
        if map_id is not None:
            aliased[name] = map_id.decode()
        elif version is not None:  # the newest version was deleted
            with contextlib.suppress(UnknownMap):
                aliased[name] = MapStore(redis, Keyspace(tenant)).resolve(name)
        references.append(aliased)
    return references
