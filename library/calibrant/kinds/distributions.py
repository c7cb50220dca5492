"""Predictive distributions of a number: rows from arrays, evaluations, and what a map makes of forecasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from calibrant.comparison.forecasts import compare_rows, comparison_seconds
from calibrant.core.batch import Fractional, check_weights
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import InvalidDocument, LengthMismatch, WrongShape
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.diagrams.forecasts import (
    drawing_seconds,
    drawn,
    read_distribution_diagrams,
    times_with_weight,
)
from calibrant.distributions.evaluation import read_rows, report_of, seconds_of
from calibrant.distributions.forecast_rows import NAMES, ForecastRows
from calibrant.distributions.forecasts import FIELDS, Forecasts, read_forecasts, read_observed
from calibrant.distributions.maps import trial
from calibrant.distributions.maps.combined import groups_of
from calibrant.distributions.maps.distribution_map import DistributionMap
from calibrant.distributions.maps.tables import quantiles_of
from calibrant.distributions.measures import Requests, default_measures, read_measure_requests
from calibrant.distributions.pit import ForecastSize
from calibrant.distributions.rows import is_in_sample, refuse_infinite
from calibrant.io.errors import InvalidField, TooLarge

Array = npt.NDArray[Any]

# --- Rows from arrays


def check_arrays(
    arrays: Mapping[str, Array],
    *,
    levels: Sequence[float] | None = None,
    level: float | None = None,
    weights_kind: WeightsKind | Fractional = "importance",
) -> ForecastRows:
    """Check the arrays of a request, or those of a stored batch with its ``levels``; outcomes are optional.

    Raises a ``CalibrationError`` that names the field and the first invalid rows.
    """
    if "known" in arrays:
        raise InvalidField.at("/known", "is a field of POST /calibrate with in_order alone")
    if "std" in arrays and "variance" in arrays:
        raise InvalidField.at("/std", "cannot be combined with variance; send one of the two")
    fields = ("std", *(name for names in FIELDS.values() for name in names))
    arguments: dict[str, Any] = {name: arrays[name] for name in fields if name in arrays}
    if not arguments:
        raise InvalidField.at("", "has no forecasts; send mean and variance, quantiles, samples, or lower and upper")
    arguments |= {name: value for name, value in (("levels", levels), ("level", level)) if value is not None}
    forecasts = read_forecasts(**arguments)
    n, names = len(forecasts), {name: arrays[name] for name in NAMES if name in arrays}
    for name, values in names.items():
        if values.ndim != 1:
            raise WrongShape.at(f"/{name}", "must be (n,)")
        if len(values) != n:
            raise LengthMismatch.at(f"/{name}", f"has {len(values)} rows, but the forecasts have {n}")
    return ForecastRows(
        forecasts,
        read_observed(arrays["observed"], forecasts) if "observed" in arrays else None,
        check_weights(arrays["weights"], n, weights_kind) if "weights" in arrays else None,
        weights_kind,
        **{name: values.tolist() for name, values in names.items()},
    )


def arrays_of(rows: ForecastRows, sent: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays that store checked rows, with the numbers that were given, before repair."""
    own = {name: sent.get(name, rows.forecasts[name]) for name in rows.forecasts if name not in ("levels", "level")}
    own |= {name: getattr(rows, name) for name in ("observed", "weights") if name in rows.columns}
    numbers = {name: np.asarray(values, np.float64) for name, values in own.items()}
    return numbers | {name: sent[name] for name in NAMES if name in sent}


# --- Evaluations


