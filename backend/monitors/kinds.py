"""What the rows of a monitor are, by the kind of its predictions: how they are counted, measured and drawn.

``kind_of_monitor`` is the only test of the kind. Both kinds have the same members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from backend.kinds.classes import map_record
from backend.monitors.forecasts import ForecastMonitor
from backend.monitors.outcomes import (
    PREDICTION,
    Apply,
    Countable,
    DecidedPredictions,
    Entries,
    Tallies,
    by_bucket,
    reduce_rows,
    waiting_entries,
    waiting_type,
)
from backend.monitors.readings import ReadingsCache, reading_of
from backend.monitors.rows import Mask, Why, Whys, check_labels, check_predictions
from calibrant.calibrators import FitContext, Fitting
from calibrant.core.batch import Batch, Integers, read_batch
from calibrant.core.cells import Floats
from calibrant.core.errors import (
    CalibrationError,
    InvalidOption,
    PredictionKindMismatch,
    ScaleMismatch,
    UnknownReduction,
    WrongShape,
)
from calibrant.core.reductions import Event, resolve
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.maps.segments import Segments
from calibrant.measures import cumulative, smooth
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN, Resampling
from calibrant.measures.measure import Extent, Measure, MeasureRequest, answers, unfinished
from calibrant.monitoring.event_tally import Gain, gain
from calibrant.monitoring.evidence import Evidence, evidence, log_factors, log_weights
from calibrant.monitoring.tally import CELLS, Tally, place, tally_of, tally_of_keys
from schemas.base import MINUTE
from schemas.maps import FitSpec, MapRecord
from schemas.monitor_answers import MeasureReading, PlainFields, Readings, ReliabilityReading, RowsReading
from schemas.monitor_rules import CoverageRule
from schemas.monitors import MonitorBody, MonitorRecord, RecalibrationSpec

# --- Prediction sets of monitors, which wait for their labels as bits and are counted by whether they have them


def entries_of_sets(members: Floats, times: Floats, bucket: int, base: Integers) -> Entries:
    """The entries of sets ``(n, K)`` of 0 and 1 with their ``times`` and ``base (n,)``; ``bucket`` is in seconds."""
    bits = np.packbits(members != 0.0, axis=1)
    return waiting_entries(waiting_type("members", "u1", bits.shape[1]), times, bucket, base=base, members=bits)


@dataclass(frozen=True)
class CountedSets(Countable):
    """Sets ready to be counted, as predictions of their ``nominal`` coverage of the event that they have the label."""

    nominal: float

    def tallies(self, chosen: Mask, labels: Floats) -> Tallies:
        """The tallies of the chosen rows with their ``labels (n,)``, by time bucket. O(n)."""
        rows, classes = self.entries[chosen], labels[chosen].astype(np.int64)
        if not len(rows):
            return {}
        bits = rows["members"][np.arange(len(rows)), classes // 8]
        covered = (bits >> (7 - classes % 8).astype(np.uint8)) & 1
        p = np.full(len(rows), self.nominal)
        keys = ((rows["base"].astype(np.int64) * CELLS + place(p)) * 2 + covered).astype(np.uint32)
        return {bucket: (tally_of_keys(keys[at], p[at]), None) for bucket, at in by_bucket(rows["bucket"])}


# --- What the rows of a monitor are, by the kind of its predictions: how they are counted, measured and drawn


@dataclass(frozen=True)
class ClassMonitor:
    """A monitor of probabilities of classes, of which one event per row is counted."""

    body: MonitorBody
    label_type: ClassVar[np.dtype[Any]] = np.dtype(np.int64)
    layout: ClassVar[np.dtype[Any]] = PREDICTION
    meaning: ClassVar[str] = "the number of classes of the monitor"
    #: The reasons for refusing rows that have other names for this kind.
    reasons: ClassVar[Mapping[Why, Why]] = {}
    #: Why predictions are not counted before their labels; None if they are.
    uncounted: ClassVar[str | None] = None

    @property
    def reduction(self) -> str:
        """The full name of the reduction."""
        return self.body.reduction or "binary"

    @property
    def not_estimated(self) -> str | None:
        """Why the performance of a window cannot be estimated without labels; None if it can."""
        if not estimated_event(self.body).startswith("top:"):
            return None
        return f"{self.reduction} is the event that a class of lower rank is right, which is not a decision"

    @property
    def without_label_shift(self) -> str | None:
        """Why class frequencies cannot be estimated; None if they can."""
        if not self.reduction.startswith(("confidence", "top:")):
            return None
        return "the monitor stores whether decisions are right, and not the classes of its rows"

    @property
    def width(self) -> int | None:
        """The number of values of each prediction; None for numbers."""
        return self.body.n_classes

    @property
    def takes_booleans(self) -> bool:
        """Whether labels may be booleans: true is the event, and the second of two classes."""
        return self.width in (None, 2)

    @property
    def counted_as(self) -> str:
        """What the rows are, for the title of a picture."""
        return self.reduction

    @property
    def chart_titles(self) -> dict[str, str]:
        """The titles of the charts of rows, by their key in URLs."""
        titles = {"frequency": "Observed and predicted frequency", "volume": "Rows", "delay": "Label delay"}
        return titles | ({"groups": "Groups"} if self.body.max_groups else {})

    def example(self, most: int) -> str:
        """A prediction as it is sent, shortened if it has more than ``most`` values."""
        if self.width is None:
            return "0.35"
        values = ", ".join(["1.0", *["0.0"] * (self.width - 1)])
        return f"[{values}]" if self.width <= most else f"[p_1, ..., p_{self.width}]"

    # --- The definition

    def check(self) -> None:
        """Raise the first error of the kind of predictions of the definition."""
        if self.body.forecast is not None:
            raise PredictionKindMismatch.at("/forecast", "is for monitors with the prediction_kind regression")

    def defaults(self, fitted: CalibrationMap | None) -> dict[str, Any]:
        """The full name of the reduction; raises if it does not fit the classes and the map ``fitted``."""
        return {"reduction": _reduction(self.body, fitted)}

    def with_method(self, policy: RecalibrationSpec) -> RecalibrationSpec:
        """The policy of a request with the method of its challengers."""
        return policy

    def check_policy(self) -> None:
        """Every policy is applicable."""

    def check_method(self) -> None:
        """Raise the first error of the method of challengers and of its options."""
        policy = self.body.recalibration
        Fitting.read(policy.method, policy.options, "binary", where="/options").resolve(None)

    def check_request(self, correction: str | None) -> None:
        """Every challenger can be requested."""

    # --- Rows

    def renamed(self, documents: Sequence[Any], _fields: Sequence[str]) -> Sequence[Any]:
        """The rows with the names of their fields that are read: rows of classes have no others."""
        return documents

    def check_labels(self, labels: Floats) -> Whys:
        """The reason for refusing each label."""
        return check_labels(labels, self.width or 2)

    def check_predictions(self, values: Floats) -> tuple[Whys, Floats]:
        """The reason for refusing each prediction, and the values to count."""
        return check_predictions(values, self.body.scale)

    def countable(
        self, values: Floats, times: Floats, base: Integers, _random: np.random.Generator, apply: Apply | None
    ) -> DecidedPredictions:
        """Valid predictions, reduced to one event each, with their ``times`` and ``base (n,)``."""
        reduced = reduce_rows(values, self.body.scale, self.reduction, apply)
        return DecidedPredictions.reduced(reduced, times, self.body.bucket or MINUTE, base)

    def waited(self, entries: Entries, _random: np.random.Generator, apply: Apply | None) -> DecidedPredictions:
        """The predictions of entries, of which some waited for a label."""
        return DecidedPredictions(entries, apply is not None)

    # --- Measures and diagrams

    def requests(self) -> tuple[MeasureRequest, ...]:
        """Read the measures; raises ``UnknownMeasure`` or ``InvalidOption`` at ``/measures/i``."""
        requests = read_requests(list(self.body.measures))
        for i, request in enumerate(requests):
            reason = _hindered(request, self.reduction)
            if reason is not None:
                raise InvalidOption.at(f"/measures/{i}", f"is not supported by monitors: {reason}")
        return requests

    def numbers_by_measure(self) -> dict[str, Callable[[], Sequence[str]]]:
        """For the key of each measure the function that returns which of its numbers a rule may compare."""
        return {
            request.key: partial(numbers_of, request, self.reduction, self.body.interval) for request in self.requests()
        }

    def definitions(self) -> dict[str, PlainFields]:
        """The full definition of each measure."""
        return {request.key: {"name": request.measure.name, **request.options} for request in self.requests()}

    def error_keys(self) -> list[str]:
        """The keys of the measures that are calibration errors in units of probability."""
        return [request.key for request in self.requests() if request.is_error]

    def seconds(self, *, intervals: bool) -> float:
        """Estimate the seconds of the measures of a tally with all cells."""
        level = self.body.interval if intervals else None
        return sum(_seconds(request, level) for request in self.requests())

    def values(self, tally: Tally) -> dict[str, float | None]:
        """The value of each measure of some rows."""
        results = answers(self.requests(), event_of(tally, self.reduction), PLAIN)
        return {key: result.value for key, result in results.items()}

    def reading(self, tally: Tally, key: str, level: float | None) -> MeasureReading | None:
        """One measure of some rows, with an interval of this level; None if it is unknown or undefined."""
        requests = [request for request in self.requests() if request.key == key]
        try:
            return measured(requests, event_of(tally, self.reduction), level).get(key)
        except CalibrationError:
            return None

    def rows(self, tally: Tally, level: float | None) -> RowsReading:
        """The measures of some rows with intervals of this level, their mean prediction and event rate."""
        n, requests = len(tally), self.requests()
        if not n:
            problem = "no value: no row has a label yet"
            none = {request.key: MeasureReading(value=None, problem=problem) for request in requests}
            return RowsReading(rows=0, mean_prediction=None, label_rate=None, measures=none)
        return RowsReading(
            rows=n,
            mean_prediction=float(tally.p_sum.sum()) / n,
            label_rate=int(tally.rows[tally.keys & 1 == 1].sum()) / n,
            measures=measured(requests, event_of(tally, self.reduction), level),
        )

    def diagram(self, tally: Tally, memory: ReadingsCache) -> Mapping[str, Any] | None:
        """The reliability diagram of some rows with its definition, as in reports; None without rows."""
        if not len(tally.rows):
            return None
        return memory.of(tally, ["diagram", self.reduction], lambda: _drawn(tally, self.reduction))

    def window_diagrams(self, tally: Tally, memory: ReadingsCache) -> dict[str, Any]:
        """The fields of the reading of a window with the diagrams of its rows."""
        shown = self.diagram(tally, memory)
        data = None if shown is None else shown["data"]
        return {"diagram": None if data is None else ReliabilityReading.model_validate(data)}

    # --- Evidence

    def log_factors(self, tally: Tally) -> Floats:
        """The logarithms of the bets on the rows of one time bucket."""
        return log_factors(tally)

    def log_prior(self) -> Floats:
        """The logarithms of the weights of the alternatives that are bet on."""
        return log_weights()

    def counts(self, _tally: Tally) -> Integers:
        """Nothing that the description needs."""
        return np.zeros(0, np.int64)

    def evidence(self, factors: Floats, first: int, _counts: Mapping[int, Integers]) -> tuple[Evidence, str]:
        """The evidence from the ``factors`` of buckets without starts before ``first``, and the error in words."""
        strongest = evidence(factors, first)
        return strongest, strongest.shift.message()

    # --- Challengers

    def challenger(
        self, train: Tally, held_out: Tally, champion: CalibrationMap | None
    ) -> tuple[Gain, Callable[[str, Mapping[str, Any]], MapRecord]]:
        """Fit a map of the event to ``train``, and compare it with the champion, or the predictions as they are.

        Returns the gain, and the function that makes the record of the map from an id and what describes it.
        """
        policy, batch = self.body.recalibration, self._batch(train)
        fitted = Fitting.read(policy.method, policy.options, "binary").run(batch, FitContext(0, "cpu", None))
        fitted = replace(fitted, reduction=self.reduction, n_classes=self.width)

        def record(map_id: str, about: Mapping[str, Any]) -> MapRecord:
            spec = FitSpec(
                method=policy.method,
                name=None,  # a named version would become the newest version of the name immediately
                options=policy.options,
                batch="",
                reduction=fitted.reduction,
                seed=0,
                **about,
            )
            return map_record(map_id, spec, fitted, batch).model_copy(update={"n": len(train)})

        curve = None if champion is None else champion.curve
        return gain(held_out, curve, fitted.curve, policy.level), record

    def _batch(self, tally: Tally) -> Batch:
        """The rows of a tally on the monitor's scale; each cell has its count as frequency weight."""
        event = tally.event()
        if self.body.scale == "probability":
            return read_batch(event.p, event.y, event.w, kind=event.kind)
        p = np.clip(event.p, _TINY, 1.0 - _TINY)
        return read_batch(np.log(p) - np.log1p(-p), event.y, event.w, scale="logit", kind=event.kind)


