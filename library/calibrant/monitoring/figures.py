"""Performance figures as expectations over calibrated probabilities, with their sampling variances.

Each function takes the probability that a label is positive, and returns the figure as a ratio of expectations. With
labels in the place of probabilities it returns the realised figure, and variances of 0.

A realised figure differs from the expected one because labels are drawn. To first order the difference is sum g (y - c)
with the gradient g of the figure, so its variance is sum g^2 c (1 - c), or for K classes sum_i [sum_k g_ik^2 c_ik -
(sum_k g_ik c_ik)^2].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats

#: The log loss clips probabilities here.
_LEAST = 2.0**-52


@dataclass(frozen=True)
class Figures:
    """Named figures ``(F,)`` with sampling variances ``(F,)``; NaN if undefined.

    ``confusion (K, K)`` has a row for each class and a column for each decision, as shares of the rows.
    """

    names: tuple[str, ...]
    values: Floats
    variances: Floats
    confusion: Floats
    confusion_variances: Floats

    def flat(self) -> Floats:
        """Return all values in one vector."""
        return np.concatenate([self.values, self.confusion.ravel()])

    def flat_variances(self) -> Floats:
        """Return all variances in one vector."""
        return np.concatenate([self.variances, self.confusion_variances.ravel()])


def binary_figures(
    c: Floats, p: Floats, decided: npt.NDArray[np.bool_], w: Floats, squares: Floats, *, of_confidence: bool = False
) -> Figures:
    """Return the figures of one event: ``c (n,)`` calibrated, ``p (n,)`` the model's, ``decided (n,)`` positive.

    ``w (n,)`` are weights, and ``squares (n,)`` the sums of their squares over the rows that an entry stands for. With
    ``of_confidence`` every decision is positive, and precision, recall and F1 are left out. O(n log n).
    """
    n, positives = float(w.sum()), float(w @ c)
    tp, fp = float(w[decided] @ c[decided]), float(w[decided] @ (1.0 - c[decided]))
    fn = positives - tp
    clipped = np.clip(p, _LEAST, 1.0 - _LEAST)
    auc, of_auc = _auc(c, p, w, squares)
    sign = np.where(decided, 1.0, -1.0)
    figures: dict[str, tuple[float, Floats]] = {
        "accuracy": ((tp + n - positives - fp) / n, sign / n),
        "auroc": (auc, of_auc),
        "brier": (float(w @ (c * (1.0 - p) ** 2 + (1.0 - c) * p**2)) / n, (1.0 - 2.0 * p) / n),
        "log-loss": (
            -float(w @ (c * np.log(clipped) + (1.0 - c) * np.log1p(-clipped))) / n,
            (np.log1p(-clipped) - np.log(clipped)) / n,
        ),
    }
    if not of_confidence:
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = (np.array([tp, tp, 2.0 * tp]), np.array([tp + fp, positives, 2.0 * tp + fp + fn]))
            precision, recall, f1 = (parts[0] / parts[1]).tolist()
            figures |= {
                "precision": (precision, decided / parts[1][0]),
                "recall": (recall, (decided - recall) / parts[1][1]),
                "f1": (f1, (2.0 * decided - f1) / parts[1][2]),
            }
    spread = squares * c * (1.0 - c)
    confusion = np.array([[n - positives - fp, fp], [fn, tp]]) / n
    cells = np.array([spread[~decided].sum(), spread[decided].sum()]) / n**2
    return Figures(
        tuple(figures),
        np.array([value for value, _ in figures.values()]),
        np.array([spread @ gradient**2 for _, gradient in figures.values()]),
        confusion,
        np.tile(cells, (2, 1)),
    )


def class_figures(c: Floats, p: Floats, decided: Integers, w: Floats, squares: Floats) -> Figures:
    """Return the figures of K classes: ``c`` and ``p (n, K)``, ``decided (n,)`` the predicted classes.

    AUROC (one class against the rest), precision, recall and F1 are means over the classes for which they are defined.
    O(K n log n).
    """
    n, K = w.sum(), p.shape[1]
    chosen = decided[:, None] == np.arange(K)
    together = np.array([(w[:, None] * c)[chosen[:, k]].sum(axis=0) for k in range(K)]).T  # class, decision
    hits, decisions, positives = together.diagonal(), w @ chosen, w @ c
    logs = np.log(np.clip(p, _LEAST, 1.0))
    aucs = [_auc(c[:, k], p[:, k], w, squares) for k in range(K)]
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall, f1 = hits / decisions, hits / positives, 2.0 * hits / (decisions + positives)
        macro = {
            "auroc": (np.array([auc for auc, _ in aucs]), np.stack([gradient for _, gradient in aucs], axis=1)),
            "precision": (precision, chosen / decisions),
            "recall": (recall, (chosen - recall) / positives),
            "f1": (f1, (2.0 * chosen - f1) / (decisions + positives)),
        }
    figures: dict[str, tuple[float, Floats]] = {
        "accuracy": (float(hits.sum() / n), chosen / n),
        "brier": (float(w @ (np.square(p).sum(axis=1) + 1.0 - 2.0 * (c * p).sum(axis=1))) / n, -2.0 * p / n),
        "log-loss": (-float(w @ (c * logs).sum(axis=1)) / n, -logs / n),
        **{name: _mean_defined(*of_classes) for name, of_classes in macro.items()},
    }
    spread = squares[:, None] * c * (1.0 - c)
    return Figures(
        tuple(figures),
        np.array([value for value, _ in figures.values()]),
        np.array([_variance(gradient, c, squares) for _, gradient in figures.values()]),
        together / n,
        np.array([spread[chosen[:, k]].sum(axis=0) for k in range(K)]).T / n**2,
    )


def _mean_defined(values: Floats, gradients: Floats) -> tuple[float, Floats]:
    defined = np.isfinite(values)
    if not defined.any():
        return float("nan"), np.full(gradients.shape, np.nan)
    return float(values[defined].mean()), np.where(defined, gradients, 0.0) / np.count_nonzero(defined)


def _variance(gradient: Floats, c: Floats, squares: Floats) -> float:
    first, second = (gradient * c).sum(axis=1), (gradient**2 * c).sum(axis=1)
    return float(squares @ np.maximum(second - first**2, 0.0))


def _auc(c: Floats, p: Floats, w: Floats, squares: Floats) -> tuple[float, Floats]:
    """Return the ratio of the expected concordant pairs of two rows to the expected pairs, and its gradient.

    Ties count half. A row makes no pair with itself, which the sums over ``squares`` take out.
    """
    _, tie = np.unique(p, return_inverse=True)
    positive, negative = np.bincount(tie, w * c), np.bincount(tie, w * (1.0 - c))
    below = np.cumsum(negative) - negative / 2.0
    above = positive.sum() - np.cumsum(positive) + positive / 2.0
    own = float(squares @ (c * (1.0 - c)))
    total = float(positive.sum() * negative.sum()) - own
    if total <= 0.0:
        return float("nan"), np.full(len(p), np.nan)
    value = (float(positive @ below) - own / 2.0) / total
    gradient = (below - above)[tie] - value * (negative.sum() - positive.sum())
    return value, gradient / total
