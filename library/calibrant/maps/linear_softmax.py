"""Softmax of linear functions of the logits: vector scaling, matrix scaling and Dirichlet calibration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.special import log_softmax

from calibrant.core.batch import softmax_in_place
from calibrant.core.cells import Floats, take
from calibrant.core.errors import NotConverged, OnePrediction, TooFewRows
from calibrant.core.progress import report, step
from calibrant.core.reductions import Vector
from calibrant.core.results import n_rows
from calibrant.core.validation import check_fold_count, fold_of_rows
from calibrant.maps.parameters import Intercepts, Parameter, Parametric, Weights
from calibrant.maps.softmax_design import Design
from calibrant.maps.softmax_regression import Regression, SoftmaxFeatures
from calibrant.maps.softmax_solver import Penalty, minimise
from calibrant.maps.transforms import Takes, blocks_of_rows, check_classes, logits_block

#: Strength on the diagonal under ODIR: negligible, but it gives an optimum if a class is predicted without error.
_DIAGONAL = 1e-7
#: Candidate strengths of regularisation, in descending order.
STRENGTHS = tuple(10.0**e for e in range(6, -8, -1))
#: Relative accuracy of the fits outside folds, and how far above the lowest loss the search ends.
_SEARCH, _HIGHER = 1e-7, 1.05
#: The same with many parameters, and after how many strengths in a row that are no better.
_HIGHER_OF_MANY, _WORSE = 1.02, 2
#: The most parameters for Newton's method with the whole Hessian, which is accurate to rounding.
_WHOLE = 600


class Outdone(Exception):
    """A search of strengths ended early, because another fit has a lower held-out log loss."""


@dataclass(frozen=True)
class VectorScaling(Parametric):
    """A weight and an intercept for each class. Differentiable."""

    family: ClassVar[str] = "vector"
    formula: ClassVar[str] = "softmax(weights * z + intercepts), class by class"
    takes: ClassVar[Takes] = "logits"
    weights: Annotated[Floats, Parameter("factor of each class", shape="K")]
    intercepts: Intercepts

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K)."""
        calibrated = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            np.multiply(rows[part], self.weights, out=calibrated[part])
            calibrated[part] += self.intercepts
            softmax_in_place(calibrated[part])
        return calibrated


@dataclass(frozen=True)
class MatrixScaling(Parametric):
    """A matrix of weights and an intercept for each class. Differentiable."""

    family: ClassVar[str] = "matrix"
    formula: ClassVar[str] = "softmax(W z + b)"
    takes: ClassVar[Takes] = "logits"
    weights: Weights
    intercepts: Intercepts

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K^2)."""
        return _linear(rows, self.weights, self.intercepts, probabilities=False)


@dataclass(frozen=True)
class Dirichlet(MatrixScaling):
    """The posterior if the vectors of each class have Dirichlet densities."""

    family: ClassVar[str] = "dirichlet"
    formula: ClassVar[str] = "softmax(W ln p + b)"
    takes: ClassVar[Takes] = "either"

    def __call__(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for probabilities ``(n, K)``. O(n K^2)."""
        return _linear(rows, self.weights, self.intercepts, probabilities=True)

    def of_logits(self, rows: Floats) -> Floats:
        """Return calibrated probabilities ``(n, K)`` for logits ``(n, K)``. O(n K^2)."""
        return _linear(log_softmax(rows.astype(np.float64), axis=1), self.weights, self.intercepts, probabilities=False)


@dataclass(frozen=True)
class Regularised:
    """The weights ``(K, K)`` and intercepts ``(K,)`` of a regularised fit, the strengths, and the held-out log loss.

    ``held_out`` is None if the strengths were given. ``optimum`` has the objective and its largest derivative.
    """

    weights: Floats
    intercepts: Floats
    strength: float
    intercept_strength: float
    held_out: float | None
    optimum: dict[str, float]


def fit_vector_scaling(vector: Vector) -> tuple[VectorScaling, dict[str, float]]:
    """Fit by maximum likelihood (Guo et al. 2017, section 4.2); intercepts sum to 0. At least O(n K) per step.

    The second value has the objective and its largest derivative, for features of unit variance. Raises
    ``MissingClass``, and ``NotConverged`` for separable labels.
    """
    check_classes(vector)
    theta, optimum = _unregularised(vector, full=False)
    return VectorScaling(theta[:, 0].copy(), theta[:, 1] - theta[:, 1].mean()), optimum


