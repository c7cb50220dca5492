"""Conformity scores of labels, and the classes whose score is within a threshold, block by block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from calibrant.core.batch import Integers, Predictions, probabilities_of
from calibrant.core.cells import Floats

Booleans = npt.NDArray[np.bool_]

#: Numbers of a block of rows.
_BLOCK = 1 << 18
#: Classes of a row that are sorted at first; most sets are smaller.
_FEW = 128


def blocks(predictions: Predictions) -> Iterator[tuple[slice, Floats]]:
    """Yield the probabilities of all classes of a few rows after another, (h, K); of an event, K = 2. O(n K)."""
    values, logits = predictions.given, predictions.scale == "logit"
    height = max(1, _BLOCK // (predictions.n_classes or 2))
    for start in range(0, len(values), height):
        rows = slice(start, start + height)
        if values.ndim == 2:
            yield rows, probabilities_of(values[rows]) if logits else values[rows]
            continue
        p, other = (expit(values[rows]), expit(-values[rows])) if logits else (values[rows], 1.0 - values[rows])
        both: Floats = np.column_stack([other, p])  # the logistic function of -z is exact where 1 - p is rounded
        yield rows, both


def uniform_numbers(seed: int, n: int) -> Floats:
    """Return a number in [0, 1) for each of n rows, which depends only on the seed and the number of the row.

    The state of SplitMix64 (Steele, Lea & Flood 2014) is (2^32 seed + row + 1) times its increment, so any program can
    compute the number of a row.

    >>> uniform_numbers(1, 2).round(4), uniform_numbers(1, 1).round(4)
    (array([0.2736, 0.9062]), array([0.2736]))
    """
    state = np.arange(1, n + 1, dtype=np.uint64) + np.uint64(seed << 32)
    state *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def probability_scores(predictions: Predictions, labels: Integers) -> Floats:
    """Return the predicted probability of the label of each row, (n,). O(n K) for logits, otherwise O(n)."""
    own = np.empty(len(labels))
    if predictions.scale == "probability" and predictions.given.ndim == 2:
        return predictions.given[np.arange(len(labels)), labels].astype(np.float64)
    for rows, p in blocks(predictions):
        own[rows] = p[np.arange(len(p)), labels[rows]]
    return own


# --- Scores that add the probabilities of a row from the largest one: E_r = p_(1) + ... + p_(r) - u p_(r) + penalty


def ranked_scores(ranked: Floats, u: Floats, penalty: float, k_reg: int) -> Floats:
    """Return the scores of the first classes of each row, whose probabilities are given in descending order, (h, r).

    The probabilities are added one after another, as any program would add them. Scores ascend with the rank.
    """
    ranked = ranked.astype(np.float64, copy=False)
    scores = np.cumsum(ranked, axis=1)
    if u.any():
        scores -= u[:, None] * ranked
    if penalty > 0.0:
        scores += penalty * np.maximum(np.arange(1, ranked.shape[1] + 1) - k_reg, 0)
    return scores


def descending(p: Floats, most: int) -> Floats:
    """Return the ``most`` largest probabilities of each row, in descending order. O(h K + h most log most)."""
    if most < p.shape[1]:
        p = np.partition(p, p.shape[1] - most, axis=1)[:, -most:]
    return np.sort(p, axis=1)[:, ::-1]


def label_scores(predictions: Predictions, labels: Integers, u: Floats, penalty: float, k_reg: int) -> Floats:
    """Return the score of the label of each row, (n,); of equal probabilities the first class has the first rank."""
    scores = np.empty(len(labels))
    for rows, p in blocks(predictions):
        y = labels[rows]
        at = np.arange(len(p))
        own = p[at, y][:, None]
        rank = np.count_nonzero(p > own, axis=1)
        tied = np.flatnonzero(np.count_nonzero(p >= own, axis=1) - rank > 1)
        rank[tied] += ((p[tied] == own[tied]) & (np.arange(p.shape[1]) < y[tied, None])).sum(axis=1)
        most = min(_FEW, p.shape[1])
        ranked = ranked_scores(descending(p, most), u[rows], penalty, k_reg)
        scores[rows] = ranked[at, np.minimum(rank, most - 1)]
        wide = np.flatnonzero(rank >= most)
        if len(wide):
            ranked = ranked_scores(descending(p[wide], p.shape[1]), u[rows][wide], penalty, k_reg)
            scores[rows.start + wide] = ranked[np.arange(len(wide)), rank[wide]]
    return scores


def within(p: Floats, limits: Floats, u: Floats, penalty: float, k_reg: int) -> Booleans:
    """Return which classes have a score of at most their limit, (h, K), for limits of each row (h, 1). O(h K)."""
    most = min(_FEW, p.shape[1])
    sizes, cut = _sizes(descending(p, most), limits, u, penalty, k_reg)
    wide = np.flatnonzero(sizes == most) if most < p.shape[1] else np.empty(0, np.int64)
    if len(wide):
        ranked = descending(p[wide], p.shape[1])
        sizes[wide], cut[wide] = _sizes(ranked, limits[wide], u[wide], penalty, k_reg)
    members: Booleans = p >= cut[:, None]
    for i in np.flatnonzero(np.count_nonzero(members, axis=1) > sizes):  # classes that are tied with the last one
        members[i] = False
        members[i, np.argsort(-p[i], kind="stable")[: sizes[i]]] = True
    return members


def _sizes(ranked: Floats, limits: Floats, u: Floats, penalty: float, k_reg: int) -> tuple[Integers, Floats]:
    """Return how many of the first classes of each row are in its set, and the probability of the last one."""
    sizes = np.count_nonzero(ranked_scores(ranked, u, penalty, k_reg) <= limits, axis=1)
    last = ranked[np.arange(len(ranked)), np.maximum(sizes - 1, 0)].astype(np.float64)
    return sizes, np.where(sizes > 0, last, np.inf)


def within_by_class(p: Floats, limits: Floats, u: Floats, penalty: float, k_reg: int) -> Booleans:
    """Return which classes have a score of at most their limit, (h, K), for limits of each class (K,). O(h K log K)."""
    order = np.argsort(-p, axis=1, kind="stable")
    scores = ranked_scores(np.take_along_axis(p, order, axis=1), u, penalty, k_reg)
    members = np.empty(p.shape, np.bool_)
    np.put_along_axis(members, order, scores <= limits[order], axis=1)
    return members
