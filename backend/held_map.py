"""A map in memory, ready to apply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant.core.errors import PredictionKindMismatch
from calibrant.kinds import FittedMap, load_map
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.sets.set_map import SetMap
from schemas.held import MapOrigin
from schemas.maps import MapRecord

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap


@dataclass(frozen=True)
class HeldMap:
    """A stored map: its id, the loaded map, and its version if it has a name."""

    id: str
    loaded: FittedMap
    version: int | None
    name: str | None = None
    created_at: str = ""

    @classmethod
    def of(cls, record: MapRecord) -> HeldMap:
        """Load a stored map."""
        return cls(record.id, load_map(record.document), record.version, record.name, record.created_at)

    @property
    def origin(self) -> MapOrigin:
        """What determines it beside its id."""
        return MapOrigin(self.name, self.version, self.created_at)

    @property
    def exact_references(self) -> tuple[str, ...]:
        """The references that always lead to this map."""
        return (self.id,) if self.name is None else (self.id, f"{self.name}:{self.version}")

    @property
    def named(self) -> dict[str, Any]:
        """The fields of an answer that name the map."""
        return {"map": self.id, "version": self.version}

    @property
    def is_fast(self) -> bool:
        """Whether it maps few rows in less time than a switch of threads: maps of classes to probabilities do."""
        return isinstance(self.loaded, CalibrationMap)

    @property
    def map(self) -> CalibrationMap:
        """The map of a classifier to probabilities; raises ``PredictionKindMismatch``."""
        if isinstance(self.loaded, SetMap):
            raise PredictionKindMismatch.at("/map", "gives prediction sets, not probabilities")
        if not isinstance(self.loaded, CalibrationMap):
            raise _mismatch("regression", "classification")
        return self.loaded

    @property
    def distribution(self) -> DistributionMap:
        """The map of predictive distributions; raises ``PredictionKindMismatch``."""
        if isinstance(self.loaded, CalibrationMap | SetMap):
            raise _mismatch("classification", "regression")
        return self.loaded


def classifier_of(record: MapRecord) -> CalibrationMap:
    """Load a stored map of a classifier; raises ``PredictionKindMismatch``."""
    return HeldMap.of(record).map


def distribution_of(record: MapRecord) -> DistributionMap:
    """Load a stored map of predictive distributions; raises ``PredictionKindMismatch``."""
    return HeldMap.of(record).distribution


def _mismatch(own: str, wanted: str) -> PredictionKindMismatch:
    return PredictionKindMismatch.at("/map", f"is a map of {own}, not of {wanted}")
