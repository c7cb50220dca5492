"""Measures of clinical validation and of rates: logistic recalibration, ratios, and their tests."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import chdtrc, chdtri, expit, ndtr, ndtri

from calibrant.core.cells import Cells, Floats, effective, log_odds
from calibrant.core.clusters import ClusterDeviation, ClusterVariance, cluster_deviation, number_of_clusters
from calibrant.core.errors import NotConverged, OneClass, OutOfRange, TooFewRows
from calibrant.core.options import Option
from calibrant.core.reductions import Event
from calibrant.measures.chance import drawn_p_value
from calibrant.measures.intervals import Resampling, influence_interval, influence_of_clusters
from calibrant.measures.measure import CLINICAL, Compute, Measure, MeasureResult, with_interval
from calibrant.measures.proper import centred, clipped_parts, mean_score, row_scores

_SOURCE = "Cox (1958); Van Calster et al. (2019)"
Likelihood = Literal["plain", "firth"]
Limits = Literal["profile", "wald"]
#: Most Newton steps, and most halvings of one.
_STEPS, _HALVINGS = 100, 30
#: Most Newton steps for the end of an interval.
_ENDS = 12
#: Converged if no logit changes by more than this; the largest change of a logit in one step.
_CONVERGED, _LONGEST = 1e-10, 4.0
#: The Hosmer-Lemeshow statistic is nearly chi-squared if all groups expect at least 1 event and 1 other row, and all
#: but a fifth of them 5 (Cochran 1954).
LEAST_EXPECTED, _FEW_EXPECTED, _FEW_GROUPS = 5, 1.0, 0.2
#: The least variance of the events of a group; squares of smaller predictions underflow.
LEAST_VARIANCE = 1e-150
#: The largest width of a panel of logits times the slope: sums over its nodes then have a relative error below 1e-10.
_STEEPEST = 0.5


# --- Logistic recalibration: logit P(Y = 1) = intercept + slope logit p


class LogisticModel(NamedTuple):
    """A logistic model of cells: ``x (m, d)`` its features, ``offset (m,)`` a known part of the logit."""

    x: Floats
    offset: Floats
    w: Floats
    wy: Floats
    firth: bool = False
    #: Width of the panels of logits whose sums these cells have; 0 if they are the cells of the rows.
    width: float = 0.0

    def at(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Return the log likelihood, its gradient ``(d,)`` and the information ``(d, d)``, penalised for Firth's."""
        with _unlimited():
            logit = self.offset + self.x @ theta
            chance = expit(logit)
            variance = self.w * chance * (1.0 - chance)
            information = (self.x.T * variance) @ self.x
            value, residual = float(self.wy @ logit - self.w @ np.logaddexp(0.0, logit)), self.wy - self.w * chance
            gradient = self.x.T @ residual
        if not (math.isfinite(value) and np.isfinite(information).all()):
            raise NotConverged("the logistic recalibration did not converge: logits are too large")
        if self.firth:
            sign, size = np.linalg.slogdet(information)
            value += float(size) / 2.0 if sign > 0 else -math.inf
            leverage = variance * ((self.x @ np.linalg.pinv(information)) * self.x).sum(axis=1)
            gradient = gradient + self.x.T @ (leverage * (0.5 - chance))
        return value, gradient, information

    def without(self, column: int, value: float) -> LogisticModel:
        """Return the model in which one parameter has a known value."""
        return self._replace(x=np.delete(self.x, column, axis=1), offset=self.offset + value * self.x[:, column])


def _unlimited() -> np.errstate:
    """Products of logits may exceed all numbers; fits then end with ``NotConverged``."""
    return np.errstate(over="ignore", invalid="ignore")


