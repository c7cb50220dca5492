"""A map that had no name becomes the next version of one, and an alias points at it: both in one step, or neither."""

from __future__ import annotations

from redis import Redis
from redis.client import Pipeline

from schemas.aliases import AliasRecord
from storage.changes import Change, announce
from storage.clock import seconds
from storage.keyspace import Keyspace
from storage.registry.aliases import Check, moved, read_if_any, write_alias
from storage.registry.maps import next_version, read_map
from storage.registry.summaries import write_summary
from storage.transactions import transact


def promote(
    redis: Redis, keys: Keyspace, map_id: str, name: str, alias: str, *, who: str | None, check: Check
) -> AliasRecord:
    """Make a map the next version of a name, and point an alias at it; one that points there already stays.

    Until then nobody is answered by the map who asks for the name. Raises ``UnknownMap`` where the map is gone or of
    another name, and what ``check`` raises of the alias as it stands.
    """

    def write(pipe: Pipeline) -> AliasRecord:
        draft = read_map(pipe.get(keys.map(map_id)), name)
        before = read_if_any(pipe.hget(keys.aliases(name), alias))
        check(before)
        newest = next_version(pipe.hget(keys.newest_versions(), name))
        version = newest if draft.version is None else draft.version
        after = moved(before, name, alias, version, map_id, who)
        pipe.multi()
        if draft.version is None:
            record = draft.model_copy(update={"name": name, "version": version})
            pipe.set(keys.map(map_id), record.model_dump_json())
            write_summary(pipe, keys, record, draft)
            pipe.hset(keys.newest_versions(), name, str(version))
            pipe.hset(keys.versions(name), str(version), map_id)
        if after is not before:
            write_alias(pipe, keys, before, after, seconds(draft.created_at))
        # Processes hold the map by its id too, as one without a version.
        announce(pipe, Change("map", keys.tenant, name=name, id=map_id))
        return after

    # Whoever gives or deletes a version touches the hash of versions, or of the newest ones.
    watched = (keys.map(map_id), keys.newest_versions(), keys.versions(name), keys.aliases(name))
    return transact(redis, write, *watched)
