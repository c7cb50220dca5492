"""Maps: stored permanently, by id, and by name and version."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.audit import AuditTrail
from backend.store.clock import seconds
from backend.store.errors import MapInUse, OutputShapeChanged, RunLost, UnknownMap
from backend.store.formats import read_stored
from backend.store.jobs.runs import Run
from backend.store.keyspace import Keyspace, Shared
from backend.store.link import Invalidation, announce
from backend.store.server.connection import transact
from schemas.aliases import StoredAlias
from schemas.audit import AuditFact, ChangeAction
from schemas.base import ID_PREFIX
from schemas.maps import MapRecord, MapSummary

# --- References: a map by id, name, version or alias

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_ID = re.compile(rf"{ID_PREFIX}[A-Za-z0-9._-]{{1,64}}\Z")
_NAMED = re.compile(rf"({_WORD})(?::([1-9][0-9]{{0,8}})|@({_WORD}))?\Z")


class MapReference(NamedTuple):
    """``map_id``; or ``name``, with ``version`` or ``alias``, or alone for its newest version."""

    map_id: str | None = None
    name: str | None = None
    version: str | None = None
    alias: str | None = None

    @property
    def exact(self) -> bool:
        """Whether it always refers to the same map: an id, or a version."""
        return self.map_id is not None or self.version is not None


def read_reference(ref: str) -> MapReference | None:
    """Parse ``map_ID``, ``name``, ``name:version`` or ``name@alias``; None for invalid text."""
    if ref.startswith(ID_PREFIX):
        return MapReference(map_id=ref) if _ID.match(ref) else None
    named = _NAMED.match(ref)
    return MapReference(None, *named.groups()) if named else None


def is_name(text: str) -> bool:
    """Whether a text is a valid name of a map or alias."""
    return re.fullmatch(_WORD, text) is not None and not text.startswith(ID_PREFIX)


# --- Summaries of maps, and the indexes for filters

#: Fields of a summary with an index for every value. Maps of earlier versions are in no index that is added here.
INDEXED = ("name", "method", "reduction", "scale", "created_by", "n_classes")


def facet(name: str, value: object) -> str:
    """The index of the maps with this value; the value of a tag is its name, or ``name=value``."""
    return f"{name}:{value}"


def facets(summary: MapSummary) -> set[str]:
    """The indexes that contain a map."""
    own = {facet(name, value) for name in INDEXED if (value := getattr(summary, name)) is not None}
    tags = {facet("tag", word) for tag, value in summary.tags.items() for word in (tag, f"{tag}={value}")}
    return own | tags


def write_summary(pipe: Pipeline, keys: Keyspace, record: MapRecord, before: MapRecord | None = None) -> None:
    """Queue the writes of a map's summary and index entries; ``before`` is the previous record."""
    summary = record.summary()
    pipe.hset(keys.summaries(), record.id, summary.model_dump_json())
    current, left = facets(summary), set() if before is None else facets(before)
    for index in sorted(current - left):
        pipe.zadd(keys.index(index), {record.id: seconds(record.created_at)})
    for index in sorted(left - current):
        pipe.zrem(keys.index(index), record.id)


def erase_summary(pipe: Pipeline, keys: Keyspace, record: MapRecord) -> None:
    """Queue the removal of a map's summary and index entries."""
    pipe.hdel(keys.summaries(), record.id)
    for index in sorted(facets(record)):
        pipe.zrem(keys.index(index), record.id)


def add_missing(redis: Redis, keys: Keyspace) -> None:
    """Write the missing summaries of maps that were stored before summaries existed. O(maps)."""
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


# --- Maps: stored permanently, by id, and by name and version