def maximum(model: LogisticModel, theta: Floats) -> tuple[Floats, float, Floats]:
    """Return the parameters of the largest likelihood, that likelihood and the information there; Newton's method."""
    value, gradient, information = model.at(theta)
    for _ in range(_STEPS):
        step = _solved(information, gradient)
        with _unlimited():
            reach = float(np.abs(model.x @ step).max(initial=0.0))
            step *= min(1.0, _LONGEST / max(reach, 1e-300))
        for _ in range(_HALVINGS):
            after = model.at(theta + step)
            if after[0] >= value - 1e-10 * abs(value):
                break
            step = step / 2.0
        theta, (value, gradient, information) = theta + step, after
        if reach < _CONVERGED:
            return theta, value, information
    raise NotConverged("the logistic recalibration did not converge")


def _solved(matrix: Floats, vector: Floats) -> Floats:
    try:
        solution: Floats = np.linalg.solve(matrix, vector).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        raise NotConverged("the logistic recalibration did not converge: too few different predictions") from None
    return solution


@dataclass(frozen=True)
class Recalibration:
    """Logistic recalibration of an event; with ``free`` the slope is estimated, otherwise it is 1."""

    model: LogisticModel
    theta: Floats
    log_likelihood: float
    information: Floats

    @classmethod
    def of(cls, event: Event, *, free: bool, likelihood: Likelihood = "plain") -> Recalibration:
        """Fit the event, once for all measures. O(n log n)."""
        fits: dict[Any, Recalibration] = vars(event.cells).setdefault("recalibrations", {})
        if (free, likelihood) not in fits:
            fits[free, likelihood] = cls._of(event, free=free, likelihood=likelihood)
        return fits[free, likelihood]

    @classmethod
    def _of(cls, event: Event, *, free: bool, likelihood: Likelihood) -> Recalibration:
        model = model_of(event.cells, free=free, firth=likelihood == "firth", panels=True)
        if free and not model.firth and _separated(event.cells):
            raise NotConverged(
                "the predictions separate the outcomes, so that the slope is infinite; the option "
                "likelihood=firth has a finite one"
            )
        fitted = cls(model, *maximum(model, np.append(0.0, np.ones(model.x.shape[1] - 1))))
        if free and abs(float(fitted.theta[1])) * model.width > _STEEPEST:
            model = model_of(event.cells, free=free, firth=model.firth)
            fitted = cls(model, *maximum(model, fitted.theta))
        return fitted

    def influence(self, event: Event) -> Floats:
        """Return the influence of each row on the parameters: ``(n, d)``, weighted mean 0."""
        logit, chance = self._of_rows(event)
        x = np.column_stack([np.ones_like(logit), logit])[:, : len(self.theta)]
        influence: Floats = (x * (event.y - chance)[:, None]) @ np.linalg.inv(self.information) * self.model.w.sum()
        return influence

    def _of_rows(self, event: Event) -> tuple[Floats, Floats]:
        """Return the logits and the recalibrated predictions of each row, both ``(n,)``."""
        logit = logits(event.p, event.logit)
        line = self.theta[0] + (logit * self.theta[1] if len(self.theta) > 1 else logit)
        return logit, expit(line, out=line)

    def of_clusters(self, event: Event, column: int, variance: ClusterVariance) -> ClusterDeviation:
        """Return the deviation of a parameter of rows in clusters."""
        logit, chance = self._of_rows(event)
        information = chance * (1.0 - chance)
        residual = np.subtract(event.y, chance, out=chance)
        if event.w is not None:
            information *= event.w
            residual *= event.w
        contrast, features = np.eye(len(self.theta))[column], [logit][: len(self.theta) - 1]
        return cluster_deviation(event, residual, information, contrast, variance=variance, features=features)

    def covariance(self, cells: Cells) -> Floats:
        """Return the covariance of the parameters, by a sandwich for importance weights: ``(d, d)``."""
        inverse: Floats = np.linalg.inv(self.information).astype(np.float64, copy=False)
        if cells.kind == "frequency":
            return inverse
        chance = expit(self.model.offset + self.model.x @ self.theta)
        scale = float(self.model.w.sum()) / cells.mass
        squares = scale**2 * (cells.w2y * (1.0 - 2.0 * chance) + cells.w2 * chance**2)
        sandwich: Floats = inverse @ ((self.model.x.T * squares) @ self.model.x) @ inverse
        return sandwich

    def limits(self, column: int, how: Limits, level: float) -> tuple[float, float]:
        """Return the confidence interval of a parameter, from the likelihood of frequency weights."""
        error = math.sqrt(float(np.linalg.inv(self.information)[column, column]))
        reach = float(ndtri((1.0 + level) / 2.0)) * error
        ends = (self.theta[column] - reach, self.theta[column] + reach)
        if how == "profile":
            lost = float(chdtri(1.0, 1.0 - level)) / 2.0
            ends = (self._end(column, ends[0], lost), self._end(column, ends[1], lost))
        return float(ends[0]), float(ends[1])

    def _end(self, column: int, start: float, lost: float) -> float:
        """Return the value of a parameter at which the profile likelihood has ``lost`` this much, from a start."""
        side = 1.0 if start > self.theta[column] else -1.0
        other = np.delete(self.theta, column)

        def above(value: float) -> float:
            nonlocal other
            largest, other = self.profile(column, value, other)
            return largest - self.log_likelihood + lost

        end = None if self.model.firth else self._newton_end(column, start, lost)
        if end is not None:
            return end
        from scipy.optimize import brentq

        low, high = float(self.theta[column]), start
        for _ in range(_STEPS):
            if above(high) < 0.0:
                return float(brentq(above, min(low, high), max(low, high), xtol=1e-11, rtol=1e-12))
            low, high = high, high + side * abs(high - low)
        raise NotConverged("the likelihood does not fall enough for an interval; the option limits=wald has one")

    def _newton_end(self, column: int, start: float, lost: float) -> float | None:
        """Return ``_end`` by Newton's method for all parameters (Venzon & Moolgavkar 1988); None if it leaves its side.

        Where the likelihood has lost this much and the scores of the other parameters are 0, it is the profile's end.
        """
        others = np.arange(len(self.theta)) != column
        side, target = math.copysign(1.0, start - self.theta[column]), self.log_likelihood - lost
        along = _solved(self.information[np.ix_(others, others)], self.information[others, column])
        theta = np.insert(self.theta[others] - along * (start - self.theta[column]), column, start)
        for _ in range(_ENDS):
            value, gradient, information = self.model.at(theta)
            if gradient[column] * side >= 0.0:
                return None
            derivatives, missing = -information, -gradient
            derivatives[column], missing[column] = gradient, target - value
            step = _solved(derivatives, missing)
            theta = theta + step
            if (theta[column] - self.theta[column]) * side <= 0.0:
                return None
            if (np.abs(step) <= 1e-11 * (1.0 + np.abs(theta))).all():
                return float(theta[column])
        return None

    def profile(self, column: int, value: float, other: Floats) -> tuple[float, Floats]:
        """Return the largest likelihood with one parameter fixed, and the other parameters, from a start for those."""
        if not self.model.firth:
            other, largest, _ = maximum(self.model.without(column, value), other)
            return largest, other
        # The penalty has the information of all parameters, also of the fixed one.
        if not len(other):
            return self.model.at(np.array([value]))[0], other
        from scipy.optimize import minimize_scalar

        def loss(free: float) -> float:
            return -self.model.at(np.insert(np.array([free]), column, value))[0]

        width = 4.0 * math.sqrt(float(np.linalg.inv(self.information)[1 - column, 1 - column]))
        least = minimize_scalar(loss, bracket=(float(other[0]) - width, float(other[0]) + width), tol=1e-12)
        return -float(least.fun), np.array([float(least.x)])


