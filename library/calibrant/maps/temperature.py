"""Temperature scaling: the optimal temperature, and the map."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.batch import Integers, softmax_in_place
from calibrant.core.cells import Floats, Outcomes
from calibrant.core.errors import CalibrationError, NotConverged, OnePrediction, OutOfRange
from calibrant.core.progress import check
from calibrant.core.reductions import Event, Vector
from calibrant.maps.curves import PROBABILITY_CLIP, fast_logistic, fast_logit, in_blocks, logit_of
from calibrant.maps.parameters import Divisor, Parametric
from calibrant.maps.transforms import Takes, blocks_of_rows, logarithms

# --- The temperature that minimises the log loss

#: Elements of a matrix that are processed at once, so that they fit in the processor cache.
_BLOCK = 1 << 16
#: From this many classes on, sums along rows are faster than sums across rows.
_MANY = 64
#: Below this inverse temperature, powers of the largest probability of a row do not underflow, even in float32.
_MILD = 8.0
#: Larger inputs start from the optimum of a subset with this many elements, or this fraction of them.
_FEW, _SHARE = 1 << 16, 1 / 64
#: The most elements that are kept in float64 between passes; passes over more elements start in float32.
_KEPT = 1 << 22
_MAX_STEPS = 200
#: Convergence: the gradient relative to the mean absolute gradient of the rows, or the relative change of the inverse
#: temperature. For large inputs the gradient after Newton's step is not computed but bounded: up to a factor close to
#: 1, by half the squared step times the curvature times the range of the logits.
_GRADIENT = 1e-10
#: A relative gradient below this at infinite temperature is 0 up to rounding.
_FLAT = 1e-13
#: The largest change of the temperature in one step, as a factor.
_FACTOR = 16.0
#: The most steps from a start close to the optimum.
_FEW_STEPS = 20
#: The smallest positive double.
_SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
#: Passes use float32 while Newton's step is above this fraction of the inverse temperature.
_SINGLE = 1e-5

RowIndex = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class EventLogits:
    """Logits ``z (n,)`` of an event and outcomes ``y (n,)``; ``clipped`` is the number of clipped probabilities."""

    z: Floats
    y: Outcomes
    clipped: int = 0

    def __len__(self) -> int:
        return len(self.z)

    @property
    def width(self) -> int:
        """Elements per row."""
        return 1

    def lead(self) -> Floats:
        """Return the logit of the actual outcome, below 0 if the more probable outcome did not occur: ``(n,)``."""
        return np.where(self.y == 1, self.z, -self.z)

    @property
    def reach(self) -> float:
        """Largest absolute logit. O(n)."""
        return float(np.abs(self.z).max())

    def at(self, beta: float, *, single: bool = False) -> tuple[Floats, Floats, Floats]:  # noqa: ARG002 - always double
        """Return log loss, slope and curvature in the inverse temperature beta for each row: ``(n,)`` each. O(n)."""
        lead = self.lead()
        missed = expit(-beta * lead)
        return np.logaddexp(0.0, -beta * lead), -lead * missed, lead * lead * missed * (1.0 - missed)

    def scaled(self, beta: Floats) -> Floats:
        """Return the probability of the event for logits times ``beta (n,)``."""
        probability: Floats = expit(beta * self.z)
        return probability

    def rows(self, chosen: RowIndex) -> EventLogits:
        """Return only these rows."""
        return EventLogits(self.z[chosen], self.y[chosen])


@dataclass(frozen=True)
class VectorLogits:
    """Logits of whole vectors, float64 or float32 ``(n, K)``, with labels ``(n,)``.

    ``given`` holds the logits, or probabilities whose ``logarithms`` are the logits. They are converted to float64 in
    blocks of rows.
    """

    given: Floats
    labels: Integers
    probabilities: bool = False
    clipped: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """Elements per row."""
        return int(self.given.shape[1])

    @property
    def reach(self) -> float:
        """Upper bound of the range of the logits of a row. O(n K)."""
        if self.probabilities:
            positive = self.given > 0.0
            least = float(np.minimum.reduce(self.given, axis=None, where=positive, initial=2.0 * PROBABILITY_CLIP))
            return -float(np.log(max(least / 2.0, _SMALLEST)))
        return float(self.given.max()) - float(self.given.min())

    def blocks(self, *, single: bool = False, shifted: bool = True) -> Iterator[tuple[slice, Floats]]:
        """Yield blocks of rows with their logits minus the largest one, one column per row: ``(K, h)``.

        They are float64, which is cached for smaller inputs, or float32 if ``single``. Unless ``shifted``, the largest
        logit of larger inputs may not be subtracted.
        """
        if single or len(self) * self.width > _KEPT:
            return self._made(np.dtype(np.float32 if single else np.float64), shifted)
        return iter(self._kept)

    @cached_property
    def _kept(self) -> list[tuple[slice, Floats]]:
        return list(self._made(np.dtype(np.float64), True))

    def _made(self, number: np.dtype[Any], shifted: bool) -> Iterator[tuple[slice, Floats]]:
        height = max(1, _BLOCK // self.width)
        for start in range(0, len(self), height):
            check()
            rows = slice(start, start + height)
            # Sums over few classes are faster across adjacent rows, and over many classes along each row.
            z = self.given[rows].T.astype(number, order="C" if self.width < _MANY else "F")
            if self.probabilities:
                logarithms(z, axis=0)
            yield rows, np.subtract(z, z.max(axis=0), out=z) if shifted else z

    def lead(self) -> Floats:
        """Return the logit of the label minus the largest one, at most 0: ``(n,)``. O(n K)."""
        lead = np.empty(len(self))
        for rows, z in self.blocks():
            lead[rows] = z[self.labels[rows], np.arange(z.shape[1])]
        return lead

    def at(self, beta: float, *, single: bool = False) -> tuple[Floats, Floats, Floats]:
        """Return log loss, slope and curvature in beta for each row: ``(n,)`` each. O(n K).

        The loss is log sum_k exp(beta z_k) - beta z_label, its slope the mean of z under softmax(beta z) minus z_label,
        and its curvature the variance of z under it. ``single`` computes in float32.
        """
        loss, slope, curvature = np.empty((3, len(self)))
        shifted = not (self.probabilities and beta < _MILD)  # sums of powers of probabilities do not underflow
        for rows, z in self.blocks(single=single, shifted=shifted):
            own = z[self.labels[rows], np.arange(z.shape[1])]
            mass = z * z.dtype.type(beta)
            np.exp(mass, out=mass)
            total = mass.sum(axis=0)
            mass *= z
            mean = mass.sum(axis=0) / total
            loss[rows] = np.log(total) - beta * own
            slope[rows] = mean - own
            curvature[rows] = np.einsum("ij,ij->j", mass, z) / total - mean * mean
        return loss, slope, np.maximum(curvature, 0.0)

    def scaled(self, beta: Floats) -> Floats:
        """Return the largest probability for logits times ``beta (n,)``. O(n K)."""
        largest = np.empty(len(self))
        for rows, z in self.blocks():
            mass = z * beta[rows]
            largest[rows] = 1.0 / np.exp(mass, out=mass).sum(axis=0)
        return largest

    def rows(self, chosen: RowIndex) -> VectorLogits:
        """Return only these rows."""
        return VectorLogits(self.given[chosen], self.labels[chosen], self.probabilities)


Logits = EventLogits | VectorLogits


@dataclass(frozen=True)
class OptimalTemperature:
    """The temperature that minimises the mean log loss, and its minimum ``log_loss`` in nats.

    ``slope (n,)`` and ``curvature (n,)`` are the derivatives of the loss of each row in the inverse temperature, and
    ``gradient`` bounds that of the mean loss, up to rounding errors.
    """

    value: float
    log_loss: float
    slope: Floats
    curvature: Floats
    gradient: float


def logits_of(subject: Event | Vector) -> Logits:
    """Return the given logits, or those of probabilities. O(n K).

    Probabilities of an event are clipped to [2^-52, 1 - 2^-52], those of vectors if they are 0.
    """
    counted = slice(None) if subject.w is None else subject.w > 0.0
    if isinstance(subject, Vector):
        if subject.logits is not None:
            return VectorLogits(subject.logits, subject.labels)
        clipped = 0
        if subject.p.min() <= 0.0:
            clipped = int(np.count_nonzero(subject.p.min(axis=1)[counted] <= 0.0))
        return VectorLogits(subject.p, subject.labels, True, clipped)
    p = subject.p[counted]
    outside = (p < PROBABILITY_CLIP) | (p > 1.0 - PROBABILITY_CLIP) if subject.logit is None else np.False_
    return EventLogits(logit_of(subject), subject.y, int(np.count_nonzero(outside)))


def optimal_temperature(logits: Logits, w: Floats | None = None) -> OptimalTemperature:
    """Return the temperature T > 0 that minimises the weighted mean log loss of softmax(z / T), or logistic(z / T).

    Above 1 the predictions are overconfident, below 1 underconfident (Guo et al. 2017, section 4.2). The loss is convex
    in 1 / T, and Newton's method in a bracket converges to a relative gradient, or relative change, of 1e-10. O(n K)
    per step, about ten steps. Large inputs start from the optimum of a subset of the rows, and very large ones use
    float32 except in the last steps.

    Raises ``OnePrediction`` if the logits of every row are equal, and ``NotConverged`` if the loss has no minimum: it
    decreases as T goes to 0 if every label has the largest logit, and as T goes to infinity if labels do not have
    larger logits than other classes.
    """
    weights = np.ones(len(logits)) if w is None else w
    start = _start(logits, weights)
    if start is not None:
        # Without an optimum this raises NotConverged, and _check below gives the reason.
        with suppress(NotConverged):
            single = len(logits) * logits.width > _KEPT
            return _solve(logits, weights, start, single=single, steps=_FEW_STEPS)
    at_zero = _at_zero(logits)
    _check(logits.lead(), at_zero, weights)
    return _solve(logits, weights, _first(at_zero, weights))


def _start(logits: Logits, w: Floats) -> float | None:
    """Return the inverse temperature of a subset of a large input, or None if there is none."""
    size = len(logits) * logits.width
    if size <= _FEW:
        return None
    step = int(size / max(_FEW, _SHARE * size))
    few, its_weights = logits.rows(slice(None, None, step)), w[::step]
    try:
        at_zero = _at_zero(few)
        _check(few.lead(), at_zero, its_weights)
        return 1.0 / _solve(few, its_weights, _first(at_zero, its_weights)).value
    except CalibrationError:
        return None


def temperatures_without(logits: Logits, w: Floats | None, fold: Integers, folds: int) -> Floats:
    """Return the optimal temperature of the rows outside each fold, ``(folds,)``, for ``fold (n,)``.

    Raises what ``optimal_temperature`` raises. O(folds n K) per step, two or three steps.
    """
    weights = np.ones(len(logits)) if w is None else w
    whole = optimal_temperature(logits, w)
    beta, lead, at_zero = 1.0 / whole.value, logits.lead(), _at_zero(logits)
    temperatures = np.empty(folds)
    for held_out in range(folds):
        outside = np.where(fold == held_out, 0.0, weights)
        _check(lead, at_zero, outside)
        bend = float(outside @ whole.curvature)
        start = beta - float(outside @ whole.slope) / bend if bend > 0.0 else beta
        temperatures[held_out] = _solve(logits, outside, start if start > 0.0 else beta).value
    return temperatures


def _at_zero(logits: Logits) -> tuple[Floats, Floats]:
    """Return the slopes and curvatures of the rows at infinite temperature."""
    with np.errstate(over="ignore", invalid="ignore"):
        _, slope, curvature = logits.at(0.0)
    if not np.isfinite(curvature.max()):
        raise OutOfRange("logits are too far apart to be squared")
    return slope, curvature


def _check(lead: Floats, at_zero: tuple[Floats, Floats], w: Floats) -> None:
    """Raise if there is no optimum, given the slopes and curvatures of the rows at infinite temperature."""
    slope, curvature = at_zero
    if not (w @ curvature) > 0.0:
        raise OnePrediction("the logits of every row are equal, so that the temperature has no effect")
    if float(w @ slope) >= -_FLAT * float(w @ np.abs(slope)):
        raise NotConverged("the optimal temperature is infinite: labels do not have larger logits than other classes")
    if not (lead[w > 0.0] < 0.0).any():
        raise NotConverged("the optimal temperature is 0: no prediction is wrong")


def _first(at_zero: tuple[Floats, Floats], w: Floats) -> float:
    """Return the inverse temperature after Newton's step from 0, which adapts to the scale of the logits."""
    return -float(w @ at_zero[0]) / float(w @ at_zero[1])