class MapStore:
    """The maps of one tenant; a stored map never changes, only what callers say about it."""

    def __init__(self, redis: Redis, keys: Keyspace, trail: AuditTrail | None = None) -> None:
        self._redis = redis
        self._keys = keys
        self._trail = AuditTrail(redis, keys) if trail is None else trail

    def put(self, draft: MapRecord, *, run: Run | None = None, allow_shape_change: bool = False) -> MapRecord:
        """Store a map under its id, as the next version of its name; ends its job in the same transaction.

        An existing map is kept unchanged, so a job that runs twice creates one map. Raises ``RunLost`` if the ``run``
        no longer owns the job, for example after a cancellation, and ``OutputShapeChanged`` unless it is allowed; then
        no map is stored.
        """
        keys = self._keys
        key = keys.map(draft.id)

        def write(pipe: Pipeline) -> MapRecord:
            stored = pipe.get(key)
            looked = None if run is None else run.look(pipe)
            going = run is not None and looked is not None and looked.runs(run.job.run)
            if run is not None and not going and stored is None:
                raise RunLost("the job was cancelled or assigned to another worker before its map was stored")
            if stored is None:
                if draft.name is not None and not allow_shape_change:
                    self._check_shape(pipe, draft.name, draft.output_shape)
                version = None if draft.name is None else next_version(pipe.hget(keys.newest_versions(), draft.name))
                record = draft.model_copy(update={"version": version})
            else:
                record = read_stored(MapRecord, stored)
            pipe.multi()
            if stored is None:
                self._add(pipe, record, newest=record.version)
                action: ChangeAction = "map-imported" if record.imported else "map-fitted"
                fact = AuditFact(action=action, map=record.name or record.id, after=_audited(record))
                self._trail.add(pipe, fact, author=None if run is None else run.job.author)
            if going and run is not None and looked is not None:
                run.finish(pipe, looked, {"map": record.id})
            return record

        # Every writer of a version changes the hash of newest versions, so that numbers are unique.
        watched = [key, keys.newest_versions()] + ([] if run is None else [keys.job(run.job.id)])
        return transact(self._redis, write, *watched)

    def check_shape(self, name: str, shape: str) -> None:
        """Raise ``OutputShapeChanged`` if the newest map of a name returns probabilities of another shape."""
        self._check_shape(self._redis, name, shape)

    def _check_shape(self, redis: Redis | Pipeline, name: str, shape: str) -> None:
        numbers = cast(list[bytes], redis.hkeys(self._keys.versions(name)))
        if not numbers:
            return
        newest = max(numbers, key=int)
        map_id = cast("bytes | None", redis.hget(self._keys.versions(name), newest.decode()))
        data = None if map_id is None else redis.get(self._keys.map(map_id.decode()))
        if data is None:
            return
        before = read_stored(MapRecord, data).output_shape
        if before != shape:
            detail = f"version {int(newest)} of the name returns shape {before}, and this map would return {shape}"
            raise OutputShapeChanged(detail)

    def restore(self, record: MapRecord) -> bool:
        """Restore a map from a backup with its id and version; returns False if either exists, which is kept."""
        keys = self._keys

        def write(pipe: Pipeline) -> bool:
            taken = bool(pipe.exists(keys.map(record.id)))
            newest = None
            if record.name is not None and record.version is not None:
                taken = taken or bool(pipe.hexists(keys.versions(record.name), str(record.version)))
                newest = max(record.version, _number(pipe.hget(keys.newest_versions(), record.name)))
            pipe.multi()
            if not taken:
                self._add(pipe, record, newest=newest)
            return not taken

        return transact(self._redis, write, keys.map(record.id), keys.newest_versions())

    def restore_newest(self, name: str, version: int) -> bool:
        """Mark the versions of a name up to this one as used; returns False if they already are."""
        hashed = self._keys.newest_versions()

        def write(pipe: Pipeline) -> bool:
            later = version > _number(pipe.hget(hashed, name))
            pipe.multi()
            if later:
                pipe.hset(hashed, name, str(version))
            return later

        return transact(self._redis, write, hashed)

    def get(self, ref: str) -> MapRecord:
        """The map of an id, a name (its newest version), ``name:version`` or ``name@alias``; raises ``UnknownMap``."""
        map_id = self.resolve(ref)
        while True:
            try:
                return self.read(map_id)
            except UnknownMap:
                # The alias was moved, or a newer version was deleted, between the two reads: try again.
                again = self.resolve(ref)
                if again == map_id:
                    raise
                map_id = again

    def versions(self, name: str) -> list[int]:
        """The versions of a name, oldest first."""
        return sorted(map(int, self._redis.hkeys(self._keys.versions(name))))

    def resolve(self, ref: str) -> str:
        """The map id of a reference; raises ``UnknownMap``. An id is returned unchanged, even if it is unknown."""
        reference = read_reference(ref)
        if reference is None:
            raise unknown_map()
        if reference.map_id is not None:
            return reference.map_id
        name = reference.name or ""
        map_id = self._aliased(name, reference.alias) if reference.alias else self._versioned(name, reference.version)
        if map_id is None:
            raise unknown_map()
        return map_id

    def read(self, map_id: str) -> MapRecord:
        """The map with this id; raises ``UnknownMap``."""
        return _record(self._redis.get(self._keys.map(map_id)))

    def change(self, map_id: str, change: Callable[[MapRecord], MapRecord]) -> MapRecord:
        """Apply ``change``, which sets what callers say about the map, to its record."""
        key = self._keys.map(map_id)

        def write(pipe: Pipeline) -> MapRecord:
            before = _record(pipe.get(key))
            after = change(before)
            pipe.multi()
            if after != before:
                pipe.set(key, after.model_dump_json())
                write_summary(pipe, self._keys, after, before)
                self._trail.add(pipe, _described(before, after))
            return after

        return transact(self._redis, write, key)

    def delete(self, map_id: str, check: Callable[[MapRecord], None] = lambda _: None) -> None:
        """Delete a map; its version number is never used again.

        Raises ``UnknownMap``, the errors of ``check`` for the record, and ``MapInUse`` while an alias points at it.
        """
        keys = self._keys
        key = keys.map(map_id)

        def write(pipe: Pipeline) -> None:
            record = _record(pipe.get(key))
            check(record)
            if record.name is not None:
                pipe.watch(keys.aliases(record.name))  # type: ignore[no-untyped-call]
                _refuse_aliased(map_id, cast(dict[bytes, bytes], pipe.hgetall(keys.aliases(record.name))))
            pipe.multi()
            pipe.delete(key)
            pipe.zrem(keys.maps(), map_id)
            erase_summary(pipe, keys, record)
            if record.name is not None:
                # Pointing an alias at this version watches this hash.
                pipe.hdel(keys.versions(record.name), str(record.version))
            fact = AuditFact(action="map-deleted", map=record.name or map_id, before=_audited(record))
            self._trail.add(pipe, fact)
            announce(pipe, Invalidation("map", keys.tenant, name=record.name, id=map_id))

        transact(self._redis, write, key)

    def _add(self, pipe: Pipeline, record: MapRecord, *, newest: int | None) -> None:
        """Queue the writes of a new map; ``newest`` is the newest version of its name from now on."""
        keys = self._keys
        pipe.set(keys.map(record.id), record.model_dump_json())
        pipe.sadd(Shared.tenants(), keys.tenant)
        write_summary(pipe, keys, record)
        pipe.zadd(keys.maps(), {record.id: seconds(record.created_at)}, nx=True)
        if record.name is not None and newest is not None:
            pipe.hset(keys.newest_versions(), record.name, str(newest))
            pipe.hset(keys.versions(record.name), str(record.version), record.id)
            announce(pipe, Invalidation("map", keys.tenant, name=record.name))

    def _aliased(self, name: str, alias: str) -> str | None:
        data = self._redis.hget(self._keys.aliases(name), alias)
        return None if data is None else read_stored(StoredAlias, data).map

    def _versioned(self, name: str, version: str | None) -> str | None:
        versions = self._keys.versions(name)
        if version is None:
            newest = self._redis.hget(self._keys.newest_versions(), name)
            if newest is None:
                return None
            version = cast(bytes, newest).decode()
            if not self._redis.hexists(versions, version):  # it was deleted: use the newest remaining version
                version = max((v.decode() for v in cast(list[bytes], self._redis.hkeys(versions))), key=int, default="")
        map_id = self._redis.hget(versions, version)
        return None if map_id is None else cast(bytes, map_id).decode()