def fit_matrix_scaling(vector: Vector) -> tuple[MatrixScaling, dict[str, float]]:
    """Fit by maximum likelihood (Guo et al. 2017, section 4.2). O(n K^4) per step; for many classes at least O(n K^2).

    A constant added to a column of weights or to the intercepts does not change the softmax. By convention the
    off-diagonal weights of each column, and the intercepts, sum to 0. The second value is as for vector
    scaling. Raises ``MissingClass``, and ``NotConverged`` for separable labels.
    """
    check_classes(vector)
    theta, optimum = _unregularised(vector, full=True)
    K = vector.n_classes
    weights = theta[:, :-1]
    beside = (weights.sum(axis=0) - weights.diagonal()) / (K - 1)
    return MatrixScaling(weights - beside, theta[:, -1] - theta[:, -1].mean()), optimum


def fit_regularised(
    vector: Vector,
    *,
    probabilities: bool,
    off_diagonal: bool,
    strength: float | None = None,
    intercept_strength: float | None = None,
    folds: int = 3,
    seed: int = 0,
    bound: float = np.inf,
) -> Regularised:
    """Fit W z + b, or W ln p + b with ``probabilities``, by penalised mean log loss (Kull et al. 2019, section 4).

    With ``off_diagonal`` (ODIR) the penalty is ``strength`` times the mean square of the off-diagonal weights, plus
    ``intercept_strength`` times that of the intercepts, plus 1e-7 times that of the diagonal, which gives an optimum
    if a class is predicted without error. Otherwise (L2) it is ``strength`` times the mean square of all K (K + 1)
    weights and intercepts. A strength of None is chosen from ``STRENGTHS`` by cross-validated log loss, the strongest
    one of ties: first the same for both, then that of the intercepts. Folds do not depend on the order of the rows.
    Raises ``NotConverged``, ``OnePrediction`` under ODIR, ``TooFewRows``, and ``Outdone`` if the held-out loss is not
    below the ``bound``.
    """
    logarithms = vector.logits is None
    values = vector.p if vector.logits is None else vector.logits
    if probabilities and not logarithms:
        values = log_softmax(values.astype(np.float64), axis=1)
    check_fold_count(len(vector), folds)
    order = vector.order()
    if vector.w is not None:
        order = order[vector.w[order] > 0.0]
        if len(order) < folds:
            has_rows = f"have {n_rows(len(order))} with weight"
            raise TooFewRows.at("/predictions", f"{has_rows}, but {folds} folds need at least {folds}")
    w = None if vector.w is None else vector.w[order]
    twice = off_diagonal and strength is None and intercept_strength is None
    parts = (strength is None) + twice + 1
    report(0, parts, "rows")
    x = SoftmaxFeatures.of(values[order], vector.labels[order], w, full=True, probabilities=logarithms)
    if off_diagonal and x.constant:
        raise OnePrediction.at("/predictions", "are all equal, so that the diagonal is not determined")
    fold = fold_of_rows(len(order), folds, seed, take(vector.clusters, order))
    search = _ScaleSearch(x, off_diagonal, fold, folds, bound * _HIGHER_OF_MANY)
    chosen, own, held_out = strength, intercept_strength, None
    if chosen is None:
        pairs = [(s, s if own is None else own) for s in STRENGTHS]
        with step(0, parts):
            (chosen, _), held_out = search.best(pairs)
        if search.many and held_out > search.bound:
            raise Outdone
    if own is None:
        own = chosen
        if off_diagonal and strength is None:
            with step(1, parts):
                (_, own), held_out = search.best([(chosen, s) for s in STRENGTHS])
    if held_out is not None and held_out >= bound:
        raise Outdone
    report(parts - 1, parts, "all rows")
    theta, optimum = search.fitted(chosen, own)
    return Regularised(theta[:, :-1].copy(), theta[:, -1].copy(), chosen, own, held_out, optimum)


