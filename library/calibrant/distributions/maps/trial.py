"""Trial of a map of predictive distributions: parameters that are valid one by one can overflow together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from calibrant.core.errors import InvalidDocument
from calibrant.distributions.forecasts import FIELDS, Forecasts
from calibrant.distributions.maps.combined import groups_of, may_be_infinite, width_of
from calibrant.distributions.maps.scales import LEVELS
from calibrant.distributions.maps.tables import interval_of, normal_of, quantiles_of

if TYPE_CHECKING:
    from calibrant.distributions.maps.distribution_map import DistributionMap

#: The most numbers that a map makes at once when it is tried.
_MOST_AT_ONCE = 1_000_000
#: Locations and scales of the forecasts that a map is tried on, for which a map on the scale log1p is defined too.
_LOCATIONS, _SCALES = np.array([10.0, 0.0, 1e6]), np.array([1.0, 1e-3, 1e5])


def try_map(fitted: DistributionMap) -> None:
    """Apply a map to a few forecasts of every group; raises ``InvalidDocument`` if it does not return valid ones.

    Infinite bounds are valid if offsets of ``conformal`` are infinite. O(G Q) for G groups.
    """
    forecasts, groups = forecasts_to_try(fitted), ["", *groups_of(fitted.function)]
    height = max(1, _MOST_AT_ONCE // (len(forecasts) * numbers_of_row(fitted)))
    for start in range(0, len(groups), height):
        names = groups[start : start + height]
        rows = np.tile(np.arange(len(forecasts)), len(names))
        recalibrated = applied_to(fitted, forecasts.take(rows), [name for name in names for _ in range(len(forecasts))])
        if not _are_valid(recalibrated, infinite=may_be_infinite(fitted.function)):
            raise InvalidDocument.at("/parameters", "do not give forecasts")


def _are_valid(forecasts: Forecasts, *, infinite: bool) -> bool:
    values = [np.asarray(forecasts[name]) for name in FIELDS[forecasts.kind]]
    if any((np.isnan(numbers) if infinite else ~np.isfinite(numbers)).any() for numbers in values):
        return False
    if forecasts.kind == "normal":
        return bool((np.isfinite(forecasts.mean) & np.isfinite(forecasts.variance) & (forecasts.variance > 0.0)).all())
    if forecasts.kind == "quantiles":
        return bool((forecasts.quantiles[:, :-1] <= forecasts.quantiles[:, 1:]).all())
    return bool((forecasts.lower <= forecasts.upper).all())


def numbers_of_row(fitted: DistributionMap) -> int:
    """Return the largest number of numbers per row that a map makes; samples become quantiles."""
    own = len(LEVELS) if fitted.kind == "samples" else len(() if fitted.levels is None else fitted.levels)
    return max(1, own, width_of(fitted.function))


def applied_to(fitted: DistributionMap, forecasts: Forecasts, groups: Sequence[str]) -> Forecasts:
    """Apply a map to forecasts of some groups, without warnings."""
    with np.errstate(all="ignore"):
        return fitted.apply_checked(forecasts, by=groups)


def forecasts_to_try(fitted: DistributionMap) -> Forecasts:
    """Return a few forecasts of the kind of a map."""
    if fitted.kind == "normal":
        return normal_of(_LOCATIONS, _SCALES**2)
    n_columns = 3 if fitted.levels is None else len(fitted.levels)
    columns = np.linspace(-1.0, 1.0, n_columns) if n_columns > 1 else np.zeros(1)
    table = _LOCATIONS[:, None] + _SCALES[:, None] * columns
    if fitted.kind == "samples":
        return Forecasts("samples", samples=table)
    if fitted.levels is None:
        raise InvalidDocument.at("/levels", "are missing")
    if fitted.kind == "interval":
        if n_columns != 2:
            raise InvalidDocument.at("/levels", "must be two numbers")
        return interval_of(table[:, 0], table[:, 1], round(float(fitted.levels[1] - fitted.levels[0]), 12))
    return quantiles_of(table, fitted.levels)
