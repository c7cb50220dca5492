"""Maps that a process keeps in memory, ready to apply."""

from __future__ import annotations

import contextlib
import logging
import re
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

import orjson
from redis import Redis

from backend.held_folder import HeldFolder
from backend.held_map import HeldMap
from backend.store.errors import StorageError, UnknownMap
from backend.store.formats import read_stored
from backend.store.keyspace import Keyspace
from backend.store.link import Invalidation
from backend.store.registry.maps import MapStore
from backend.store.store import Store
from calibrant.core.errors import CalibrationError
from calibrant.kinds import load_map
from schemas.aliases import StoredAlias
from schemas.held import CachedMap, MapOrigin

# --- Reads of the registry for maps in memory: of many names, or of many maps, at once

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


# --- Maps that a process keeps in memory, ready to apply

log = logging.getLogger(__name__)

#: A tenant, and an id or a reference of its maps.
Key = tuple[str, str]


class HeldMaps:
    """At most ``size`` maps of all tenants, by their ids, their versions, and the names and aliases that lead to them.

    The least recently used maps are dropped, those of a tenant with more than half of them first, but not those of
    ``preload``, which are held as soon as the store is reached; each is a tenant and a reference. A map read from the
    store during a change is not kept, because it may be outdated.
    """

    def __init__(self, size: int, preload: Collection[Key] = ()) -> None:
        self._size = max(size, len(preload))
        self._preload = frozenset(preload)
        self._maps: OrderedDict[Key, HeldMap] = OrderedDict()
        self._digests: dict[Key, str] = {}
        #: The maps of all references. Read without the lock: each operation on a dictionary is atomic under the GIL.
        self._references: dict[Key, HeldMap] = {}
        self._folder: HeldFolder | None = None
        self._changes = 0
        #: The names whose references are being read again.
        self._changing: set[Key] = set()
        self._writing = Lock()
        #: Increases whenever the maps or their references change.
        self.revision = 0

    def __len__(self) -> int:
        return len(self._maps)

    def held(self, tenant: str, ref: str, *, last_known: bool = False) -> HeldMap | None:
        """The map of a reference if it is in memory; O(1).

        None while its name is read again after a change, unless the ``last_known`` map is wanted.
        """
        held_map = self._references.get((tenant, ref))
        if held_map is not None:
            if not last_known and self._is_changing(tenant, ref, held_map):
                return None
            with suppress(KeyError):  # dropped by another thread in between
                self._maps.move_to_end((tenant, held_map.id))
        return held_map

    def is_changing(self, tenant: str, ref: str) -> bool:
        """Whether a reference that leads to a map in memory is read again after a change of its name."""
        held_map = self._references.get((tenant, ref))
        return held_map is not None and self._is_changing(tenant, ref, held_map)

    def _is_changing(self, tenant: str, ref: str, held_map: HeldMap) -> bool:
        changing = self._changing
        return bool(changing) and (tenant, held_map.name) in changing and ref not in held_map.exact_references

    def find(self, store: Store, tenant: str, ref: str, *, last_known: bool = False) -> HeldMap:
        """The map of a reference, from memory as ``held`` or from the store; raises ``UnknownMap``."""
        held_map = self.held(tenant, ref, last_known=last_known)
        if held_map is not None:
            return held_map
        changes = self._changes
        record = store.maps.get(ref)
        held_map = HeldMap.of(record)
        led = {} if record.name is None else {ref: record.id} | read_references(store.redis, [(tenant, record.name)])[0]
        with self._writing:
            if changes == self._changes:
                self._add(tenant, held_map, record.document)
                self._lead(tenant, record.name, led)
        return held_map

    # --- Changes: a map is dropped only if it was deleted, and references lead to other maps once these were read

    def concerns(self, change: Invalidation) -> bool:
        """Drop a deleted map; returns whether ``follow`` must be called, before which a name leads to no map."""
        tenant, name = change.tenant or "", change.name or ""
        with self._writing:
            self._changes += 1
            if change.id is not None:
                self._drop((tenant, change.id))
        is_held = (tenant, name) in self._names()
        if is_held:
            self._changing.add((tenant, name))
        return is_held

    def follow(self, redis: Redis, change: Invalidation) -> None:
        """Follow a change of a name."""
        key = change.tenant or "", change.name or ""
        try:
            # A store that was emptied gives the versions of a name again, to other maps.
            maps = {of: held for of, held in list(self._maps.items()) if (of[0], held.name) == key}
            self._drop_replaced(redis, maps)
            self._follow(redis, [key])
        finally:
            self._changing.discard(key)

    def revalidate(self, redis: Redis) -> None:
        """Follow the changes of all names, drop the deleted maps, and load those of ``preload``."""
        with self._writing:
            self._changes += 1
            maps = dict(self._maps)
        self._drop_replaced(redis, maps)
        self._follow(redis, sorted(self._names()))
        for tenant, ref in sorted(self._preload):
            self._load(redis, tenant, ref)

    def _names(self) -> set[Key]:
        """The tenants and names of the maps in memory and of ``preload``."""
        named = {(tenant, held.name) for (tenant, _), held in list(self._maps.items()) if held.name is not None}
        return named | {(tenant, re.split("[:@]", ref)[0]) for tenant, ref in self._preload}

    def _follow(self, redis: Redis, names: list[Key]) -> None:
        """Let references lead to the maps that they mean now, which are loaded if they led to a map in memory."""
        for (tenant, name), led in zip(names, read_references(redis, names), strict=True):
            for ref, map_id in led.items():
                if (tenant, ref) in self._references or (tenant, ref) in self._preload:
                    self._load(redis, tenant, map_id)
            with self._writing:
                self._lead(tenant, name, led)

    def _drop_replaced(self, redis: Redis, maps: Mapping[Key, HeldMap]) -> None:
        """Drop those of the maps that the store does not have, or has of another origin."""
        for (key, held), origin in zip(maps.items(), read_origins(redis, list(maps)), strict=True):
            if origin != held.origin:
                with self._writing:
                    self._drop(key)

    def _load(self, redis: Redis, tenant: str, ref: str) -> None:
        """Hold the map of a reference; one that is missing or cannot be read is logged."""
        try:
            self.find(Store.of(redis, tenant), tenant, ref)
        except (CalibrationError, StorageError) as error:
            log.warning("held maps: %s of tenant %s cannot be loaded (%s)", ref, tenant, error.code)

    def _add(self, tenant: str, held: HeldMap, document: dict[str, Any], digest: str | None = None) -> None:
        """Hold a map by its id and version."""
        key = (tenant, held.id)
        if key in self._maps and self._maps[key].origin == held.origin:
            return
        self._drop(key)
        self._maps[key] = held
        for ref in held.exact_references:
            self._references[tenant, ref] = held
        if self._folder is not None and digest is None:
            digest = self._folder.write_map(tenant, held.id, document)
        if digest is not None:
            self._digests[key] = digest
        self.revision += 1
        if len(self._maps) > self._size:
            self._make_room(tenant)

    def _make_room(self, tenant: str) -> None:
        """Drop the map that was not used for longest: of the tenant, if it has more than half of all."""
        preloaded = {(owner, led.id) for owner, ref in self._preload if (led := self._references.get((owner, ref)))}
        maps = list(self._maps)
        own = [key for key in maps if key[0] == tenant]
        self._drop(next(key for key in (*(own if len(own) > self._size // 2 else ()), *maps) if key not in preloaded))

    def _lead(self, tenant: str, name: str | None, led: Mapping[str, str]) -> None:
        """Let a name and its aliases lead to the maps with these ids, as far as they are in memory."""
        if name is None:
            return
        now = {(tenant, ref): held for ref, map_id in led.items() if (held := self._maps.get((tenant, map_id)))}
        before = {key for key in self._references if key[0] == tenant and _is_moving(key[1], name)}
        self._references.update(now)
        for key in before - set(now):
            del self._references[key]
        self.revision += 1

    def _drop(self, key: Key) -> None:
        held = self._maps.pop(key, None)
        if held is None:
            return
        for reference in [known for known, led in self._references.items() if led is held]:
            del self._references[reference]
        digest = self._digests.pop(key, None)
        if self._folder is not None and digest is not None:
            self._folder.delete_map(digest)
        self.revision += 1

    # --- The folder

    def restore(self, folder: HeldFolder, maps: Iterable[CachedMap]) -> None:
        """Hold the maps in a folder, and from now on write those in memory there."""
        self._folder = folder
        for cached in maps:
            document = folder.read_map(cached.tenant, cached.id, cached.digest)
            if document is None:
                continue
            try:
                held = HeldMap(cached.id, load_map(document), cached.version, cached.name, cached.created_at)
            except CalibrationError:  # written by another version
                continue
            with self._writing:
                self._add(cached.tenant, held, document, cached.digest)
                self._references |= {(cached.tenant, ref): held for ref in cached.references}

    def cached(self) -> list[CachedMap]:
        """The maps in memory whose documents are in the folder, least recently used first."""
        with self._writing:
            led: dict[Key, list[str]] = {}
            for (tenant, ref), held in self._references.items():
                if ref not in held.exact_references:
                    led.setdefault((tenant, held.id), []).append(ref)
            return [
                CachedMap(
                    tenant=key[0],
                    id=held.id,
                    **held.origin._asdict(),
                    references=led.get(key, []),
                    digest=self._digests[key],
                )
                for key, held in list(self._maps.items())
                if key in self._digests
            ]


def _is_moving(ref: str, name: str) -> bool:
    """Whether a reference is a name or one of its aliases."""
    return ref == name or ref.startswith(f"{name}@")
