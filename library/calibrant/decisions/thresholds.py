"""The threshold for decisions: from costs, a capacity, or a bound on precision or recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from calibrant.core.arguments import explained
from calibrant.core.batch import Scale
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.choices import Criterion as Criterion
from calibrant.core.errors import CalibrationError, InvalidOption
from calibrant.core.options import plain, read_fraction, read_seed
from calibrant.core.reductions import Event
from calibrant.core.results import ByMeasure, Framed, Table, interval_of
from calibrant.core.validation import divided
from calibrant.decisions.costs import read_models
from calibrant.measures.improvement import out_of_fold
from calibrant.measures.intervals import Integers
from calibrant.measures.measure import MeasureResult
from calibrant.measures.net_benefit import (
    EVENTS,
    POSITIVE,
    Estimates,
    combined,
    decided,
    net_benefit,
    outcome_shares,
    ratio,
    shares_between,
    weighted_sum,
)

#: The criteria, of which one determines a threshold.
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
#: Folds of the recalibrated decisions, and starts of the tests of precision.
_FOLDS, _STARTS = 10, 10
_CHOSEN = "no interval: these labels chose the threshold"


@dataclass(frozen=True, repr=False)
class DecisionThreshold(Framed, ByMeasure[MeasureResult]):
    """A threshold, and what decisions p >= threshold are like on these rows.

    Attributes
    ----------
    criterion : {"costs", "capacity", "precision", "recall"}
        What determined the threshold.
    threshold : float
        The threshold. Rows whose prediction is at least this are decided positively.
    level : float
        Level of the intervals, and of the guarantee of a bound.
    n : int
        Number of rows.
    measures : mapping of str to MeasureResult
        ``positive``, the fraction of positive decisions; ``precision`` and ``recall``; for costs also ``cost``, the
        expected cost per row, and ``excess-cost``, the part of it that recalibrated predictions avoid. A negative
        excess means that recalibration with these rows does harm.

    See Also
    --------
    best_threshold : Computes this result.

    Examples
    --------
    >>> import calibrant
    >>> best = calibrant.best_threshold([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1], capacity=2)
    >>> best.threshold, best["precision"].value, best["recall"].value
    (0.6, 1.0, 1.0)
    """

    criterion: Criterion
    threshold: float
    level: float
    n: int
    measures: Mapping[str, MeasureResult]

    def _records(self) -> list[dict[str, Any]]:
        keys = ("value", "low", "high", "problem")
        rows = self.measures.items()
        return [
            {
                "measure": name,
                **dict(zip(keys, (measure.value, *(measure.interval or (None, None)), measure.problem), strict=True)),
            }
            for name, measure in rows
        ]

    def _table(self) -> Table:
        rows = [
            (name, measure.value, interval_of(measure.interval), measure.problem)
            for name, measure in self.measures.items()
        ]
        title = f"Threshold {self.threshold:.6g}, from {self.criterion}: positive if the prediction is at least this"
        return Table(title, ("of these decisions", "value", "interval", "note"), rows)


@explained
def best_threshold(
    predictions: Any,
    labels: Any,
    *,
    costs: Sequence[float] | None = None,
    capacity: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    interval: float = 0.95,
    seed: int = 0,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    clusters: Any = None,
    scale: Scale = "probability",
) -> DecisionThreshold:
    """Return the threshold for decisions that costs, a capacity, or a bound on precision or recall determine.

    Exactly one of the four criteria is passed.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K)
        As for ``evaluate``.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    costs : (float, float), optional
        Costs of a false positive and of a false negative, above 0. The threshold is c_FP / (c_FP + c_FN), which is best
        for calibrated predictions, whatever the labels.
    capacity : int or float, optional
        The most positive decisions: a whole number of rows from 2, or a fraction of them below 1; 1 can be one row or
        all. Rows with equal predictions are decided alike, so there may be fewer.
    precision : float, optional
        Lower bound of the precision, guaranteed at ``interval``, with as many positive decisions as possible.
    recall : float, optional
        Lower bound of the recall, guaranteed at ``interval``, with as few positive decisions as possible.
    interval : float, default 0.95
        Level of intervals and of the guarantee.
    seed : int, default 0
        Seed of the folds of the recalibration.
    reduction : str, optional
        As for ``evaluate``, but only reductions to one event per row. There is no default for (n, K).
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``. A guarantee, and a capacity in rows, need weights that count rows.
    clusters : array_like, shape (n,), optional
        Cluster of each row, such as a patient. Rows of a cluster may depend on each other, which intervals allow for.
        Bounds of precision and recall need rows without clusters.
    scale : {"probability", "logit"}, default "probability"
        Scale of the predictions.

    Returns
    -------
    DecisionThreshold
        The threshold, on the scale of probabilities, and the precision, recall and costs at it.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or if no threshold reaches the bound at this level.

    See Also
    --------
    decision_curve : Judges a model at given thresholds.

    Notes
    -----
    ``excess-cost`` is the cost of the decisions minus that of the decisions by an isotonic map fitted to the other
    folds. Bounds are tested with exact binomial p-values (Clopper & Pearson 1934) in fixed sequences of thresholds
    (Angelopoulos et al. 2021): for recall from the lowest threshold up, for precision down from 10 starts that share
    the error. They are not plugged in. A threshold that labels have chosen has no interval, and neither have precision
    and recall at it. O(n log n).

    Examples
    --------
    >>> import calibrant
    >>> best = calibrant.best_threshold([0.1, 0.3, 0.6, 0.9], [0, 1, 0, 1], costs=(1.0, 3.0))
    >>> best.threshold, best["cost"].value
    (0.25, 0.25)
    """
    criterion = read_criterion(costs=costs, capacity=capacity, precision=precision, recall=recall)
    level = read_fraction(interval, "/interval")
    (event,) = read_models(
        {"predictions": predictions},
        labels,
        reduction,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        clusters=clusters,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    ).values()
    return threshold_of(event, criterion, level, read_seed(seed))


class ThresholdCriterion(NamedTuple):
    """What determines a threshold, with its checked value."""

    name: Criterion
    value: Any


def criterion_in(criteria: Mapping[str, Any]) -> ThresholdCriterion | None:
    """Return the checked criterion, or None without one; raise ``InvalidOption`` for several or an invalid one."""
    return None if all(value is None for value in criteria.values()) else read_criterion(**criteria)


def read_criterion(**criteria: Any) -> ThresholdCriterion:
    """Check the one criterion that is not None; raise ``InvalidOption`` for none, several, or an invalid value."""
    passed = [name for name, value in criteria.items() if value is not None]
    names = f"{', '.join(list(criteria)[:-1])} and {list(criteria)[-1]}"
    if not passed:
        raise InvalidOption.at("/costs", f"are missing: one of {names} determines the threshold")
    name, *others = passed
    if others:
        raise InvalidOption.at(f"/{others[0]}", f"cannot be combined with {name}: pass exactly one of {names}")
    value = criteria[name]
    read = {"costs": _read_costs, "capacity": _read_capacity}.get(name)
    return ThresholdCriterion(name, read_fraction(value, f"/{name}") if read is None else read(value))  # type: ignore[arg-type]


def _read_costs(costs: Any) -> tuple[float, float]:
    try:
        of_positive, of_negative = (float(plain(cost)) for cost in ("" if isinstance(costs, str) else costs))
        threshold = of_positive / (of_positive + of_negative)
    except (TypeError, ValueError, ZeroDivisionError):
        of_positive = threshold = 0.0
    if not (of_positive > 0.0 and 0.0 < threshold < 1.0):
        raise InvalidOption.at("/costs", "must be two numbers above 0: of a false positive and of a false negative")
    return of_positive, of_negative


def _read_capacity(capacity: Any) -> float:
    number = plain(capacity)
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    if not is_number or not (0.0 < number < 1.0 or (number >= 2.0 and float(number).is_integer())):
        what = "must be a whole number of rows from 2, or a fraction of the rows below 1; 1 can be one row or all rows"
        raise InvalidOption.at("/capacity", what)
    return float(number)


def threshold_of(event: Event, criterion: ThresholdCriterion, level: float, seed: int) -> DecisionThreshold:
    """Return the threshold of an event, and what the decisions are like."""
    check_criterion(event, criterion)
    name, value = criterion
    if name == "costs":
        return _of_costs(event, value, level, seed)
    cuts = _Cuts.of(event)
    if name == "capacity":
        place = _by_capacity(cuts, value)
    else:
        place = (_by_precision if name == "precision" else _by_recall)(cuts, value, 1.0 - level)
    threshold = float(cuts.threshold[place])
    measures = _measures(event, threshold, level)
    if name != "capacity":
        measures = {key: replace(measure, interval=None, problem=_CHOSEN) for key, measure in measures.items()}
    return DecisionThreshold(name, threshold, level, len(event), measures)


def check_criterion(event: Event, criterion: ThresholdCriterion) -> None:
    """Raise ``InvalidOption`` if weights or clusters rule out a capacity in rows or a guaranteed bound."""
    name, value = criterion
    if name == "costs":
        return
    counts = event.w is None or event.kind == "frequency"
    if not counts and (name != "capacity" or value >= 1.0):
        hint = "a fraction below 1" if name == "capacity" else "frequency weights or none, since it is guaranteed"
        raise InvalidOption.at(f"/{name}", f"needs {hint}: importance weights do not count rows")
    if event.clusters is not None and name != "capacity":
        raise InvalidOption.at("/clusters", f"cannot be combined with {name}, whose guarantee needs independent rows")


# --- Decisions at a threshold


def compared_decisions(
    events: Mapping[str, Event], decisions: Mapping[str, DecisionThreshold], criterion: ThresholdCriterion, level: float
) -> tuple[Literal["cost", "recall"] | None, dict[str, Estimates]]:
    """Return what compares decisions of models on the same rows, and the differences of pairs, first minus second.

    It is the cost per row, or under a capacity the recall; thresholds that labels chose have no valid difference.
    """
    first, own = next(iter(events.values())), dict[str, Integers]()
    for name, decision in decisions.items():
        own[name] = decided(events[name], np.array([decision.threshold]))
    pairs = {f"{a} - {b}": (own[a], own[b]) for a, b in combinations(own, 2)}
    if criterion.name == "costs":
        return "cost", {
            pair: _difference_of_costs(first, *both, criterion.value, level) for pair, both in pairs.items()
        }
    if criterion.name != "capacity" or not weighted_sum(outcome_shares(first, np.zeros(1)), EVENTS)[0]:
        return None, {}
    return "recall", {pair: _difference_of_recall(first, *both, level) for pair, both in pairs.items()}


def _difference_of_costs(
    event: Event, first: Integers, second: Integers, costs: tuple[float, float], level: float
) -> Estimates:
    """Return the cost per row of the first decisions minus that of the second."""
    of_positive, of_negative = costs
    later = np.maximum(first, second)
    changed = shares_between(event, [(second, later), (first, later)], 1)
    return combined(changed, (-of_negative, of_positive, of_negative, -of_positive), level)


def _difference_of_recall(event: Event, first: Integers, second: Integers, level: float) -> Estimates:
    """Return the recall of the first decisions minus that of the second."""
    both, later = np.minimum(first, second), np.maximum(first, second)
    spans = [(second, later), (first, later), (np.zeros_like(both), both), (later, np.ones_like(later))]
    gained, happened = (1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0), (1.0, 0.0) * len(spans)
    return ratio(shares_between(event, spans, 1), gained, happened, level)


def _measures(event: Event, threshold: float, level: float) -> dict[str, MeasureResult]:
    """Return the fraction, precision and recall of the positive decisions."""
    of = outcome_shares(event, np.array([threshold]))
    measures = {"positive": _result(combined(of, POSITIVE, level))}
    for name, whole, what in (("precision", POSITIVE, "decision is positive"), ("recall", EVENTS, "event happened")):
        if weighted_sum(of, whole)[0]:
            measures[name] = _result(ratio(of, (1.0, 0.0, 0.0, 0.0), whole, level))
        else:
            measures[name] = MeasureResult(None, problem=f"no value: no {what}")
    return measures


def _result(of: Estimates, *, lowest: float = 0.0, highest: float = 1.0) -> MeasureResult:
    return MeasureResult(float(of.value[0]), interval=(max(float(of.low[0]), lowest), min(float(of.high[0]), highest)))


# --- Costs


def _of_costs(event: Event, costs: tuple[float, float], level: float, seed: int) -> DecisionThreshold:
    of_positive, of_negative = costs
    at = np.array([of_positive / (of_positive + of_negative)])
    most, n = max(of_positive, of_negative), len(event)
    measures = _measures(event, float(at[0]), level)
    cost = combined(outcome_shares(event, at), (0.0, of_positive, of_negative, 0.0), level)
    measures["cost"] = _result(cost, highest=most)
    measures["net-benefit"] = _net_benefit(event, at, level)
    event, _ = divided(event)
    try:
        held_out, _ = out_of_fold(event, "isotonic", "brier", folds=_FOLDS, seed=seed)
        after = decided(held_out, at)
    except CalibrationError as error:
        measures["excess-cost"] = MeasureResult(None, problem=f"no value: {error.detail}")
    else:
        excess = _difference_of_costs(event, decided(event, at), after, costs, level)
        measures["excess-cost"] = _result(excess, lowest=-most, highest=most)
    return DecisionThreshold("costs", float(at[0]), level, n, measures)


# --- A capacity, and guaranteed bounds


def _net_benefit(event: Event, at: Floats, level: float) -> MeasureResult:
    """Return the net benefit at the threshold of the costs, beside that of positive decisions for all rows."""
    of = outcome_shares(event, at)
    rate, odds = float(weighted_sum(of, EVENTS)[0]), float(at[0] / (1.0 - at[0]))
    result = _result(net_benefit(of, at, level), lowest=-odds)
    return replace(result, parts={"treat_all": rate - odds * (1.0 - rate)})


class _Cuts(NamedTuple):
    """The distinct predictions, descending, with the weights of the positive decisions and of the events in them."""

    threshold: Floats
    positive: Floats
    true: Floats

    @classmethod
    def of(cls, event: Event) -> _Cuts:
        w = np.ones(len(event)) if event.w is None else event.w
        if not w.all():
            event, w = event.rows(np.flatnonzero(w)), w[w > 0.0]
        values, place = np.unique(-event.p, return_inverse=True)
        return cls(-values, np.cumsum(np.bincount(place, w)), np.cumsum(np.bincount(place, w * event.y)))


def _by_capacity(cuts: _Cuts, capacity: float) -> int:
    """Return the last cut with at most so many positive decisions."""
    most = capacity if capacity >= 1.0 else capacity * float(cuts.positive[-1])
    place = int(np.searchsorted(cuts.positive, most * (1.0 + 1e-12), side="right")) - 1
    if place < 0:
        raise InvalidOption.at("/capacity", "is less than the number of rows that share the largest prediction")
    return place


def _tail(successes: Floats, trials: npt.ArrayLike, chance: float) -> Floats:
    """Return the probability of at least so many successes."""
    some = np.maximum(successes, 1.0)
    return np.where(successes > 0.0, betainc(some, np.maximum(trials - some, 0.0) + 1.0, chance), 1.0)


def _by_recall(cuts: _Cuts, bound: float, error: float) -> int:
    """Return the first cut whose recall is at least the bound; recall increases, so all errors go to one test."""
    events = float(cuts.true[-1])
    passes = _tail(cuts.true, events, bound) <= error
    if not passes[-1]:
        least = int(np.ceil(np.log(error) / np.log(bound)))
        text = f"cannot be guaranteed at this level: it needs at least {least:,} events, and there are {events:,.0f}"
        raise InvalidOption.at("/recall", text)
    return int(np.argmax(passes))


def _by_precision(cuts: _Cuts, bound: float, error: float) -> int:
    """Return the last cut that a sequence of tests reaches; it starts at several cuts, which labels do not choose."""
    error /= _STARTS
    least, n = float(np.ceil(np.log(error) / np.log(bound))), float(cuts.positive[-1])
    if least > n:
        raise InvalidOption.at("/precision", f"cannot be guaranteed at this level with fewer than {least:,.0f} rows")
    starts = np.minimum(np.searchsorted(cuts.positive, np.geomspace(least, n, _STARTS)), len(cuts.positive) - 1)
    fails = np.flatnonzero(_tail(cuts.true, cuts.positive, bound) > error)
    ends = np.append(fails, len(cuts.positive))[np.searchsorted(fails, starts)] - 1
    if not (ends >= starts).any():
        true, positive = cuts.true[starts], cuts.positive[starts]
        lower = np.where(true > 0.0, betaincinv(np.maximum(true, 1.0), positive - true + 1.0, error), 0.0)
        text = f"is not reached: of the thresholds tested first, the best has a guaranteed {lower.max():.3g}"
        raise InvalidOption.at("/precision", text)
    return int(ends[ends >= starts].max())