@dataclass(frozen=True)
class DistributionEvaluation:
    """Checked options of an evaluation of forecasts, without the rows; with a map, before and after it.

    Without ``measures``, they are those of the kind of the forecasts. With ``comparable``, forecasts before a map that
    returns quantiles are measured as quantiles at its levels. ``score`` and ``lags`` are those of the comparison with
    the other forecasts of the rows.
    """

    measures: Requests | None = None
    diagrams: Sequence[DiagramRequest] | None = None
    map: DistributionMap | None = None
    map_id: str | None = None
    interval: float | None = None
    seed: int = 0
    score: str | None = None
    lags: int = 0
    comparable: bool = False

    @classmethod
    def read(
        cls,
        measures: Sequence[str | Mapping[str, Any]] | None = None,
        diagrams: Sequence[str | Mapping[str, Any]] | None = None,
        **others: Any,
    ) -> Self:
        """Check the requests; ``others`` are the other fields. Raises ``UnknownMeasure`` and so on."""
        requests = None if measures is None else read_measure_requests(list(measures))
        return cls(requests, None if diagrams is None else read_distribution_diagrams(diagrams), **others)

    def seconds(self, rows: ForecastRows) -> float:
        """Estimate the seconds of ``document``."""
        size = ForecastSize.of(rows.forecasts)
        side = seconds_of(self._requests(rows.forecasts), rows) + drawing_seconds(len(self.diagrams or ()), size)
        compared = comparison_seconds(len(rows.others) + 2, size, self.lags) if rows.others else 0.0
        return (1 + (self.map is not None)) * side + compared

    def document(self, rows: ForecastRows) -> dict[str, Any]:
        """Return the report as plain JSON."""
        before, calibrated = rows.forecasts, None
        fields: dict[str, Any] = {"map": self.map_id, "after": None, "in_sample": None}
        if self.map is not None:
            calibrated = self.map.apply_checked(before, by=rows.by, seed=self.seed)
            refuse_infinite(calibrated)
            if self.comparable and calibrated.kind == "quantiles" and before.kind != "quantiles":
                before = quantiles_of(before.quantile(calibrated.levels), calibrated.levels)
            requests = self._requests(before if self.comparable else calibrated)
            after = self._side(rows, calibrated, requests)
            after = {name: after[name] for name in ("kind", "measures", "groups", "diagrams") if name in after}
            in_sample = is_in_sample(self.map, rows)
            fields |= {"after": after, "in_sample": in_sample}
        fields = self._side(rows, before, self._requests(before)) | fields
        if rows.others:
            fields["comparison"] = self._compared(rows, calibrated)
        return fields

    def _requests(self, forecasts: Forecasts) -> Requests:
        if self.measures is not None:
            return self.measures
        return read_measure_requests(list(default_measures(forecasts.kind)))

    def _side(self, rows: ForecastRows, forecasts: Forecasts, requests: Requests) -> dict[str, Any]:
        """Return the measures and diagrams of the forecasts before or after the map."""
        own = replace(rows, forecasts=forecasts)
        checked, names = read_rows(own, interval=self.interval, seed=self.seed)
        document = report_of(checked, names, requests).to_dict() | {"n_repaired": rows.forecasts.n_repaired}
        if document["groups"] is not None:
            groups = document["groups"].items()
            document["groups"] = {name: {"n": group["n"], "measures": group["measures"]} for name, group in groups}
        if self.diagrams is not None:
            times, plain = times_with_weight(rows.times, rows.weights), replace(checked, level=None, by=None)
            document["diagrams"] = {request.key: drawn(request, plain, times) for request in self.diagrams}
        return document

    def _compared(self, rows: ForecastRows, calibrated: Forecasts | None) -> dict[str, Any]:
        own = {"forecasts": rows.forecasts} | ({} if calibrated is None else {"calibrated": calibrated})
        pointers = {"forecasts": "", "calibrated": "/map"}
        pointers |= {name: f"/against/{i}" for i, name in enumerate(rows.others)}
        level = self.interval or _LEVEL
        comparison = compare_rows(
            rows, {**own, **rows.others}, score=self.score, lags=self.lags, interval=level, pointers=pointers
        )
        return comparison.to_dict()


#: Level of the intervals of a comparison, if none is requested.
_LEVEL = 0.95

# --- What a map accepts and returns

#: The most numbers that a map may make when it is tried.
_MOST_TRIED = 10_000_000
#: Estimated seconds to compute a byte of calibrated forecasts, and to evaluate or write it.
BYTE_SECONDS = 1e-8


def accepted_and_returned(fitted: DistributionMap) -> tuple[Forecasts, Forecasts]:
    """Return a few forecasts of the kind that a map accepts, and what it makes of them."""
    forecasts = trial.forecasts_to_try(fitted)
    return forecasts, trial.applied_to(fitted, forecasts, [""] * len(forecasts))


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