@dataclass(frozen=True)
class _ScaleSearch:
    features: SoftmaxFeatures
    off_diagonal: bool
    fold: Any
    folds: int
    bound: float

    @property
    def many(self) -> bool:
        """Whether there are so many parameters that each strength takes long."""
        return self.features.n_classes * (self.features.n_classes + 1) > _WHOLE

    def penalty(self, strength: float, intercept_strength: float) -> Floats:
        """Return the factors of the squared parameters."""
        K, d = self.features.shape
        if not self.off_diagonal:
            return np.full((K, d), strength / (K * d))
        factors = np.full((K, d), strength / (K * (K - 1)))
        factors[np.arange(K), np.arange(K)] = _DIAGONAL / K
        factors[:, -1] = intercept_strength / K
        return factors

    def best(self, pairs: list[tuple[float, float]]) -> tuple[tuple[float, float], float]:
        """Return the pair of strengths, in descending order, with the smallest held-out log loss, and that loss.

        All folds are fitted at once, each pair from the optimum of the one before. The search ends when the loss
        is above the lowest one by 5 %; with many parameters by 2 %, even within a fit, or after two pairs in a row that
        are no better, or after one if the lowest loss is above the bound.
        """
        design, w = self._design, self._fold_weights
        K, d = self.features.shape
        theta = np.zeros((self.folds, K, d))
        theta[:, np.arange(K), np.arange(K)] = 1.0
        scores: list[float] = []

        def score(theta: Floats) -> float:
            return float(self.features.w @ design.losses(theta)[self.fold, np.arange(len(self.fold))])

        def is_worse(theta: Floats) -> bool:
            return self.many and bool(scores) and score(theta) > _HIGHER_OF_MANY * min(scores)

        for i, pair in enumerate(pairs):
            report(i, len(pairs), "strengths outside folds")
            penalty = Penalty(self.penalty(*pair), np.zeros(()))
            try:
                theta = minimise(design, w, penalty, theta, tolerance=_SEARCH, stop=is_worse).theta
            except NotConverged:
                break
            scores.append(score(theta))
            if self._ends(scores):
                break
        if not scores:
            raise NotConverged("the softmax regression did not converge outside the folds")
        best = int(np.argmin(scores))
        return pairs[best], scores[best]

    def _ends(self, scores: list[float]) -> bool:
        """Return whether a search with these losses ends."""
        least = min(scores)
        if not self.many:
            return scores[-1] > _HIGHER * least
        worse = len(scores) - 1 - scores.index(least)
        return scores[-1] > _HIGHER_OF_MANY * least or worse >= (1 if least > self.bound else _WORSE)

    def fitted(self, strength: float, intercept_strength: float) -> tuple[Floats, dict[str, float]]:
        """Return the parameters ``(K, d)`` of the fit to all rows, and the objective with its largest derivative."""
        x, penalty = self.features, self.penalty(strength, intercept_strength)
        if not self.many:
            return _optimum(Regression(x, x.w, penalty))
        start = np.zeros((1, *x.shape))
        start[0, np.arange(x.n_classes), np.arange(x.n_classes)] = 1.0
        solution = minimise(self._design, x.w[None], Penalty(penalty, np.zeros(())), start, tolerance=1e-13)
        return solution.theta[0], {"objective": float(solution.objective[0]), "gradient": float(solution.gradient[0])}

    @cached_property
    def _design(self) -> Design:
        x = self.features
        return Design(np.ascontiguousarray(logits_block(x.given, x.probabilities).T), x.labels, x.n_classes)

    @cached_property
    def _fold_weights(self) -> Floats:
        outside = np.where(self.fold == np.arange(self.folds)[:, None], 0.0, self.features.w)
        shares: Floats = outside / outside.sum(axis=1, keepdims=True)
        return shares


def _unregularised(vector: Vector, *, full: bool) -> tuple[Floats, dict[str, float]]:
    values = vector.p if vector.logits is None else vector.logits
    report(0, 1, "Newton steps")
    x = SoftmaxFeatures.of(values, vector.labels, vector.w, full=full, probabilities=vector.logits is None)
    return _optimum(Regression(x, x.w))


def _optimum(regression: Regression) -> tuple[Floats, dict[str, float]]:
    theta = regression.minimise()
    gradient = float(np.abs(regression.gradient(theta)).max())
    return regression.features.original(theta), {"objective": regression.loss(theta), "gradient": gradient}


def _linear(rows: Floats, weights: Floats, intercepts: Floats, *, probabilities: bool) -> Floats:
    calibrated = np.empty(rows.shape)
    for part in blocks_of_rows(rows):
        np.matmul(logits_block(rows[part], probabilities), weights.T, out=calibrated[part])
        calibrated[part] += intercepts
        softmax_in_place(calibrated[part])
    return calibrated
