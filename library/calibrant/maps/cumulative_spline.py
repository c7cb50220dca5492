"""Cubic splines of the cumulative label, or label minus score, over the fractile (Gupta et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import NotConverged, TooFewRows

Boundary = Literal["natural", "parabolic", "cubic"]
#: What is cumulated: label minus score as in the published code, or the label as in the paper's text.
Of = Literal["difference", "label"]

#: The most points of a tie.
_MOST_PARTS = 256
#: Tolerance of the constraint that values are in [0, 1]; they are clipped afterwards.
_FEASIBLE = 1e-10
_MAX_ROUNDS = 200
#: Smallest ratio of eigenvalues for which the values at the knots are determined.
_CONDITION = 1e-12


@dataclass(frozen=True)
class Path:
    """The cumulative label minus ``base`` ``d (P,)`` at ascending fractiles ``t (P,)`` with ``mass (P,)`` rows.

    ``base (C,)`` is the score of each cell, or 0 for the cumulative label, and ``first (C,)`` the cell's first point.
    """

    t: Floats
    d: Floats
    mass: Floats
    base: Floats
    first: npt.NDArray[np.int64]

    def by_cell(self, values: Floats) -> Floats:
        """Return the mean of ``values (P, ...)`` over the points of each cell, which have equal mass."""
        if len(self.t) == len(self.base):
            return values
        counts = np.diff(np.append(self.first, len(self.t))).reshape(-1, *(1,) * (values.ndim - 1))
        return np.add.reduceat(values, self.first, axis=0) / counts


def path_of(cells: Cells, of: Of = "difference") -> Path:
    """Return the path of a batch, with as many points as rows if ties have at most 256 rows. O(m).

    Row i of n in ascending order is at t_i = (i - 1) / (n - 1) with d_i = sum_{j <= i} (y_j - b_j) / n, where b is the
    score, or 0 if ``of`` is ``label``. Inside a tie
    the path is a straight line, the mean over all orders of the rows; since the fit is linear in d, it is the mean of
    their fits. Importance weights are scaled to the effective number of rows.
    """
    scale = cells.rows_per_weight
    mass = cells.w * scale
    before = cells.cumulative_w[:-1] * scale
    total = cells.mass * scale
    base = cells.p if of == "difference" else np.zeros(len(cells))
    moved = (cells.wy - cells.w * base) * (scale / total)
    d = np.cumsum(moved) - moved
    first = np.arange(len(cells))
    if cells.w is cells.rows and len(cells) == total:
        return Path(before / (total - 1.0), d + moved, mass, base, first)
    parts = np.clip(np.ceil(mass), 1, _MOST_PARTS).astype(np.int64)
    first = np.cumsum(parts) - parts
    owner = np.repeat(np.arange(len(cells)), parts)
    part = np.arange(len(owner)) - first[owner]
    step = (mass / parts)[owner]
    t = (before[owner] + part * step + (step - 1.0) / 2) / (total - 1.0)
    d = d[owner] + moved[owner] * (part * step + (step + 1.0) / 2) / mass[owner]
    return Path(np.clip(t, 0.0, 1.0), d, step, base, first)


@dataclass(frozen=True)
class CumulativeSpline:
    """A cubic spline on [0, 1] with ``values (K,)`` at evenly spaced knots."""

    values: Floats
    boundary: Boundary

    @cached_property
    def second(self) -> Floats:
        """Second derivatives at the knots: ``(K,)``."""
        return second_derivatives(len(self.values), self.boundary) @ self.values

    def at(self, t: Floats) -> Floats:
        """Return the values at ascending ``t (n,)`` in [0, 1]. O(n)."""
        return self._evaluate(t, _value_terms)

    def derivative(self, t: Floats) -> Floats:
        """Return the slopes at ascending ``t (n,)`` in [0, 1]. O(n)."""
        return self._evaluate(t, _slope_terms)

    def _evaluate(self, t: Floats, terms: _Terms) -> Floats:
        values, last = np.empty(len(t)), len(self.values) - 1
        for j, here in enumerate(_segments(t, last + 1)):
            numbers = np.concatenate([self.values[j : j + 2], self.second[j : j + 2]])
            values[here] = terms(t[here] * last - j, 1.0 / last) @ numbers
        return values


def second_derivatives(knots: int, boundary: Boundary) -> Floats:
    """Return the matrix ``(K, K)`` that maps values at the knots to second derivatives.

    Boundary conditions (McKinley & Levine 1998): ``natural`` M_0 = 0, ``parabolic`` M_0 = M_1, ``cubic`` M_0 = 2 M_1 -
    M_2, and the same at the other end.
    """
    left: Floats = np.zeros((knots, knots))
    right: Floats = np.zeros((knots, knots))
    inner = np.arange(1, knots - 1)
    for offset, share, difference in ((-1, 1.0, 1.0), (0, 4.0, -2.0), (1, 1.0, 1.0)):
        left[inner, inner + offset] = share
        right[inner, inner + offset] = 6.0 * (knots - 1) ** 2 * difference
    ends = {"natural": [1.0], "parabolic": [1.0, -1.0], "cubic": [1.0, -2.0, 1.0]}[boundary]
    left[0, : len(ends)] = ends
    left[-1, knots - len(ends) :] = ends[::-1]
    return np.asarray(np.linalg.solve(left, right), dtype=np.float64)


def fit_cumulative(path: Path, knots: int, boundary: Boundary, *, constrained: bool = False) -> CumulativeSpline:
    """Fit the values at the knots by least squares. O(P), and if ``constrained`` O(P) per round of cutting planes.

    ``constrained`` keeps 0 <= b + D'(t) <= 1 at every score (for a tie, its mean): the optimum of that quadratic
    program, with no violation above 1e-10. Raises ``TooFewRows`` if the rows do not determine the values at the knots,
    and ``NotConverged`` if no optimum was found.
    """
    if path.mass.sum() < knots * (1.0 - 1e-9):
        raise TooFewRows.at("/predictions", f"must have at least as many rows as the {knots} knots of the spline")
    gram: Floats = np.zeros((knots, knots))
    moment: Floats = np.zeros(knots)
    maps = _local_maps(knots, boundary)
    for j, here in enumerate(_segments(path.t, knots)):
        terms = _value_terms(path.t[here] * (knots - 1) - j, 1.0 / (knots - 1))
        weighed = terms * path.mass[here, None]
        gram += maps[j].T @ (weighed.T @ terms) @ maps[j]
        moment += maps[j].T @ (weighed.T @ path.d[here])
    total = float(path.mass.sum())
    gram /= total
    moment /= total
    eigenvalues = np.linalg.eigvalsh(gram)
    if eigenvalues[0] <= _CONDITION * eigenvalues[-1]:
        raise TooFewRows.at("/predictions", f"has too few distinct rows for the {knots} knots of the spline")
    free = CumulativeSpline(scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), moment), boundary)
    return _constrained(path, free, gram) if constrained else free


def accuracies(path: Path, spline: CumulativeSpline) -> Floats:
    """Return the map at each cell, b + D'(t), or its mean over a tie: ``(C,)``."""
    return path.base + path.by_cell(spline.derivative(path.t))


