"""Softmax of linear functions of the logits: vector scaling, matrix scaling and Dirichlet calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calibrant.batch import softmax_in_place
from calibrant.cells import Floats
from calibrant.errors import OnePrediction, TooFewRows
from calibrant.maps.curves import Numbers, read_array
from calibrant.maps.softmax_regression import Features, Regression
from calibrant.maps.transforms import Takes, blocks_of_rows, check_classes, logits_block, read_matrix
from calibrant.progress import report, step
from calibrant.reductions import Vector
from calibrant.validation import fold_of_rows

#: The strength on the diagonal under ODIR: negligible, but a class that is predicted without error has an optimum.
_DIAGONAL = 1e-7
#: Strengths of regularisation that cross-validation compares, from the strongest on.
STRENGTHS = tuple(10.0**e for e in range(3, -8, -1))


@dataclass(frozen=True)
class VectorScaling(Numbers):
    """softmax(weights * z + intercepts): a weight and an intercept for each class. Differentiable."""

    family: ClassVar[str] = "vector"
    takes: ClassVar[Takes] = "logits"
    weights: Floats
    intercepts: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K)."""
        found = np.empty(rows.shape)
        for part in blocks_of_rows(rows):
            np.multiply(rows[part], self.weights, out=found[part])
            found[part] += self.intercepts
            softmax_in_place(found[part])
        return found

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        return cls(
            read_array(parameters, "weights", numeric=True, length=n_classes),
            read_array(parameters, "intercepts", numeric=True, length=n_classes),
        )


@dataclass(frozen=True)
class MatrixScaling(Numbers):
    """softmax(W z + b), ``weights (K, K)`` with a row for each class, ``intercepts (K,)``. Differentiable."""

    family: ClassVar[str] = "matrix"
    takes: ClassVar[Takes] = "logits"
    weights: Floats
    intercepts: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of logits ``(n, K)``. O(n K^2)."""
        return _linear(rows, self.weights, self.intercepts, probabilities=False)

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], n_classes: int) -> Self:
        """Read a document's numbers, each checked."""
        return cls(
            read_matrix(parameters, "weights", (n_classes, n_classes)),
            read_array(parameters, "intercepts", numeric=True, length=n_classes),
        )


@dataclass(frozen=True)
class Dirichlet(MatrixScaling):
    """softmax(W ln p + b), p clipped at 2^-52: what Dirichlet densities of each class's vectors make of them."""

    family: ClassVar[str] = "dirichlet"
    takes: ClassVar[Takes] = "probabilities"

    def __call__(self, rows: Floats) -> Floats:
        """Calibrated probabilities ``(n, K)`` of probabilities ``(n, K)``. O(n K^2)."""
        return _linear(rows, self.weights, self.intercepts, probabilities=True)


@dataclass(frozen=True)
class Regularised:
    """The weights ``(K, K)`` and intercepts ``(K,)`` of a regularised fit, the strengths, and the held-out log loss.

    ``held_out`` is None where no strength was to be chosen.
    """

    weights: Floats
    intercepts: Floats
    strength: float
    intercept_strength: float
    held_out: float | None


def fit_vector_scaling(vector: Vector) -> VectorScaling:
    """Fit by maximum likelihood (Guo et al. 2017, section 4.2); intercepts sum to 0. O(n K) a step and more.

    Raises ``MissingClass``, and ``NotConverged`` of separable labels.
    """
    check_classes(vector)
    theta = _unregularised(vector, full=False)
    return VectorScaling(theta[:, 0].copy(), theta[:, 1] - theta[:, 1].mean())


def fit_matrix_scaling(vector: Vector) -> MatrixScaling:
    """Fit by maximum likelihood (Guo et al. 2017, section 4.2). O(n K^4) a step, O(n K^2) and more of many classes.

    Softmax leaves open what is added to a column of weights, or to the intercepts: the weights beside the diagonal of
    a column, and the intercepts, sum to 0. Raises ``MissingClass``, and ``NotConverged`` of separable labels.
    """
    check_classes(vector)
    theta = _unregularised(vector, full=True)
    K = vector.n_classes
    weights = theta[:, :-1]
    beside = (weights.sum(axis=0) - weights.diagonal()) / (K - 1)
    return MatrixScaling(weights - beside, theta[:, -1] - theta[:, -1].mean())


