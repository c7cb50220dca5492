"""Maps: durable, by id, and by name and version."""

from __future__ import annotations

from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.base import ID_PREFIX
from schemas.jobs import FINAL, JobRecord
from schemas.maps import MapRecord
from storage.changes import Change, announce
from storage.clock import seconds
from storage.errors import UnknownMap
from storage.keyspace import Keyspace
from storage.transactions import transact


class MapStore:
    """The maps of one tenant."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def put(self, draft: MapRecord, *, finished: JobRecord | None = None) -> MapRecord:
        """Store a map under its id, with its name's next version; finish its job in the same transaction.

        A map that is there already stays as it is: a job that runs twice makes one map.
        """
        keys = self._keys
        key = keys.map(draft.id)

        def write(pipe: Pipeline) -> MapRecord:
            stored = pipe.get(key)
            settled = finished is not None and _is_final(pipe.get(keys.job(finished.id)))
            if stored is None:
                version = None if draft.name is None else _number(pipe.hget(keys.newest_versions(), draft.name)) + 1
                record = draft.model_copy(update={"version": version})
            else:
                record = MapRecord.model_validate_json(cast(bytes, stored))
            pipe.multi()
            if stored is None:
                pipe.set(key, record.model_dump_json())
                pipe.zadd(keys.maps(), {record.id: seconds(record.created_at)}, nx=True)
                if record.name is not None and record.version is not None:
                    pipe.hset(keys.newest_versions(), record.name, str(record.version))
                    pipe.hset(keys.versions(record.name), str(record.version), record.id)
                    announce(pipe, Change("map", keys.tenant, name=record.name))
            if finished is not None and not settled:
                pipe.set(keys.job(finished.id), finished.model_dump_json(), ex=finished.ttl)
            return record

        # Every writer of a version touches the hash of newest versions, so that two never get one number.
        watched = [key, keys.newest_versions()] + ([] if finished is None else [keys.job(finished.id)])
        return transact(self._redis, write, *watched)

    def get(self, ref: str) -> MapRecord:
        """The map of an id, a name (its newest version) or ``name:version``; raises ``UnknownMap``."""
        map_id = ref if ref.startswith(ID_PREFIX) else self._id_of(ref)
        data = None if map_id is None else self._redis.get(self._keys.map(map_id))
        if data is None:
            raise UnknownMap("there is no such map", "/map")
        return MapRecord.model_validate_json(cast(bytes, data))

    def _id_of(self, ref: str) -> str | None:
        name, _, version = ref.partition(":")
        if not version:
            newest = self._redis.hget(self._keys.newest_versions(), name)
            version = "" if newest is None else cast(bytes, newest).decode()
        map_id = self._redis.hget(self._keys.versions(name), version)
        return None if map_id is None else cast(bytes, map_id).decode()


def _is_final(job: object) -> bool:
    """Whether a stored job has ended; one that is forgotten has."""
    return job is None or JobRecord.model_validate_json(cast(bytes, job)).status in FINAL


def _number(value: object) -> int:
    return 0 if value is None else int(cast(bytes, value))