def counts_rows(event: Event) -> bool:
    """Return whether weights, if there are any, count rows."""
    return event.w is None or event.kind == "frequency"


def logits(p: Floats, exact: Floats | None) -> Floats:
    """Return the logits of predictions ``(n,)``; raise ``OutOfRange`` for those of exactly 0 or 1."""
    if exact is not None:
        return exact
    extreme = int(np.count_nonzero((p == 0.0) | (p == 1.0)))
    if extreme:
        count = f"{extreme} different values" if extreme > 1 else "a value"
        raise OutOfRange(f"the predictions have {count} of exactly 0 or 1, whose logit is infinite")
    return log_odds(p)


def model_of(cells: Cells, *, free: bool, firth: bool = False, panels: bool = False) -> LogisticModel:
    """Return the logistic recalibration of cells; raise ``OneClass`` or ``OutOfRange`` if there is none.

    With ``panels``, sums over many cells that count rows are sums over the nodes of ``Cells.panels``.
    """
    extreme = cells.logit is None and (cells.p[0] <= 0.0 or cells.p[-1] >= 1.0)
    logit = logits(cells.p, None) if extreme else cells.log_odds  # raises for extreme predictions
    events = float(cells.wy.sum())
    if (not events or events == float(cells.w.sum())) and not firth:
        raise OneClass("labels contain one class")
    w, wy, width = cells.w, cells.wy, 0.0
    if panels and cells.kind == "frequency" and cells.panels is not None:
        logit, w, wy, width = cells.panels
    if firth and cells.kind != "frequency":  # Firth's penalty has the size of a row
        scale = cells.rows_per_weight
        w, wy = w * scale, wy * scale
    constant = np.ones_like(logit)
    if free:
        return LogisticModel(np.column_stack([constant, logit]), np.zeros_like(logit), w, wy, firth, width)
    return LogisticModel(constant[:, None], logit, w, wy, firth, width)


