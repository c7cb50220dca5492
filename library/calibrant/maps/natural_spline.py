"""Logistic regression on a natural cubic spline of the logit (Lucena 2018)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.core.cells import Floats, SortedRows
from calibrant.core.logistic import fit_logistic, gradient_of
from calibrant.core.progress import report
from calibrant.core.validation import check_fold_count, fold_of_rows
from calibrant.maps.averaged import Averaged, table_of, table_places
from calibrant.maps.curves import Predicted, logit_of

#: Logits of probabilities are limited to this range, so that exact zeros and ones do not spread the knots.
_REACH = 16.0
#: A feature is constant if its standard deviation is at most this times its root mean square.
_CONSTANT = 1e-9
#: Number of knots, at quantiles of the logits, and the candidate strengths of the ridge penalty.
_KNOTS = 30
STRENGTHS = tuple(10.0**e for e in range(-4, 5))


def _basis(z: Floats, knots: Floats) -> Floats:
    """Return the natural cubic spline basis ``(n, len(knots) - 1)`` without the constant (Hastie et al. 2009, 5.4)."""
    last = knots[-1]

    def cubed(k: int) -> Floats:
        column: Floats = (np.maximum(z - knots[k], 0.0) ** 3 - np.maximum(z - last, 0.0) ** 3) / (last - knots[k])
        return column

    tail = cubed(len(knots) - 2)
    return np.column_stack([z, *(cubed(k) - tail for k in range(len(knots) - 2))])


class _Cubics:
    """Features ``(n, D)`` of sorted ``z`` that are cubic between neighbouring knots, as ``logistic.Features``.

    ``features`` computes them. In each interval, they are polynomials of the place ``u`` in it, so that products of
    features are sums over the moments of ``u``: O(n) per product, and O(n) memory. The matrix has D values per row.
    """

    def __init__(self, z: Floats, knots: Floats, features: Callable[[Floats], Floats]) -> None:
        ends = np.concatenate([[knots[0] - 1.0], knots, [knots[-1] + 1.0]])
        cell = np.searchsorted(knots, z, side="right")
        cells, self._starts, self._counts = np.unique(cell, return_index=True, return_counts=True)
        left, width = ends[cells], np.diff(ends)[cells]
        self._u = (z - np.repeat(left, self._counts)) / np.repeat(width, self._counts)
        at = np.linspace(0.0, 1.0, 4)
        values = features((left[:, None] + at * width[:, None]).ravel()).reshape(len(cells), 4, -1)
        #: The coefficients ``(intervals, 4, D)`` of the features, constant first.
        self._coefficients = np.linalg.solve(np.vander(at, increasing=True), values)

    def values(self, theta: Floats) -> Floats:
        of = np.tensordot(self._coefficients, theta, axes=(2, 1)).transpose(1, 0, 2)
        values = np.repeat(of[3], self._counts, axis=0).T
        for coefficient in of[2::-1]:
            values = values * self._u + np.repeat(coefficient, self._counts, axis=0).T
        return values

    def sums(self, weights: Floats) -> Floats:
        return np.tensordot(self._moments(weights, 4), self._coefficients, axes=((2, 0), (0, 1)))

    def gram(self, weights: Floats) -> Floats:
        moments = self._moments(weights, 7)
        products = moments[np.add.outer(np.arange(4), np.arange(4))]
        inner = np.einsum("absj,jbe->sjae", products, self._coefficients, optimize=True)
        return np.tensordot(inner, self._coefficients, axes=((1, 2), (0, 1)))

    def _moments(self, weights: Floats, count: int) -> Floats:
        """Return the sums ``(count, S, intervals)`` of the weights times powers of the places."""
        sums = []
        for _ in range(count):
            sums.append(np.add.reduceat(weights, self._starts, axis=1))
            weights = weights * self._u
        return np.array(sums)


def fit_mli_spline(
    rows: SortedRows, *, folds: int = 5, seed: int = 0, cells: int = 4096
) -> tuple[Averaged, dict[str, Any]]:
    """Fit to sorted rows: the curve, as a table, and the diagnostics of the fit.

    The features are a natural cubic spline of the logit, with up to 30 knots at quantiles, each of unit variance.
    Logits of probabilities are limited to +-16. The ridge strength is that of least held-out log loss in
    cross-validation, for which neighbouring rows are merged to at most ``cells``. O(n) per step. Raises ``TooFewRows``.
    """
    n = len(rows.p)
    check_fold_count(n, folds)
    # A power of two changes no digit, and third powers of large logits do not overflow.
    unit = 2.0 ** np.ceil(np.log2(max(float(np.abs(logit_of(rows)).max()) / _REACH, 1.0)))

    def scores(of: Predicted) -> Floats:
        return np.clip(logit_of(of), -_REACH, _REACH) if of.logit is None else of.logit / unit

    z = scores(rows)
    w = np.ones(n) if rows.w is None else rows.w
    total = float(w.sum())
    knots = np.unique(np.quantile(z, np.linspace(0.0, 1.0, _KNOTS), method="inverted_cdf", weights=w))

    def features(logits: Floats) -> Floats:
        return logits[:, None] if len(knots) < 3 else _basis(logits, knots)

    def root_mean_square(of: Callable[[Floats], Floats]) -> Floats:
        return np.sqrt(np.diagonal(_Cubics(z, knots, of).gram(w[None])[0]) / total)

    centre = _Cubics(z, knots, features).sums(w[None])[0] / total
    spread = root_mean_square(lambda logits: features(logits) - centre)
    spread = np.where(spread > _CONSTANT * root_mean_square(features), spread, 1.0)

    def scaled(logits: Floats) -> Floats:
        return np.column_stack([(features(logits) - centre) / spread, np.ones(len(logits))])

    def variance(strength: float, fits: int) -> Floats:
        computed = np.full((fits, len(centre) + 1), 0.5 / strength)
        computed[:, -1] = 1e6
        return computed

    number = min(n, cells)
    starts = np.arange(number) * n // number
    own = np.where(fold_of_rows(n, folds, seed, rows.clusters) == np.arange(folds)[:, None], w, 0.0)
    mass, hits = (np.add.reduceat(part, starts, axis=1) for part in (own, own * rows.y))
    outside, kept_y = (np.maximum(part.sum(axis=0) - part, 0.0) for part in (mass, hits))
    x = _Cubics(np.add.reduceat(w * z, starts) / mass.sum(axis=0), knots, scaled)
    start, losses = None, []
    for i, strength in enumerate(reversed(STRENGTHS)):
        report(i, len(STRENGTHS) + 1, "strengths outside folds")
        start = fit_logistic(x, np.zeros(number), outside, kept_y, variance(strength, folds), start=start).theta
        f = x.values(start)
        losses.append(float((mass * np.logaddexp(0.0, f) - hits * f).sum()) / total)
    best = tuple(reversed(STRENGTHS))[int(np.argmin(losses))]
    last = _Cubics(z, knots, scaled), np.zeros(n), w[None], (w * rows.y)[None], variance(best, 1)
    theta = fit_logistic(*last).theta
    gradient = float(np.abs(gradient_of(*last, theta)).max() / total)
    at, places = table_places(rows)
    curve = table_of(scaled(scores(places)) @ theta[0], at, rows)
    return curve, {"strength": best, "knots": len(knots), "held_out_log_loss": min(losses), "gradient": gradient}
