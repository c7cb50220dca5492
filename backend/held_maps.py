"""The maps that a process keeps in memory, ready to apply."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Generic, TypeVar

from backend.store.link import Change
from backend.store.store import Store
from calibrant.maps.calibration_map import CalibrationMap, load

Value = TypeVar("Value")
Key = tuple[str, str]


@dataclass(frozen=True)
class HeldMap:
    """A stored map's id, the map itself, and the version that it is of its name, if it has one."""

    id: str
    map: CalibrationMap
    version: int | None


class HeldMaps:
    """At most ``size`` maps and as many references, of all tenants; the longest unused are dropped.

    What is read from the store while a change is heard is not kept: it may be what was before the change.
    """

    def __init__(self, size: int) -> None:
        self._maps: _Recent[HeldMap] = _Recent(size)
        self._ids: _Recent[str] = _Recent(size)
        self._changes = 0
        self._writing = Lock()

    def held(self, tenant: str, ref: str) -> HeldMap | None:
        """The map of a reference where it is in memory; O(1)."""
        map_id = self._ids.get((tenant, ref))
        return None if map_id is None else self._maps.get((tenant, map_id))

    def find(self, store: Store, tenant: str, ref: str) -> HeldMap:
        """The map of a reference, from the store where it is not in memory; raises ``UnknownMap``."""
        found = self.held(tenant, ref)
        if found is not None:
            return found
        changes = self._changes
        record = store.maps.get(ref)
        found = HeldMap(record.id, load(record.document), record.version)
        with self._writing:
            if changes == self._changes:
                self._maps.put((tenant, record.id), found)
                self._ids.put((tenant, ref), record.id)
        return found

    def hear(self, change: Change) -> None:
        """Drop what a change may have made untrue."""
        with self._writing:
            self._changes += 1
            if change.tenant is None:
                return
            if change.name is not None:
                self._ids.drop_name(change.tenant, change.name)
            if change.id is not None:
                self._maps.drop((change.tenant, change.id))
                self._ids.drop((change.tenant, change.id))

    def clear(self) -> None:
        """Forget everything."""
        with self._writing:
            self._changes += 1
            self._maps.clear()
            self._ids.clear()


class _Recent(Generic[Value]):
    """A bounded mapping that drops what was longest unused. Its operations are atomic under the interpreter's lock."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            try:
                self._values.move_to_end(key)
            except KeyError:  # dropped by another thread in between
                return None
        return value

    def put(self, key: Key, value: Value) -> None:
        self._values[key] = value
        while len(self._values) > self._size:
            self._values.popitem(last=False)

    def drop(self, key: Key) -> None:
        self._values.pop(key, None)

    def drop_name(self, tenant: str, name: str) -> None:
        """Drop every reference to a name: itself, its versions and its aliases."""
        beginnings = (f"{name}:", f"{name}@")
        for key in list(self._values):
            if key[0] == tenant and (key[1] == name or key[1].startswith(beginnings)):
                self._values.pop(key, None)

    def clear(self) -> None:
        self._values.clear()