def _separated(cells: Cells) -> bool:
    """Return whether one cell at most has both outcomes, with one outcome below it and the other above."""
    events, others = cells.wy > 0.0, cells.wy < cells.w
    last = len(cells) - 1
    return bool(last - others[::-1].argmax() <= events.argmax() or last - events[::-1].argmax() <= others.argmax())


def _parameter(column: int, *, free: bool) -> tuple[Compute, Callable[..., Floats]]:
    """Return the value and the influence of a parameter; its interval is from the likelihood if rows are counted."""

    def compute(event: Event, resampling: Resampling, *, likelihood: Likelihood, limits: Limits) -> MeasureResult:
        fitted = Recalibration.of(event, free=free, likelihood=likelihood)
        cells, value = event.cells, float(fitted.theta[column])
        target = float(column)
        if event.clusters is not None:
            deviation = partial(fitted.of_clusters, event, column, resampling.cluster_variance)
            return _of_clusters(value, value - target, deviation, resampling, lambda reach: value + reach)
        counted = counts_rows(event)
        if not counted:
            error = math.sqrt(float(fitted.covariance(cells)[column, column]))
            p_value = float(2.0 * ndtr(-abs(value - target) / error))
        else:
            gain = fitted.log_likelihood - fitted.profile(column, target, np.delete(fitted.theta, column))[0]
            p_value = float(chdtrc(1.0, max(2.0 * gain, 0.0)))
        interval = None
        if resampling.level is not None and counted and event.per_row == 1:
            interval = fitted.limits(column, limits, resampling.level)
        return MeasureResult(value, interval=interval, p_value=p_value)

    def influence(event: Event, _: Resampling, *, likelihood: Likelihood, limits: Limits) -> Floats:  # noqa: ARG001 - of counted rows
        of_parameters = Recalibration.of(event, free=free, likelihood=likelihood).influence(event)
        return np.asarray(of_parameters[:, column])

    return compute, influence


def _of_clusters(
    value: float,
    difference: float,
    deviation: Callable[[], ClusterDeviation],
    resampling: Resampling,
    moved: Callable[[float], float],
) -> MeasureResult:
    """Return a value of rows in clusters with its interval, whose ends ``moved`` returns, and the p-value."""
    try:
        of_clusters = deviation()
    except TooFewRows as error:
        return MeasureResult(value, problem=f"no interval and no p-value: {error.detail}")
    reach = of_clusters.reach(resampling.tails[1])
    interval = None if resampling.level is None else (moved(-reach), moved(reach))
    return MeasureResult(value, None, interval, of_clusters.p_value(difference), {"standard_error": of_clusters.error})


