"""Monitors of regression: forecasts of a number, counted by the level of their outcome, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from backend.kinds.distributions import distribution_record
from backend.monitors.outcomes import Apply, Countable, Entries, Tallies, by_bucket, waiting_entries, waiting_type
from backend.monitors.readings import ReadingsCache, reading_of
from backend.monitors.rows import Mask, Why, Whys
from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.errors import CalibrationError, InvalidOption, OutOfRange, PredictionKindMismatch, UnknownMethod
from calibrant.distributions.forecasts import CROSSING, Forecasts, check_levels
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.event_tally import Gain
from calibrant.monitoring.evidence import Evidence
from calibrant.monitoring.pit_tally import (
    FINE,
    RECALIBRATED,
    PitTally,
    Request,
    bins_of,
    central_levels,
    counts_of,
    covered,
    default_pit_measures,
    fit_pit,
    histogram,
    log_pit_factors,
    log_pit_weights,
    measured,
    pit_evidence_of,
    pit_gain,
    read_pit_measures,
    row_scores,
    sample_levels,
    tally_of_bins,
)
from calibrant.monitoring.tally import Tally, merged
from schemas.base import MINUTE
from schemas.maps import FitDistributionSpec, MapRecord
from schemas.monitor_answers import CoverageReading, MeasureReading, PitReading, PlainFields, RowsReading
from schemas.monitors import MonitorBody, MonitorForecast, RecalibrationSpec

#: Fields of a definition that only monitors of classification have, with their defaults.
_OF_CLASSIFICATION = ("reduction", "n_classes", "scale", "map", "reference")
#: The method of challengers: the map of levels, which the counts of a monitor determine.
METHOD = "quantile-recalibration"
#: Why nothing is estimated from predictions without labels.
UNCOUNTED = "the monitor is of regression, whose forecasts are not counted before their outcomes"
#: Seconds of a measure, most of which simulates the distribution of a statistic.
_SECONDS = 0.1
#: The columns of each kind of forecasts.
_COLUMNS = {
    "normal": "the means and the variances",
    "quantiles": "the quantiles at the levels of the monitor",
    "samples": "the samples of each row",
    "interval": "the lower and the upper ends",
}
#: The fields of a forecast, which a row may have instead of ``prediction``.
_FIELDS = {
    "normal": ("mean", "variance", "std"),
    "quantiles": ("quantiles",),
    "samples": ("samples",),
    "interval": ("lower", "upper"),
}


@dataclass(frozen=True)
class ForecastMonitor:
    """A monitor of forecasts of a number."""

    body: MonitorBody
    label_type: ClassVar[np.dtype[Any]] = np.dtype(np.float64)
    #: The reasons for refusing forecasts and outcomes, in the place of those of predictions and labels.
    reasons: ClassVar[Mapping[Why, Why]] = {
        Why.NO_LABEL: Why.NO_OUTCOME,
        Why.INVALID_LABEL: Why.INVALID_OUTCOME,
        Why.WRONG_SHAPE: Why.WRONG_FORECAST,
    }
    uncounted: ClassVar[str | None] = UNCOUNTED
    not_estimated: ClassVar[str | None] = UNCOUNTED
    without_label_shift: ClassVar[str | None] = UNCOUNTED

    @property
    def forecast(self) -> MonitorForecast:
        """The form of the forecasts; raises ``InvalidOption``."""
        if self.body.forecast is None:
            raise InvalidOption.at("/forecast", "is missing: a monitor of regression declares its forecasts")
        return self.body.forecast

    @cached_property
    def levels(self) -> Floats:
        """The levels between which outcomes are counted."""
        forecast = self.forecast
        if forecast.kind == "normal":
            return FINE
        if forecast.kind == "samples":
            return sample_levels(forecast.n_samples or 0)
        if forecast.kind == "interval":
            level = forecast.level or 0.0
            return np.array([1.0 - level, 1.0 + level]) / 2.0
        return np.array(forecast.levels)

    #: Labels are outcomes, which are numbers.
    takes_booleans = False

    @property
    def width(self) -> int:
        """The number of values of each forecast."""
        return self.forecast.width

    @property
    def meaning(self) -> str:
        """What the values of a forecast are."""
        return _COLUMNS[self.forecast.kind]

    @property
    def counted_as(self) -> str:
        """What the rows are, for the title of a picture."""
        return self.forecast.kind

    @property
    def chart_titles(self) -> dict[str, str]:
        """The titles of the charts of rows, by their key in URLs; outcomes have no frequency."""
        return {"volume": "Rows", "delay": "Delay of outcomes"}

    def example(self, most: int) -> str:
        """A forecast as it is sent, shortened if it has more than ``most`` values."""
        values = ", ".join(f"{value}.0" for value in range(1, self.width + 1))
        return f"[{values}]" if self.width <= most else f"[x_1, ..., x_{self.width}]"

    # --- The definition

    def check(self) -> None:
        """Raise the first error of the kind of predictions of the definition."""
        forecast = self.forecast
        for field in _OF_CLASSIFICATION:
            if getattr(self.body, field) != MonitorBody.model_fields[field].default:
                raise PredictionKindMismatch.at(f"/{field}", "is not applicable to a monitor of regression")
        wanted = {"quantiles": "levels", "interval": "level", "samples": "n_samples", "normal": None}[forecast.kind]
        for field in ("levels", "level", "n_samples"):
            is_given = getattr(forecast, field) is not None
            if is_given != (field == wanted):
                message = f"is missing for {forecast.kind}" if field == wanted else f"is not a field of {forecast.kind}"
                raise InvalidOption.at(f"/forecast/{field}", message)
        if wanted in ("levels", "level"):
            check_levels(self.levels, f"/forecast/{wanted}", OutOfRange)

    def defaults(self, _fitted: CalibrationMap | None) -> dict[str, Any]:
        """The default measures, and the policy with its method."""
        defaults: dict[str, Any] = {"recalibration": self.with_method(self.body.recalibration)}
        if "measures" not in self.body.model_fields_set:
            defaults["measures"] = default_pit_measures(self.forecast.kind, self.levels)
        return defaults

    def with_method(self, policy: RecalibrationSpec) -> RecalibrationSpec:
        """The policy of a request with the method of its challengers by default."""
        if "method" not in policy.model_fields_set:
            return policy.model_copy(update={"method": METHOD})
        if policy.method != METHOD:
            raise UnknownMethod.at("/recalibration/method", f"must be {METHOD} for a monitor of regression")
        return policy

    def check_policy(self) -> None:
        """Raise ``PredictionKindMismatch`` if the counts of these forecasts determine no challenger, or online."""
        if self.body.recalibration.policy == "online":
            raise PredictionKindMismatch.at("/recalibration/policy", "must not be online for a monitor of regression")
        if self.forecast.kind not in RECALIBRATED:
            message = f"must be off for {self.forecast.kind} forecasts, whose counts determine no map; send quantiles"
            raise PredictionKindMismatch.at("/recalibration/policy", message)

    def check_method(self) -> None:
        """Raise the first error of the options of challengers, which are fitted to counts of forecasts."""
        kind = self.forecast.kind if self.forecast.kind in RECALIBRATED else "quantiles"
        try:
            fit_pit(PitTally(merged([]), self.levels, kind), **self.body.recalibration.options)
        except CalibrationError as error:
            raise error.under("/options") from None

    def check_request(self, correction: str | None) -> None:
        """Raise ``PredictionKindMismatch`` if no challenger with this correction can be requested."""
        if correction is not None:
            raise PredictionKindMismatch.at("/correction", "is not applicable to a monitor of regression")
        if self.forecast.kind not in RECALIBRATED:
            kind = self.forecast.kind
            raise PredictionKindMismatch(f"counts of {kind} forecasts determine no map; send quantiles")

    # --- Rows

    def renamed(self, documents: Sequence[Any], fields: Sequence[str]) -> Sequence[Any]:
        """The rows with the fields of a forecast and ``observed`` as ``prediction`` and ``label``."""
        return [self._renamed(row, fields) if isinstance(row, dict) else row for row in documents]

    def _renamed(self, row: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
        fields_of_row = {name: value for name, value in row.items() if value is not None}
        if "label" in fields and "observed" in fields_of_row and "label" not in fields_of_row:
            fields_of_row["label"] = fields_of_row.pop("observed")
        if "prediction" not in fields:
            return fields_of_row
        kind, names = self.forecast.kind, _FIELDS[self.forecast.kind]
        if "prediction" not in fields_of_row and not fields_of_row.keys().isdisjoint(names):
            values = [
                _squared(fields_of_row.pop(name)) if name == "std" else fields_of_row.pop(name)
                for name in names
                if name in fields_of_row
            ]
            fields_of_row["prediction"] = values[0] if kind in ("quantiles", "samples") else values
        if self.width == 1 and type(fields_of_row.get("prediction")) in (int, float):
            fields_of_row["prediction"] = [fields_of_row["prediction"]]
        return fields_of_row

    @property
    def layout(self) -> np.dtype[Any]:
        """The layout of entries."""
        return waiting_type("values", "<f8", self.width)

    def check_labels(self, outcomes: Floats) -> Whys:
        """The reason for refusing each observed outcome; finite numbers are valid."""
        return np.where(np.isfinite(outcomes), np.uint8(0), np.uint8(Why.INVALID_OUTCOME))

    def check_predictions(self, values: Floats) -> tuple[Whys, Floats]:
        """The reason for refusing each of ``values (n, W)``, and those to count: ascending, except mean and variance.

        Quantiles that cross by rounding are repaired, as in ``calibrant.distributions``. O(n W log W).
        """
        why = np.zeros(len(values), np.uint8)
        if not values.size:
            return why, values
        finite = np.asarray(np.isfinite(values).all(axis=1))
        why[~finite] = Why.NOT_FINITE
        values = np.where(finite[:, None], values, 1.0)
        if self.forecast.kind == "normal":
            why[(values[:, 1] <= 0.0) & finite] = Why.INVALID_VARIANCE
            return why, values
        if self.forecast.kind == "samples":
            return why, np.sort(values, axis=1)
        with np.errstate(over="ignore"):
            drop = values[:, :-1] - values[:, 1:]
        size = np.maximum(np.abs(values[:, :-1]), np.abs(values[:, 1:]))
        why[np.any(drop > CROSSING * size, axis=1)] = Why.CROSSING
        return why, np.maximum.accumulate(values, axis=1)

    def countable(
        self, values: Floats, times: Floats, base: Integers, random: np.random.Generator, _apply: Apply | None
    ) -> CountedForecasts:
        """Valid ``values (n, W)`` with their ``times (n,)`` and ``base (n,)``, group * ``FOLDS`` + fold."""
        entries = waiting_entries(self.layout, times, self.body.bucket or MINUTE, base=base, values=values)
        return CountedForecasts(entries, self, random)

    def waited(self, entries: Entries, random: np.random.Generator, _apply: Apply | None) -> CountedForecasts:
        """The forecasts of entries, of which some waited for an outcome."""
        return CountedForecasts(entries, self, random)

    def forecasts_of(self, values: Floats) -> Forecasts:
        """The forecasts with these ``values (n, W)``."""
        forecast = self.forecast
        if forecast.kind == "normal":
            return Forecasts("normal", mean=values[:, 0], variance=values[:, 1])
        if forecast.kind == "interval":
            return Forecasts("interval", lower=values[:, 0], upper=values[:, 1], level=forecast.level or 0.0)
        return Forecasts("quantiles", quantiles=values, levels=self.levels)

    # --- Measures and diagrams

    def requests(self) -> Sequence[Request]:
        """Read the measures; raises ``UnknownMeasure`` or ``InvalidOption``."""
        return read_pit_measures(self.body.measures, self.forecast.kind, self.levels)

    def numbers_by_measure(self) -> dict[str, Callable[[], Sequence[str]]]:
        """For the key of each measure the function that returns which of its numbers a rule may compare."""
        return {key: partial(_numbers, measure.name, self.body.interval) for key, measure, _ in self.requests()}

    def definitions(self) -> dict[str, PlainFields]:
        """The full definition of each measure."""
        return {key: {"name": measure.name, **options} for key, measure, options in self.requests()}

    def error_keys(self) -> list[str]:
        """The keys of the measures that are calibration errors in units of probability."""
        return [key for key, measure, _ in self.requests() if measure.is_error]

    def seconds(self, *, intervals: bool) -> float:  # noqa: ARG002 - which take no longer
        """Estimate the seconds of the measures of a tally."""
        return _SECONDS * len(self.body.measures)

    def values(self, tally: Tally) -> dict[str, float | None]:
        """The value of each measure of some rows."""
        return {request[0]: measured(request, self.pit_tally(tally), None).value for request in self.requests()}

    def reading(self, tally: Tally, key: str, level: float | None) -> MeasureReading | None:
        """One measure of some rows, with an interval of this level; None if it is unknown."""
        request = next((request for request in self.requests() if request[0] == key), None)
        return None if request is None else reading_of(measured(request, self.pit_tally(tally), level))

    def rows(self, tally: Tally, level: float | None) -> RowsReading:
        """The measures of some rows, with intervals of this level."""
        whole = self.pit_tally(tally)
        measures = {request[0]: reading_of(measured(request, whole, level)) for request in self.requests()}
        return RowsReading(rows=len(tally), mean_prediction=None, label_rate=None, measures=measures)

    def diagram(self, tally: Tally, memory: ReadingsCache) -> Mapping[str, Any] | None:
        """The PIT histogram of some rows with its definition, as in reports; None without rows."""
        histogram = self._pit(tally, memory)
        if histogram is None:
            return None
        data = histogram.model_dump(exclude={"count", "intervals"})
        return {"data": data, "definition": {"name": "pit", "level": 0.95}, "problem": None}

    def window_diagrams(self, tally: Tally, memory: ReadingsCache) -> dict[str, Any]:
        """The fields of the reading of a window with the diagrams of its rows."""
        return {"diagram": None, "pit": self._pit(tally, memory)}

    def pit_tally(self, tally: Tally) -> PitTally:
        """A tally with the levels between its bins."""
        return PitTally(tally, self.levels, self.forecast.kind)

    def _pit(self, tally: Tally, memory: ReadingsCache) -> PitReading | None:
        if not len(tally):
            return None
        return memory.of(tally, ["pit", self.forecast.model_dump()], lambda: _read_pit(self.pit_tally(tally)))

    # --- Evidence

    def log_factors(self, tally: Tally) -> Floats:
        """The logarithms of the bets on the rows of one time bucket."""
        return log_pit_factors(tally, self.levels)

    def log_prior(self) -> Floats:
        """The logarithms of the weights of the alternatives that are bet on."""
        return log_pit_weights(self.levels)

    def counts(self, tally: Tally) -> Integers:
        """The number of rows in each bin."""
        return counts_of(tally, len(self.levels))

    def evidence(self, factors: Floats, first: int, counts: Mapping[int, Integers]) -> tuple[Evidence, str]:
        """The evidence from the ``factors`` of buckets without starts before ``first``, and the error in words.

        The words include the coverage since its start, from the ``counts`` of the bins of buckets.
        """
        evidence, known = pit_evidence_of(factors, self.levels, first), central_levels(self.levels)
        message, since = evidence.shift.message(), [rows for bucket, rows in counts.items() if bucket >= evidence.start]
        if not known or not np.sum(since):
            return evidence, message
        level = next((level for level in known if level == 0.9), known[-1])
        share = covered(np.sum(since, axis=0), self.levels, level)
        return evidence, f"{message}: {100.0 * level:.4g} % intervals contain {100.0 * share:.3g} % of outcomes"

    # --- Challengers

    def challenger(
        self, train: Tally, held_out: Tally, _champion: CalibrationMap | None
    ) -> tuple[Gain, Callable[[str, Mapping[str, Any]], MapRecord]]:
        """Fit a map to the counts of ``train``, and compare it with the forecasts as they are.

        Returns the gain, and the function that makes its record from an id and what describes it.
        """
        policy = self.body.recalibration
        fitted = fit_pit(self.pit_tally(train), **policy.options)

        def record(map_id: str, about: Mapping[str, Any]) -> MapRecord:
            spec = FitDistributionSpec(
                method=fitted.method,
                name=None,
                options=policy.options,
                batch="",
                scale=fitted.function.scale,
                support=list(fitted.support),
                output_levels=None,
                seed=0,
                **about,
            )
            return distribution_record(map_id, spec, fitted, len(train))

        return pit_gain(self.pit_tally(held_out), fitted, policy.level), record


@dataclass(frozen=True)
class CountedForecasts(Countable):
    """Forecasts ready to be counted; ``random`` draws the bin of an outcome that equals tied quantiles."""

    kind: ForecastMonitor
    random: np.random.Generator

    def tallies(self, chosen: Mask, outcomes: Floats) -> Tallies:
        """The tallies of the chosen rows with their ``outcomes (n,)``, by time bucket. O(n W)."""
        rows, y = self.entries[chosen], outcomes[chosen]
        if not len(rows):
            return {}
        forecasts = self.kind.forecasts_of(rows["values"])
        bins = bins_of(forecasts, y, self.kind.levels, self.random)
        scores, base = row_scores(forecasts, y), rows["base"].astype(np.int64)
        return {
            bucket: (tally_of_bins(base[at], bins[at], scores[at]), None) for bucket, at in by_bucket(rows["bucket"])
        }


def _squared(std: Any) -> Any:
    """A variance with the sign of the standard deviation."""
    return std * abs(float(std)) if type(std) in (int, float) else std


def _numbers(name: str, level: float | None) -> list[str]:
    """Which of ``value``, ``lower`` and ``debiased`` a measure provides."""
    lower = ["lower"] if level is not None and name in ("quantile-calibration-error", "coverage") else []
    return ["value", *lower]


def _read_pit(tally: PitTally) -> PitReading:
    shown = histogram(tally)
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
