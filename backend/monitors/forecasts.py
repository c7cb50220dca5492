"""Monitors of regression: forecasts of a number, counted by the level of their outcome, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backend.monitors.decisions import PREDICTION, WAITING_PREDICTION, Entries, Tallies, by_bucket, forecast_type
from backend.monitors.rows import Mask, Why, Whys
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidOption, OutOfRange, PredictionKindMismatch, UnknownMethod
from calibrant.distributions.forecasts import CROSSING, Forecasts, check_levels
from calibrant.measures.measure import MeasureResult
from calibrant.monitoring.evidence import Evidence
from calibrant.monitoring.pit_tally import (
    FINE,
    RECALIBRATED,
    PitTally,
    Request,
    bins_of,
    central_levels,
    covered,
    default_pit_measures,
    fit_pit,
    histogram,
    measured,
    read_pit_measures,
    row_scores,
    sample_levels,
    tally_of_bins,
)
from calibrant.monitoring.tally import FOLDS, Tally, merged
from schemas.monitor_answers import CoverageReading, PitReading
from schemas.monitors import MonitorBody, MonitorForecast, MonitorRecord, RecalibrationSpec

# --- The definition

#: Fields of a definition that only monitors of classification have, with their defaults.
_OF_CLASSIFICATION = ("reduction", "n_classes", "scale", "map", "reference")


def check_forecast(body: MonitorBody) -> None:
    """Raise the first error of the kind of predictions of a definition."""
    forecast = body.forecast
    if body.prediction_kind == "classification":
        if forecast is not None:
            raise PredictionKindMismatch.at("/forecast", "is for monitors with the prediction_kind regression")
        return
    if forecast is None:
        raise InvalidOption.at("/forecast", "is missing: a monitor of regression declares its forecasts")
    for field in _OF_CLASSIFICATION:
        if getattr(body, field) != MonitorBody.model_fields[field].default:
            raise PredictionKindMismatch.at(f"/{field}", "is not applicable to a monitor of regression")
    wanted = {"quantiles": "levels", "interval": "level", "samples": "n_samples", "normal": None}[forecast.kind]
    for field in ("levels", "level", "n_samples"):
        given = getattr(forecast, field) is not None
        if given != (field == wanted):
            message = f"is missing for {forecast.kind}" if field == wanted else f"is not a field of {forecast.kind}"
            raise InvalidOption.at(f"/forecast/{field}", message)
    if wanted in ("levels", "level"):
        check_levels(levels_of(forecast), f"/forecast/{wanted}", OutOfRange)


#: The method of challengers: the map of levels, which the counts of a monitor determine.
METHOD = "quantile-recalibration"


def with_method(policy: RecalibrationSpec) -> RecalibrationSpec:
    """The policy of a request for forecasts, with the method of their challengers by default."""
    if "method" not in policy.model_fields_set:
        return policy.model_copy(update={"method": METHOD})
    if policy.method != METHOD:
        raise UnknownMethod.at("/recalibration/method", f"must be {METHOD} for a monitor of regression")
    return policy


def check_challengers(forecast: MonitorForecast) -> None:
    """Raise ``PredictionKindMismatch`` if the counts of these forecasts determine no challenger."""
    if forecast.kind not in RECALIBRATED:
        message = f"must be off for {forecast.kind} forecasts, whose counts determine no map; send quantiles"
        raise PredictionKindMismatch.at("/recalibration/policy", message)


def check_options(forecast: MonitorForecast, policy: RecalibrationSpec) -> None:
    """Raise the first error of the options of challengers, which are fitted to counts of forecasts."""
    kind = forecast.kind if forecast.kind in RECALIBRATED else "quantiles"
    try:
        fit_pit(PitTally(merged([]), levels_of(forecast), kind), **policy.options)
    except CalibrationError as error:
        raise error.under("/options") from None


def levels_of(forecast: MonitorForecast) -> Floats:
    """The levels between which the outcomes of a monitor are counted."""
    if forecast.kind == "normal":
        return FINE
    if forecast.kind == "samples":
        return sample_levels(forecast.n_samples or 0)
    if forecast.kind == "interval":
        level = forecast.level or 0.0
        return np.array([1.0 - level, 1.0 + level]) / 2.0
    return np.array(forecast.levels)


def default_measures(forecast: MonitorForecast) -> list[str]:
    """The measures of a monitor unless others are chosen."""
    return default_pit_measures(forecast.kind, levels_of(forecast))


def read_forecast_measures(body: MonitorBody) -> Sequence[Request]:
    """Read the measures of a monitor of regression; raises ``UnknownMeasure`` or ``InvalidOption``."""
    forecast = declared(body)
    return read_pit_measures(body.measures, forecast.kind, levels_of(forecast))


def declared(body: MonitorBody) -> MonitorForecast:
    """The forecasts of a monitor of regression."""
    if body.forecast is None:
        raise InvalidOption.at("/forecast", "is missing: a monitor of regression declares its forecasts")
    return body.forecast


# --- Rows


def layout_of(record: MonitorRecord) -> np.dtype[Any]:
    """The layout of a monitor's entries."""
    return PREDICTION if record.forecast is None else forecast_type(record.forecast.width)


