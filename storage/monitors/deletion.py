"""The keys of deleted monitors, removed in bounded steps; a later look goes on where a process died."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from redis import Redis

from storage.keyspace import Keyspace, Shared, job_field, read_job_field
from storage.monitors.series import KINDS, SPAN, by_rows, by_span

#: Fields of a hash, or lists, that are removed at once.
_AT_ONCE = 1000


def delete_left(redis: Redis) -> None:
    """Remove the keys of all deleted monitors of which some may be left."""
    for member in cast(set[bytes], redis.smembers(Shared.monitors_to_delete())):
        tenant, uid = read_job_field(member)
        delete_keys(redis, Keyspace(tenant), uid)


def delete_keys(redis: Redis, keys: Keyspace, uid: str) -> None:
    """Remove all keys of a monitor whose definition is gone.

    What lists others goes behind them, so that this can be done again at any time. UNLINK takes a key away at once, and
    its memory is given back by another thread.
    """
    own = keys.monitor(uid)
    named = job_field(keys.tenant, uid)
    for slots in _chunks(redis, own.slots()):
        redis.unlink(*(own.slot(slot) for slot in slots))
        redis.zrem(own.slots(), *map(str, slots))
    for buckets in _chunks(redis, own.buckets()):
        spans = {bucket // SPAN for bucket in buckets}
        lists = [own.tallies(kind, bucket) for kind in KINDS for bucket in buckets]
        lists += [own.tallies(by_span(kind), span) for kind in KINDS for span in spans]
        redis.unlink(*lists, *map(own.counts, buckets), *map(own.span_counts, spans))
        redis.zrem(own.buckets(), *map(str, buckets))
    rows = [int(bucket) for bucket in cast(list[bytes], redis.hkeys(own.row_buckets()))]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        redis.unlink(*(own.tallies(by_rows(kind), bucket) for kind in KINDS for bucket in some))
    redis.hdel(Shared.latest_of_monitors(), named)
    redis.unlink(*own.single())
    redis.srem(Shared.monitors_to_delete(), named)


def _chunks(redis: Redis, index: str) -> Iterator[list[int]]:
    while found := cast(list[bytes], redis.zrange(index, 0, _AT_ONCE - 1)):
        yield [int(member) for member in found]
