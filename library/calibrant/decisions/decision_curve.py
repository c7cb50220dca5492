"""Decision curves: the net benefit of models at many thresholds, and their differences on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from calibrant.core.arguments import explained
from calibrant.core.arrays import Compared
from calibrant.core.batch import Scale
from calibrant.core.cells import Floats, WeightsKind
from calibrant.core.errors import InvalidOption
from calibrant.core.options import read_fraction
from calibrant.core.reductions import Event
from calibrant.core.results import Framed, Plotted, Table, interval_of
from calibrant.decisions.costs import read_models
from calibrant.measures.net_benefit import Estimates, RowShares, combined, decided, net_benefit, shares_between

#: Default thresholds, and the most of them and of models.
THRESHOLDS = tuple(i / 100 for i in range(1, 100))
MOST_THRESHOLDS, _MOST_MODELS = 1000, 20
#: Squares of the odds of smaller thresholds are not floats.
_LEAST_THRESHOLD = 1e-100
TREAT_ALL, TREAT_NONE = "treat all", "treat none"
#: The most thresholds that a table shows.
_ROWS = 9
_QUANTITIES = ("net_benefit", "standardised", "over_treat_all", "interventions_avoided", "differences")


@dataclass(frozen=True, eq=False, repr=False)
class DecisionCurve(Framed, Plotted, Compared):
    """Net benefit of models at thresholds.

    Each curve has ``value``, ``low`` and ``high``, ndarrays of shape (t,), with pointwise intervals.

    Attributes
    ----------
    n : int
        Number of rows.
    prevalence : float
        Rate of events.
    level : float
        Level of the intervals.
    thresholds : ndarray, shape (t,)
        Thresholds, ascending. A row is treated if its prediction is at least the threshold.
    net_benefit : mapping of str to curve
        True positives per row, less the false positives at the odds of the threshold: of each model, of ``treat all``
        and of ``treat none``. Larger is better.
    standardised : mapping of str to curve
        The same divided by the prevalence; empty without events.
    over_treat_all : mapping of str to curve
        Net benefit of each model minus that of treating all rows.
    interventions_avoided : mapping of str to curve
        Interventions avoided per row, compared with treating all rows, at the same number of true positives.
    differences : mapping of str to curve
        Net benefit of one model minus that of another, by ``"first - second"``, on the same rows.

    See Also
    --------
    decision_curve : Computes this result.

    Examples
    --------
    >>> import calibrant
    >>> curve = calibrant.decision_curve([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1], thresholds=[0.2, 0.5])
    >>> curve.net_benefit["model"].value.tolist(), curve.net_benefit["treat all"].value.tolist()
    ([0.4375, 0.5], [0.375, 0.0])
    """

    n: int
    prevalence: float
    level: float
    thresholds: Floats
    net_benefit: Mapping[str, Estimates]
    standardised: Mapping[str, Estimates]
    over_treat_all: Mapping[str, Estimates]
    interventions_avoided: Mapping[str, Estimates]
    differences: Mapping[str, Estimates]

    _plot = "plots.results.plot_decision_curve"

    def _records(self) -> list[dict[str, Any]]:
        return [
            {"quantity": quantity, "model": name, "threshold": float(threshold)}
            | {end: float(values[i]) for end, values in vars(curve).items()}
            for quantity in _QUANTITIES
            for name, curve in getattr(self, quantity).items()
            for i, threshold in enumerate(self.thresholds)
        ]

    def _table(self) -> Table:
        shown = np.unique(np.linspace(0, len(self.thresholds) - 1, _ROWS).round().astype(int))
        columns = ["threshold"]
        for name in self.over_treat_all:
            columns += [name, f"interval of {name}"]
        rows = []
        for i in shown:
            cells: list[Any] = [f"{self.thresholds[i]:g}"]
            for name in self.over_treat_all:
                curve = {end: float(values[i]) for end, values in vars(self.net_benefit[name]).items()}
                cells += [curve["value"], interval_of((curve["low"], curve["high"]))]
            rows.append((*cells, float(self.net_benefit[TREAT_ALL].value[i])))
        title = f"Net benefit by threshold; prevalence {self.prevalence:.3g}"
        return Table(title, (*columns, TREAT_ALL), rows)


@explained
def decision_curve(
    predictions: Any,
    labels: Any,
    *,
    thresholds: Sequence[float] | None = None,
    interval: float = 0.95,
    reduction: str | None = None,
    class_names: Sequence[Any] | Mapping[Any, Any] | None = None,
    pos_label: Any = None,
    weights: Any = None,
    sample_weight: Any = None,
    weights_kind: WeightsKind = "importance",
    clusters: Any = None,
    scale: Scale = "probability",
) -> DecisionCurve:
    """Judge models by the net benefit of decisions at thresholds, compared with treating all rows or none.

    Parameters
    ----------
    predictions : array_like, shape (n,) or (n, K), or mapping of str to array_like
        Predictions of a model, or of several models by name for the same rows.
    labels : array_like, shape (n,)
        As for ``evaluate``.
    thresholds : sequence of float, default 0.01, 0.02, ..., 0.99
        Probabilities from which a row is treated, above 0 and below 1: that at which the harm of a needless treatment
        and the benefit of a needed one balance.
    interval : float, default 0.95
        Level of the pointwise intervals.
    reduction : str, optional
        As for ``evaluate``, but only reductions to one event per row, which must be the same for all models. There is
        no default for (n, K).
    class_names, pos_label : optional
        As for ``evaluate``.
    weights, sample_weight, weights_kind : optional
        As for ``evaluate``.
    clusters : array_like, shape (n,), optional
        Cluster of each row, such as a patient. Rows of a cluster may depend on each other, which intervals allow for.
    scale : {"probability", "logit"}, default "probability"
        Scale of the predictions.

    Returns
    -------
    DecisionCurve
        Curves of each model and strategy, of each model minus treating all, and of each pair of models.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    best_threshold : Chooses a threshold. A decision curve does not: costs determine it.

    Notes
    -----
    Net benefit is TP / n - FP / n t / (1 - t) (Vickers & Elkin 2006; Vickers, van Calster & Steyerberg 2019).
    Intervals combine Wilson's intervals of the shares of rows (Zou & Donner 2008), those of differences of the rows
    whose decisions differ. O(n log t) for each model and pair.

    Examples
    --------
    >>> import calibrant
    >>> models = {"a": [0.1, 0.4, 0.6, 0.9], "b": [0.3, 0.6, 0.5, 0.7]}
    >>> curve = calibrant.decision_curve(models, [0, 0, 1, 1], thresholds=[0.2])
    >>> round(float(curve.interventions_avoided["a"].value[0]), 3), curve.differences["a - b"].value.tolist()
    (0.25, [0.0625])
    """
    models = dict(predictions) if isinstance(predictions, Mapping) else {"predictions": predictions}
    check_models(models, "/predictions")
    at, level = read_thresholds(thresholds), read_fraction(interval, "/interval")
    events = read_models(
        models,
        labels,
        reduction,
        weights=weights,
        sample_weight=sample_weight,
        weights_kind=weights_kind,
        clusters=clusters,
        class_names=class_names,
        pos_label=pos_label,
        scale=scale,
    )
    return curve_of(events if isinstance(predictions, Mapping) else {"model": events["predictions"]}, at, level)


def check_models(models: Mapping[str, Any], where: str) -> None:
    """Raise ``InvalidOption`` at ``where`` for too many models, or for names that are not allowed."""
    named = all(isinstance(name, str) and name not in (TREAT_ALL, TREAT_NONE) for name in models)
    if not named or not 1 <= len(models) <= _MOST_MODELS:
        text = f"must be of 1 to {_MOST_MODELS} models, whose names are strings other than {TREAT_ALL} and {TREAT_NONE}"
        raise InvalidOption.at(where, text)


def read_thresholds(thresholds: Sequence[float] | None) -> Floats:
    """Return distinct thresholds in ascending order."""
    try:
        at = np.unique(np.asarray(THRESHOLDS if thresholds is None else thresholds, dtype=np.float64))
    except (TypeError, ValueError):
        at = np.zeros(1)
    if not 1 <= len(at) <= MOST_THRESHOLDS or not ((at >= _LEAST_THRESHOLD) & (at < 1.0)).all():
        accepted = f"numbers above 0 and below 1, of at least {_LEAST_THRESHOLD}"
        raise InvalidOption.at("/thresholds", f"must be 1 to {MOST_THRESHOLDS:,} {accepted}")
    return at


def check_events(events: Mapping[str, Event]) -> None:
    """Raise ``InvalidOption`` unless all models have the same event, which may depend on the predicted class."""
    first = next(iter(events.values()))
    if any(not np.array_equal(event.y, first.y) for event in events.values()):
        raise InvalidOption.at("/reduction", "must be the same event for all models, such as binary or class:k")


def curve_of(events: Mapping[str, Event], at: Floats, level: float) -> DecisionCurve:
    """Return the decision curves of events of the same rows."""
    check_events(events)
    first, size = next(iter(events.values())), len(at)
    start, end = np.zeros(len(first), np.int64), np.full(len(first), size)
    until = {name: decided(event, at) for name, event in events.items()}
    outcomes = {name: shares_between(first, [(start, places), (places, end)], size) for name, places in until.items()}
    all_rows = outcomes | {TREAT_ALL: shares_between(first, [(start, end), (end, end)], size)}
    rate, odds = float(all_rows[TREAT_ALL].share[0, 0]), at / (1.0 - at)
    zero, ones = np.zeros(size), np.ones(size)
    none = {TREAT_NONE: Estimates(zero, zero, zero)}

    def pair(a: str, b: str) -> RowShares:
        later = np.maximum(until[a], until[b])
        return shares_between(first, [(until[b], later), (until[a], later)], size)

    def of_each(of: Mapping[str, RowShares], *coefficients: Floats) -> dict[str, Estimates]:
        return {name: combined(shares, np.stack(coefficients), level) for name, shares in of.items()}

    pairs = {f"{a} - {b}": pair(a, b) for a, b in combinations(events, 2)}
    standardised = (
        {name: net_benefit(of, at, level, standardised=True) for name, of in all_rows.items()} if rate else {}
    )
    return DecisionCurve(
        len(first),
        rate,
        level,
        at,
        of_each(all_rows, ones, -odds, zero, zero) | none,
        standardised | none if rate else {},
        of_each(outcomes, zero, zero, -ones, odds),
        of_each(outcomes, zero, zero, -1.0 / odds, ones),
        of_each(pairs, ones, -odds, -ones, odds),
    )