def check_forecasts(values: Floats, forecast: MonitorForecast) -> tuple[Whys, Floats]:
    """The reason for refusing each of ``values (n, W)``, and the values to count: ascending, except mean and variance.

    Quantiles that cross by rounding are repaired, as in ``calibrant.distributions``. O(n W log W).
    """
    why = np.zeros(len(values), np.uint8)
    if not values.size:
        return why, values
    finite = np.asarray(np.isfinite(values).all(axis=1))
    why[~finite] = Why.NOT_FINITE
    values = np.where(finite[:, None], values, 1.0)
    if forecast.kind == "normal":
        why[(values[:, 1] <= 0.0) & finite] = Why.INVALID_VARIANCE
        return why, values
    if forecast.kind == "samples":
        return why, np.sort(values, axis=1)
    with np.errstate(over="ignore"):
        drop = values[:, :-1] - values[:, 1:]
    size = np.maximum(np.abs(values[:, :-1]), np.abs(values[:, 1:]))
    why[np.any(drop > CROSSING * size, axis=1)] = Why.CROSSING
    return why, np.maximum.accumulate(values, axis=1)


@dataclass(frozen=True)
class Forecasted:
    """Forecasts ready to be counted; ``random`` draws the bin of an outcome that equals tied quantiles."""

    entries: Entries
    forecast: MonitorForecast
    random: np.random.Generator

    @classmethod
    def given(
        cls,
        forecast: MonitorForecast,
        random: np.random.Generator,
        values: Floats,
        times: Floats,
        bucket: int,
        groups: Integers | None,
        folds: Integers,
    ) -> Forecasted:
        """Create from valid ``values (n, W)`` with ``times``, ``groups`` and ``folds (n,)``."""
        entries = np.zeros(len(times), forecast_type(forecast.width))
        entries["kind"], entries["time"], entries["values"] = WAITING_PREDICTION, times, values
        entries["bucket"] = times // bucket
        entries["base"] = folds if groups is None else groups * FOLDS + folds
        return cls(entries, forecast, random)

    def of(self, entries: Entries) -> Forecasted:
        """Forecasts of the same monitor with these entries."""
        return replace(self, entries=entries)

    def tallies(self, chosen: Mask, outcomes: Floats) -> Tallies:
        """The tallies of the chosen rows with their ``outcomes (n,)``, by time bucket. O(n W)."""
        rows, y = self.entries[chosen], outcomes[chosen]
        if not len(rows):
            return {}
        given = _forecasts(self.forecast, rows["values"])
        bins = bins_of(given, y, levels_of(self.forecast), self.random)
        scores, base = row_scores(given, y), rows["base"].astype(np.int64)
        return {
            bucket: (tally_of_bins(base[at], bins[at], scores[at]), None) for bucket, at in by_bucket(rows["bucket"])
        }

    def waiting(self, begin: Mask, end: Mask) -> dict[int, Tally]:
        """Nothing: tallies of waiting rows are for estimates without labels, which regression does not have."""
        del begin, end
        return {}


def _forecasts(forecast: MonitorForecast, values: Floats) -> Forecasts:
    if forecast.kind == "normal":
        return Forecasts("normal", mean=values[:, 0], variance=values[:, 1])
    if forecast.kind == "interval":
        return Forecasts("interval", lower=values[:, 0], upper=values[:, 1], level=forecast.level or 0.0)
    return Forecasts("quantiles", quantiles=values, levels=levels_of(forecast))


# --- Answers


def pit_of(tally: Tally, body: MonitorBody) -> PitTally:
    """A tally of the monitor with the levels between its bins."""
    forecast = declared(body)
    return PitTally(tally, levels_of(forecast), forecast.kind)


def measure_pit(tally: Tally, body: MonitorBody, interval: float | None) -> dict[str, MeasureResult]:
    """Every measure of some rows, in order."""
    whole = pit_of(tally, body)
    return {request[0]: measured(request, whole, interval) for request in read_forecast_measures(body)}


def read_pit(tally: Tally, body: MonitorBody) -> PitReading | None:
    """The PIT histogram of some rows; None without rows."""
    if not len(tally):
        return None
    shown = histogram(pit_of(tally, body))
    return PitReading(
        edges=shown.edges.tolist(),
        count=shown.count.tolist(),
        density=shown.density.tolist(),
        low=shown.low.tolist(),
        high=shown.high.tolist(),
        distance=shown.distance,
        intervals=[
            CoverageReading(level=level, share=share, interval=(low, high))
            for level, share, low, high in shown.intervals
        ],
    )


def describe(found: Evidence, counts: Integers, forecast: MonitorForecast) -> str:
    """The error in words, with the coverage of the rows with these ``counts`` of bins."""
    levels, message = levels_of(forecast), found.shift.message()
    known = central_levels(levels)
    if not known or not counts.sum():
        return message
    level = next((level for level in known if level == 0.9), known[-1])
    share = covered(counts, levels, level)
    return f"{message}: {100.0 * level:.4g} % intervals contain {100.0 * share:.3g} % of outcomes"