#: Why nothing is estimated from sets without labels.
_OF_SETS = "the monitor is of prediction sets, which are not counted before their labels"
#: Fields of a definition that monitors of prediction sets do not have.
_NOT_OF_SETS = ("scale", "map", "reservoir")


@dataclass(frozen=True)
class SetMonitor(ClassMonitor):
    """A monitor of prediction sets, counted as predictions, with their nominal coverage, that they have the label."""

    label_type: ClassVar[np.dtype[Any]] = np.dtype(np.float64)  # waiting labels have the layout of longer entries
    uncounted: ClassVar[str | None] = _OF_SETS
    not_estimated: ClassVar[str | None] = _OF_SETS
    without_label_shift: ClassVar[str | None] = _OF_SETS
    reduction: ClassVar[str] = "binary"
    counted_as: ClassVar[str] = "prediction sets"

    @property
    def layout(self) -> np.dtype[Any]:  # type: ignore[override]
        """The layout of entries, with one bit for each class."""
        return waiting_type("members", "u1", ((self.body.n_classes or 2) + 7) // 8)

    def example(self, most: int) -> str:
        """A set as it is sent, shortened if it has more than ``most`` classes."""
        values = ", ".join(["1", *["0"] * ((self.body.n_classes or 2) - 1)])
        return f"[{values}]" if (self.body.n_classes or 2) <= most else f"[b_1, ..., b_{self.body.n_classes}]"

    def check(self) -> None:
        """Raise the first error of the definition; only the coverage and the classes of sets are known."""
        super().check()
        if self.body.prediction_kind != "classification":
            raise PredictionKindMismatch.at("/coverage", "is for monitors of classification")
        if self.body.n_classes is None:
            raise InvalidOption.at("/n_classes", "is missing: a monitor of prediction sets has several classes")
        for field in _NOT_OF_SETS:
            if getattr(self.body, field) != MonitorBody.model_fields[field].default:
                raise InvalidOption.at(f"/{field}", "is not applicable to a monitor of prediction sets")
        if self.body.reduction not in (None, self.reduction):
            raise UnknownReduction.at("/reduction", "must be omitted: the event is that the set has the label")
        if self.body.reference is not None and self.body.reference.batch is not None:
            raise InvalidOption.at("/reference/batch", "is not applicable to a monitor of prediction sets")

    def defaults(self, fitted: CalibrationMap | None) -> dict[str, Any]:
        """The reduction, the measures of one event with a constant prediction, and a rule of coverage."""
        del fitted
        defaults = {"measures": ["ks-end", "ece"], "rules": [CoverageRule(kind="coverage")]}
        own = {field: value for field, value in defaults.items() if field not in self.body.model_fields_set}
        return {"reduction": self.reduction, **own}

    def check_policy(self) -> None:
        """Raise ``InvalidOption``, except for ``adaptive``: a map of a constant prediction does not make sets cover."""
        if self.body.recalibration.policy != "adaptive":
            text = "must be off or adaptive for a monitor of prediction sets; or fit new sets"
            raise InvalidOption.at("/recalibration/policy", text)

    def check_request(self, correction: str | None) -> None:
        """Raise ``PredictionKindMismatch``: no challenger can be requested."""
        del correction
        raise PredictionKindMismatch("a monitor of prediction sets has no challengers; fit new sets")

    def check_predictions(self, values: Floats) -> tuple[Whys, Floats]:
        """The reason for refusing each of ``values (n, K)``; 0 and 1 are valid."""
        wrong = ~((values == 0.0) | (values == 1.0)).all(axis=1) if values.size else np.zeros(len(values), np.bool_)
        return np.where(wrong, np.uint8(Why.NOT_A_SET), np.uint8(0)), values

    def countable(  # type: ignore[override]
        self, values: Floats, times: Floats, base: Integers, _random: np.random.Generator, _apply: Apply | None
    ) -> CountedSets:
        """Valid sets with their ``times`` and ``base (n,)``."""
        return CountedSets(entries_of_sets(values, times, self.body.bucket or MINUTE, base), self.body.coverage or 0.0)

    def waited(  # type: ignore[override]
        self, entries: Entries, _random: np.random.Generator, _apply: Apply | None
    ) -> CountedSets:
        """The sets of entries, of which some waited for a label."""
        return CountedSets(entries, self.body.coverage or 0.0)


#: Bound that avoids infinite logits of 0 and 1.
_TINY = 2.0**-52

MonitorKind: TypeAlias = ClassMonitor | ForecastMonitor


def kind_of_monitor(body: MonitorBody) -> MonitorKind:
    """What the rows of a monitor are."""
    if body.coverage is not None:
        return SetMonitor(body)
    return ForecastMonitor(body) if body.prediction_kind == "regression" else ClassMonitor(body)


def estimated_event(body: MonitorBody) -> str:
    """The event that is counted, as estimates name it."""
    return "confidence" if body.reduction == "top:1" else body.reduction or "binary"


def measure_keys(body: MonitorBody) -> list[str]:
    """The keys of a monitor's measures, in order."""
    return list(kind_of_monitor(body).numbers_by_measure())


def read_rows(tally: Tally, record: MonitorRecord, memory: ReadingsCache, *, intervals: bool) -> RowsReading:
    """The measures of some rows, their mean prediction and event rate; without rows every measure has a problem."""
    level = record.interval if intervals else None
    question = [record.model_dump(mode="json", include={"measures", "reduction", "forecast"}), level]
    return memory.of(tally, ["rows", *question], lambda: kind_of_monitor(record).rows(tally, level))


# --- Reductions, and the maps that fit them

#: Reductions to one event per row that is determined by the row alone.
_OF_ONE_EVENT = re.compile(r"binary|confidence|class:[0-9]+|top:[0-9]+")


def _reduction(body: MonitorBody, fitted: CalibrationMap | None) -> str:
    """The full name of the reduction; raises if it does not fit the classes and the map."""
    own = None if fitted is None or fitted.of_vector else fitted.reduction
    if fitted is not None:
        _check_map(body, fitted)
    name = resolve(own if body.reduction is None else body.reduction, body.n_classes)
    if not _OF_ONE_EVENT.fullmatch(name):
        raise UnknownReduction.at("/reduction", "must be binary, confidence, class:k or top:r")
    if body.n_classes is None and name != "binary":
        raise UnknownReduction.at(
            "/reduction", "must be binary for predictions of one column; for several columns set n_classes"
        )
    if own is not None and body.n_classes is not None and name != own:
        raise UnknownReduction.at("/reduction", f"must be {own}, that of the map")
    return name


def _refuse_features(fitted: CalibrationMap) -> None:
    if isinstance(fitted.function, Segments):
        raise InvalidOption.at("/map", "needs features, which the rows of monitors do not have")


def _check_map(body: MonitorBody, fitted: CalibrationMap) -> None:
    _refuse_features(fitted)
    if fitted.scale != body.scale:
        raise ScaleMismatch.at("/scale", f"is {body.scale}, but the map was fitted to {fitted.scale} predictions")
    if _has_other_classes(body, fitted):
        wanted = "null" if fitted.n_classes is None else str(fitted.n_classes)
        raise WrongShape.at("/n_classes", f"must be {wanted}, like that of the map")


def _has_other_classes(body: MonitorBody, fitted: CalibrationMap) -> bool:
    """Whether a map cannot be applied to the predictions of a monitor; a column may be of an event of the classes."""
    return body.n_classes != fitted.n_classes and (body.n_classes is not None or fitted.of_vector)


def check_map_now(record: MonitorRecord, fitted: CalibrationMap) -> None:
    """Raise an error at ``/map`` if the map that the monitor's name or alias now refers to does not fit the monitor."""
    _refuse_features(fitted)
    if fitted.scale != record.scale:
        raise ScaleMismatch.at(
            "/map", f"was fitted to {fitted.scale} predictions, but the monitor's are {record.scale}"
        )
    if _has_other_classes(record, fitted):
        classes = ["null" if n is None else str(n) for n in (fitted.n_classes, record.n_classes)]
        raise WrongShape.at("/map", f"has n_classes {classes[0]}, but the monitor has {classes[1]}")
    if not fitted.of_vector and record.n_classes is not None and fitted.reduction != record.reduction:
        raise UnknownReduction.at(
            "/map", f"has the reduction {fitted.reduction}, but the monitor has {record.reduction}"
        )


# --- The measures that a tally supports: of one event, quick, and equal for cells and rows

#: The extent of a tally with all cells: one row per cell and outcome.
_EXTENT = Extent(2 * CELLS)
#: Measures with a longer estimate are not supported.
_MOST_SECONDS = 0.5


def has_interval(measure: Measure) -> bool:
    """Whether the interval of a measure needs no resampling of rows, which a tally does not have."""
    return measure.own_interval or measure.distance is not None or measure.influence is not None


def _hindered(request: MeasureRequest, reduction: str) -> str | None:
    """The reason why a tally does not support a measure, if any."""
    measure = request.measure
    if measure.event is None:
        return "it needs the whole probability vector, and a monitor stores one event per row"
    if measure.runs == "job":
        return "it needs a long fit"
    if request.options.get("binning") == "exact":
        return "exact binning needs individual predictions, and a monitor stores cells"
    if reduction != "binary" and measure.needs_vectors:
        return "with this reduction it needs the whole probability vector"
    if request.seconds(_EXTENT, PLAIN) > _MOST_SECONDS:
        return "it takes too long"
    return None


# --- Estimated durations

#: Estimates apply to separate requests; in a warm process, fits to tallies take .2 to .7 of them (ece-bbq 1.3).
_WARM = 0.75
#: Minimum seconds of a measure.
_LEAST = 0.001


def _seconds(request: MeasureRequest, level: float | None) -> float:
    once = request.seconds(_EXTENT, PLAIN)
    value = max(_LEAST, _WARM * once)
    if level is None or not has_interval(request.measure):
        return value
    return value + max(0.0, request.seconds(_EXTENT, Resampling(level, RESAMPLES)) - once)


# --- A coarser event for intervals, which need no fine grid and whose cost grows with it

#: Number of blocks of equal mass.
BLOCKS = 256


def coarse(event: Event) -> Event:
    """Group the cells of a weighted event into at most ``BLOCKS`` blocks of about equal mass.

    All rows of a block have its mean p, like the rows of a cell. A cumulative difference is evaluated at the ends of
    blocks, where it is exact; between two ends its supremum is larger by at most 1/256 of the rows times a gap.
    O(cells).
    """
    if event.w is None or len(event) <= 2 * BLOCKS:
        return event
    order = np.argsort(event.p, kind="stable")
    p, y, w = event.p[order], event.y[order], event.w[order]
    cells = np.cumsum(np.diff(p, prepend=-1.0) > 0.0) - 1
    mass = np.bincount(cells, w)
    middle = np.cumsum(mass) - mass / 2.0
    block = np.minimum(middle / mass.sum() * BLOCKS, BLOCKS - 1).astype(np.int64)[cells]
    p_mean = np.bincount(block, w * p, BLOCKS) / np.maximum(np.bincount(block, w, BLOCKS), 1.0)
    rows: Floats = np.bincount(2 * block + y, w, 2 * BLOCKS).astype(np.float64)
    there = np.flatnonzero(rows)
    return Event(p_mean[there // 2], (there % 2).astype(np.int8), rows[there], event.kind, event.decided)


# --- Measures with their intervals, and the reliability diagram

#: Resamples of an interval: its ends are accurate to a seventh of a standard error, in 1 to 10 ms per measure.
RESAMPLES = 400
_NO_INTERVAL = "no interval: it needs resampling of rows, and a monitor stores cells"
_DIAGRAM = read_diagrams(["reliability"])[0]
#: Measures whose intervals use blocks; otherwise they would take ten times as long.
_ROUGH = {measure.name for measure in (*cumulative.MEASURES, *smooth.MEASURES)}
#: Reductions whose event is that a decision is right.
_DECIDED = ("confidence", "top:")


def event_of(tally: Tally, reduction: str) -> Event:
    """The rows of a tally as the event that they were counted for; raises ``EmptyBatch``."""
    return replace(tally.event(), decided=reduction.startswith(_DECIDED))


def _drawn(tally: Tally, reduction: str) -> dict[str, Any]:
    """The diagram with row counts; the diagram itself treats each cell and outcome as one weighted row."""
    shown, n = _DIAGRAM.drawn(event_of(tally, reduction)), len(tally)
    data = shown["data"]
    if data is None:
        return shown
    count = [round(share * n) for share in data["histogram"]["share"]]
    return shown | {"data": data | {"count": data["rows"], "histogram": data["histogram"] | {"count": count}}}


def measured(requests: Sequence[MeasureRequest], event: Event, level: float | None) -> Readings:
    """Every measure of an event in order, for responses and rules."""
    ranged, plain, rough = Resampling(level, RESAMPLES), Resampling(None, RESAMPLES), coarse(event)
    results = {}
    for request in requests:
        entry = request.measure
        how = plain if level is None or not has_interval(entry) else ranged
        # Intervals that are computed with the value are those of ``evaluate``; simulated ones take seconds.
        simulated = entry.interval_seconds(len(event), request.options, how) is not None
        (result,) = unfinished([request], event, plain if simulated else how)
        subject = rough if entry.name in _ROUGH and how is ranged else event
        results[request.key] = request.finished(result, subject, how)
    readings = {}
    for request in requests:
        lacks = level is not None and not has_interval(request.measure) and request.measure.resampled
        readings[request.key] = reading_of(results[request.key], _NO_INTERVAL if lacks else None)
    return readings


# --- Which values of a measure a rule may compare, found with rows for which every value is defined

#: Enough rows that bins are not empty even for measures with many bins.
_ROWS = 20_000
_GOLDEN = 0.6180339887498949


def numbers_of(request: MeasureRequest, reduction: str, level: float | None) -> list[str]:
    """Which of ``value``, ``lower`` and ``debiased`` a measure provides; ``level`` is that of the interval."""
    reading = measured([request], event_of(_calibrated(), reduction), level)[request.key]
    provided = {
        "value": reading.value is not None,
        "lower": reading.interval is not None,
        "debiased": reading.debiased is not None,
    }
    return [name for name, there in provided.items() if there]


@lru_cache(maxsize=1)
def _calibrated() -> Tally:
    """Calibrated rows that cover the whole range of predictions."""
    i = np.arange(_ROWS)
    p = (i + 0.5) / _ROWS
    zeros = np.zeros(_ROWS, dtype=np.int64)
    return tally_of(p, ((i * _GOLDEN) % 1.0 < p).astype(np.int8), zeros, zeros)
