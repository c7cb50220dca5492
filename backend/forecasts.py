"""The rows of a request about predictive distributions, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from backend.telemetry.observed import note_rows
from calibrant.batch import check_weights
from calibrant.cells import Floats, WeightsKind
from calibrant.distributions.forecasts import FIELDS, Forecasts, read_forecasts, read_observed
from calibrant.distributions.maps.combined import groups_of, may_be_infinite, width_of
from calibrant.distributions.maps.distribution_map import DistributionMap
from calibrant.distributions.maps.scales import LEVELS
from calibrant.distributions.maps.tables import interval_of, normal_of, quantiles_of
from calibrant.errors import InvalidDocument, LengthMismatch, WrongShape
from calibrant.io.errors import InvalidField, TooLarge
from schemas.distributions import ForecastShape

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

#: Arrays with the name of each row.
NAMES = ("groups", "clusters", "by", "times")
#: Parts of forecasts that all rows share; stored with the record of a batch.
_SHARED = ("levels", "level")


@dataclass(frozen=True)
class ForecastRows:
    """Checked forecasts ``(n,)``, and what came with them; None for what did not.

    ``names`` has the groups, clusters, ``by`` and times of the rows. ``given`` has the numbers before repair.
    """

    forecasts: Forecasts
    given: Arrays
    observed: Floats | None
    weights: Floats | None
    weights_kind: WeightsKind
    names: Arrays

    def __len__(self) -> int:
        return len(self.forecasts)

    @property
    def shape(self) -> ForecastShape:
        """What the forecasts are given as."""
        return shape_of(self.forecasts)

    @property
    def width(self) -> int:
        """The numbers of each forecast."""
        return self.given[FIELDS[self.forecasts.kind][0]][:1].size

    def kept(self) -> dict[str, Array]:
        """The arrays to store, with one element or row each."""
        own = {"observed": self.observed, "weights": self.weights}
        return {**self.given, **{name: array for name, array in own.items() if array is not None}, **self.names}

    def required(self) -> Floats:
        """The outcomes; raises ``InvalidField`` if there are none."""
        if self.observed is None:
            raise InvalidField.at("/observed", "is missing")
        return self.observed


def check_forecasts(
    arrays: Arrays, shape: ForecastShape | None, level: float | None, kind: WeightsKind
) -> ForecastRows:
    """Check the arrays of a request, or those of a stored batch with its ``shape``; outcomes are optional.

    Raises a ``CalibrationError`` that names the field and the first invalid rows.
    """
    if "known" in arrays:
        raise InvalidField.at("/known", "is a field of POST /calibrate with in_order alone")
    given: dict[str, Any] = {name: arrays[name] for names in FIELDS.values() for name in names if name in arrays}
    if "std" in arrays:
        if "variance" in arrays:
            raise InvalidField.at("/std", "cannot be combined with variance; send one of the two")
        given["std"] = arrays["std"]
    given |= {"levels": shape.levels, "level": shape.level} if shape is not None else {"level": level}
    given = {name: value for name, value in given.items() if value is not None}
    if not given.keys() - {"level"}:
        raise InvalidField.at("", "has no forecasts; send mean and variance, quantiles, samples, or lower and upper")
    forecasts = read_forecasts(**given)
    if "std" in given:
        given |= {"variance": forecasts.variance}
        del given["std"]
    n = len(forecasts)
    note_rows((n, given[FIELDS[forecasts.kind][0]][:1].size))
    names = {name: arrays[name] for name in NAMES if name in arrays}
    for name, values in names.items():
        if values.ndim != 1:
            raise WrongShape.at(f"/{name}", "must be (n,)")
        if len(values) != n:
            raise LengthMismatch.at(f"/{name}", f"has {len(values)} rows, but the forecasts have {n}")
    return ForecastRows(
        forecasts,
        {name: np.asarray(value, np.float64) for name, value in given.items() if name not in _SHARED},
        read_observed(arrays["observed"], n) if "observed" in arrays else None,
        check_weights(arrays["weights"], n, kind) if "weights" in arrays else None,
        kind,
        names,
    )


def fields_of(forecasts: Forecasts) -> dict[str, Any]:
    """Forecasts as the arguments of the library."""
    return {name: getattr(forecasts, name) for name in FIELDS[forecasts.kind]}


def shape_of(forecasts: Forecasts) -> ForecastShape:
    """What forecasts are given as."""
    return ForecastShape(
        kind=forecasts.kind,
        levels=forecasts.levels.tolist() if forecasts.kind == "quantiles" else None,
        level=forecasts.level if forecasts.kind == "interval" else None,
    )


# --- What a map accepts and returns

#: The most numbers that a map may make when it is tried.
_MOST_TRIED = 10_000_000
#: Locations and scales of the forecasts that a map is tried on, for which a map on the scale log1p is defined too.
_LOCATIONS, _SCALES = np.array([10.0, 0.0, 1e6]), np.array([1.0, 1e-3, 1e5])


def shapes_of(fitted: DistributionMap) -> tuple[ForecastShape, ForecastShape]:
    """What a map accepts and returns."""
    tried = _tried(fitted)
    return shape_of(tried), shape_of(_applied(fitted, tried, [""] * len(tried)))


def try_map(fitted: DistributionMap) -> None:
    """Apply a map to a few forecasts of every group; raises ``InvalidDocument`` if it does not return valid ones.

    Parameters that are valid one by one can overflow together. Infinite bounds are valid if offsets of ``conformal``
    are infinite.
    """
    tried, groups = _tried(fitted), ["", *groups_of(fitted.function)]
    if len(groups) * len(tried) * _width_of(fitted) > _MOST_TRIED:
        raise InvalidDocument.at("/parameters", "have too many groups and levels")
    rows = np.tile(np.arange(len(tried)), len(groups))
    found = _applied(fitted, tried.take(rows), [name for name in groups for _ in range(len(tried))])
    bad = np.isnan if may_be_infinite(fitted.function) else _not_finite
    good = not any(bad(np.asarray(value)).any() for value in fields_of(found).values())
    if good and found.kind == "normal":
        finite = np.isfinite(found.mean) & np.isfinite(found.variance)
        good = bool((finite & (found.variance > 0.0)).all())
    elif good and found.kind == "quantiles":
        good = bool((found.quantiles[:, :-1] <= found.quantiles[:, 1:]).all())
    elif good:
        good = bool((found.lower <= found.upper).all())
    if not good:
        raise InvalidDocument.at("/parameters", "do not give forecasts")


def check_size(fitted: DistributionMap, n: int, most: int) -> int:
    """Return how many bytes a map makes of ``n`` forecasts; raises ``TooLarge`` if they are more than ``most``."""
    size = n * _width_of(fitted) * np.dtype(np.float64).itemsize
    if size > most:
        raise TooLarge(f"the map makes {size:,} bytes of these forecasts, and may make {most:,}; send fewer rows")
    return size


def _width_of(fitted: DistributionMap) -> int:
    """The largest number of numbers per row that a map makes; samples become quantiles."""
    own = len(LEVELS) if fitted.kind == "samples" else len(() if fitted.levels is None else fitted.levels)
    return max(own, width_of(fitted.function))


def _not_finite(values: Floats) -> npt.NDArray[np.bool_]:
    return ~np.isfinite(values)


def _applied(fitted: DistributionMap, tried: Forecasts, groups: Sequence[str]) -> Forecasts:
    with np.errstate(all="ignore"):
        return fitted.apply_checked(tried, by=groups)


def _tried(fitted: DistributionMap) -> Forecasts:
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