def _unreliability(event: Event, _: Resampling) -> MeasureResult:
    fitted, cells = Recalibration.of(event, free=True), event.cells
    off = fitted.theta - np.array([0.0, 1.0])
    if counts_rows(event):
        statistic = 2.0 * (fitted.log_likelihood - fitted.model.at(np.array([0.0, 1.0]))[0])
    else:
        statistic = float(off @ np.linalg.solve(fitted.covariance(cells), off))
    statistic = max(statistic, 0.0)
    return MeasureResult(statistic, p_value=float(chdtrc(2.0, statistic)))


# --- Ratios


def _counts(event: Event) -> tuple[float, float, float]:
    """Return the weights of rows, of events, and of expected events."""
    cells = event.cells
    return float(cells.w.sum()), float(cells.wy.sum()), float(cells.w @ cells.p)


def _ratio(*, inverse: bool) -> tuple[Compute, Callable[..., Floats]]:
    def compute(event: Event, resampling: Resampling) -> MeasureResult:
        rows, events, expected = _counts(event)
        if (events if inverse else expected) == 0.0:
            return MeasureResult(
                None, problem=f"no value: {'no event happened' if inverse else 'no event is expected'}"
            )
        value = expected / events if inverse else events / expected
        if event.clusters is not None and value > 0.0:
            deviation = partial(influence_of_clusters, influence(event, resampling) / value, event, resampling)
            return _of_clusters(value, math.log(value), deviation, resampling, lambda reach: value * math.exp(reach))
        variance = float(event.cells.chance.sum())
        p_value = float(2.0 * ndtr(-abs(events - expected) / math.sqrt(variance))) if variance > 0.0 else None
        result = MeasureResult(value, p_value=p_value)
        if not events or not expected:
            return result

        def interval() -> tuple[float, float]:
            middle, ordered = math.log(value), event.in_order()
            if not counts_rows(event) or event.per_row > 1:
                low, high = influence_interval(middle, influence(ordered, resampling) / value, ordered, resampling)
                return math.exp(low), math.exp(high)
            reach = float(ndtri(resampling.tails[1])) * math.sqrt((1.0 - events / rows) / events)
            return math.exp(middle - reach), math.exp(middle + reach)

        return with_interval(result, interval, resampling)

    def influence(event: Event, _: Resampling) -> Floats:
        rows, events, expected = _counts(event)
        if inverse:
            return centred((event.p - expected / events * event.y) * rows / events, event.w)
        return centred((event.y - events / expected * event.p) * rows / expected, event.w)

    return compute, influence


def _entropy(rate: float) -> float:
    return -(rate * math.log(rate) + (1.0 - rate) * math.log1p(-rate))


def _rate(event: Event, base_rate: float | None) -> float:
    rows, events, _ = _counts(event)
    rate = events / rows if base_rate is None else float(base_rate)
    if not 0.0 < rate < 1.0:
        raise OneClass("labels contain one class, whose entropy is 0; give base_rate")
    return rate


def _normalised_entropy(event: Event, _: Resampling, *, base_rate: float | None) -> MeasureResult:
    rate = _rate(event, base_rate)
    loss = mean_score(event, "log-loss")
    if base_rate is not None:
        happened = _counts(event)[1] / _counts(event)[0]
        entropy = -(happened * math.log(rate) + (1.0 - happened) * math.log1p(-rate))
    else:
        entropy = _entropy(rate)
    return MeasureResult(loss / entropy, parts={"entropy": entropy, **clipped_parts(event, "log-loss")})


