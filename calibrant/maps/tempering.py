"""The temperature of least log loss: the rows' logits, and a search that ends at the optimum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.batch import Integers
from calibrant.cells import Floats, Outcomes
from calibrant.errors import NotConverged, OnePrediction, OutOfRange
from calibrant.maps.curves import PROBABILITY_CLIP, clipped_logit
from calibrant.reductions import Event, Vector

#: Numbers of a matrix that are worked on at once, so that they stay in the processor's cache.
_BLOCK = 1 << 16
#: Larger inputs begin where the optimum of so many numbers of them lies.
_FEW = 1 << 19
_MAX_STEPS = 200
#: Done when the gradient is this share of the mean size of the rows' gradients, or Newton's step this share of the
#: inverse temperature; one more step follows.
_GRADIENT = 1e-10
#: A gradient of this share at infinite temperature is 0 but for rounding.
_FLAT = 1e-13
#: No step changes the temperature by more than this factor.
_FACTOR = 16.0

Rows = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventLogits:
    """The logits ``z (n,)`` of an event and its outcomes ``y (n,)``; ``clipped`` rows were 0 or 1 or next to it."""

    z: Floats
    y: Outcomes
    clipped: int = 0

    def __len__(self) -> int:
        return len(self.z)

    @property
    def width(self) -> int:
        """Numbers a row."""
        return 1

    def lead(self) -> Floats:
        """The outcome's logit against the other's: below 0 where the likelier outcome did not come true, ``(n,)``."""
        return np.where(self.y == 1, self.z, -self.z)

    def at(self, beta: float) -> tuple[Floats, Floats, Floats]:
        """Log loss, its slope and its curvature in beta, the inverse temperature, row by row: each ``(n,)``. O(n)."""
        lead = self.lead()
        missed = expit(-beta * lead)
        return np.logaddexp(0.0, -beta * lead), -lead * missed, lead * lead * missed * (1.0 - missed)

    def scaled(self, beta: Floats) -> Floats:
        """Probability of the event with its logits times ``beta (n,)``."""
        found: Floats = expit(beta * self.z)
        return found

    def rows(self, chosen: Rows) -> EventLogits:
        """These rows alone."""
        return EventLogits(self.z[chosen], self.y[chosen])


@dataclass(frozen=True)
class VectorLogits:
    """The logits of whole vectors, float64 or float32 ``(n, K)``, with their labels ``(n,)``.

    ``given`` holds the logits, or probabilities whose logarithms, clipped at 2^-52, are the logits. Either is widened
    to float64 in blocks of rows.
    """

    given: Floats
    labels: Integers
    probabilities: bool = False
    clipped: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """Numbers a row."""
        return int(self.given.shape[1])

    def blocks(self) -> Iterator[tuple[slice, Floats]]:
        """Blocks of rows, with their logits less the largest of the row, float64."""
        height = max(1, _BLOCK // self.width)
        for start in range(0, len(self), height):
            rows = slice(start, start + height)
            z = self.given[rows].astype(np.float64)
            if self.probabilities:
                np.log(np.maximum(z, PROBABILITY_CLIP, out=z), out=z)
            z -= z.max(axis=1)[:, None]
            yield rows, z

    def lead(self) -> Floats:
        """The label's logit less the largest one, at most 0: ``(n,)``. O(n K)."""
        lead = np.empty(len(self))
        for rows, z in self.blocks():
            lead[rows] = z[np.arange(len(z)), self.labels[rows]]
        return lead

    def at(self, beta: float) -> tuple[Floats, Floats, Floats]:
        """Log loss, its slope and its curvature in beta, row by row: each ``(n,)``. O(n K).

        log sum_k exp(beta z_k) - beta z_label; its slope is the mean of z under softmax(beta z) less z_label, and its
        curvature the variance of z under it.
        """
        loss, slope, curvature = np.empty((3, len(self)))
        for rows, z in self.blocks():
            own = z[np.arange(len(z)), self.labels[rows]]
            mass = np.exp(beta * z)
            total = mass.sum(axis=1)
            mass *= z
            mean = mass.sum(axis=1) / total
            loss[rows] = np.log(total) - beta * own
            slope[rows] = mean - own
            curvature[rows] = np.einsum("ij,ij->i", mass, z) / total - mean * mean
        return loss, slope, np.maximum(curvature, 0.0)

    def scaled(self, beta: Floats) -> Floats:
        """Largest probability with the logits times ``beta (n,)``. O(n K)."""
        found = np.empty(len(self))
        for rows, z in self.blocks():
            z *= beta[rows, None]
            found[rows] = 1.0 / np.exp(z, out=z).sum(axis=1)
        return found

    def rows(self, chosen: Rows) -> VectorLogits:
        """These rows alone."""
        return VectorLogits(self.given[chosen], self.labels[chosen], self.probabilities)


Logits = EventLogits | VectorLogits


@dataclass(frozen=True)
class OptimalTemperature:
    """A temperature that minimises the mean log loss, in nats: ``log_loss`` there.

    ``slope (n,)`` and ``curvature (n,)`` are the rows' derivatives of the loss in the inverse temperature.
    """

    value: float
    log_loss: float
    slope: Floats
    curvature: Floats


def logits_of(subject: Event | Vector) -> Logits:
    """The logits as they were given, else of the probabilities clipped at 2^-52 and, of an event, 1 - 2^-52. O(n K)."""
    counted = slice(None) if subject.w is None else subject.w > 0.0
    if isinstance(subject, Vector):
        if subject.logits is not None:
            return VectorLogits(subject.logits, subject.labels)
        clipped = subject.p.min(axis=1)[counted] < PROBABILITY_CLIP
        return VectorLogits(subject.p, subject.labels, True, int(np.count_nonzero(clipped)))
    if subject.logit is not None:
        return EventLogits(subject.logit, subject.y)
    p = subject.p[counted]
    outside = (p < PROBABILITY_CLIP) | (p > 1.0 - PROBABILITY_CLIP)
    return EventLogits(clipped_logit(subject.p), subject.y, int(np.count_nonzero(outside)))


