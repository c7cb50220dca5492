"""Diagrams of clinical validation: the calibration belt, and a smooth calibration curve with its band."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.special import chdtri, expit, ndtr, ndtri

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import NotConverged
from calibrant.core.logistic import fit_logistic
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.measures.clinical import LogisticModel, counts_rows, logits, maximum, model_of
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.smoothers import CurveName, smoother

#: Points of a curve at equal mass, and evenly spaced.
_BY_MASS = _EVEN = 51
#: The highest degree of a belt, and the level of the tests that increase it.
_HIGHEST, _SELECTION = 4, 0.95
#: The distribution of the statistic: nodes of its integrals, and the largest statistic looked for.
_NODES, _FARTHEST = 64, 400.0
#: Of more different predictions than this, belts have groups of as many by mass and by logit together.
_GROUPS = 1000
#: Most steps to an end of a belt, and the largest error of the likelihood there, relative to its loss.
_STEPS, _CLOSE = 60, 1e-6
#: The fewest events, and other rows, of a flexible curve by default (Van Calster et al. 2016).
FLEXIBLE = 200


@dataclass(frozen=True)
class CalibrationBelt(Picture):
    """Data of a calibration belt.

    Attributes
    ----------
    predictions, calibrated : ndarray
        The polynomial logistic recalibration; shape (g,).
    low, high, inner_low, inner_high : ndarray or None
        The belts; None if rows are dependent.
    degree : int
        Degree of the polynomial in logit p, 1 to 4.
    statistic, p_value : float, float or None
        Twice the gain in log likelihood over the predictions, and the p-value that they are calibrated.
    """

    predictions: Floats
    calibrated: Floats
    low: Floats | None
    high: Floats | None
    inner_low: Floats | None
    inner_high: Floats | None
    degree: int
    statistic: float
    p_value: float | None


def calibration_belt(event: Event, _: Resampling, *, level: float, inner_level: float) -> CalibrationBelt:
    """Compute the calibration belt of predictions that were made before these rows (Nattino et al. 2014).

    The polynomial gains a degree as long as a likelihood ratio test at .95 rejects the smaller one. A belt at ``level``
    holds the curves of this degree whose likelihood ratio is at most that quantile of the statistic, given the degree:
    if it leaves out the diagonal anywhere, the p-value is below 1 - level. Importance weights count as their effective
    number of rows. O(n log n), and the belt of at most about 1,000 groups.
    """
    cells = event.cells
    logit, w, wy = logits(cells.p, cells.logit), cells.w, cells.wy
    model_of(cells, free=True)  # raises for one outcome
    if not counts_rows(event):
        scale = cells.rows_per_weight
        w, wy = w * scale, wy * scale
    centre, spread = _moments(logit, w)
    x = np.vander((logit - centre) / spread, min(_HIGHEST, len(cells) - 1) + 1, increasing=True)
    identity = np.array([centre, spread])
    expected = LogisticModel(x[:, :2], np.zeros_like(w), w, wy).at(identity)[0]
    theta, largest = _forward(x, w, wy, identity)
    degree, statistic = len(theta) - 1, max(2.0 * (largest - expected), 0.0)
    places = _places(cells)
    points = x[places, : degree + 1]
    problem = no_intervals(event)
    belt = CalibrationBelt(
        cells.p[places], expit(points @ theta), None, None, None, None, degree, statistic, None, problem=problem
    )
    if problem is not None:
        return belt
    at = _groups(logit, w)
    sums = np.add.reduceat(w[:, None] * x[:, : degree + 1], at), np.add.reduceat(w, at), np.add.reduceat(wy, at)
    low, high = map(expit, _ends(sums, theta, points, _quantile(degree, level)))
    inner_low, inner_high = map(expit, _ends(sums, theta, points, _quantile(degree, inner_level)))
    ends = {"low": low, "high": high, "inner_low": inner_low, "inner_high": inner_high}
    return replace(belt, **ends, p_value=float(_exceedance(statistic, degree)))


def _moments(logit: Floats, w: Floats) -> tuple[float, float]:
    """Return the weighted mean and standard deviation of logits, in units of which powers stay small."""
    centre = float(w @ logit / w.sum())
    with np.errstate(over="ignore"):
        spread = math.sqrt(float(w @ (logit - centre) ** 2 / w.sum()))
    if len(logit) < 2 or not 0.0 < spread < math.inf:  # the spread of equal logits may be rounding
        raise NotConverged("a belt needs at least two different predictions, with logits whose squares are finite")
    return centre, spread


def _forward(x: Floats, w: Floats, wy: Floats, theta: Floats) -> tuple[Floats, float]:
    """Return the parameters and the log likelihood of the selected degree, from the parameters of the identity."""
    theta, largest, _ = maximum(LogisticModel(x[:, :2], np.zeros_like(w), w, wy), theta)
    for size in range(3, x.shape[1] + 1):
        further, reached, _ = maximum(LogisticModel(x[:, :size], np.zeros_like(w), w, wy), np.append(theta, 0.0))
        if 2.0 * (reached - largest) < chdtri(1.0, 1.0 - _SELECTION):
            break
        theta, largest = further, reached
    return theta, largest


def _exceedance(t: float | Floats, degree: int) -> Floats:
    """Return P(T > t) of calibrated predictions, given the selected degree (Nattino et al. 2014, section 3).

    T is a chi-squared variable of 2 degrees of freedom plus, for each further degree, one of 1 degree of freedom that
    exceeded the bound of its test.
    """
    bound = math.sqrt(float(chdtri(1.0, 1.0 - _SELECTION)))
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)

    def unconditional(t: Floats, steps: int) -> Floats:
        """Return P(T > t and each of the steps exceeded its bound)."""
        if not steps:
            return np.exp(-np.maximum(t, 0.0) / 2.0)
        # The root z of the last step; beyond the upper end, the others exceed their share of t in any case.
        end = np.sqrt(np.maximum(t - (steps - 1) * bound**2, bound**2))[..., None]
        z = bound + (end - bound) * (nodes + 1.0) / 2.0
        density = 2.0 * np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
        inner = (density * unconditional(t[..., None] - z**2, steps - 1)) @ weights * (end[..., 0] - bound) / 2.0
        return np.asarray(inner + 2.0 * ndtr(-end[..., 0]) * (1.0 - _SELECTION) ** (steps - 1))

    return unconditional(np.asarray(t, dtype=np.float64), degree - 1) / (1.0 - _SELECTION) ** (degree - 1)


@cache
def _quantile(degree: int, level: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(lambda t: float(_exceedance(t, degree)) - (1.0 - level), 0.0, _FARTHEST))


def _groups(logit: Floats, w: Floats) -> Integers:
    """Return the first cells of groups of similar logits: all cells if they are few."""
    if len(logit) <= _GROUPS:
        return np.arange(len(logit))
    mass = np.cumsum(w)
    by_mass = np.searchsorted(mass, mass[-1] * np.arange(_GROUPS // 2) / (_GROUPS // 2))
    by_logit = np.searchsorted(logit, np.linspace(logit[0], logit[-1], _GROUPS // 2))
    return np.union1d(by_mass, by_logit)


def _ends(sums: tuple[Floats, Floats, Floats], theta: Floats, points: Floats, lost: float) -> tuple[Floats, Floats]:
    """Return the least and the largest logit at ``points (g, d)``, over parameters that lose ``lost`` / 2 at most.

    ``sums`` are those of w x ``(m, d)``, w and w y ``(m,)`` in groups; the loss is in log likelihood. The parameters
    of an end maximise the likelihood plus s times the logit, for the s at which the loss is reached.
    """
    wx, w, wy = sums
    x = wx / w[:, None]
    theta, largest, information = maximum(LogisticModel(x, np.zeros_like(w), w, wy), theta)
    sides = np.concatenate([-points, points])
    count, flat = len(sides), np.zeros(len(sides))
    # The term s times the logit is a row without weight whose outcome counts s.
    features, weights = np.concatenate([x, sides]), np.concatenate([w, flat])
    s = np.sqrt(lost / (sides * np.linalg.solve(information, sides.T).T).sum(axis=1))
    start, wide = np.tile(theta, (count, 1)), np.full((count, len(theta)), np.inf)
    least, most = np.zeros(count), np.full(count, np.inf)
    for _ in range(_STEPS):
        positives = np.concatenate([np.tile(wy, (count, 1)), np.diag(s)], axis=1)
        modes = fit_logistic(features, np.zeros(len(features)), weights, positives, wide, start=start)
        reached = (modes.theta * sides).sum(axis=1)
        loss = np.maximum(2.0 * (largest - (modes.log_likelihood - s * reached)), 1e-300)
        if np.abs(loss / lost - 1.0).max() < _CLOSE:
            return -reached[: count // 2], reached[count // 2 :]
        over = loss > lost
        start = np.where(over[:, None], start, modes.theta)
        least, most = np.where(over, least, s), np.where(over, s, most)
        # Newton's method: 1 / sqrt(loss) is nearly linear in 1 / s, also where the loss grows without bound.
        curvature = (sides * np.linalg.solve(modes.precision, sides[:, :, None])[:, :, 0]).sum(axis=1)
        # If the likelihood does not fall, s has no limit.
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            moved = 1.0 / s + (lost**-0.5 - loss**-0.5) * loss**1.5 / (s**3 * curvature)
            s = 1.0 / np.clip(moved, 0.4 / s, 2.5 / s)
        s = np.where((s > least) & (s < most), s, (least + np.minimum(most, 4.0 * least)) / 2.0)
    raise NotConverged("the likelihood does not fall enough for a belt: there are too few events or other rows")


def _places(cells: Cells) -> Integers:
    """Return the cells at which curves are computed, by mass and evenly spaced."""
    by_mass = np.searchsorted(cells.cumulative_w[1:], cells.mass * np.linspace(0.0, 1.0, _BY_MASS))
    even = np.searchsorted(cells.p, np.linspace(cells.p[0], cells.p[-1], _EVEN))
    return np.unique(np.minimum(np.append(by_mass, even), len(cells) - 1))


@dataclass(frozen=True)
class CalibrationCurve(Picture):
    """Data of a smooth calibration curve.

    Attributes
    ----------
    predictions, calibrated : ndarray
        The curve, clipped to [0, 1]; shape (g,).
    low, high : ndarray or None
        The pointwise band; None if rows are dependent.
    curve : str
        The smoother.
    events, non_events : float
        Rows with each outcome; of importance weights their effective number.
    ici : float
        Mean of |c(p) - p| over the rows, without clipping.
    """

    predictions: Floats
    calibrated: Floats
    low: Floats | None
    high: Floats | None
    curve: str
    events: float
    non_events: float
    ici: float


def calibration_curve(event: Event, _: Resampling, *, curve: CurveName | None, level: float) -> CalibrationCurve:
    """Compute a calibration curve with a pointwise band from the squares of residuals.

    The default with at least 200 events and as many other rows is flexible: loess to 2,000 rows and a spline beyond;
    with fewer it is the logistic curve. Bands of logistic fits are symmetric on the logit scale. O(n log n).
    """
    cells = event.cells
    events, others = cells.outcomes
    problem = None
    if curve is None and min(events, others) < FLEXIBLE:
        curve = "logistic"
        problem = f"{events:,.0f} events, {others:,.0f} other rows: logistic; flexible curves need {FLEXIBLE} of each"
    fitted = smoother(event, curve)
    c, p = fitted.at(cells.p)[0], cells.p[_places(cells)]
    ici = float(cells.w @ np.abs(c - cells.p) / cells.w.sum())
    value, basis = fitted.at(p)
    squares = cells.wy * (1.0 - 2.0 * c) + cells.w * c**2
    if not counts_rows(event):
        squares = cells.w2y * (1.0 - 2.0 * c) + cells.w2 * c**2
    covariance = (fitted.moves.T * squares) @ fitted.moves
    reach = float(ndtri((1.0 + level) / 2.0)) * np.sqrt(np.maximum(((basis @ covariance) * basis).sum(axis=1), 0.0))
    if fitted.name in ("logistic", "rcs"):
        scale = np.maximum(value * (1.0 - value), 1e-300)
        odds = np.log(np.maximum(value, 1e-300)) - np.log(np.maximum(1.0 - value, 1e-300))
        low, high = expit(odds - reach / scale), expit(odds + reach / scale)
    else:
        low, high = np.clip(value - reach, 0.0, 1.0), np.clip(value + reach, 0.0, 1.0)
    dependent = no_intervals(event)
    return CalibrationCurve(
        p,
        np.clip(value, 0.0, 1.0),
        low if dependent is None else None,
        high if dependent is None else None,
        fitted.name,
        events,
        others,
        ici,
        problem=dependent or problem,
    )