def _solve(
    logits: Logits, w: Floats, beta: float, *, single: bool = False, steps: int = _MAX_STEPS
) -> OptimalTemperature:
    """Minimise from ``beta`` with Newton's steps inside a bracket of the zero of the slope."""
    low, high, before = 0.0, np.inf, np.inf
    large = len(logits) * logits.width > _KEPT
    mass, reach = float(w.sum()), logits.reach
    for _ in range(steps):
        with np.errstate(over="ignore", invalid="ignore"):
            loss, slope, curvature = logits.at(beta, single=single)
        gradient, size, bend = (float(w @ x) / mass for x in (slope, np.abs(slope), curvature))
        if not np.isfinite(bend):
            break
        newton = beta - gradient / bend if bend > 0.0 else -1.0
        moved = abs(newton - beta)
        if single:
            # Rounding errors in float32 do not give a reliable bracket.
            single = moved > _SINGLE * beta
            if newton > beta / _FACTOR and newton < beta * _FACTOR:
                beta = newton
                continue
            break
        # If one row dominates, the gradients vanish together, and Newton's step decides.
        enough = _GRADIENT * max(size, beta * bend)
        left = 0.5 * reach * moved * moved * bend * float(np.exp(min(reach * moved, 700.0)))
        if newton > 0.0 and (abs(gradient) <= enough or (large and left <= enough)):
            reached = min(abs(gradient), left)
            return OptimalTemperature(1.0 / newton, float(w @ loss) / mass, slope, curvature, reached)
        low, high = (beta, high) if gradient < 0.0 else (low, beta)
        slow = abs(gradient) > 0.5 * before
        before = abs(gradient)
        beta = _next(low, high, newton, slow)
    raise NotConverged("the search for the optimal temperature did not converge")


