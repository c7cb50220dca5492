"""Combinations of probabilities: the log-linear pool, and mixtures by expectation maximisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats
from calibrant.core.progress import check
from calibrant.maps.curves import PROBABILITY_CLIP

#: Strength of the penalty that pulls the exponents of the pool toward equal ones, in nats.
_EQUAL = 20.0
#: Pseudo-count of each part of a mixture, the most steps, and the change of a weight at which steps end.
_PRIOR, _MOST_STEPS, _CHANGE = 0.01, 400, 1e-6
#: Newton steps of the pool, and the expected decrease at which they end.
_NEWTON, _DECREASE = 50, 1e-10


def log_pool(parts: Sequence[Floats], labels: Integers, w: Floats, *, least: float = 0.0) -> tuple[Floats, Floats]:
    """Return exponents ``(M,)`` and ln of the pooled probability of each label ``(n,)``.

    The pool of log probabilities ``parts``, each ``(K, n)``, is softmax(sum_m a_m part_m). The exponents a >= 0
    minimise the log loss with the weights ``w (n,)`` plus 20 |a - 1 / M|^2 in nats, by projected Newton steps.
    Exponents below ``least`` then become 0. O(n K M^2) per step.
    """
    logs = np.maximum(np.stack(parts), np.log(PROBABILITY_CLIP))
    M, _, n = logs.shape
    share, strength = w / w.sum(), _EQUAL / float(w.sum())
    own, rows = logs[:, labels, np.arange(n)], np.arange(n)

    def at(exponents: Floats) -> tuple[float, Floats, Floats]:
        scores = np.tensordot(exponents, logs, 1)
        scores -= scores.max(axis=0)
        label = scores[labels, rows]
        np.exp(scores, out=scores)
        total = scores.sum(axis=0)
        of_label = label - np.log(total)
        return float(strength * ((exponents - 1.0 / M) ** 2).sum() - share @ of_label), scores / total, of_label

    exponents = np.full(M, 1.0 / M)
    value, p, _ = at(exponents)
    for _ in range(_NEWTON):
        check()
        means = np.einsum("kn,mkn->mn", p, logs)
        gradient = (means - own) @ share + 2.0 * strength * (exponents - 1.0 / M)
        spread = logs * (p * share)
        hessian = np.tensordot(spread, logs, axes=([1, 2], [1, 2])) - (means * share) @ means.T
        hessian += 2.0 * strength * np.eye(M)
        step = _projected(exponents, gradient, hessian)
        if gradient @ step < _DECREASE:
            break
        size = 1.0
        while True:
            trial = np.maximum(exponents - size * step, 0.0)
            new = at(trial)
            if new[0] < value or size < 1e-6:
                break
            size /= 2.0
        if new[0] >= value:
            break
        exponents, (value, p, _) = trial, new
    large = np.where(exponents < least, 0.0, exponents)
    return large, at(large)[2]


def _projected(exponents: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Return Newton's step in the exponents that are free: those at 0 which the step would reduce are fixed."""
    fixed = np.zeros(len(exponents), bool)
    for _ in range(len(exponents)):
        step, free = np.zeros(len(exponents)), ~fixed
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        more = fixed | ((exponents <= 0.0) & (step > 0.0))
        if (more == fixed).all() or more.all():
            break
        fixed = more
    return step


def mixture_by_em(parts: Floats, w: Floats) -> Floats:
    """Return mixture weights ``(M,)`` for the probabilities ``parts (M, n)`` of the labels, by EM. O(n M) per step."""
    weights = np.full(len(parts), 1.0 / len(parts))
    for _ in range(_MOST_STEPS):
        new: Floats = weights * (parts @ (w / (weights @ parts))) + _PRIOR
        new /= new.sum()
        if np.abs(new - weights).max() < _CHANGE:
            return new
        weights = new
    return weights