def _audited(record: MapRecord) -> dict[str, Any]:
    """What the audit log states about a map; its rows are identified by their digest."""
    names = ("id", "name", "version", "method", "n", "digest", "output_shape")
    return {name: getattr(record, name) for name in names}


def _described(before: MapRecord, after: MapRecord) -> AuditFact:
    """The entry of what callers say about a map: only the fields that changed."""
    old, new = before.about(), after.about()
    changed = [name for name in new if old[name] != new[name]]
    which = {"id": after.id, "version": after.version}
    texts = [which | {name: about[name] for name in changed} for about in (old, new)]
    return AuditFact(action="map-described", map=after.name or after.id, before=texts[0], after=texts[1])


def unknown_map() -> UnknownMap:
    """Create the error for a reference without a map."""
    return UnknownMap("there is no map with this reference", "/map")


def read_map(data: object, name: str) -> MapRecord:
    """Parse a stored map, without a name or with this one; raises ``UnknownMap`` otherwise, and for None."""
    record = _record(data)
    if record.name not in (None, name):
        raise unknown_map()
    return record


def next_version(newest: object) -> int:
    """The next version of a name, from the newest one."""
    return _number(newest) + 1


def _record(data: object) -> MapRecord:
    if data is None:
        raise unknown_map()
    return read_stored(MapRecord, data)


def _refuse_aliased(map_id: str, aliases: dict[bytes, bytes]) -> None:
    here = sorted(name.decode() for name, data in aliases.items() if read_stored(StoredAlias, data).map == map_id)
    if here:
        raise MapInUse(f"aliases point at this version; move or delete them first: {', '.join(here)}")


def _number(value: object) -> int:
    return 0 if value is None else int(cast(bytes, value))
