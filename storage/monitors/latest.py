"""The latest values of all monitors, where they are read at once."""

from __future__ import annotations

from itertools import islice

import orjson
from redis import Redis
from redis.client import Pipeline

from storage.keyspace import Keyspace, Shared, job_field, read_job_field
from storage.monitors.alive import while_alive
from storage.monitors.journal import Json

#: Monitors whose values are told at most.
MOST_MONITORS = 1000


def put_latest(redis: Redis, keys: Keyspace, uid: str, values: Json) -> None:
    """Store what is told of a monitor until the next values come; raises ``UnknownMonitor``."""

    def write(pipe: Pipeline) -> None:
        pipe.multi()
        pipe.hset(Shared.latest_of_monitors(), job_field(keys.tenant, uid), orjson.dumps(values).decode())

    while_alive(redis, keys, uid, write)


def read_latest(redis: Redis, most: int = MOST_MONITORS) -> dict[tuple[str, str], Json]:
    """The latest values by tenant and uid, of at most so many monitors of all tenants."""
    found = islice(redis.hscan_iter(Shared.latest_of_monitors(), count=most), most)
    return {read_job_field(field): orjson.loads(values) for field, values in found}
