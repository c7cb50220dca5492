"""Clusters of classes with similar scores, which share a threshold (Ding et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Integers
from calibrant.core.cells import Floats

#: Of m classes, the rows of m / (75 + m) of the smallest one choose the clusters.
_SHARE = 75
#: The levels of the quantiles by which scores that are sums of probabilities are compared.
_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
#: The fewest such rows of a class that choose clusters.
_FEWEST = 4
#: The random starts and the most steps of k-means.
_STARTS, _STEPS = 10, 300


@dataclass(frozen=True)
class ClassClusters:
    """The cluster of each class, -1 for classes with few rows, and the rows that did not choose the clusters."""

    of_class: Integers
    left: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        """Number of clusters."""
        return int(self.of_class.max()) + 1


def cluster_classes(
    scores: Floats, labels: Integers, n_classes: int, needed: int, seed: int, *, of_probability: bool
) -> ClassClusters:
    """Cluster classes by their scores, on a random part of the rows of each class.

    ``needed`` rows suffice for a finite threshold. With m classes of at least the rows r of the smallest one (or
    ``needed``), a fraction f / r of the rows chooses floor(f / 2) clusters by quantiles of their scores, f = floor(r m
    / (75 + m)). Classes with fewer than ``needed`` of these rows have no cluster. There is none at all if f is below 4.

    Scores ``of_probability`` are compared by the mean of the upper half, and there are half as many clusters: the
    quantiles and small clusters of Ding et al. (2023) make those sets larger without covering classes better.
    """
    random = np.random.default_rng(seed)
    counts = np.bincount(labels, minlength=n_classes)
    least = max(int(counts.min()), needed)
    m = int((counts >= least).sum())
    chosen_rows = least * m // (_SHARE + m)
    order = random.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    left = np.ones(len(labels), np.bool_)
    left[order[rank < chosen_rows * counts[labels[order]] // least]] = False
    own, number = np.bincount(labels[~left], minlength=n_classes), np.full(n_classes, -1)
    common, n_clusters = np.flatnonzero(own >= needed), max(chosen_rows // (4 if of_probability else 2), 2)
    if chosen_rows >= _FEWEST and n_clusters < len(common):
        describe = _upper_mean if of_probability else _quantiles
        points = np.array([describe(scores[~left & (labels == k)]) for k in common])
        number[common] = _k_means(points, np.sqrt(own[common]), n_clusters, random)
    return ClassClusters(number, left)


def _upper_mean(scores: Floats) -> Floats:
    """Return the mean of the upper half of scores, whose labels conform least."""
    return np.sort(scores)[len(scores) // 2 :].mean(keepdims=True)  # type: ignore[no-any-return]


def _quantiles(scores: Floats) -> Floats:
    ascending = np.sort(scores)
    return ascending[[int(np.ceil(len(ascending) * level - 1e-9)) - 1 for level in _LEVELS]]


def _k_means(points: Floats, weights: Floats, k: int, random: np.random.Generator) -> Integers:
    """Return the cluster of each point: the best of several runs of Lloyd's algorithm, started by k-means++."""
    best, least = np.zeros(len(points), np.int64), np.inf
    for _ in range(_STARTS):
        centres = points[random.choice(len(points), 1, p=weights / weights.sum())]
        while len(centres) < k:
            near = weights * _squares(points, centres).min(axis=1)
            near = near if near.any() else weights
            centres = np.vstack([centres, points[random.choice(len(points), p=near / near.sum())]])
        nearest = np.full(len(points), -1)
        for _ in range(_STEPS):
            before, nearest = nearest, _squares(points, centres).argmin(axis=1)
            if (before == nearest).all():
                break
            for cluster in np.unique(nearest):
                inside = nearest == cluster
                centres[cluster] = np.average(points[inside], axis=0, weights=weights[inside])
        spread = float(weights @ _squares(points, centres)[np.arange(len(points)), nearest])
        if spread < least:
            best, least = nearest, spread
    return np.unique(best, return_inverse=True)[1]


def _squares(points: Floats, centres: Floats) -> Floats:
    squares: Floats = ((points[:, None] - centres[None]) ** 2).sum(axis=2)
    return squares