def _normalised_entropy_influence(event: Event, resampling: Resampling, *, base_rate: float | None) -> Floats:
    rate = _rate(event, base_rate)
    result = _normalised_entropy(event, resampling, base_rate=base_rate)
    entropy, value = result.parts["entropy"], float(result.value or 0.0)
    # The derivative of the entropy by the rate of events is the same for a given and for the own base rate.
    moved = (math.log1p(-rate) - math.log(rate)) * (event.y - float(_counts(event)[1] / _counts(event)[0]))
    return centred((row_scores(event, "log-loss") - value * moved) / entropy, event.w)


# --- Tests


def _spiegelhalter(event: Event, _: Resampling) -> MeasureResult:
    cells = event.cells
    steep = 1.0 - 2.0 * cells.p
    variance = float(steep**2 @ cells.chance)
    if event.clusters is not None:
        off = (event.y - event.p) * (1.0 - 2.0 * event.p)
        number_of_clusters(event.clusters if event.w is None else event.clusters[event.w > 0.0])
        variance = float((np.bincount(event.clusters, off if event.w is None else event.w * off) ** 2).sum())
    if variance <= 0.0:
        return MeasureResult(None, problem="no value: all predictions are 0, 1/2 or 1")
    z = float((cells.wy - cells.w * cells.p) @ steep) / math.sqrt(variance)
    return MeasureResult(z, p_value=float(2.0 * ndtr(-abs(z))))


def quantiles(values: Floats, w: Floats, shares: Floats, *, counted: bool) -> Floats:
    """Return quantiles of values with weights: R's type 7 of rows that ``counted`` weights repeat. O(n log n).

    Importance weights are spread evenly between neighbours, which for equal weights is type 7 too.
    """
    order = np.argsort(values, kind="stable")
    values, w = values[order], w[order]
    if not counted:
        places = np.append(0.0, np.cumsum((w[1:] + w[:-1]) / 2.0))
        return np.asarray(np.interp(shares * places[-1], places, values))
    ends = np.cumsum(w)
    place = shares * (ends[-1] - 1.0)
    below = np.floor(place)
    low = values[np.searchsorted(ends, below, side="right")]
    high = values[np.searchsorted(ends, np.minimum(below + 1.0, ends[-1] - 1.0), side="right")]
    return np.asarray(low + (place - below) * (high - low))


HosmerLaw = Literal["asymptotic", "resampling"]


def _hosmer_lemeshow(
    event: Event, resampling: Resampling, *, n_groups: int, df: str, law: HosmerLaw | None
) -> MeasureResult:
    cells = event.cells
    counted = counts_rows(event)
    w = cells.w if counted else effective(cells.w)
    scale = w / cells.w
    edges = np.unique(quantiles(cells.p, cells.w, np.linspace(0.0, 1.0, n_groups + 1), counted=counted))
    group = np.clip(np.searchsorted(edges, cells.p) - 1, 0, max(len(edges) - 2, 0))
    rows, events, expected = (np.bincount(group, values) for values in (w, cells.wy * scale, w * cells.p))
    used = rows > 0.0
    rows, events, expected = rows[used], events[used], expected[used]
    freedom = len(rows) - (2 if df == "groups-2" else 0)
    parts: dict[str, Any] = {"groups": len(rows), "degrees_of_freedom": freedom}
    if freedom < 1:
        return MeasureResult(None, parts=parts, problem="no value: the predictions form too few groups")
    variance = expected * (1.0 - expected / rows)
    if (variance < LEAST_VARIANCE).any():
        why = f"no value: a group has predictions of 0 or 1, or below {LEAST_VARIANCE:g}, only"
        return MeasureResult(None, parts=parts, problem=why)
    statistic = float(((events - expected) ** 2 / variance).sum())
    fewest = np.minimum(expected, rows - expected)
    least = parts["least_expected"] = float(fewest.min())
    few = least < _FEW_EXPECTED or float((fewest < LEAST_EXPECTED).mean()) > _FEW_GROUPS
    chosen = law or ("resampling" if few and df == "groups" else "asymptotic")
    definition, about = {"law": chosen}, f"a group expects {least:.2g} events or other rows"
    if chosen == "asymptotic":
        advice = f"{about}, and {LEAST_EXPECTED} are advised; use fewer groups, or smooth-test"
        problem = f"the p-value may be too small: {advice}" if few else None
        p_value = float(chdtrc(freedom, statistic))
        return MeasureResult(statistic, None, None, p_value, parts, definition, problem)
    if df == "groups-2":
        problem = "no p-value: law resampling is that of predictions made before, of df groups"
        return MeasureResult(statistic, None, None, None, parts, definition, problem)
    # Binomial numbers of events with the mean and the variance of the sum of labels drawn from the predictions.
    trials = np.maximum(np.rint(expected**2 / np.bincount(group, w * cells.p**2)[used]), np.ceil(expected))
    random = resampling.generator()

    def statistics(draws: int) -> Floats:
        drawn = random.binomial(trials.astype(np.int64), expected / trials, (draws, len(trials)))
        return np.asarray(((drawn - expected) ** 2 / variance).sum(axis=1))

    p_value = drawn_p_value(resampling, statistic, len(trials), statistics)
    problem = f"the p-value is from drawn events, since {about}, too few for chi-squared" if few else None
    return MeasureResult(statistic, None, None, p_value, parts, definition, problem)


