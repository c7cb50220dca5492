"""Scores of test rows, and their differences from the base model's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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


def score(q: Array, base: Array, y: Array) -> dict[str, float | int]:
    """All numbers of one contender on one experiment, from its probabilities and the base model's ``(n, K)``."""
    loss, before = losses(q, y), losses(base, y)
    excess = loss - before
    right, was_right = q.argmax(axis=1) == y, base.argmax(axis=1) == y
    return {
        "log_loss": float(loss.mean()),
        "brier": brier(q, y),
        "ece": ece(q, y),
        "accuracy": float(right.mean()),
        "clipped": int(np.count_nonzero(q[np.arange(len(y)), y] < CLIP)),
        "excess": float(excess.mean()),
        "excess_error": float(excess.std(ddof=1) / np.sqrt(len(y))),
        "gained": int(np.count_nonzero(right & ~was_right)),
        "lost": int(np.count_nonzero(~right & was_right)),
    }
