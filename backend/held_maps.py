"""Maps that a process keeps in memory, ready to apply."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from backend.store.link import Invalidation
from backend.store.store import Store
from calibrant.core.errors import PredictionKindMismatch
from calibrant.kinds import load_map
from calibrant.maps.calibration_map import CalibrationMap
from schemas.maps import MapRecord

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap

Value = TypeVar("Value")
Key = tuple[str, str]


@dataclass(frozen=True)
class HeldMap:
    """A stored map: its id, the loaded map, and its version if it has a name."""

    id: str
    loaded: CalibrationMap | DistributionMap
    version: int | None

    @property
    def named(self) -> dict[str, Any]:
        """The fields of an answer that name the map."""
        return {"map": self.id, "version": self.version}

    @property
    def is_fast(self) -> bool:
        """Whether it maps few rows in less time than a switch of threads: maps of classes do."""
        return isinstance(self.loaded, CalibrationMap)

    @property
    def map(self) -> CalibrationMap:
        """The map of a classifier; raises ``PredictionKindMismatch``."""
        if not isinstance(self.loaded, CalibrationMap):
            raise _mismatch("regression", "classification")
        return self.loaded

    @property
    def distribution(self) -> DistributionMap:
        """The map of predictive distributions; raises ``PredictionKindMismatch``."""
        if isinstance(self.loaded, CalibrationMap):
            raise _mismatch("classification", "regression")
        return self.loaded


def classifier_of(record: MapRecord) -> CalibrationMap:
    """Load a stored map of a classifier; raises ``PredictionKindMismatch``."""
    return HeldMap(record.id, load_map(record.document), record.version).map


def distribution_of(record: MapRecord) -> DistributionMap:
    """Load a stored map of predictive distributions; raises ``PredictionKindMismatch``."""
    return HeldMap(record.id, load_map(record.document), record.version).distribution


def _mismatch(own: str, wanted: str) -> PredictionKindMismatch:
    return PredictionKindMismatch.at("/map", f"is a map of {own}, not of {wanted}")


class HeldMaps:
    """At most ``size`` maps and as many references, of all tenants; the least recently used are dropped.

    A map read from the store during a change notification is not kept, because it may be outdated.
    """

    def __init__(self, size: int) -> None:
        self._maps: _Recent[HeldMap] = _Recent(size)
        self._ids: _Recent[str] = _Recent(size)
        self._changes = 0
        self._writing = Lock()

    def held(self, tenant: str, ref: str) -> HeldMap | None:
        """The map of a reference if it is in memory; O(1)."""
        map_id = self._ids.get((tenant, ref))
        return None if map_id is None else self._maps.get((tenant, map_id))

    def find(self, store: Store, tenant: str, ref: str) -> HeldMap:
        """The map of a reference, from memory or the store; raises ``UnknownMap``."""
        found = self.held(tenant, ref)
        if found is not None:
            return found
        changes = self._changes
        record = store.maps.get(ref)
        found = HeldMap(record.id, load_map(record.document), record.version)
        with self._writing:
            if changes == self._changes:
                self._maps.put((tenant, record.id), found)
                self._ids.put((tenant, ref), record.id)
        return found

    def handle_change(self, change: Invalidation) -> None:
        """Drop the maps and references that a change may affect."""
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
        """Drop everything."""
        with self._writing:
            self._changes += 1
            self._maps.clear()
            self._ids.clear()


class _Recent(Generic[Value]):
    """A bounded mapping that drops the least recently used entry; its operations are atomic under the GIL."""

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
