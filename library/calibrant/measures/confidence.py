"""Accuracy, confidence gap, AUROC, and the standard error of the optimal temperature."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from calibrant.core.cells import Cells, Floats, Outcomes, chance_variances
from calibrant.core.errors import OneClass
from calibrant.core.options import Option
from calibrant.core.reductions import Event, Vector
from calibrant.core.validation import folds_of
from calibrant.maps.temperature import Logits, OptimalTemperature, logits_of, optimal_temperature, temperatures_without
from calibrant.measures.binned import ECE_OPTIONS, bins_seconds, ece, ece_distance
from calibrant.measures.cumulative import tail
from calibrant.measures.intervals import Distance, Resampling, distance_interval, influence_interval, row_scale
from calibrant.measures.measure import Measure, MeasureResult, with_interval
from calibrant.measures.proper import centred, mean_over_rows
from calibrant.measures.selective import ABSTENTION, COST_RATIOS, accepted_wrong, selective_costs, selective_influence

# --- Accuracy, confidence gap and AUROC


def right(event: Event) -> Floats:
    """Return 1 for correct decisions and 0 for others: ``(n,)``. Without a decision, it is p >= 1/2."""
    return event.confidence().y.astype(np.float64)


def overconfidence(event: Event) -> Floats:
    """Return the confidence minus correctness of each row ``(n,)``, in [-1, 1]; a mean above 0 is overconfident."""
    claim = event.confidence()
    return claim.p - claim.y


def overconfidence_spread(event: Event) -> float:
    """Return the standard deviation of the mean of ``overconfidence`` for calibrated predictions. O(n).

    The variance is that of ``chance_variances``. The events of one row of a pooled batch are one draw of a class:
    sum_k s_k y_k, with s_k = 1 if p_k >= 1/2 and -1 otherwise, is 1 with probability (1 + sum_k s_k p_k) / 2, or else
    -1.
    """
    w = np.ones(len(event)) if event.w is None else event.w
    if event.per_row == 1:
        claim, own, scale = event.confidence(), w, 1.0
        p, y = claim.p, claim.y
    else:
        sign, own, scale = np.where(event.likely, 0.5, -0.5), w[:: event.per_row], 4.0
        p, y = (0.5 + (sign * of).reshape(-1, event.per_row).sum(axis=1) for of in (event.p, event.y))
        p = np.clip(p, 0.0, 1.0)
    variance = scale * float(chance_variances(p, own, own * own, own * own * y, event.kind).sum())
    return float(np.sqrt(variance)) / float(w.sum())


def auroc(cells: Cells) -> float:
    """Return the area under the receiver operating characteristic, in [0, 1]; larger is better, 1/2 is random.

    It is the fraction of pairs of a positive and a negative in which the positive has the larger prediction; ties count
    half (Hanley & McNeil 1982). The weight of a pair is the product of its weights. Raises ``OneClass`` if there is no
    such pair. O(m).
    """
    positives, negatives = _outcomes(cells)
    negative = cells.w - cells.wy
    below = (cells.cumulative_w - cells.cumulative_wy)[:-1]
    return float(cells.wy @ (below + negative / 2.0)) / (positives * negatives)


def auroc_influence(event: Event) -> Floats:
    """Return the influence of each row on the AUROC: ``(n,)``, weighted mean 0. O(n log n).

    From the structural components of DeLong, DeLong & Clarke-Pearson (1988): the fraction of negatives below a
    positive, or of positives above a negative (ties count half), minus the AUROC, divided by the frequency of the
    outcome.
    """
    cells = event.cells
    positives, negatives = _outcomes(cells)
    below = ((cells.cumulative_w - cells.cumulative_wy)[:-1] + (cells.w - cells.wy) / 2.0) / negatives
    above = (cells.cumulative_wy[-1] - cells.cumulative_wy[:-1] - cells.wy / 2.0) / positives
    # A row of weight 0 has no cell; its influence is not used.
    cell = np.minimum(np.searchsorted(cells.key, event.key), len(cells) - 1)
    area, mass = auroc(cells), cells.mass
    return np.where(event.y == 1, (below[cell] - area) * (mass / positives), (above[cell] - area) * (mass / negatives))


def _outcomes(cells: Cells) -> tuple[float, float]:
    """Return the mass of positives and of negatives."""
    positives = float(cells.cumulative_wy[-1])
    if positives <= 0.0 or not (cells.wy < cells.w).any():
        raise OneClass.at("/labels", "contain one outcome, but ranking needs both")
    return positives, float((cells.w - cells.wy).sum())


# --- Standard error of the optimal temperature, and out-of-fold temperatures


def standard_error(optimum: OptimalTemperature, event: Event | Vector) -> float:
    """Return the sandwich standard error of log T; pooled events of a row, and rows of a cluster, are dependent."""
    moved = row_scale(event) * temperature_influence(optimum, event.w) / optimum.value
    mass = float(len(event)) if event.w is None else float(event.w.sum())
    row = np.repeat(np.arange(len(event) // event.per_row), event.per_row)
    return float(np.linalg.norm(np.bincount(row if event.clusters is None else event.clusters, moved))) / mass


def temperature_influence(optimum: OptimalTemperature, w: Floats | None) -> Floats:
    """Return the influence of each row on the temperature: ``(n,)``, weighted mean 0. O(n)."""
    slope = optimum.slope - mean_over_rows(optimum.slope, w)
    return slope * (optimum.value**2 / mean_over_rows(optimum.curvature, w))


def outcomes_of(subject: Event | Vector) -> Outcomes:
    """Return the outcomes of an event, or for a vector whether the predicted class is correct: ``(n,)``."""
    return subject.y if isinstance(subject, Event) else (subject.predicted == subject.labels).astype(np.int8)


def with_temperature(subject: Event | Vector, logits: Logits, temperature: Floats) -> Event:
    """Return the event after division by ``temperature (n,)``; for a vector, that the predicted class is correct."""
    p = logits.scaled(1.0 / temperature)
    if isinstance(subject, Event):
        return replace(subject, p=p, logit=None)
    return Event(p, outcomes_of(subject), subject.w, subject.kind, decided=True, clusters=subject.clusters)


# --- Entries of the catalogue


_FAMILY = "Confidence"
#: The level of verdicts if no level of intervals is given.
_LEVEL = 0.95
#: A temperature this close to 1 differs from 1 only by rounding.
_TOLERANCE = 1e-6
#: Estimated seconds per element of a matrix in one pass of the search for a temperature.
_PASS = 5e-9
#: The same per row of an event.
_ROW_PASS = 4e-8
#: Limit of the logarithm of temperatures, which keeps intervals finite.
_FAR = 700.0


def _model(subject: Event | Vector) -> Event | Vector:
    """Return the whole vector if the event is its confidence, since a temperature scales all logits."""
    return subject.whole() if isinstance(subject, Event) and subject.whole is not None else subject


def _event(subject: Event | Vector) -> Event:
    """Return the event itself, or for a vector the event that the predicted class is correct."""
    return subject.confidence() if isinstance(subject, Vector) else subject


def _accuracy(subject: Event | Vector, _: Resampling) -> MeasureResult:
    return MeasureResult(mean_over_rows(right(_event(subject)), subject.w))


def _gap(subject: Event | Vector, _: Resampling) -> MeasureResult:
    event = _event(subject)
    value = mean_over_rows(overconfidence(event), event.w)
    p_value = tail(abs(value), overconfidence_spread(event), lambda x: math.erfc(x / math.sqrt(2.0)))
    parts = {
        "accuracy": mean_over_rows(right(event), event.w),
        "confidence": mean_over_rows(event.confidence().p, event.w),
    }
    return MeasureResult(value, p_value=p_value, parts=parts)


def _ranked(subject: Event | Vector, of: str) -> Event:
    event = _event(subject)
    return event.confidence() if of == "confidence" else event


def _auroc(subject: Event | Vector, _: Resampling, *, of: str) -> MeasureResult:
    return MeasureResult(auroc(_ranked(subject, of).cells))


#: Verdicts of a temperature above and below 1 of an event, whose risk may be too high in both cases.
_OF_EVENT = ("too far from 1/2", "too close to 1/2")


def _temperature(subject: Event | Vector, resampling: Resampling) -> MeasureResult:
    subject = _model(subject)
    if resampling.level is not None:
        subject = subject.in_order()
    logits = logits_of(subject)
    optimum = optimal_temperature(logits, subject.w)
    error, log = standard_error(optimum, subject), math.log(optimum.value)
    level = _LEVEL if resampling.level is None else resampling.level
    verdict = "neither"
    if abs(log) > max(_TOLERANCE, error * float(ndtri((1.0 + level) / 2.0))):
        words = _OF_EVENT if isinstance(subject, Event) else ("overconfident", "underconfident")
        verdict = words[0] if log > 0.0 else words[1]
    parts = {
        "verdict": verdict,
        "log_loss_before": mean_over_rows(logits.at(1.0)[0], subject.w),
        "log_loss_after": optimum.log_loss,
        "standard_error": optimum.value * error,
        "clipped": logits.clipped,
    }
    result = MeasureResult(optimum.value, parts=parts, definition={"verdict_level": level})

    def interval() -> tuple[float, float]:
        influence = temperature_influence(optimum, subject.w) / optimum.value
        low, high = influence_interval(log, influence, subject, resampling)
        return math.exp(max(low, -_FAR)), math.exp(min(high, _FAR))

    return with_interval(result, interval, resampling)


def _temperature_influence(subject: Event | Vector, _: Resampling) -> Floats:
    return temperature_influence(optimal_temperature(logits_of(subject), subject.w), subject.w)


def _scaled(
    subject: Event | Vector, resampling: Resampling, folds: int, temperature: float | None
) -> tuple[Event, dict[str, Any]]:
    """Return the event after temperature scaling, and the parts of the result that describe it."""
    logits = logits_of(subject)
    parts: dict[str, Any] = {"clipped": logits.clipped}
    if temperature is not None:
        of_rows = np.full(len(logits), float(temperature))
        parts["temperatures"] = [float(temperature)]
    else:
        fold = folds_of(subject, folds, resampling.seed)
        temperatures = temperatures_without(logits, subject.w, fold, folds)
        of_rows = temperatures[fold]
        parts["temperatures"] = temperatures.tolist()
    return with_temperature(subject, logits, of_rows), parts


def _scaled_ece(
    subject: Event | Vector, resampling: Resampling, *, folds: int, temperature: float | None, **cut: Any
) -> MeasureResult:
    subject = _model(subject)
    if resampling.level is not None:
        subject = subject.in_order()
    event, parts = _scaled(subject, resampling, folds, temperature)
    result = replace(ece(event, resampling, **cut), parts=parts)

    def interval() -> tuple[float, float]:
        low, high = distance_interval(ece_distance(event, resampling, **cut), event, resampling)
        return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)

    return with_interval(result, interval, resampling)


def _scaled_ece_distance(
    subject: Event, resampling: Resampling, *, folds: int, temperature: float | None, **cut: Any
) -> Distance:
    return ece_distance(_scaled(subject, resampling, folds, temperature)[0], resampling, **cut)


def _cost(subject: Event | Vector, _: Resampling, *, abstention: float, cost_ratio: float) -> MeasureResult:
    cells = subject.confidence().cells
    value = float(selective_costs(cells, np.array([float(abstention)]), np.array([float(cost_ratio)]))[0, 0])
    rates, ratios = np.array(ABSTENTION), np.array(COST_RATIOS)
    wrong = accepted_wrong(cells, rates)
    parts = {
        "abstention": list(ABSTENTION),
        "cost_ratios": list(COST_RATIOS),
        "accepted_wrong": wrong.tolist(),
        "error_of_accepted": (wrong / (1.0 - rates)).tolist(),
        "cost": selective_costs(cells, rates, ratios).T.tolist(),
    }
    return MeasureResult(value, parts=parts)


def _cost_influence(subject: Event | Vector, _: Resampling, *, abstention: float, cost_ratio: float) -> Floats:
    return selective_influence(subject.confidence(), float(abstention), float(cost_ratio))


def _scaled_seconds(n: int, K: int, options: Mapping[str, Any]) -> float:
    matrix = _PASS * n * (K if K > 1 else 0)
    if options["temperature"] is not None:
        return 3e-7 * n + 2 * matrix
    return 1e-3 + 1e-6 * n + 15 * matrix + float(options["folds"]) * 3 * (_ROW_PASS * n + matrix)


def _entry(name: str, title: str, definition: str, source: str, **rest: Any) -> Measure:
    return Measure(name, title, _FAMILY, definition, source, **{"lowest": 0.0, "highest": 1.0, **rest})


_MINDERER = "Minderer et al. (2021)"
_DECISION = "For an event that is not a decision, the decision is p >= 1/2"
_LOGITS = (
    "z are the given logits, or those of probabilities, clipped at 2^-52 for an event and if they are 0 for the vector"
)

MEASURES = (
    _entry(
        "accuracy",
        "Accuracy",
        f"Fraction of correct decisions. {_DECISION}; under confidence and canonical it is the class with the largest "
        "probability, the first one of ties",
        "standard",
        meaning="Fraction of correct decisions; recalibration hardly changes it.",
        cost="O(n)",
        better="larger",
        event=_accuracy,
        vector=_accuracy,
        influence=lambda subject, _: centred(right(_event(subject)), subject.w),
    ),
    _entry(
        "confidence-gap",
        "Mean confidence minus accuracy",
        f"Mean confidence minus accuracy; above 0 is overconfident. {_DECISION} and the confidence max(p, 1 - p). The "
        "p-value uses the normal distribution under calibration",
        f"{_MINDERER}, appendix D; Guo et al. (2017)",
        lowest=-1.0,
        meaning=(
            "Of the decision for the likelier class: above 0, it is overconfident on average. Errors of opposite sign "
            "cancel. Whether the risk of an event is too high or too low is the mean label minus the mean prediction."
        ),
        cost="O(n)",
        better="neither",
        event=_gap,
        vector=_gap,
        influence=lambda subject, _: centred(overconfidence(_event(subject)), subject.w),
        pooled_p_value=True,
    ),
    _entry(
        "auroc",
        "Area under the ROC curve",
        "Fraction of pairs of a positive and a negative in which the positive has the larger prediction; ties count "
        "half. Under binary, class:k and pooled it is that of p for the event, or, with of = confidence, that of "
        "max(p, 1 - p) for a correct decision. Under confidence, top:r, within-top:r and canonical it is that of the "
        "confidence for a correct decision. The interval uses DeLong's components",
        "Hanley & McNeil (1982); DeLong, DeLong & Clarke-Pearson (1988)",
        meaning=(
            "How well predictions rank events above non-events: 0.5 is random, 1 is perfect. Independent of "
            "calibration."
        ),
        cost="O(n log n)",
        better="larger",
        needs="both outcomes",
        of_classes=True,
        event=_auroc,
        vector=_auroc,
        influence=lambda subject, _, *, of: auroc_influence(_ranked(subject, of)),
        by_outcome=True,
        options={"of": Option("event", choices=("event", "confidence"))},
        pooled="logit",
    ),
    _entry(
        "optimal-temperature",
        "Optimal temperature",
        "The T > 0 that minimises the mean log loss of softmax(z / T) under canonical and confidence, and of "
        f"logistic(z / T) for other events; {_LOGITS}. Above 1 the predictions are overconfident (too far from 1/K), "
        "below 1 underconfident; those of other events are too far from 1/2, or too close to 1/2. The verdict is "
        "neither if T = 1 is within the interval from the sandwich standard error of log T",
        f"Guo et al. (2017), section 4.2; {_MINDERER}, appendix D (where logits are multiplied instead of divided)",
        highest=None,
        meaning=(
            "The temperature with the lowest log loss. Above 1, predictions are too extreme; below 1, not extreme "
            "enough. Dividing the logits by it is the simplest recalibration."
        ),
        cost="O(n K) per Newton step, about ten steps",
        better="neither",
        needs="an incorrect prediction, and predictions that are better than random",
        needs_vectors=True,
        event=_temperature,
        vector=_temperature,
        influence=_temperature_influence,
        clustered=("interval",),
        seconds=lambda n, K, _: 15 * _ROW_PASS * n + 10 * _PASS * n * (K if K > 1 else 0),
    ),
    _entry(
        "ece-after-temperature",
        "Expected calibration error after temperature scaling",
        "ece, with its options, of the confidence of softmax(z / T) under canonical and confidence, and of "
        f"logistic(z / T) for other events; {_LOGITS}. T is given, or the optimal temperature of the other folds. The "
        "interval holds the temperatures fixed",
        f"Guo et al. (2017); {_MINDERER}, appendix D",
        cost="O(folds n K) per Newton step, two or three steps; with a given temperature O(n K + n log n)",
        needs="at least as many rows as folds, unless a temperature is given",
        needs_vectors=True,
        event=_scaled_ece,
        vector=_scaled_ece,
        distance=_scaled_ece_distance,
        clustered=("interval",),
        resample_seconds=bins_seconds,
        options={
            **ECE_OPTIONS,
            "folds": Option(10, low=2, high=100),
            "temperature": Option(None, choices=(None,), low=0.01, high=100.0, real=True),
        },
        seconds=_scaled_seconds,
    ),
    _entry(
        "selective-cost",
        "Cost of selective prediction",
        "(c_err P(accepted and wrong) + c_abst P(abstained)) / c_abst, if the model abstains from the least confident "
        "fraction, abstention, of its decisions; cost_ratio = c_err / c_abst. Ties at the threshold are rejected at "
        f"random, in expectation. {_DECISION}. Parts: the cost by ratio and rate",
        f"{_MINDERER}, section 4.4 and appendix B.3",
        highest=None,
        cost="O(n log n)",
        event=_cost,
        vector=_cost,
        influence=_cost_influence,
        options={
            "abstention": Option(0.1, low=0.0, high=1.0, real=True),
            "cost_ratio": Option(10.0, low=0.001, high=1e6, real=True),
        },
    ),
)
