"""The kinds of predictions: classes, and distributions of a number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant.maps import calibration_map
from calibrant.maps.calibration_map import CalibrationMap

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap


def is_of_distributions(document: object) -> bool:
    """Whether a document of a map, or of a report, is about predictive distributions."""
    return isinstance(document, Mapping) and document.get("prediction_kind") == "regression"


def load_map(document: Mapping[str, Any]) -> CalibrationMap | DistributionMap:
    """Load a map of either kind; modules of distributions are imported on first use."""
    if is_of_distributions(document):
        from calibrant.distributions.maps.distribution_map import load_distribution

        return load_distribution(document)
    return calibration_map.load(document)


def read_map(document: Mapping[str, Any]) -> CalibrationMap | DistributionMap:
    """Read a map of either kind from another source, with every number checked; raises ``InvalidDocument``."""
    if is_of_distributions(document):
        from calibrant.distributions.maps.distribution_map import read_distribution_map

        return read_distribution_map(document)
    return calibration_map.read_map(document)


def try_map(fitted: CalibrationMap | DistributionMap) -> None:
    """Apply a map once; raises ``InvalidDocument`` if it does not return valid predictions."""
    if isinstance(fitted, CalibrationMap):
        calibration_map.try_map(fitted)
        return
    from calibrant.kinds import distributions

    distributions.try_map(fitted)
