"""The kinds of predictions, classes and distributions of a number, and the maps of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from calibrant.maps import calibration_map
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.documents import SETS
from calibrant.sets.set_map import SetMap, load_sets

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap

#: A fitted map: of classes to probabilities or to sets, or of distributions.
FittedMap: TypeAlias = "CalibrationMap | SetMap | DistributionMap"


def is_of_distributions(document: object) -> bool:
    """Whether a document of a map, or of a report, is about predictive distributions."""
    return isinstance(document, Mapping) and document.get("prediction_kind") == "regression"


def is_of_sets(document: object) -> bool:
    """Whether a document is that of a map to prediction sets."""
    return isinstance(document, Mapping) and document.get("reduction") == SETS


def load_map(document: Mapping[str, Any], *, checked: bool = False) -> FittedMap:
    """Load a map of any kind; ``checked`` if from another source: every number is checked, ``InvalidDocument`` raised.

    Modules of distributions are imported on first use.
    """
    if is_of_sets(document):
        return load_sets(document)
    if is_of_distributions(document):
        from calibrant.distributions.maps.distribution_map import load_distribution, read_distribution_map

        return (read_distribution_map if checked else load_distribution)(document)
    return (calibration_map.read_map if checked else calibration_map.load)(document)


def try_map(fitted: FittedMap) -> None:
    """Apply a map once; raises ``InvalidDocument`` if it does not return valid predictions, which sets always are."""
    if isinstance(fitted, CalibrationMap):
        calibration_map.try_map(fitted)
    elif not isinstance(fitted, SetMap):
        from calibrant.kinds import distributions

        distributions.try_map(fitted)
