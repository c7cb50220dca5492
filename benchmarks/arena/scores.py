"""Scores of test rows, and their differences from the base model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import isotonic_regression, minimize_scalar
from scipy.special import entr, logsumexp

Array = npt.NDArray[Any]
#: Probabilities below are raised to this value in the log loss; their number is recorded.
CLIP = 1e-15
_BINS = 15


def losses(p: Array, y: Array) -> Array:
    """Log loss ``(n,)`` of each row, from probabilities ``(n, K)`` clipped at ``CLIP``."""
    loss: Array = -np.log(np.maximum(p[np.arange(len(y)), y], CLIP))
    return loss


def brier(p: Array, y: Array) -> float:
    """Brier score summed over classes, from 0 to 2."""
    return float(np.mean(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1)))


def ece(p: Array, y: Array) -> float:
    """ECE with 15 bins of equal width: of class 1 for two classes, else of the confidence, as in CalArena."""
    if p.shape[1] == 2:
        confidence, right = p[:, 1], (y == 1).astype(float)
    else:
        confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(float)
    bins = np.clip(np.ceil(confidence * _BINS).astype(int) - 1, 0, _BINS - 1)
    gaps = np.bincount(bins, right - confidence, _BINS)
    return float(np.abs(gaps).sum() / len(y))


def refinement(q: Array, y: Array) -> float:
    """The part of the log loss that a recalibration of the test rows themselves does not remove.

    For two classes the recalibration is the isotonic regression of the labels on the probabilities ``(n, 2)``, as in
    CORP (Dimitriadis, Gneiting & Jordan 2021), so that the part depends only on how the rows are ordered. For more
    classes it is the best temperature, as in Berta, Holzmueller, Jordan & Bach (2025, arXiv:2501.19195), so that an
    error that one temperature cannot repair counts as refinement. The rest of the loss is its calibration part.
    """
    loss = float(losses(q, y).mean())
    if q.shape[1] == 2:
        _, place = np.unique(q[:, 1], return_inverse=True)
        counts = np.bincount(place).astype(float)
        x = np.clip(isotonic_regression(np.bincount(place, y) / counts, weights=counts).x, 0.0, 1.0)
        return min(loss, float(counts @ (entr(x) + entr(1.0 - x)) / len(y)))
    logits = np.log(np.maximum(q, CLIP))
    logits -= logits.max(axis=1, keepdims=True)
    of_label = logits[np.arange(len(y)), y].mean()

    def at(log_scale: float) -> float:
        scale = float(np.exp(log_scale))
        return float(logsumexp(scale * logits, axis=1).mean() - scale * of_label)

    return min(loss, float(minimize_scalar(at, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-3}).fun))


def score(q: Array, base: Array, y: Array) -> dict[str, float | int]:
    """All numbers of one contender on one experiment, from its probabilities and the base model's ``(n, K)``."""
    loss, before = losses(q, y), losses(base, y)
    excess = loss - before
    right, was_right = q.argmax(axis=1) == y, base.argmax(axis=1) == y
    return {
        "log_loss": float(loss.mean()),
        "refinement": refinement(q, y),
        "brier": brier(q, y),
        "ece": ece(q, y),
        "accuracy": float(right.mean()),
        "clipped": int(np.count_nonzero(q[np.arange(len(y)), y] < CLIP)),
        "excess": float(excess.mean()),
        "excess_error": float(excess.std(ddof=1) / np.sqrt(len(y))),
        "gained": int(np.count_nonzero(right & ~was_right)),
        "lost": int(np.count_nonzero(~right & was_right)),
    }
