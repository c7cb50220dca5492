"""Summaries of maps, and the indexes by which lists are filtered."""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.maps import MapRecord, MapSummary
from storage.clock import seconds
from storage.formats import read_stored
from storage.keyspace import Keyspace
from storage.transactions import transact

#: Fields of a summary that lists are filtered by, each with an index for every value.
FACETS = ("name", "method", "reduction", "scale", "created_by", "n_classes")


def facet(name: str, value: object) -> str:
    """The index of the maps with this value; a tag's value is its name, or ``name=value``."""
    return f"{name}:{value}"


def facets(summary: MapSummary) -> set[str]:
    """The indexes in which a map stands."""
    own = {facet(name, value) for name in FACETS if (value := getattr(summary, name)) is not None}
    tags = {facet("tag", word) for tag, value in summary.tags.items() for word in (tag, f"{tag}={value}")}
    return own | tags


def write_summary(pipe: Pipeline, keys: Keyspace, record: MapRecord, before: MapRecord | None = None) -> None:
    """Queue the writes of a map's summary, and of its places in the indexes; ``before`` is what it was."""
    summary = record.summary()
    pipe.hset(keys.summaries(), record.id, summary.model_dump_json())
    kept, left = facets(summary), set() if before is None else facets(before)
    for index in sorted(kept - left):
        pipe.zadd(keys.index(index), {record.id: seconds(record.created_at)})
    for index in sorted(left - kept):
        pipe.zrem(keys.index(index), record.id)


def erase_summary(pipe: Pipeline, keys: Keyspace, record: MapRecord) -> None:
    """Queue the removal of a map's summary, and of its places in the indexes."""
    pipe.hdel(keys.summaries(), record.id)
    for index in sorted(facets(record)):
        pipe.zrem(keys.index(index), record.id)


def add_missing(redis: Redis, keys: Keyspace) -> None:
    """Write the summaries of maps that were stored before there were any. O(maps)."""
    known = set(cast(list[bytes], redis.hkeys(keys.summaries())))
    for map_id in cast(list[bytes], redis.zrange(keys.maps(), 0, -1)):
        if map_id not in known:
            _add(redis, keys, map_id.decode())


def _add(redis: Redis, keys: Keyspace, map_id: str) -> None:
    def write(pipe: Pipeline) -> None:
        data = pipe.get(keys.map(map_id))
        pipe.multi()
        if data is not None:
            write_summary(pipe, keys, read_stored(MapRecord, data))

    transact(redis, write, keys.map(map_id))