_OE, _OE_INFLUENCE = _ratio(inverse=False)
_EO, _EO_INFLUENCE = _ratio(inverse=True)
_LOGISTIC = {
    "likelihood": Option("plain", choices=("plain", "firth")),
    "limits": Option("profile", choices=("profile", "wald")),
}
_OF_LIKELIHOOD = (
    " With likelihood firth, the likelihood has Jeffreys' prior and is finite for few events. P-values and limits "
    "(profile or wald) are those of the likelihood of frequency weights; with importance weights the p-value is Wald's "
    "with a sandwich variance, and limits are from the influence of rows, as for pooled events"
)
_NEEDS = "both outcomes, no prediction of exactly 0 or 1"


def _logistic_seconds(n: int, _classes: int, _options: Any) -> float:
    return 2e-3 + 1e-6 * n


def _entry_of_parameter(name: str, title: str, definition: str, column: int, *, free: bool) -> Measure:
    event, influence = _parameter(column, free=free)
    return Measure(
        name,
        title,
        CLINICAL,
        definition + _OF_LIKELIHOOD,
        f"{_SOURCE}; Firth (1993)",
        None,
        None,
        "O(n log n)",
        event=event,
        influence=influence,
        clustered=("interval", "p_value"),
        better="neither",
        needs=_NEEDS,
        options=_LOGISTIC,
        pooled="identity",
        seconds=_logistic_seconds,
    )