def fit_regularised(
    vector: Vector,
    *,
    probabilities: bool,
    off_diagonal: bool,
    strength: float | None = None,
    intercept_strength: float | None = None,
    folds: int = 3,
    seed: int = 0,
) -> Regularised:
    """Fit W z + b, or W ln p + b of ``probabilities``, by penalised mean log loss (Kull et al. 2019, section 4).

    With ``off_diagonal`` (ODIR) the penalty is ``strength`` times the mean square of the weights beside the diagonal
    plus ``intercept_strength`` times that of the intercepts, plus 1e-7 times that of the diagonal, without which a
    class that is predicted without error has no optimum; else (L2) ``strength`` times the mean square of all
    K (K + 1) weights and intercepts. A strength of None is chosen among ``STRENGTHS`` by held-out log loss in
    cross-validation, of equal ones the strongest: first one for both, then the intercepts' own. Folds belong to rows
    in an order of their own. Raises ``NotConverged``, ``OnePrediction`` under ODIR, and ``TooFewRows``.
    """
    given = vector.logits if vector.logits is not None and not probabilities else vector.p
    logarithms = probabilities or vector.logits is None
    if len(vector) < folds:
        raise TooFewRows.at("/predictions", f"have {len(vector)} rows, where {folds} folds need {folds}")
    order = vector.order()
    if vector.w is not None:
        order = order[vector.w[order] > 0.0]
        if len(order) < folds:
            raise TooFewRows.at("/predictions", f"have {len(order)} rows of weight, where {folds} folds need {folds}")
    w = None if vector.w is None else vector.w[order]
    twice = off_diagonal and strength is None and intercept_strength is None
    parts = (strength is None) + twice + 1
    report(0, parts, "rows")
    x = Features.of(given[order], vector.labels[order], w, full=True, probabilities=logarithms)
    if off_diagonal and x.constant:
        raise OnePrediction.at("/predictions", "are all equal: the diagonal could be anything")
    search = _Search(x, off_diagonal, fold_of_rows(len(order), folds, seed), folds)
    chosen, own, held_out = strength, intercept_strength, None
    if chosen is None:
        pairs = [(s, s if own is None else own) for s in STRENGTHS]
        with step(0, parts):
            (chosen, _), held_out = search.best(pairs)
    if own is None:
        own = chosen
        if off_diagonal and strength is None:
            with step(1, parts):
                (_, own), held_out = search.best([(chosen, s) for s in STRENGTHS])
    report(parts - 1, parts, "all rows")
    theta = x.original(Regression(x, x.w, search.penalty(chosen, own)).minimise())
    return Regularised(theta[:, :-1].copy(), theta[:, -1].copy(), chosen, own, held_out)


@dataclass(frozen=True)
class _Search:
    features: Features
    off_diagonal: bool
    fold: Any
    folds: int

    def penalty(self, strength: float, intercept_strength: float) -> Floats:
        """What multiplies the squares of the parameters."""
        K, d = self.features.shape
        if not self.off_diagonal:
            return np.full((K, d), strength / (K * d))
        found = np.full((K, d), strength / (K * (K - 1)))
        found[np.arange(K), np.arange(K)] = _DIAGONAL / K
        found[:, -1] = intercept_strength / K
        return found

    def best(self, pairs: list[tuple[float, float]]) -> tuple[tuple[float, float], float]:
        """The pair of strengths of the least held-out log loss, and that loss."""
        x = self.features
        scores = np.zeros(len(pairs))
        for fold in range(self.folds):
            held_out = self.fold == fold
            kept = np.where(held_out, 0.0, x.w)
            kept /= kept.sum()
            theta = None
            for i, pair in enumerate(pairs):
                report(fold * len(pairs) + i, self.folds * len(pairs), "strengths outside folds")
                fitted = Regression(x, kept, self.penalty(*pair))
                theta = fitted.minimise(theta)
                scores[i] += float(x.w[held_out] @ fitted.losses(theta)[held_out])
        best = int(scores.argmin())
        return pairs[best], float(scores[best])


def _unregularised(vector: Vector, *, full: bool) -> Floats:
    given = vector.p if vector.logits is None else vector.logits
    report(0, 1, "Newton steps")
    x = Features.of(given, vector.labels, vector.w, full=full, probabilities=vector.logits is None)
    return x.original(Regression(x, x.w).minimise())


def _linear(rows: Floats, weights: Floats, intercepts: Floats, *, probabilities: bool) -> Floats:
    found = np.empty(rows.shape)
    for part in blocks_of_rows(rows):
        np.matmul(logits_block(rows[part], probabilities), weights.T, out=found[part])
        found[part] += intercepts
        softmax_in_place(found[part])
    return found
