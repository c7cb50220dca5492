"""What a measure is, what it answers, and how much it has to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from calibrant.batch import Batch
from calibrant.cells import Floats
from calibrant.errors import CalibrationError, MissingExtra
from calibrant.measures.intervals import (
    PLAIN,
    Distance,
    Resampling,
    distance_interval,
    influence_interval,
    joined,
    resampled_interval,
)
from calibrant.options import Option
from calibrant.progress import check, muted, step
from calibrant.reductions import MANY, Classes, Event, Subject, Vector


class Extent(NamedTuple):
    """How much a measure has to read: ``rows`` of ``n_classes`` probabilities each, for ``events`` in turn."""

    rows: int
    n_classes: int = 1
    events: int = 1


def extent(subject: Subject) -> Extent:
    """The extent of a subject."""
    if isinstance(subject, Classes):
        return Extent(len(subject), 1, subject.vector.n_classes)
    return Extent(len(subject), subject.n_classes if isinstance(subject, Vector) else 1)


def extent_of(batch: Batch, reduction: str) -> Extent:
    """The extent of ``subject(batch, reduction)``, without making it."""
    n, K = len(batch), batch.predictions.n_classes or 2
    if reduction in MANY:
        return Extent(n, 1, K) if reduction == "classwise" else Extent(n, K)
    # Some measures of the confidence look at the whole vector.
    return Extent(n * K) if reduction == "pooled" else Extent(n, K if reduction == "confidence" else 1)


#: Seconds that a row costs a measure that sorts, for the estimate that sends long requests to a worker.
_ROW = 2e-7
#: Seconds that an interval costs for each row, and for each resample of groups of rows.
_DEALT_ROW, _RESAMPLE = 2e-7, 5e-5


@dataclass(frozen=True)
class MeasureResult:
    """The result of one measure. What is not defined for it is None; ``definition`` says exactly what was computed.

    ``parts`` holds what does not fit one number: the classes of a class-wise measure, the terms of a decomposition.
    """

    value: float | None
    debiased: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    parts: Mapping[str, Any] = field(default_factory=dict)
    definition: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


def with_interval(
    result: MeasureResult, interval: Callable[[], tuple[float, float]], resampling: Resampling
) -> MeasureResult:
    """The result with its own interval if a level is given, so that one fit serves both, or why it has none."""
    if resampling.level is None or result.problem is not None:
        return result
    try:
        return replace(result, interval=interval())
    except CalibrationError as error:
        return replace(result, problem=f"no interval: {error.detail}")


#: Computes a measure: of a subject, with ``resampling`` (its seed always, its level only if an interval is wanted).
Compute = Callable[..., MeasureResult]


def mean_of_classes(values: Floats, options: Mapping[str, Any]) -> Floats:  # noqa: ARG001 - others do need the options
    """The mean over the classes: ``(..., K)`` to ``(...)``."""
    mean: Floats = values.mean(axis=-1)
    return mean


@dataclass(frozen=True)
class Measure:
    """An entry of the catalogue; ``highest`` is None where values have no upper end.

    ``event`` computes it of an event, ``vector`` of the whole predicted vector, or is None where it has no meaning
    there. Class-wise it is computed for the event of each class and combined by ``over_classes``.

    An interval comes from the first of these that there is: ``own``, the result's; ``distance``, which gives the
    gaps that the measure is the size of (``triangle``: with the interval of the triangle inequality);
    ``influence``, which gives by how much each row moves it, of weighted mean 0; and else, where ``resampled``,
    from computing it again on resampled rows. All take the subject, the resampling and the options.
    """

    name: str
    title: str
    family: str
    definition: str
    source: str
    lowest: float | None
    highest: float | None
    cost: str
    event: Compute | None = None
    vector: Compute | None = None
    better: Literal["smaller", "larger", "neither"] = "smaller"
    needs: str = "labels"
    options: Mapping[str, Option] = field(default_factory=dict)
    runs: Literal["inline", "job"] = "inline"
    #: Estimated seconds for n rows (n K of them under pooled) of K probabilities, for these options.
    seconds: Callable[[int, int, Mapping[str, Any]], float] = lambda n, _classes, _options: _ROW * n
    #: Estimated seconds of the interval that the result of one event of n rows brings with it, for these options.
    interval_seconds: Callable[[int, Mapping[str, Any], Resampling], float] | None = None
    over_classes: Callable[[Floats, Mapping[str, Any]], Floats] = mean_of_classes
    #: The p-value of the class-wise value, from the classes, the resampling and the options; else Bonferroni's.
    over_classes_p_value: Callable[..., float | None] | None = None
    #: Whether its p-value holds under ``pooled``, where the events of one row hang together.
    pooled_p_value: bool = False
    own_interval: bool = False
    distance: Callable[..., Distance] | None = None
    triangle: bool = False
    influence: Callable[..., Floats] | None = None
    resampled: bool = True


@dataclass(frozen=True)
class MeasureRequest:
    """A request for a measure, with every option filled in and the key of its result."""

    key: str
    measure: Measure
    options: Mapping[str, Any]

    def compute(self, subject: Subject, resampling: Resampling = PLAIN) -> MeasureResult:
        """Measure one subject; the result holds the definition used, and a ``problem`` if there is no value."""
        return answers([self], subject, resampling)[self.key]

    def seconds(self, extent: Extent, resampling: Resampling) -> float:
        """Estimated seconds of ``compute``."""
        entry = self.measure
        once = entry.seconds(extent.rows, extent.n_classes, self.options) * extent.events
        if resampling.level is None or entry.own_interval:
            return once
        if entry.interval_seconds is not None:
            return once + (entry.interval_seconds(extent.rows, self.options, resampling) if extent.events == 1 else 0.0)
        if entry.distance is not None or entry.influence is not None:
            return 2.0 * once + extent.events * (_DEALT_ROW * extent.rows + _RESAMPLE * resampling.resamples)
        return once * (1 + resampling.resamples * entry.resampled)

    def of_one(self, subject: Event | Vector, resampling: Resampling) -> MeasureResult:
        """``compute`` of a single event or the whole vector, without its interval unless that is its own."""
        compute = self.measure.event if isinstance(subject, Event) else self.measure.vector
        if compute is None:
            other = "the whole vector: ask for it under canonical"
            if isinstance(subject, Vector):
                other = "an event: ask for it under binary, confidence, class:k, top:r, pooled or classwise"
            return MeasureResult(None, problem=f"no value: it is defined for {other}")
        try:
            found: MeasureResult = compute(subject, resampling, **self.options)
        except MissingExtra:
            raise
        except CalibrationError as error:
            return MeasureResult(None, problem=f"no value: {error.detail}")
        if isinstance(subject, Event) and subject.per_row > 1 and not self.measure.pooled_p_value:
            return replace(found, p_value=None)  # the events of one row hang together, which the law does not know
        return found

    def finished(self, result: MeasureResult, subject: Subject, resampling: Resampling) -> MeasureResult:
        """The result with its interval if a level is given, and with its definition in full."""
        definition: dict[str, Any] = {"name": self.measure.name, **self.options, **result.definition}
        if resampling.level is not None:
            if result.value is not None and result.interval is None and result.problem is None:
                interval, problem = self._interval(result.value, subject, resampling)
                result = replace(result, interval=interval, problem=problem)
            definition |= {"interval": resampling.level, "resamples": resampling.resamples, "seed": resampling.seed}
        return replace(result, definition=definition)

    def _interval(
        self, value: float, subject: Subject, resampling: Resampling
    ) -> tuple[tuple[float, float] | None, str | None]:
        entry, subject = self.measure, subject.in_order()
        try:
            if entry.distance is not None:
                found = distance_interval(
                    self.distance_of(subject, resampling), subject, resampling, triangle=entry.triangle
                )
            elif entry.influence is not None:
                found = influence_interval(value, self.influence_of(subject, resampling), subject, resampling)
            elif entry.resampled:
                found = resampled_interval(value, lambda rows: self._value(rows, resampling), subject, resampling)
            else:
                return None, "no interval: it is not defined for this measure"
        except CalibrationError as error:
            return None, f"no interval: {error.detail}"
        low, high = found
        if entry.distance is not None:  # gathered on a grid, the gaps may differ a little from the value's
            low, high = min(low, value), max(high, value)
        if entry.lowest is not None:
            low, high = max(low, entry.lowest), max(high, entry.lowest)
        if entry.highest is not None:
            low, high = min(low, entry.highest), min(high, entry.highest)
        return (low, high), None

    def distance_of(self, subject: Subject, resampling: Resampling) -> Distance:
        """The gaps that the measure is the size of; raises ``CalibrationError`` where these options have none."""
        distance = self.measure.distance
        if distance is None:
            raise TypeError(f"{self.measure.name} is no distance")
        if not isinstance(subject, Classes):
            return distance(subject, resampling, **self.options)
        parts = []
        for event in subject.events():
            check()
            parts.append(distance(event, resampling, **self.options))
        return joined(parts, lambda sizes: self.measure.over_classes(sizes, self.options))

    def influence_of(self, subject: Subject, resampling: Resampling) -> Floats:
        """By how much each row moves the measure: ``(n,)``, of weighted mean 0."""
        influence = self.measure.influence
        if influence is None:
            raise TypeError(f"{self.measure.name} has no influence function")
        if not isinstance(subject, Classes):
            found: Floats = influence(subject, resampling, **self.options)
            return found
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
        """The class-wise answer, from those of the classes."""
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
            return MeasureResult(None, parts=parts, problem=results[0].problem or "no value: no class has one")
        value = float(self.measure.over_classes(values[known], self.options))
        debiased = [r.debiased for r in results if r.debiased is not None]
        mended = None
        if len(debiased) == len(results) and self.measure.over_classes is mean_of_classes:
            mended = float(np.mean(debiased))
        p_value, law = self._classes_p_value(results, classes, resampling)
        if law is not None:
            definition["p_value"] = law
        problem = None if not unknown else f"no value for the classes {_listed(unknown)}; they are left out"
        return MeasureResult(value, mended, p_value=p_value, parts=parts, definition=definition, problem=problem)

    def _classes_p_value(
        self, results: Sequence[MeasureResult], classes: Classes, resampling: Resampling
    ) -> tuple[float | None, str | None]:
        """The p-value that every class is calibrated, and how it was made."""
        if self.measure.over_classes_p_value is not None:
            p_value = self.measure.over_classes_p_value(classes, resampling, **self.options)
            if p_value is not None:
                return p_value, "of the mean, labels drawn from the whole vector"
        known = [r.p_value for r in results if r.p_value is not None]
        if not known:
            return None, None
        return min(1.0, len(known) * min(known)), "the smallest of the classes', times their number (Bonferroni)"


def answers(requests: Iterable[MeasureRequest], subject: Subject, resampling: Resampling) -> dict[str, MeasureResult]:
    """The answer of every request by key; class by class, so that requests share what they derive from an event."""
    requests = list(requests)
    count = len(requests)
    if isinstance(subject, Classes):
        found = _of_classes(requests, subject, replace(resampling, level=None))
    else:
        found = []
        for i, request in enumerate(requests):
            with step(i, 2 * count, request.key):
                found.append(request.of_one(subject, resampling))
    finished = {}
    for i, (request, result) in enumerate(zip(requests, found, strict=True), count):
        with step(i, 2 * count, request.key):
            finished[request.key] = request.finished(result, subject, resampling)
    return finished


def _of_classes(requests: Sequence[MeasureRequest], classes: Classes, plain: Resampling) -> list[MeasureResult]:
    """The class-wise answers, without intervals; all requests of one class after another."""
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