def _next(low: float, high: float, newton: float, slow: bool) -> float:
    """Return Newton's point if it is in the bracket and steps are not slow, or a point that narrows the bracket."""
    if high == np.inf:
        return min(newton, _FACTOR * low) if newton > low and not slow else _FACTOR * low
    floor = max(low, high / _FACTOR)
    if low == 0.0 and not slow and newton > 0.0:
        return max(newton, floor)
    return newton if low < newton < high and not slow else float(np.sqrt(floor * high))


# --- Temperature scaling: logits divided by one number

#: Range of temperatures in documents.
_LOW, _HIGH = 1e-300, 1e300


@dataclass(frozen=True)
class EventTemperature(Parametric):
    """Temperature scaling of an event; p is clipped at 2^-52, logits are not. Increasing, differentiable."""

    family: ClassVar[str] = "event-temperature"
    formula: ClassVar[str] = "logistic(logit(p) / temperature)"
    temperature: Divisor

    def __call__(self, p: Floats) -> Floats:
        """Return the calibrated probability of each ``p (n,)`` in [0, 1]. O(n)."""
        return in_blocks(lambda q: fast_logistic(fast_logit(q) / self.temperature), p)

    def of_logits(self, z: Floats) -> Floats:
        """Return the calibrated probability of each logit ``z (n,)``. O(n)."""
        with np.errstate(over="ignore"):
            return in_blocks(lambda x: fast_logistic(x / self.temperature), z)


@dataclass(frozen=True)
class Temperature(Parametric):
    """Temperature scaling: preserves the order of the classes, differentiable."""

    family: ClassVar[str] = "temperature"
    formula: ClassVar[str] = "softmax(z / temperature)"
    takes: ClassVar[Takes] = "logits"
    temperature: Divisor

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K)."""
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            calibrated[part] = rows[part]
            calibrated[part] -= calibrated[part].max(axis=1, keepdims=True)
            calibrated[part] /= self.temperature
            softmax_in_place(calibrated[part])
        return calibrated
