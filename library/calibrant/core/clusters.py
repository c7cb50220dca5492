"""Variances of estimates from rows in clusters, whose rows may depend on each other (Liang & Zeger 1986)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from calibrant.core.cells import Floats
from calibrant.core.choices import ClusterVariance as ClusterVariance
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event, Vector

#: A cluster with more than this share of the information of a parameter determines it alone.
_ALL = 1.0 - 1e-9
#: Degrees of freedom with which Student's distribution is normal.
_NORMAL = 1e12


@dataclass(frozen=True)
class ClusterDeviation:
    """The deviation of an estimate as independent ``parts (G,)`` of clusters, whose squares add to its variance.

    Deviations relative to the standard error have Student's distribution with ``freedom`` degrees of freedom.
    """

    parts: Floats
    freedom: float

    @property
    def error(self) -> float:
        """The standard error."""
        return float(np.linalg.norm(self.parts))

    def reach(self, probability: float) -> float:
        """Return the deviation that is exceeded with probability ``1 - probability``."""
        return self.error * float(stdtrit(self.freedom, probability))

    def p_value(self, difference: float) -> float | None:
        """Return the two-sided p-value of a difference; None if the estimate does not vary."""
        return float(2.0 * stdtr(self.freedom, -abs(difference) / self.error)) if self.error else None


def count_clusters(clusters: npt.NDArray[np.int64]) -> int:
    """Return how many different clusters the rows have. O(n), or O(n log n) if the numbers are far apart."""
    return int(np.count_nonzero(np.bincount(clusters))) if _are_near(clusters) else len(np.unique(clusters))


def number_of_clusters(clusters: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], int]:
    """Return the cluster of each row, numbered by first rows, and their number; raises ``TooFewRows`` for one."""
    cluster, order = _by_first_rows(clusters)
    place = np.empty(int(order.max()) + 1, np.int64)
    place[order] = np.arange(len(order))
    return place[cluster], len(order)


def _by_first_rows(clusters: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return a number for the cluster of each row ``(n,)``, and these numbers in the order of first rows ``(G,)``.

    Raises ``TooFewRows`` for one cluster.
    """
    if _are_near(clusters):
        n = len(clusters)
        firsts = np.full(int(clusters.max()) + 1, n)
        firsts[clusters[::-1]] = np.arange(n)[::-1]
        numbers, cluster = np.flatnonzero(firsts < n), clusters
        order = numbers[np.argsort(firsts[numbers])]
    else:
        _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
        order = np.argsort(first)
    if len(order) < 2:
        raise TooFewRows("all rows are of one cluster, and at least two clusters are needed")
    return cluster, order


def _are_near(clusters: npt.NDArray[np.int64]) -> bool:
    """Return whether numbers are as those of names, so that nothing needs to be sorted."""
    return len(clusters) > 0 and int(clusters.min()) >= 0 and int(clusters.max()) <= 2 * len(clusters)


@contextmanager
def needing_clusters() -> Iterator[None]:
    """Name the field ``clusters`` in ``TooFewRows`` of an estimate that has no result without its deviation."""
    try:
        yield
    except TooFewRows:
        detail = "must be two or more, of which none determines the result alone"
        raise TooFewRows.at("/clusters", detail) from None


def cluster_deviation(
    rows: Event | Vector,
    residual: Floats,
    information: Floats,
    contrast: Floats,
    *,
    variance: ClusterVariance,
    features: Sequence[Floats] = (),
) -> ClusterDeviation:
    """Return the deviation of ``contrast (k,)`` of a constant and the coefficients of features. O(n k^2 + G k^3).

    With x = (1, ``features (n,)``), the terms of the estimating equation are x ``residual (n,)``, their scores, and
    minus their derivatives are x x' ``information (n,)``; both include weights. CR0 sums scores within clusters. CR2
    divides them by the roots of 1 - H for the leverages H of clusters, so that it is unbiased for independent rows
    whose variance is their information, and has Satterthwaite's degrees of freedom for such rows. Those of CR1 are
    G - 1, and CR0 is normal. Rows of weight 0 do not count. Raises ``TooFewRows``.
    """
    if rows.clusters is None:
        raise TypeError("the rows have no clusters")
    if rows.w is not None:
        counted = rows.w > 0.0
        residual, information, clusters = residual[counted], information[counted], rows.clusters[counted]
        features = [feature[counted] for feature in features]
        n = float(rows.w.sum()) if rows.kind == "frequency" else float(counted.sum())
    else:
        clusters, n = rows.clusters, float(len(rows))
    cluster, order = _by_first_rows(clusters)
    count, k = len(order), len(contrast)

    def products(of: Floats) -> Floats:
        """Return the sums of x times these values within clusters ``(G, k)``."""
        scores = [of, *(of * feature for feature in features)]
        return np.column_stack([np.bincount(cluster, score)[order] for score in scores])

    weighted = [information, *(information * feature for feature in features)]
    if variance == "cr2":
        own = np.stack([products(values) for values in weighted], axis=1)
        total = own.sum(axis=0)
    else:
        total = np.array([[values.sum(), *(values @ feature for feature in features)] for values in weighted])
    size, axes = np.linalg.eigh(total)
    if size[0] <= 0.0:
        raise TooFewRows("the rows of the clusters do not determine the value")
    root = (axes / np.sqrt(size)) @ axes.T
    moved, along = products(residual) @ root, root @ contrast
    if variance != "cr2":
        factor = count / (count - 1.0) * (n - 1.0) / (n - k) if variance == "cr1" else 1.0
        return ClusterDeviation(moved @ along * np.sqrt(factor), count - 1.0 if variance == "cr1" else _NORMAL)
    leverage = root @ own @ root
    share, axes = (leverage[:, :, 0], np.ones_like(leverage)) if k == 1 else np.linalg.eigh(leverage)
    if share.max() > _ALL:
        raise TooFewRows("a cluster determines the value alone")
    adjusted = (axes / np.sqrt(1.0 - share)[:, None, :]) @ axes.transpose(0, 2, 1)
    ends = adjusted @ along
    parts = np.einsum("gk,gk->g", ends, moved)
    # The covariance of the parts of independent rows is diag(squared) - overlap overlap^T.
    overlap = np.einsum("gjk,gk->gj", leverage, ends)
    squared, shared = np.einsum("gk,gk->g", ends, overlap), (overlap**2).sum(axis=1)
    squares = ((squared - shared) ** 2).sum() + ((overlap.T @ overlap) ** 2).sum() - (shared**2).sum()
    return ClusterDeviation(parts, float((squared - shared).sum() ** 2 / squares))