MEASURES = (
    _entry_of_parameter(
        "calibration-slope",
        "Calibration slope",
        "The slope b of logit P(Y = 1) = a + b logit p by maximum likelihood; 1 is calibrated, below 1 predictions are "
        "too extreme. The p-value is of b = 1.",
        1,
        free=True,
    ),
    _entry_of_parameter(
        "calibration-intercept",
        "Calibration intercept, or calibration in the large",
        "The intercept a of logit P(Y = 1) = a + logit p by maximum likelihood, with the slope fixed at 1; 0 is "
        "calibrated, above 0 predictions are too low. The p-value is of a = 0.",
        0,
        free=False,
    ),
    _entry_of_parameter(
        "logistic-intercept",
        "Intercept beside the slope",
        "The intercept a of logit P(Y = 1) = a + b logit p by maximum likelihood, with the slope b estimated beside "
        "it; it is the gap at p = 1/2 in log-odds, not that of the mean. The p-value is of a = 0.",
        0,
        free=True,
    ),
    Measure(
        "unreliability",
        "Unreliability test",
        CLINICAL,
        "Twice the gain in log likelihood of logit P(Y = 1) = a + b logit p over a = 0, b = 1, with the p-value of 2 "
        "degrees of freedom; with importance weights Wald's statistic with a sandwich variance",
        "Cox (1958); Miller, Hui & Tierney (1991)",
        0.0,
        None,
        "O(n log n)",
        event=_unreliability,
        needs=_NEEDS,
        resampled=False,
        seconds=_logistic_seconds,
    ),
    Measure(
        "oe-ratio",
        "Observed over expected events",
        CLINICAL,
        "sum w y / sum w p; 1 is calibrated, above 1 predictions are too low. The interval is that of a log-normal "
        "ratio with variance (1 - O/n) / O, which takes E as fixed and all rows as equally likely: it is too wide if "
        "predictions differ much. With importance weights, pooled events and clusters the variance of the logarithm is "
        "from the influence of rows. The p-value is of O - E under calibration",
        "Debray et al. (2017)",
        0.0,
        None,
        "O(n)",
        event=_OE,
        influence=_OE_INFLUENCE,
        clustered=("interval", "p_value"),
        better="neither",
        pooled="log",
        seconds=lambda n, _classes, _options: 3e-8 * n,
    ),
    Measure(
        "pcoc",
        "Predicted over observed events",
        CLINICAL,
        "sum w p / sum w y, the inverse of oe-ratio; 1 is calibrated, above 1 predictions are too high",
        "He et al. (2014); Debray et al. (2017)",
        0.0,
        None,
        "O(n)",
        event=_EO,
        influence=_EO_INFLUENCE,
        clustered=("interval", "p_value"),
        better="neither",
        pooled="log",
        needs="at least one event",
        seconds=lambda n, _classes, _options: 3e-8 * n,
    ),
    Measure(
        "normalised-entropy",
        "Normalised entropy",
        CLINICAL,
        "Log loss divided by that of one prediction for all rows: the own rate of events, or base_rate; below 1 the "
        "predictions are better than it. Part entropy: the divisor",
        "He et al. (2014)",
        0.0,
        None,
        "O(n)",
        event=_normalised_entropy,
        influence=_normalised_entropy_influence,
        needs="both outcomes",
        options={"base_rate": Option(None, choices=(None,), low=1e-9, high=1.0 - 1e-9, real=True)},
        seconds=lambda n, _classes, _options: 3e-8 * n,
    ),
    Measure(
        "spiegelhalter",
        "Spiegelhalter's z",
        CLINICAL,
        "sum w (y - p)(1 - 2 p) / sqrt(sum w (1 - 2 p)^2 p (1 - p)), with the two-sided p-value of a normal variable: "
        "the deviation of the Brier score from its expectation under calibration. Gaps that cancel there are not seen",
        "Spiegelhalter (1986)",
        None,
        None,
        "O(n)",
        event=_spiegelhalter,
        clustered=("p_value",),
        better="neither",
        resampled=False,
    ),
    Measure(
        "hosmer-lemeshow",
        "Hosmer-Lemeshow test",
        CLINICAL,
        "sum_g (O_g - E_g)^2 / (E_g (1 - E_g / n_g)) over groups of equal mass, with the p-value of chi-squared with "
        "as many degrees of freedom as groups (predictions made before), or groups - 2 (a model fitted to these rows); "
        "or, with law resampling, from events drawn for each group with the mean and variance of labels drawn from p. "
        "Law null, for df groups, is resampling if a group expects less than 1 event or other row, or "
        "more than a fifth of the groups less than 5; the definition of the result names it. Part least_expected: the "
        "fewest expected events, or other rows, of a group. Discouraged: the result depends on the groups and has "
        "little power; prefer smooth-test",
        "Hosmer & Lemeshow (1980); Hosmer et al. (1997); Cochran (1954) for few expected events",
        0.0,
        None,
        "O(n log n); law resampling also O(groups resamples)",
        event=_hosmer_lemeshow,
        resampled=False,
        options={
            "n_groups": Option(10, low=2, high=1000),
            "df": Option("groups", choices=("groups", "groups-2")),
            "law": Option(None, choices=(None, "asymptotic", "resampling")),
        },
        chance_seconds=lambda _rows, options, resampling: 1e-7 * options["n_groups"] * resampling.resamples,
    ),
)
