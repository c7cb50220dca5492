"""Breaks of continuous piecewise polynomials of least squared error, by differential evolution.

For given breaks the least squares fit is solved from cumulative sums over the sorted rows, so that a trial costs
O(segments log n). Predictions and breaks are rounded to a grid on which these sums are exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.core.cells import Floats
from calibrant.core.progress import check

#: Settings of the search of pwlf (Jekel & Venter 2019): trials for each break, and tolerances of their spread.
_POPULATION, _RELATIVE, _ABSOLUTE, _GENERATIONS = 50, 1e-3, 1e-4, 1000
_RECOMBINATION, _MUTATION = 0.7, (0.5, 1.0)
#: Passes that move one break at a time, to any of these places (fractions of the range) or distances.
_SWEEPS, _PLACES = 3, (np.arange(200) + 0.5) / 200
_STEPS = np.logspace(-5.0, -1.5, 40)
#: The most subsets that are searched together, which bounds the memory.
_TOGETHER = 16
#: Doubles represent all integers of this many bits.
_BITS = 53
_FINEST = 21
#: A pivot below this fraction of the diagonal is linear dependence.
_DEPENDENT = 1e-9

Integers = npt.NDArray[np.int64]


class Subsets:
    """The rows of several subsets in the same cells, and the least squared error of each for given breaks.

    ``p (n,)`` ascends; ``weights`` and ``positives`` are ``(subsets, n)``: sums of w and of w y.
    """

    def __init__(self, p: Floats, weights: Floats, positives: Floats, degree: int) -> None:
        self.low, self.width, self.degree = p[0], p[-1] - p[0], degree
        largest = weights.sum(axis=1).max() / weights[weights > 0.0].min()
        # Sums of w x^k and their shifts by a break are integers below 2^53 if the weights are.
        spare = (_BITS - 1 - np.log2(max(largest, 2.0))) / (2 * degree) - 1
        self.units = 2.0 ** np.clip(np.floor(spare), 4, _FINEST)
        x = np.rint((p - self.low) / self.width * self.units)
        starts = np.flatnonzero(np.r_[True, x[1:] > x[:-1]])
        self.x = x[starts]
        w, wy = (np.add.reduceat(part, starts, axis=1) for part in (weights, positives))
        self.total = wy.sum(axis=1)  # labels are 0 or 1, so that sum w y^2 = sum w y
        terms = [w * self.x**k for k in range(2 * degree + 1)] + [wy * self.x**k for k in range(degree + 1)]
        sums = np.zeros((len(terms), len(w), len(starts) + 1))
        np.cumsum(terms, axis=2, out=sums[:, :, 1:])
        self._sums = sums.reshape(len(terms), -1)

    def __len__(self) -> int:
        return len(self.total)

    def errors(self, breaks: Floats, which: Integers) -> Floats:
        """Return the least squared errors of sorted inner ``breaks (subsets, trials, b)`` in units: the first two axes.

        The error of breaks that coincide with each other or with an end is that of c = 0. The basis has a hat for each
        break and, for degree 2, the bump u (1 - u) on each segment.
        """
        chosen, trials, inner = breaks.shape
        at = np.zeros((inner + 2, chosen, trials))
        at[1:-1], at[-1] = np.moveaxis(breaks, 2, 0), self.units
        rows = np.zeros(at.shape, np.int64)
        rows[1:-1], rows[-1] = np.searchsorted(self.x, at[1:-1], side="right"), len(self.x)
        rows += (which * (len(self.x) + 1))[:, None]
        cumulative = self._sums.take(rows, axis=1)
        sums = cumulative[:, 1:] - cumulative[:, :-1]
        start, width = at[:-1], np.maximum(at[1:] - at[:-1], 1.0)
        w, y = (_scaled(part, start, width) for part in (sums[: 2 * self.degree + 1], sums[2 * self.degree + 1 :]))
        left, both, right = w[0] - 2.0 * w[1] + w[2], w[1] - w[2], w[2]
        y_left, y_right = y[0] - y[1], y[1]
        explained = np.zeros((chosen, trials))
        if self.degree == 2:
            bump = w[2] - 2.0 * w[3] + w[4]
            bump = np.where(bump > _DEPENDENT * w[0], bump, np.inf)
            of_left, of_right, of_y = w[1] - 2.0 * w[2] + w[3], w[2] - w[3], y[1] - y[2]
            left, both, right = left - of_left**2 / bump, both - of_left * of_right / bump, right - of_right**2 / bump
            y_left, y_right = y_left - of_left * of_y / bump, y_right - of_right * of_y / bump
            explained = (of_y**2 / bump).sum(axis=0)
        diagonal, target = np.zeros(at.shape), np.zeros(at.shape)
        diagonal[:-1], target[:-1] = left, y_left
        diagonal[1:] += right
        target[1:] += y_right
        least = _DEPENDENT * (1.0 + diagonal)
        for k in range(inner + 2):
            if k:
                ratio = both[k - 1] / diagonal[k - 1]
                diagonal[k] -= ratio * both[k - 1]
                target[k] -= ratio * target[k - 1]
            diagonal[k][diagonal[k] < least[k]] = np.inf
        explained += (target**2 / diagonal).sum(axis=0)
        # Without width, the heights at both ends would not be connected.
        connected = (at[1:] > at[:-1]).all(axis=0)
        errors: Floats = self.total[which, None] - np.where(connected, explained, 0.0)
        return errors


def _scaled(sums: Floats, start: Floats, width: Floats) -> list[Floats]:
    """From sums of x^k to sums of ((x - start) / width)^k."""
    moments = list(sums)
    # Synthetic division by x - start, applied to the binomials of every power.
    for low in range(1, len(moments)):
        for k in range(len(moments) - 1, low - 1, -1):
            moments[k] = moments[k] - start * moments[k - 1]
    return [moment / width**k for k, moment in enumerate(moments)]


def find_breaks(subsets: Subsets, segments: int, seed: int) -> Floats:
    """Return the inner breaks of each subset, in [0, 1] of the range and ascending: ``(subsets, segments - 1)``.

    Differential evolution (best1bin) with the settings of pwlf, and then passes that move one break at a time. Random
    numbers depend on ``seed`` and ``segments`` only, so that a subset has the same result alone.
    """
    if segments == 1:
        return np.empty((len(subsets), 0))
    blocks = [np.arange(first, min(first + _TOGETHER, len(subsets))) for first in range(0, len(subsets), _TOGETHER)]
    return np.concatenate([_swept(subsets, *_evolved(subsets, which, segments - 1, seed), which) for which in blocks])


def _evolved(subsets: Subsets, which: Integers, inner: int, seed: int) -> tuple[Floats, Floats]:
    """Return the best breaks and their squared errors."""
    random, size = np.random.default_rng(seed), _POPULATION * inner
    strata = (np.arange(size)[:, None] + random.random((size, inner))) / size
    first = np.sort(np.rint(random.permuted(strata, axis=0) * subsets.units), axis=1)
    members = np.repeat(first[None], len(which), axis=0)
    errors = subsets.errors(members, which)
    active = np.arange(len(which))
    for _ in range(_GENERATIONS):
        check()
        active = active[~_converged(errors[active])]
        if not len(active):
            break
        old, scores = members[active], errors[active]
        left, other = random.integers(0, size, (2, size))
        best = old[np.arange(len(active)), scores.argmin(axis=1)][:, None]
        trial = best + random.uniform(*_MUTATION) * (old[:, left] - old[:, other])
        crossed = random.random((size, inner)) < _RECOMBINATION
        crossed[np.arange(size), random.integers(0, inner, size)] = True
        anywhere = random.random((size, inner)) * subsets.units
        outside = (trial < 0.0) | (trial > subsets.units)
        trial = np.sort(np.rint(np.where(crossed, np.where(outside, anywhere, trial), old)), axis=2)
        trial_errors = subsets.errors(trial, which[active])
        better = trial_errors <= scores
        members[active] = np.where(better[..., None], trial, old)
        errors[active] = np.where(better, trial_errors, scores)
    best_of = errors.argmin(axis=1)
    rows = np.arange(len(which))
    return members[rows, best_of], errors[rows, best_of]


def _converged(errors: Floats) -> npt.NDArray[np.bool_]:
    close: npt.NDArray[np.bool_] = errors.std(axis=1) <= _ABSOLUTE + _RELATIVE * np.abs(errors.mean(axis=1))
    return close


def _swept(subsets: Subsets, breaks: Floats, errors: Floats, which: Integers) -> Floats:
    """Move one break at a time to the best of many places."""
    rows, units = np.arange(len(which)), subsets.units
    places = np.broadcast_to(_PLACES * units, (len(which), len(_PLACES)))
    steps = np.concatenate((-_STEPS, _STEPS)) * units
    for _ in range(_SWEEPS):
        for k in range(breaks.shape[1]):
            check()
            near = np.clip(breaks[:, k, None] + steps, 0.0, units)
            trial = np.repeat(breaks[:, None], len(_PLACES) + len(steps), axis=1)
            trial[:, :, k] = np.rint(np.concatenate((places, near), axis=1))
            trial.sort(axis=2)
            trial_errors = subsets.errors(trial, which)
            best = trial_errors.argmin(axis=1)
            better = trial_errors[rows, best] < errors
            breaks = np.where(better[:, None], trial[rows, best], breaks)
            errors = np.where(better, trial_errors[rows, best], errors)
    inside: Floats = breaks / units
    return inside