def _constrained(path: Path, free: CumulativeSpline, gram: Floats) -> CumulativeSpline:
    """Return the nearest feasible spline by cutting planes: each round adds the worst score of each infeasible range.

    The program of a round, with few constraints rows v >= bounds, is a least distance problem in the metric of the
    normal equations, solved by non-negative least squares (Lawson & Hanson 1974, chapter 23). Constraints without a
    multiplier are removed. The objective increases from round to round, so that the method cannot cycle.
    """
    knots = len(free.values)
    lower = np.linalg.cholesky(gram)
    rows, bounds = np.zeros((0, knots)), np.zeros(0)
    spline = free
    for _ in range(_MAX_ROUNDS):
        values = accuracies(path, spline)
        worst = _worst(values)
        if not len(worst):
            return spline
        sign = np.where(values[worst] < 0.5, 1.0, -1.0)
        added = sign[:, None] * _slope_rows(path, worst, knots, free.boundary)
        limits = np.where(sign > 0, -path.base[worst], path.base[worst] - 1.0)
        rows, bounds = np.vstack([rows, added]), np.concatenate([bounds, limits])
        turned = scipy.linalg.solve_triangular(lower, rows.T, lower=True).T  # for z = lower' (v - free)
        gaps = bounds - rows @ free.values
        target = np.zeros(knots + 1)
        target[-1] = 1.0
        multipliers, _ = scipy.optimize.nnls(np.vstack([turned.T, gaps]), target)
        active = multipliers > 0.0
        rows, bounds, turned, gaps = rows[active], bounds[active], turned[active], gaps[active]
        # With only the active constraints the program is linear.
        z = np.linalg.lstsq(turned, gaps, rcond=1e-13)[0]
        spline = CumulativeSpline(free.values + scipy.linalg.solve_triangular(lower.T, z), free.boundary)
    raise NotConverged.at("/predictions", f"do not allow the constrained spline to converge in {_MAX_ROUNDS} rounds")


