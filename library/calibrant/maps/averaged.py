"""The model average as a table: a curve that is piecewise linear between logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy
from scipy.special import expit, log_expit, logit

from calibrant.core.cells import Floats
from calibrant.maps.curves import Curve, CurvePlaces, Predicted, clipped_logit, interpolate, logit_of
from calibrant.maps.parameters import Parameter, Parametric
from calibrant.maps.piecewise_linear import PL3_CLIP

#: Knots of the table: even steps of (2/pi) asin sqrt p, and logits beyond them at both ends.
_STEPS = 1024
_TAIL = np.arange(15.0, 36.0)
#: Further knots of tables of logits: steps of 1, then of this factor up to at least ``_FAR``.
_FURTHER, _FACTOR, _FAR = np.arange(37.0, 101.0), 1.05, 1e4
#: Logits of tables are at most this large, as in documents.
MOST_LOGIT = 800.0
#: Slope of increasing tables where values are pooled, and the share of all rows that a knot without rows counts as.
_LEAST_SLOPE, _LEAST_MASS = 1e-6, 1e-12


@cache
def table_knots() -> tuple[Floats, Floats]:
    """Return the logits of the knots of the table, ascending, and their probabilities; ``(1067,)`` each."""
    even = np.sin(np.pi / 2 * np.arange(1, _STEPS) / _STEPS) ** 2
    ends = clipped_logit(np.array([0.0, 1.0]), PL3_CLIP)
    knots: Floats = np.concatenate([ends[:1], -_TAIL[::-1], logit(even), _TAIL, ends[1:]])
    p: Floats = expit(knots)
    p[0], p[-1] = 0.0, 1.0
    return knots, p


def table_places(of: Predicted) -> tuple[Floats, CurvePlaces]:
    """Return the knots of the table of curves fitted to these predictions, and the places at which they are computed.

    Tables of given logits reach further than the largest of them.
    """
    knots, p = table_knots()
    if of.logit is None:
        return knots, CurvePlaces(p)
    far = max(_FAR, 2.0 * float(np.abs(of.logit).max()))
    more = np.append(_FURTHER, _FURTHER[-1] * _FACTOR ** np.arange(1.0, np.log(far) / np.log(_FACTOR)))
    knots = np.concatenate([-more[::-1], knots, more])
    return knots, CurvePlaces.at_logits(knots)


def table_of(f: Floats, knots: Floats, of: Predicted) -> Averaged:
    """Return the table of log-odds ``f`` at the knots, clipped like the predictions to which it was fitted."""
    reach = -float(logit(PL3_CLIP)) if of.logit is None else MOST_LOGIT
    return Averaged(knots, f.clip(-reach, reach))


def tabulate(values: Callable[[Floats], Floats]) -> Averaged:
    """Tabulate a function of a probability, so that one look-up replaces several hundred curves."""
    return tabulated(values(table_knots()[1]))


def tabulated(values: Floats) -> Averaged:
    """Return the table of values at the probabilities of ``table_knots``."""
    return Averaged(table_knots()[0], clipped_logit(values, PL3_CLIP))


def increasing(curve: Averaged, of: Predicted, w: Floats) -> Averaged:
    """Return the increasing table that is closest to a table, for predictions of masses ``w (C,)``.

    Pooled values are means over the rows (Barlow et al. 1972: the same values minimise the mean squared distance and
    the mean relative entropy). The slope of logits is then at least 1e-6, so that distinct predictions stay distinct.
    """
    knots, t = curve.knots, len(curve.knots)
    place = np.interp(logit_of(of, PL3_CLIP), knots, np.arange(t))
    low = np.minimum(place.astype(np.intp), t - 2)
    masses = np.bincount(low, w * (low + 1 - place), t), np.bincount(low + 1, w * (place - low), t)
    mass: Floats = np.add(*masses, dtype=np.float64)
    mass += _LEAST_MASS * w.sum()
    ordered = curve.logits.copy()
    for sign in (1.0, -1.0):  # probabilities near 0 have all digits: those of 0, then those of 1
        ends = scipy.optimize.isotonic_regression(sign * expit(sign * ordered), weights=mass).blocks
        sizes = np.diff(ends)
        pooled = _logits_of_means(ordered, mass, ends[:-1])
        several = np.repeat(sizes > 1, sizes)
        ordered[several] = np.repeat(pooled, sizes)[several]
    return Averaged(knots, ((1.0 - _LEAST_SLOPE) * ordered + _LEAST_SLOPE * knots).clip(-MOST_LOGIT, MOST_LOGIT))


def _logits_of_means(f: Floats, w: Floats, starts: Any) -> Floats:
    """Return the logits of the mean probabilities of groups of logits ``f (n,)``, which start at ``starts (g,)``."""
    above, below = (np.logaddexp.reduceat(np.log(w) + log_expit(x), starts) for x in (f, -f))
    return above - below


@dataclass(frozen=True)
class Averaged(Parametric):
    """Logit c is linear in logit p between ``knots (t,)``, where it is ``logits (t,)``, and constant outside.

    Monotone if ``logits`` are; not differentiable at the knots.
    """

    family: ClassVar[str] = "averaged"
    formula: ClassVar[str] = "logistic(f(logit(p))), f linear between the knots, p clipped to [1e-16, 1 - 1e-16]"
    knots: Annotated[Floats, Parameter("logits of predicted probabilities", "logit", "t", order="increasing")]
    logits: Annotated[
        Floats, Parameter("logits of calibrated probabilities there", "logit", "t", low=-800.0, high=800.0)
    ]

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n log t)."""
        return self.of_logits(clipped_logit(p, PL3_CLIP))

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n log t)."""
        calibrated: Floats = expit(interpolate(z, self.knots, self.logits))
        return calibrated

    def log_odds(self, of: Predicted) -> Floats:
        """Return the logit of the calibrated probability of each prediction: ``(n,)``."""
        return interpolate(logit_of(of, PL3_CLIP), self.knots, self.logits)


def mirrored(curve: Curve) -> Curve:
    """Return 1 - c(1 - p) for an average or the identity."""
    if not isinstance(curve, Averaged):
        return curve
    return Averaged(-curve.knots[::-1], -curve.logits[::-1])
