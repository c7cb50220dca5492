"""Predictive distributions of a number: rows from arrays, evaluations, full reports, and what a map makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from calibrant.comparison.forecasts import compare_rows, comparison_seconds
from calibrant.core.batch import Fractional, check_weights
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import CalibrationError, InvalidDocument
from calibrant.diagrams.diagram import DiagramRequest
from calibrant.diagrams.forecasts import drawing_seconds, drawn, read_distribution_diagrams, times_with_weight
from calibrant.distributions import scores
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS, DistributionFitting
from calibrant.distributions.evaluation import read_rows, report_of, seconds_of
from calibrant.distributions.forecasts import (
    ARGUMENTS,
    NAMED_COLUMNS,
    ForecastRows,
    Forecasts,
    read_forecasts,
    read_observed,
)
from calibrant.distributions.maps import trial
from calibrant.distributions.maps.combined import groups_of
from calibrant.distributions.maps.distribution_map import DistributionMap, Support
from calibrant.distributions.maps.scales import ForecastScale
from calibrant.distributions.maps.tables import quantiles_of
from calibrant.distributions.measures import MeasuredForecasts, Requests, default_measures, read_measure_requests
from calibrant.distributions.pit import ForecastSize
from calibrant.distributions.rows import is_in_sample, refuse_infinite
from calibrant.io.errors import InvalidField, TooLarge
from calibrant.io.strict import check_names

Array = npt.NDArray[Any]
#: Level of the intervals of a comparison, if none is requested, and of a report.
LEVEL = 0.95

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
    arguments: dict[str, Any] = {name: arrays[name] for name in ARGUMENTS if name in arrays}
    if not arguments:
        raise InvalidField.at("", "has no forecasts; send mean and variance, quantiles, samples, or lower and upper")
    arguments |= {name: value for name, value in (("levels", levels), ("level", level)) if value is not None}
    forecasts = read_forecasts(**arguments)
    n, names = len(forecasts), {name: arrays[name] for name in NAMED_COLUMNS if name in arrays}
    check_names(arrays, NAMED_COLUMNS, n, "the forecasts have")
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
    return numbers | {name: sent[name] for name in NAMED_COLUMNS if name in sent}


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
            before, calibrated = _before_and_after(self.map, rows, self.seed, comparable=self.comparable)
            requests = self._requests(before if self.comparable else calibrated)
            after = self._side(rows, calibrated, requests)
            after = {name: after[name] for name in ("kind", "measures", "groups", "diagrams") if name in after}
            fields |= {"after": after, "in_sample": is_in_sample(self.map, rows)}
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
        document, _ = _measured(own, requests, self.diagrams, self.interval, self.seed)
        document["n_repaired"] = rows.forecasts.n_repaired
        if document["groups"] is not None:
            groups = document["groups"].items()
            document["groups"] = {name: {"n": group["n"], "measures": group["measures"]} for name, group in groups}
        return document

    def _compared(self, rows: ForecastRows, calibrated: Forecasts | None) -> dict[str, Any]:
        own = {"forecasts": rows.forecasts} | ({} if calibrated is None else {"calibrated": calibrated})
        pointers = {"forecasts": "", "calibrated": "/map"}
        pointers |= {name: f"/against/{i}" for i, name in enumerate(rows.others)}
        level = self.interval or LEVEL
        comparison = compare_rows(
            rows, {**own, **rows.others}, score=self.score, lags=self.lags, interval=level, pointers=pointers
        )
        return comparison.to_dict()


def _before_and_after(
    fitted: DistributionMap, rows: ForecastRows, seed: int, *, comparable: bool
) -> tuple[Forecasts, Forecasts]:
    """Return the forecasts before and after a map; if ``comparable``, before one to quantiles as quantiles, too."""
    before, after = rows.forecasts, fitted.apply_checked(rows.forecasts, by=rows.by, seed=seed)
    refuse_infinite(after)
    if comparable and after.kind == "quantiles" and before.kind != "quantiles":
        before = quantiles_of(before.quantile(after.levels), after.levels)
    return before, after


def _measured(
    rows: ForecastRows, requests: Requests, diagrams: Sequence[DiagramRequest] | None, interval: float | None, seed: int
) -> tuple[dict[str, Any], MeasuredForecasts]:
    """Return the measures and diagrams of rows as plain JSON, and the checked rows."""
    checked, names = read_rows(rows, interval=interval, seed=seed)
    document = report_of(checked, names, requests).to_dict()
    if diagrams is not None:
        times, plain = times_with_weight(rows.times, rows.weights), replace(checked, level=None, by=None)
        document["diagrams"] = {request.key: drawn(request, plain, times) for request in diagrams}
    return document, checked


# --- Full reports

#: The most rows that maps are compared on; from more, a random sample is drawn.
MOST_ROWS = 20_000

_CALIBRATION = ("quantile-calibration-error", "pit-ks")
#: The measures of a report, and those of its groups.
MEASURES: Mapping[str, tuple[str, ...]] = {
    "normal": ("crps", "log-score", "rmse", "coverage", "sharpness", *_CALIBRATION, "variance-ratio"),
    "quantiles": ("quantile-score", "interval-score", "coverage", "sharpness", *_CALIBRATION),
    "samples": ("crps", "rmse", "coverage", "sharpness", *_CALIBRATION),
    "interval": ("interval-score", "coverage", "sharpness", "quantile-calibration-error"),
}
#: The most values of a column ``by`` for which the compared maps have functions of their own.
_MOST_VALUES = 50
#: The compared methods by kind, the simplest first.
COMPARED: Mapping[str, tuple[str, ...]] = {
    "normal": ("location-scale", "std-isotonic", "averaged"),
    "quantiles": ("location-scale", "quantile-recalibration", "averaged"),
    "samples": ("location-scale", "quantile-recalibration", "averaged"),
    "interval": ("location-scale", "conformal", "averaged"),
}
#: The diagrams of a report in their order; a fan needs times.
DIAGRAMS = ("coverage", "pit", "quantile-reliability", "mean-variance", "sharpness", "fan")


def measures_of(kind: str, *, by: bool) -> list[str | dict[str, str]]:
    """Return the measures of a report of forecasts of a kind, with or without a column ``by``."""
    return [*MEASURES[kind], *([{"name": "conditional-coverage", "by": "column"}] if by else [])]


def report_options(kind: str, columns: Sequence[str], seed: int) -> dict[str, Any]:
    """Return the options of a ``ReportSubject`` of rows with these ``columns``."""
    return {
        "prediction_kind": "regression",
        "kind": kind,
        "columns": [name for name in ("weights", "groups", "clusters", "by") if name in columns],
        "measures": measures_of(kind, by="by" in columns),
        "interval": LEVEL,
        "seed": seed,
    }


@dataclass(frozen=True)
class ForecastReport:
    """Options of a full report of forecasts, without the rows; with a map, of the forecasts before and after it.

    ``scale`` and ``support`` are those of the compared maps. ``map_id`` names the map in the document.
    """

    map: DistributionMap | None = None
    seed: int = 0
    scale: ForecastScale = "identity"
    support: Support = (None, None)
    map_id: str | None = None

    def seconds(self, rows: ForecastRows) -> float:
        """Estimate the seconds of ``document``."""
        forecasts = rows.forecasts
        requests = read_measure_requests(measures_of(forecasts.kind, by=rows.by is not None))
        drawn = drawing_seconds(len(DIAGRAMS), ForecastSize.of(forecasts))
        total = (1 + (self.map is not None)) * (seconds_of(requests, rows) + drawn)
        size = ForecastSize.of(forecasts, MOST_ROWS)
        compared = () if self.map is not None else COMPARED[forecasts.kind]
        return total + sum(DISTRIBUTION_METHODS[method].seconds(size) for method in compared)

    def document(self, rows: ForecastRows) -> dict[str, Any]:
        """Return the report as plain JSON.

        The fields are those of ``DistributionReport.to_dict``, with ``diagrams``, ``intervals`` (the coverage, and the
        factor that corrects it), and either ``after`` and ``in_sample``, or ``recommendation``.
        """
        if self.map is None:
            several = rows.by is not None and len(set(rows.by)) <= _MOST_VALUES
            compared = rows if several else replace(rows, by=None)
            return self._side(rows) | {"recommendation": self.recommendation(compared)}
        before, after = _before_and_after(self.map, rows, self.seed, comparable=True)
        earlier, later = (self._side(replace(rows, forecasts=forecasts)) for forecasts in (before, after))
        for name, group in (earlier["groups"] or {}).items():
            group["after"] = {"measures": later["groups"][name]["measures"]}
        in_sample = is_in_sample(self.map, rows)
        map_id = self.map.method if self.map_id is None else self.map_id
        return earlier | {"after": {**later, "groups": None}, "in_sample": in_sample, "map": map_id}

    def _side(self, unchecked: ForecastRows) -> dict[str, Any]:
        requests = read_measure_requests(measures_of(unchecked.forecasts.kind, by=unchecked.by is not None))
        names = [name for name in DIAGRAMS if name != "fan" or unchecked.times is not None]
        document, rows = _measured(unchecked, requests, read_distribution_diagrams(names), LEVEL, self.seed)
        return document | {"intervals": widening(rows)}

    def recommendation(self, rows: ForecastRows) -> dict[str, Any]:
        """Compare maps by their cross-fitted gain, and recommend the simplest that is about as good as the best.

        A map is recommended if its gain is above 0 by a one-sided test at 2.5 %, corrected for the number of maps, and
        at most one standard error below the largest gain; otherwise ``identity``. Rows of a cluster are in one fold.
        """
        if len(rows) > MOST_ROWS:
            random, chosen = np.random.default_rng(self.seed), np.zeros(len(rows), np.bool_)
            chosen[random.choice(len(rows), MOST_ROWS, replace=False)] = True
            rows = replace(rows, observed=np.asarray(rows.observed)).taken(chosen)
        kind = rows.forecasts.kind
        own: dict[str, Any] = {} if kind == "normal" else {"support": self.support, "scale": self.scale}
        candidates: list[dict[str, Any]] = []
        for method in COMPARED[kind]:
            try:
                fitting = DistributionFitting.read(method, {}, seed=self.seed, **own)
                fitted = fitting.run(fitting.check(rows))
                candidates.append({"method": method, "gain": fitted.diagnostics.get("held_out_gain"), "problem": None})
            except CalibrationError as error:
                candidates.append({"method": method, "gain": None, "problem": error.detail})
        z = float(ndtri(1.0 - 0.025 / len(candidates)))
        known = [candidate for candidate in candidates if candidate["gain"] is not None]
        proven = [
            candidate for candidate in known if candidate["gain"]["gain"] > z * candidate["gain"]["standard_error"]
        ]
        best = max(proven, key=lambda candidate: float(candidate["gain"]["gain"]), default=None)
        recommended = "identity"
        if best is not None:
            least = best["gain"]["gain"] - best["gain"]["standard_error"]
            recommended = next(candidate["method"] for candidate in proven if candidate["gain"]["gain"] >= least)
        options = {"scale": self.scale} if self.scale != "identity" and kind != "normal" else {}
        bounded = any(end is not None for end in self.support)
        return {
            "recommended": recommended,
            "n": len(rows),
            "z": z,
            "candidates": candidates,
            "options": options | ({"support": list(self.support)} if bounded else {}),
            "by": rows.by is not None,
            "clusters": rows.clusters is not None,
        }


def widening(rows: MeasuredForecasts) -> dict[str, Any] | None:
    """Return the level of the central intervals and the ``factor`` that makes them cover as often as promised.

    The factor multiplies the distance of each end from the median, or from the middle of an interval. Also the share of
    outcomes ``above`` the median. None if no two levels are symmetric.
    """
    forecasts, y = rows.forecasts, rows.y
    try:
        level = scores.level_of(forecasts)
        low, high = scores.central(forecasts, level)
    except CalibrationError:
        return None
    has_median = forecasts.kind != "interval"
    middle = forecasts.quantile(np.array([0.5]))[:, 0] if has_median else 0.5 * (low + high)
    w = np.ones(len(y)) if rows.w is None else rows.w
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(y >= middle, (y - middle) / (high - middle), (middle - y) / (middle - low))
    ratio = np.where(y == middle, 0.0, ratio)
    order = np.argsort(ratio, kind="stable")
    at = int(np.searchsorted(np.cumsum(w[order]), level * w.sum() * (1.0 - 1e-12)))
    factor = float(ratio[order][min(at, len(y) - 1)])
    above = float(w @ ((y > middle) + 0.5 * (y == middle)) / w.sum()) if has_median else None
    return {"level": level, "factor": factor if np.isfinite(factor) and factor > 0.0 else None, "above": above}


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