def _worst(values: Floats) -> npt.NDArray[np.int64]:
    """Return the score with the largest violation in each range of consecutive infeasible scores."""
    beyond = np.maximum(-values, values - 1.0)
    out = np.flatnonzero(beyond > _FEASIBLE)
    if not len(out):
        return out
    stretches = np.split(out, np.flatnonzero(np.diff(out) > 1) + 1)
    return np.array([stretch[beyond[stretch].argmax()] for stretch in stretches])


def _slope_rows(path: Path, cells: npt.NDArray[np.int64], knots: int, boundary: Boundary) -> Floats:
    """Return the matrix that maps values at the knots to D' in these cells: ``(cells, K)``."""
    ends = np.append(path.first, len(path.t))
    maps = _local_maps(knots, boundary)
    matrix = np.empty((len(cells), knots))
    for i, c in enumerate(cells):
        t = path.t[ends[c] : ends[c + 1]]
        slopes = np.empty((len(t), knots))
        for j, here in enumerate(_segments(t, knots)):
            slopes[here] = _slope_terms(t[here] * (knots - 1) - j, 1.0 / (knots - 1)) @ maps[j]
        matrix[i] = slopes.mean(axis=0)
    return matrix


def _segments(t: Floats, knots: int) -> list[slice]:
    """Return the points of each segment between knots; a point on a knot belongs to the segment on its right."""
    borders = np.searchsorted(t, np.arange(1, knots - 1) / (knots - 1))
    ends = [0, *borders.tolist(), len(t)]
    return [slice(a, b) for a, b in pairwise(ends)]


def _local_maps(knots: int, boundary: Boundary) -> list[Floats]:
    """Return for each segment the matrix that selects its two values and second derivatives: ``(4, K)``."""
    identity, second = np.eye(knots), second_derivatives(knots, boundary)
    return [np.vstack([identity[j : j + 2], second[j : j + 2]]) for j in range(knots - 1)]


class _Terms:
    """The four basis functions at the position ``u (n,)`` in a segment of width h: ``(n, 4)``."""

    def __init__(self, *, slope: bool) -> None:
        self.slope = slope

    def __call__(self, u: Floats, h: float) -> Floats:
        terms = np.empty((len(u), 4))
        left = 1.0 - u
        if self.slope:
            terms[:, 0], terms[:, 1] = -1.0 / h, 1.0 / h
            terms[:, 2], terms[:, 3] = (1.0 - 3.0 * left * left) * (h / 6), (3.0 * u * u - 1.0) * (h / 6)
        else:
            terms[:, 0], terms[:, 1] = left, u
            terms[:, 2], terms[:, 3] = (left * left - 1.0) * left * (h * h / 6), (u * u - 1.0) * u * (h * h / 6)
        return terms


_value_terms, _slope_terms = _Terms(slope=False), _Terms(slope=True)
