"""The protocol of curves, the identity and constants, and readers of document parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from scipy.special import expit, log_expit, logit

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import OneClass, OutOfRange
from calibrant.maps.parameters import FittedFunction, Parametric, Probability

#: Probabilities are clipped here for logits and the log loss, unless stated otherwise.
PROBABILITY_CLIP = 2.0**-52
#: Logits beyond this are not squared.
_WIDEST = 1e70
#: Probabilities that are processed at once, so that they fit in the processor cache.
_BLOCK = 1 << 14
#: Below this many points, interpolation does not look at all knots.
_FEW = 256
#: From this many points on, interpolation uses a look-up on an even grid with this many intervals.
_MANY, _GRID = 1 << 15, 1 << 16


class Curve(FittedFunction, Protocol):
    """A fitted function of one probability."""

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]."""
        ...

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``, which is not rounded to a probability."""
        ...


class OfProbability:
    """A curve that takes logits as probabilities."""

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]."""
        raise NotImplementedError

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``, through its probability."""
        return self(expit(z))


class Predicted(Protocol):
    """Predictions ``p (n,)`` with their logits, if logits were given: an event, sorted rows or cells."""

    @property
    def p(self) -> Floats:
        """Probabilities."""
        ...

    @property
    def logit(self) -> Floats | None:
        """The given logits, or None."""
        ...


@dataclass(frozen=True)
class CurvePlaces:
    """Places of curves: probabilities ``p (n,)``, and their logits, if the rows have logits."""

    p: Floats
    logit: Floats | None = None

    @classmethod
    def at_logits(cls, z: Floats) -> CurvePlaces:
        """Return the places of given logits."""
        return cls(expit(z), z)


def calibrated(curve: Curve, of: Predicted) -> Floats:
    """Return the calibrated probability of each prediction on its own scale: ``(n,)``."""
    return curve(of.p) if of.logit is None else curve.of_logits(of.logit)


def logit_of(of: Predicted, clip: float = PROBABILITY_CLIP) -> Floats:
    """Return the given logits, or those of probabilities clipped to [clip, 1 - clip]: ``(n,)``."""
    return clipped_logit(of.p, clip) if of.logit is None else of.logit


def check_squares(z: Floats) -> Floats:
    """Return logits ``z (n,)``; raise ``OutOfRange`` if their fourth powers overflow."""
    if np.abs(z).max() > _WIDEST:
        raise OutOfRange("logits are too far apart to be squared")
    return z


def clipped_logit(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """Return the logit of ``p`` clipped to [clip, 1 - clip]."""
    result: Floats = logit(np.minimum(np.maximum(p, clip), 1.0 - clip))
    return result


def fast_logit(p: Floats, clip: float = PROBABILITY_CLIP) -> Floats:
    """Return ``clipped_logit`` of a block of ``p``, accurate to about 1e-15 and several times faster."""
    p = np.minimum(np.maximum(p, clip), 1.0 - clip)  # faster than np.clip for blocks
    p /= 1.0 - p
    return np.log(p, out=p)


def fast_logistic(f: Floats, out: Floats | None = None) -> Floats:
    """Return the logistic function of a block of ``f``, accurate to 1-2 ulp and several times faster than SciPy's.

    The result is written to ``out``, which may be ``f``.
    """
    with np.errstate(over="ignore"):  # overflow gives the correct result 0
        logistic = np.negative(f, out=out)
        np.exp(logistic, out=logistic)
    logistic += 1.0
    return np.divide(1.0, logistic, out=logistic)


def in_blocks(function: Callable[[Floats], Floats], p: Floats) -> Floats:
    """Apply an elementwise function to ``p (n,)`` in blocks that fit in the processor cache."""
    if len(p) <= _BLOCK:
        return function(p)
    values = np.empty(len(p))
    for start in range(0, len(p), _BLOCK):
        values[start : start + _BLOCK] = function(p[start : start + _BLOCK])
    return values


def check_outcomes(cells: Cells) -> float:
    """Return the mass of positives; raise ``OneClass`` if there are no positives or no negatives. O(m)."""
    positives = float(cells.cumulative_wy[-1])
    if positives <= 0.0 or positives >= cells.mass:
        raise OneClass.at("/labels", "contain one class, but a fit needs both")
    return positives


def mean_logit(z: Floats, w: Floats, starts: Any) -> Floats:
    """Return the logits of the weighted mean probabilities of groups of ascending logits ``z (n,)``, which they bound.

    Groups start at ``starts (g,)``. The mean is taken of logarithms of probabilities, which do not round to 0 or 1.
    """
    weight = np.log(w)
    above, below = (np.logaddexp.reduceat(weight + log_expit(x), starts) for x in (z, -z))
    with np.errstate(over="ignore"):
        means: Floats = np.clip(above - below, z[starts], z[np.append(starts[1:], len(z)) - 1])
    return means


def logit_of_mixture(weights: Floats, logits: Floats) -> Floats:
    """Return the logit of the weighted mean ``(n,)`` of probabilities that are given as logits ``(S, n)``.

    Both the mean and its distance from 1 are exact.
    """
    with np.errstate(divide="ignore"):
        mean: Floats = np.log(weights @ expit(logits)) - np.log(weights @ expit(-logits))
        far = ~np.isfinite(mean)
        if far.any():  # beyond logits of 745, whose probabilities round to 0; a mean of logarithms is slower
            weight, z = np.log(weights)[:, None], logits[:, far]
            above, below = (np.logaddexp.reduce(weight + log_expit(x), axis=0) for x in (z, -z))
            mean[far] = above - below
    return mean


def interpolate(x: Floats, knots: Floats, heights: Floats) -> Floats:
    """Interpolate like ``np.interp``, for many points by a look-up on an even grid instead of a search.

    Linear between strictly increasing ``knots (t,)``, and constant outside; ``x (n,)`` is finite, in any order. Results
    are between the heights of both neighbours, also if the slope between them overflows.
    O(n + t) if few knots share an interval of the grid, otherwise O(n log t).
    """
    t = len(knots)
    if len(x) < min(t, _FEW):  # the slopes of all segments would take longer
        interpolated = np.interp(x, knots, heights)
        if math.isfinite(sum(interpolated.tolist())):
            return interpolated
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        slope = np.append(np.diff(heights) / np.diff(knots), 0.0)
    if not np.isfinite(slope).all():
        return _by_shares(x, knots, heights, lambda p, a, b: (p - a) / (b - a))
    if len(x) < _MANY or t < 2 or t > _GRID // 4:
        return np.interp(x, knots, heights)
    low, high = float(knots[0]), float(knots[-1])
    per = _GRID / (high - low)
    if not np.isfinite(per):
        return np.interp(x, knots, heights)
    place = np.minimum(((knots - low) * per).astype(np.intp), _GRID - 1)
    inside = np.bincount(place, minlength=_GRID)
    # The segment that contains a grid interval; intervals with a knot inside need a search.
    segment = np.cumsum(inside) - 1
    segment[inside > 0] = -1
    interpolated = np.empty(len(x))
    for start in range(0, len(x), _BLOCK):
        part = np.minimum(np.maximum(x[start : start + _BLOCK], low), high)
        at = segment.take(((part - low) * per).astype(np.intp), mode="clip")
        values = (part - knots.take(at, mode="wrap")) * slope.take(at, mode="wrap") + heights.take(at, mode="wrap")
        searched = np.flatnonzero(at < 0)
        values[searched] = np.interp(part[searched], knots, heights)
        interpolated[start : start + _BLOCK] = values
    return interpolated


def interpolate_logits(z: Floats, knots: Floats, heights: Floats) -> Floats:
    """Interpolate linearly in the probability, with probabilities and knots given as logits. O(n log t).

    Between logits a and b, z is at (p(z) - p(a)) / (p(b) - p(a)), which is computed from differences of logits:
    p(u) - p(v) = sinh((u - v) / 2) / (2 cosh(u / 2) cosh(v / 2)), so that no probability is rounded to 0 or 1.
    """

    def share(x: Floats, a: Floats, b: Floats) -> Floats:
        with np.errstate(over="ignore"):
            beside = np.exp(np.minimum(x, 0.0) - np.minimum(b, 0.0))
            part = np.expm1(np.minimum(a - x, 0.0)) / np.expm1(a - b)
            shares: Floats = part * beside * (1.0 + np.exp(-np.abs(b))) / (1.0 + np.exp(-np.abs(x)))
        return shares

    return in_blocks(lambda x: _by_shares(x, knots, heights, share), z)


def _by_shares(x: Floats, knots: Floats, heights: Floats, share: Callable[[Floats, Floats, Floats], Floats]) -> Floats:
    """Interpolate by the share of the way from the knot below each ``x (n,)`` to the one above."""
    right = np.clip(np.searchsorted(knots, x, side="right"), 1, max(len(knots) - 1, 1))
    left = right - 1
    right = np.minimum(right, len(knots) - 1)
    with np.errstate(all="ignore"):  # of points outside, a single knot, or infinite heights
        part = np.clip(share(x, knots[left], knots[right]), 0.0, 1.0)
        between = heights[left] + part * (heights[right] - heights[left])
    return np.where(x >= knots[right], heights[right], np.where(x <= knots[left], heights[left], between))


@dataclass(frozen=True)
class Identity(Parametric, OfProbability):
    """The predictions as given. Monotone, differentiable, no parameters."""

    family: ClassVar[str] = "identity"
    formula: ClassVar[str] = "p, unchanged"

    def __call__(self, p: Floats) -> Floats:
        """Return a copy of ``p (n,)``. O(n)."""
        return p.copy()


@dataclass(frozen=True)
class Constant(Parametric, OfProbability):
    """The same probability for every row. Monotone, differentiable."""

    family: ClassVar[str] = "constant"
    formula: ClassVar[str] = "value"
    value: Annotated[float, Probability("the probability of every row")]

    def __call__(self, p: Floats) -> Floats:
        """Return the value for each ``p (n,)``. O(n)."""
        return np.full(len(p), self.value)
