"""The rows of a request about predictive distributions, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from backend.telemetry.observed import note_rows
from calibrant.core.batch import Fractional, check_weights
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.errors import InvalidDocument, LengthMismatch, WrongShape
from calibrant.distributions.forecasts import FIELDS, Forecasts, read_forecasts, read_observed
from calibrant.distributions.maps import trial
from calibrant.distributions.maps.combined import groups_of
from calibrant.distributions.maps.distribution_map import DistributionMap
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
    arrays: Arrays, shape: ForecastShape | None, level: float | None, kind: WeightsKind | Fractional
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
        read_observed(arrays["observed"], forecasts) if "observed" in arrays else None,
        check_weights(arrays["weights"], n, kind) if "weights" in arrays else None,
        cast("WeightsKind", kind),  # the library reads fractional weights too, but does not offer them
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


def shapes_of(fitted: DistributionMap) -> tuple[ForecastShape, ForecastShape]:
    """What a map accepts and returns."""
    given = trial.forecasts_to_try(fitted)
    return shape_of(given), shape_of(trial.applied_to(fitted, given, [""] * len(given)))


def try_map(fitted: DistributionMap) -> None:
    """Apply a map to a few forecasts of every group; raises ``InvalidDocument`` if it does not return valid ones.

    The number of groups is limited.
    """
    n_groups = 1 + len(groups_of(fitted.function))
    if n_groups * len(trial.forecasts_to_try(fitted)) * trial.numbers_of_row(fitted) > _MOST_TRIED:
        raise InvalidDocument.at("/parameters", "have too many groups and levels")
    trial.try_map(fitted)


def check_size(fitted: DistributionMap, n: int, most: int) -> int:
    """Return how many bytes a map makes of ``n`` forecasts; raises ``TooLarge`` if they are more than ``most``."""
    size = n * trial.numbers_of_row(fitted) * np.dtype(np.float64).itemsize
    if size > most:
        raise TooLarge(f"the map makes {size:,} bytes of these forecasts, and may make {most:,}; send fewer rows")
    return size