def optimal_temperature(logits: Logits, w: Floats | None = None) -> OptimalTemperature:
    """The temperature T > 0 that minimises the weighted mean log loss of softmax(z / T), or logistic(z / T).

    Above 1 the predictions are overconfident, below it underconfident (Guo et al. 2017, section 4.2). The loss is
    convex in 1 / T: Newton's method within a bracket, to a gradient of 1e-10 of the rows' gradients, or a step of
    1e-10, and a step more. O(n K) a step, some ten steps; large inputs begin at the optimum of a few of their rows.

    Raises ``OnePrediction`` where the logits of every row are equal, and ``NotConverged`` where the loss falls
    without end as T goes to 0 (no label is behind the largest logit) or to infinity (labels are no likelier than
    others to have the larger logits).
    """
    weights = np.ones(len(logits)) if w is None else w
    at_zero = _at_zero(logits)
    _check(logits.lead(), at_zero, weights)
    start = None
    if len(logits) * logits.width > _FEW:
        step = -(-len(logits) * logits.width // _FEW)
        few, its_weights = logits.rows(slice(None, None, step)), weights[::step]
        few_at_zero = at_zero[0][::step], at_zero[1][::step]
        try:
            _check(few.lead(), few_at_zero, its_weights)
            start = 1.0 / _solve(few, its_weights, _first(few_at_zero, its_weights)).value
        except (NotConverged, OnePrediction):
            start = None
    return _solve(logits, weights, _first(at_zero, weights) if start is None else start)


def temperatures_without(logits: Logits, w: Floats | None, fold: Integers, folds: int) -> Floats:
    """The optimal temperature of the rows outside of each fold, ``(folds,)``, for ``fold (n,)``.

    Raises what ``optimal_temperature`` raises. O(folds n K) a step, two or three steps.
    """
    weights = np.ones(len(logits)) if w is None else w
    whole = optimal_temperature(logits, w)
    beta, lead, at_zero = 1.0 / whole.value, logits.lead(), _at_zero(logits)
    found = np.empty(folds)
    for held_out in range(folds):
        kept = np.where(fold == held_out, 0.0, weights)
        _check(lead, at_zero, kept)
        bend = float(kept @ whole.curvature)
        start = beta - float(kept @ whole.slope) / bend if bend > 0.0 else beta
        found[held_out] = _solve(logits, kept, start if start > 0.0 else beta).value
    return found


def _at_zero(logits: Logits) -> tuple[Floats, Floats]:
    """The rows' slopes and curvatures at infinite temperature."""
    with np.errstate(over="ignore", invalid="ignore"):
        _, slope, curvature = logits.at(0.0)
    if not np.isfinite(curvature.max()):
        raise OutOfRange("logits are too far apart to be squared")
    return slope, curvature


def _check(lead: Floats, at_zero: tuple[Floats, Floats], w: Floats) -> None:
    """Refuse what has no optimum, from the rows' slopes and curvatures at infinite temperature."""
    slope, curvature = at_zero
    if not (w @ curvature) > 0.0:
        raise OnePrediction("every temperature gives the same predictions: the logits of every row are equal")
    if float(w @ slope) >= -_FLAT * float(w @ np.abs(slope)):
        raise NotConverged(
            "the log loss falls without end as the temperature grows: labels are no likelier to have the larger logits"
        )
    if not (lead[w > 0.0] < 0.0).any():
        raise NotConverged("the log loss falls without end as the temperature goes to 0: no prediction is wrong")


def _first(at_zero: tuple[Floats, Floats], w: Floats) -> float:
    """The inverse temperature after Newton's step from 0, which takes the logits' scale into account."""
    return -float(w @ at_zero[0]) / float(w @ at_zero[1])


def _solve(logits: Logits, w: Floats, beta: float) -> OptimalTemperature:
    """Minimise from ``beta`` on: Newton's steps inside the bracket of the slope's change of sign."""
    low, high, before = 0.0, np.inf, np.inf
    mass = float(w.sum())
    for _ in range(_MAX_STEPS):
        loss, slope, curvature = logits.at(beta)
        gradient, size, bend = (float(w @ x) / mass for x in (slope, np.abs(slope), curvature))
        newton = beta - gradient / bend if bend > 0.0 else -1.0
        # Where one row outweighs the others, their gradients vanish with it, and Newton's step tells.
        if abs(gradient) <= _GRADIENT * max(size, beta * bend) and newton > 0.0:
            return OptimalTemperature(1.0 / newton, float(w @ loss) / mass, slope, curvature)
        low, high = (beta, high) if gradient < 0.0 else (low, beta)
        slow = abs(gradient) > 0.5 * before
        before = abs(gradient)
        beta = _next(low, high, newton, slow)
    raise NotConverged("the search for the optimal temperature did not end")


def _next(low: float, high: float, newton: float, slow: bool) -> float:
    """Newton's point where it lies inside the bracket and steps are not slow, else one that narrows the bracket."""
    if high == np.inf:
        return min(newton, _FACTOR * low) if newton > low and not slow else _FACTOR * low
    floor = max(low, high / _FACTOR)
    if low == 0.0 and not slow and newton > 0.0:
        return max(newton, floor)
    return newton if low < newton < high and not slow else float(np.sqrt(floor * high))
