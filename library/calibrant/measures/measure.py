"""Measures: entries of the catalogue, requests, results, and the size of their input."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from calibrant.core.batch import Batch
from calibrant.core.cells import Floats
from calibrant.core.choices import PoolingScale, Runs
from calibrant.core.clusters import count_clusters
from calibrant.core.errors import CalibrationError, MissingExtra
from calibrant.core.options import Described, Option
from calibrant.core.progress import check, muted, step
from calibrant.core.reductions import MANY, Classes, Event, Subject, Vector, naming_reductions
from calibrant.core.results import Measured, Suggesting
from calibrant.core.validation import divided
from calibrant.measures.intervals import (
    GROUPS,
    NO_WIDTH,
    PLAIN,
    Distance,
    Resampling,
    distance_interval,
    has_width,
    influence_interval,
    joined,
    resampled_interval,
)


class Extent(NamedTuple):
    """Size of the input of a measure: ``rows`` of ``n_classes`` probabilities each, for each of ``events``."""

    rows: int
    n_classes: int = 1
    events: int = 1


def extent(subject: Subject) -> Extent:
    """Return the extent of a subject."""
    if isinstance(subject, Classes):
        return Extent(len(subject), 1, subject.vector.n_classes)
    return Extent(len(subject), subject.n_classes if isinstance(subject, Vector) else 1)


def extent_of(batch: Batch, reduction: str) -> Extent:
    """Return the extent of ``subject(batch, reduction)`` without creating it."""
    n, K = len(batch), batch.predictions.n_classes or 2
    if reduction in MANY:
        return Extent(n, 1, K) if reduction == "classwise" else Extent(n, K)
    # Some measures of the confidence use the whole vector.
    return Extent(n * K) if reduction == "pooled" else Extent(n, K if reduction == "confidence" else 1)


#: The problem of a result whose p-value and debiased value assume independent rows.
DEPENDENT = "no p-value and no debiased value: rows of a cluster may depend on each other"
#: What a measure must state to be valid for rows in clusters.
_ALLOWANCES = ("interval", "p_value", "debiased")
#: Estimated seconds of any measure of an event, however few rows it has; and per row of one that sorts.
_ONCE, _ROW = 2e-4, 2e-7
#: Estimated seconds of an interval, and of it per row, per resample, and per resample and group of rows.
_INTERVAL, _DEALT_ROW, _RESAMPLE, _MULTIPLIER = 1.5e-3, 2e-7, 3e-6, 2e-8


#: The family of proper scores, which are no calibration errors.
PROPER = "Proper scores"
#: The family of measures that are imprecise with fewer events, or other rows, than this (Vergouwe et al. 2005).
CLINICAL, _FEWEST = "Clinical and rates", 100


@dataclass(frozen=True, repr=False)
class MeasureResult(Measured, Suggesting):
    """Result of one measure.

    Attributes
    ----------
    value : float or None
        Value; None if it could not be computed; ``problem`` then gives the reason.
    debiased : float or None
        Estimate from which a part of the bias of finite samples is removed; None if not defined for the measure. Only
        that of ``squared-ece`` is 0 on average for calibrated predictions.
    interval : tuple of float or None
        Lower and upper end of the confidence interval; None if no level was given or there is none.
    p_value : float or None
        P-value of the hypothesis of calibration; None if not defined.
    parts : mapping
        Further results, such as the values of the classes or the terms of a decomposition.
    definition : mapping
        Exact definition: the name of the measure and all options.
    problem : str or None
        Why a part of the result is missing or unreliable.

    See Also
    --------
    evaluate : Returns these results.

    Examples
    --------
    >>> import calibrant
    >>> result = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1], measures=["ks"]).measures["ks"]
    >>> result.value, round(result.p_value, 2), result.interval
    (0.25, 0.44, None)
    """

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    definition: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    _familiar = MappingProxyType(
        {
            **dict.fromkeys(("ci", "conf_int", "confidence_interval"), "interval"),
            **dict.fromkeys(("estimate", "item", "score", "statistic"), "value"),
            **dict.fromkeys(("p", "pvalue"), "p_value"),
        }
    )


def with_interval(
    result: MeasureResult, interval: Callable[[], tuple[float, float]], resampling: Resampling
) -> MeasureResult:
    """Return the result with its interval if a level is given, or with the reason why there is none."""
    if resampling.level is None or result.problem is not None:
        return result
    try:
        return replace(result, interval=interval())
    except CalibrationError as error:
        return replace(result, problem=f"no interval: {error.detail}")


#: Computes a measure of a subject, given ``resampling``: its seed, and its level if an interval is wanted.
Compute = Callable[..., MeasureResult]


def mean_of_classes(values: Floats, options: Mapping[str, Any]) -> Floats:  # noqa: ARG001 - other functions use the options
    """Return the mean over the classes: ``(..., K)`` to ``(...)``."""
    mean: Floats = values.mean(axis=-1)
    return mean


@dataclass(frozen=True, repr=False)
class Measure(Described):
    """Entry of ``calibrant.MEASURES``.

    Attributes
    ----------
    name, title, family : str
        Name in requests, title, and the family under which it is listed.
    definition, source : str
        Formula, and the papers that define it.
    lowest, highest : float or None
        Range of the values; None if unbounded.
    cost : str
        Cost in the number of rows n and of classes K.
    meaning : str
        What the value says, in plain words, for readers of reports; if empty, they get the definition.
    event, vector : callable or None
        Compute the measure for an event, and for the whole vector; None if not defined. Class-wise values are computed
        for the event of each class and combined by ``over_classes``.
    better : {"smaller", "larger", "neither"}
        Which values are better.
    needs : str
        Requirements on the data.
    options : mapping of str to Option
        Options with their defaults and allowed values.
    runs : {"inline", "job"}
        Whether the service may compute it within a request.
    seconds, interval_seconds, chance_seconds, resample_seconds : callable
        Estimate the seconds for the value, for its interval, for a p-value from drawn labels, and for one resample of
        its distance.
    over_classes, over_classes_p_value : callable or None
        Combine the values of the classes; the p-value of the result (by default Bonferroni's).
    pooled_p_value : bool
        Whether the p-value is valid under ``pooled``, with dependent events in each row.
    clustered : tuple of {"interval", "p_value", "debiased"}
        Which of these that are computed with the value are valid for rows in clusters; others are left out.
    by_outcome : bool
        Whether the influence is centred within each outcome.
    of_classes : bool
        Whether the literature defines it as a mean over the classes, which evaluations of one event then say.
    needs_vectors : bool
        Whether it needs the vectors behind an event that is not binary; a monitor does not have them.
    is_error : bool
        Whether the value of an event is a calibration error in units of probability, unless the norm is above 1.
    own_interval : bool
        Whether the result already has its interval.
    pooled : {"identity", "log", "logit"} or None
        Scale on which values of groups are pooled; None if they are not.
    distance, triangle, influence, resampled : callable, bool, callable, bool
        How intervals are computed: from the gaps of which the measure is the size (by the triangle inequality if
        ``triangle``), from the influence of each row, or on resampled rows. The first that is defined is used; without
        the others, ``resampled`` is stated.

    See Also
    --------
    evaluate : Computes measures.

    Examples
    --------
    >>> import calibrant
    >>> measure = calibrant.MEASURES["ks"]
    >>> measure.title, measure.better, measure.cost
    ('Kolmogorov-Smirnov calibration error', 'smaller', 'O(n log n); law resampling O(n resamples)')
    """

    name: str
    title: str
    family: str
    definition: str
    source: str
    lowest: float | None
    highest: float | None
    cost: str
    meaning: str = ""
    event: Compute | None = None
    vector: Compute | None = None
    better: Literal["smaller", "larger", "neither"] = "smaller"
    needs: str = "labels"
    options: Mapping[str, Option] = field(default_factory=dict)
    runs: Runs = "inline"
    #: Estimated seconds for n rows (n K under pooled) of K probabilities with these options.
    seconds: Callable[[int, int, Mapping[str, Any]], float] = lambda n, _classes, _options: _ROW * n
    #: Estimated seconds of the interval that is computed with the value of one event of n rows; None if there is none.
    interval_seconds: Callable[[int, Mapping[str, Any], Resampling], float | None] = lambda _n, _options, _draws: None
    #: Estimated seconds of the p-value of this many rows or, under ``classwise``, rows times classes.
    chance_seconds: Callable[[int, Mapping[str, Any], Resampling], float] = lambda _rows, _options, _draws: 0.0
    #: Estimated seconds of a resample of a distance of n rows, on top of those of its groups of rows.
    resample_seconds: Callable[[int, Mapping[str, Any]], float] = lambda _n, _options: 0.0
    over_classes: Callable[[Floats, Mapping[str, Any]], Floats] = mean_of_classes
    #: P-value of the class-wise value from the classes, the resampling and the options; None for Bonferroni's.
    over_classes_p_value: Callable[..., float | None] | None = None
    #: Whether the p-value is valid under ``pooled``, where the events of a row are dependent.
    pooled_p_value: bool = False
    clustered: tuple[str, ...] = ()
    by_outcome: bool = False
    of_classes: bool = False
    needs_vectors: bool = False
    is_error: bool = False
    own_interval: bool = False
    pooled: PoolingScale | None = None
    distance: Callable[..., Distance] | None = None
    triangle: bool = False
    influence: Callable[..., Floats] | None = None
    resampled: bool | None = None

    def __post_init__(self) -> None:
        """Raise ``TypeError`` if the entry does not state how intervals are computed."""
        if self.resampled is None and not (self.own_interval or self.distance or self.influence):
            raise TypeError(f"{self.name}: state distance or influence, or whether intervals are from resampled rows")


@dataclass(frozen=True)
class MeasureRequest:
    """Request for a measure, with all options and the key of its result."""

    key: str
    measure: Measure
    options: Mapping[str, Any]

    def compute(self, subject: Subject, resampling: Resampling = PLAIN) -> MeasureResult:
        """Measure one subject; the result has its definition, and a ``problem`` if there is no value."""
        return answers([self], subject, resampling)[self.key]

    @property
    def is_error(self) -> bool:
        """Whether the value of an event is a calibration error in units of probability; mean powers are not."""
        return self.measure.is_error and self.options.get("norm", 1) in (1, "max")

    @property
    def cross_validates(self) -> bool:
        """Whether rows are divided into folds, so that copies of a row belong in several."""
        return "folds" in self.options

    def seconds(self, extent: Extent, resampling: Resampling) -> float:
        """Estimate the seconds of ``compute``."""
        entry = self.measure
        value = (_ONCE + entry.seconds(extent.rows, extent.n_classes, self.options)) * extent.events
        once = value + entry.chance_seconds(extent.rows * extent.events, self.options, resampling)
        if resampling.level is None or entry.own_interval:
            return once
        own = entry.interval_seconds(extent.rows, self.options, resampling)
        if own is not None:
            return once + (own if extent.events == 1 else 0.0)
        if entry.distance is not None or entry.influence is not None:
            of_resample = _RESAMPLE + _MULTIPLIER * min(extent.rows, GROUPS)
            of_resample += entry.resample_seconds(extent.rows, self.options)
            return (
                once
                + value
                + extent.events * (_INTERVAL + _DEALT_ROW * extent.rows + resampling.resamples * of_resample)
            )
        return once + (once + _ONCE * extent.events) * resampling.resamples * bool(entry.resampled)

    def of_one(self, subject: Event | Vector, resampling: Resampling) -> MeasureResult:
        """Measure a single event or the whole vector, without an interval unless the measure computes its own."""
        compute = self.measure.event if isinstance(subject, Event) else self.measure.vector
        if compute is None:
            other = "the whole vector: use reduction canonical"
            if isinstance(subject, Vector):
                reductions = "binary, confidence, class:k, top:r, within-top:r, pooled or classwise"
                other = f"an event: use reduction {reductions}"
            return MeasureResult(None, problem=f"no value: the measure is defined for {other}")
        try:
            with naming_reductions(subject):
                rows = divided(subject)[0] if self.cross_validates else subject
                result: MeasureResult = compute(rows, resampling, **self.options)
        except MissingExtra:
            raise
        except CalibrationError as error:
            return MeasureResult(None, problem=f"no value: {error.detail}")
        if isinstance(subject, Event) and subject.per_row > 1 and not self.measure.pooled_p_value:
            result = replace(result, p_value=None)  # the null distribution assumes independent events
        if subject.clusters is None:
            return result
        invalid = {name: getattr(result, name) for name in _ALLOWANCES if name not in self.measure.clustered}
        lost = invalid.get("p_value") is not None or invalid.get("debiased") is not None
        problem = "; ".join(text for text in (result.problem, DEPENDENT if lost else None) if text) or None
        left_out: dict[str, Any] = dict.fromkeys(invalid)
        return replace(result, problem=problem, **left_out)

    def finished(self, result: MeasureResult, subject: Subject, resampling: Resampling) -> MeasureResult:
        """Return the result with its interval, if a level is given, and its full definition."""
        definition: dict[str, Any] = {"name": self.measure.name, **self.options, **result.definition}
        if resampling.level is not None:
            if result.value is not None and result.interval is None and result.problem in (None, DEPENDENT):
                interval, problem = self._interval(result, result.value, subject, resampling)
                problem = "; ".join(text for text in (problem, result.problem) if text) or None
                result = replace(result, interval=interval, problem=problem)
            labelled = self.measure.needs != "predictions only"
            if labelled and result.interval is not None and not has_width(result.interval):
                result = replace(result, interval=None, problem=result.problem or f"no interval: {NO_WIDTH}")
            definition |= {"interval": resampling.level, "resamples": resampling.resamples, "seed": resampling.seed}
        if subject.clusters is not None:
            definition["clusters"] = count_clusters(subject.clusters)
            if self.measure.influence is not None:
                definition["cluster_variance"] = resampling.cluster_variance
        if self.measure.family == CLINICAL and isinstance(subject, Event) and result.value is not None:
            events, others = subject.cells.outcomes
            if min(events, others) < _FEWEST:
                few = f"imprecise: {events:,.0f} events and {others:,.0f} other rows; {_FEWEST} of each are advised"
                result = replace(result, problem=f"{result.problem}; {few}" if result.problem else few)
        return replace(result, definition=definition)

    def _interval(
        self, result: MeasureResult, value: float, subject: Subject, resampling: Resampling
    ) -> tuple[tuple[float, float] | None, str | None]:
        entry, subject = self.measure, subject.in_order()
        try:
            if entry.distance is not None:
                subject = self.parts_of(subject)
                ends = distance_interval(
                    self.distance_of(subject, resampling), subject, resampling, triangle=entry.triangle
                )
            elif entry.influence is not None:
                ends = influence_interval(value, self.influence_of(subject, resampling), subject, resampling)
            elif entry.resampled:
                ends = resampled_interval(value, lambda rows: self._value(rows, resampling), subject, resampling)
            else:
                what = "it assumes independent rows" if entry.own_interval else "not defined for this measure"
                # A test has no interval, so nothing is missing.
                return None, f"no interval: {what}" if result.p_value is None or entry.own_interval else None
        except CalibrationError as error:
            return None, f"no interval: {error.detail}"
        low, high = ends
        if entry.distance is not None:  # gaps on a grid may differ slightly from those of the value
            low, high = min(low, value), max(high, value)
        if entry.lowest is not None:
            low, high = max(low, entry.lowest), max(high, entry.lowest)
        if entry.highest is not None:
            low, high = min(low, entry.highest), min(high, entry.highest)
        return (low, high), None

    def parts_of(self, subject: Subject) -> Subject:
        """Return the subject with the parts of its rows if ``distance_of`` divides rows into folds."""
        if not self.cross_validates:
            return subject
        return Classes(divided(subject.vector)[0]) if isinstance(subject, Classes) else divided(subject)[0]

    def distance_of(self, subject: Subject, resampling: Resampling) -> Distance:
        """Return the gaps of which the measure is the size; raise ``CalibrationError`` if these options have none."""
        distance = self.measure.distance
        if distance is None:
            raise TypeError(f"{self.measure.name} is not a distance")
        if not isinstance(subject, Classes):
            return distance(subject, resampling, **self.options)
        parts = []
        for event in subject.events():
            check()
            parts.append(distance(event, resampling, **self.options))
        return joined(parts, lambda sizes: self.measure.over_classes(sizes, self.options))

    def influence_of(self, subject: Subject, resampling: Resampling) -> Floats:
        """Return the influence of each row on the measure: ``(n,)``, weighted mean 0."""
        influence = self.measure.influence
        if influence is None:
            raise TypeError(f"{self.measure.name} has no influence function")
        if not isinstance(subject, Classes):
            return influence(subject, resampling, **self.options)
        total = np.zeros(len(subject))
        for event in subject.events():
            check()
            total += influence(event, resampling, **self.options)
        return total / subject.vector.n_classes

    def _value(self, subject: Subject, resampling: Resampling) -> float:
        with muted():
            value = answers([self], subject, replace(resampling, level=None))[self.key].value
        return math.nan if value is None else value

    def combined(self, results: Sequence[MeasureResult], classes: Classes, resampling: Resampling) -> MeasureResult:
        """Combine the results of the classes into the class-wise result."""
        values = np.array([math.nan if r.value is None else r.value for r in results])
        known = np.isfinite(values)
        parts: dict[str, Any] = {
            "sum": float(values[known].sum()) if known.any() else None,
            "classes": [r.value for r in results],
        }
        for name in ("debiased", "p_value"):
            if any(getattr(r, name) is not None for r in results):
                parts[f"classes_{name}"] = [getattr(r, name) for r in results]
        unknown = np.flatnonzero(~known).tolist()
        definition: dict[str, Any] = {"over_classes": "mean"} if self.measure.over_classes is mean_of_classes else {}
        if not known.any():
            return MeasureResult(None, parts=parts, problem=results[0].problem or "no value: no class has a value")
        value = float(self.measure.over_classes(values[known], self.options))
        debiased = [r.debiased for r in results if r.debiased is not None]
        corrected = None
        if len(debiased) == len(results) and self.measure.over_classes is mean_of_classes:
            corrected = float(np.mean(debiased))
        p_value, law = self._classes_p_value(results, classes, resampling)
        if law is not None:
            definition["p_value"] = law
        problem = next((DEPENDENT for r in results if r.problem == DEPENDENT), None)
        if unknown:
            problem = f"no value for classes {_listed(unknown)}, which are left out"
        return MeasureResult(value, corrected, p_value=p_value, parts=parts, definition=definition, problem=problem)

    def _classes_p_value(
        self, results: Sequence[MeasureResult], classes: Classes, resampling: Resampling
    ) -> tuple[float | None, str | None]:
        """Return the p-value of the hypothesis that every class is calibrated, and how it was computed."""
        if self.measure.over_classes_p_value is not None and classes.clusters is None:
            p_value = self.measure.over_classes_p_value(classes, resampling, **self.options)
            if p_value is not None:
                return p_value, "of the mean, with labels drawn from the whole vector"
        known = [r.p_value for r in results if r.p_value is not None]
        if not known:
            return None, None
        return min(1.0, len(known) * min(known)), "the smallest of the classes, times their number (Bonferroni)"


def answers(requests: Iterable[MeasureRequest], subject: Subject, resampling: Resampling) -> dict[str, MeasureResult]:
    """Return the result of every request by key; requests share what they derive from an event, class by class."""
    requests = list(requests)
    count = len(requests)
    results = unfinished(requests, subject, resampling)
    finished = {}
    for i, (request, result) in enumerate(zip(requests, results, strict=True), count):
        with step(i, 2 * count, request.key):
            finished[request.key] = request.finished(result, subject, resampling)
    return finished


def unfinished(requests: Sequence[MeasureRequest], subject: Subject, resampling: Resampling) -> list[MeasureResult]:
    """Return the results of requests without intervals that are not computed with the value, and without definitions.

    Each is then ``finished`` once.
    """
    if isinstance(subject, Classes):
        return _of_classes(requests, subject, replace(resampling, level=None))
    results = []
    for i, request in enumerate(requests):
        with step(i, 2 * len(requests), request.key):
            results.append(request.of_one(subject, resampling))
    return results


def _of_classes(requests: Sequence[MeasureRequest], classes: Classes, plain: Resampling) -> list[MeasureResult]:
    """Return the class-wise results without intervals, with all requests computed for one class at a time."""
    rows: list[list[MeasureResult]] = [[] for _ in requests]
    for k, event in enumerate(classes.events()):
        with step(k, 2 * classes.vector.n_classes, f"class {k}"):
            for request, results in zip(requests, rows, strict=True):
                check()
                results.append(request.of_one(event, plain))
    return [request.combined(results, classes, plain) for request, results in zip(requests, rows, strict=True)]


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown if len(numbers) <= 5 else f"{shown} and {len(numbers) - 5} more"


def plain_results(results: Mapping[str, MeasureResult]) -> dict[str, Any]:
    """Convert results to plain JSON."""
    return {key: plain_result(result) for key, result in results.items()}


def plain_result(result: Any) -> dict[str, Any]:
    """Convert the dataclass of a result to a dictionary with lists and dictionaries."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = list(value)
        elif isinstance(value, Mapping):
            values[name] = dict(value)
    return values
