"""Decisions at thresholds: shares of the rows by outcome and decision, sums of shares with intervals, net benefit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtrit

from calibrant.core.arrays import Compared
from calibrant.core.cells import Floats
from calibrant.core.choices import ClusterVariance
from calibrant.core.clusters import cluster_deviation, needing_clusters, number_of_clusters
from calibrant.core.errors import OneClass
from calibrant.core.options import OFF, Option
from calibrant.core.reductions import Event
from calibrant.measures.intervals import Integers, Resampling
from calibrant.measures.measure import Measure, MeasureResult, with_interval
from calibrant.measures.proper import centred, mean_over_rows

#: The coefficients of outcome shares whose sum is the rate of events, and that of positive decisions.
EVENTS, POSITIVE = (1.0, 0.0, 1.0, 0.0), (1.0, 1.0, 0.0, 0.0)
#: Shares below this are rounding.
_EMPTY = 1e-14
#: The most numbers of clusters, kinds and thresholds at once.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Estimates(Compared):
    """Values at thresholds: arrays ``(t,)``.

    Attributes
    ----------
    value : ndarray
        Value at each threshold.
    low, high : ndarray
        Lower and upper end of its confidence interval.
    """

    value: Floats
    low: Floats
    high: Floats


class RowShares(NamedTuple):
    """RowShares of the mass of k disjoint kinds of rows at t thresholds, ``(k, t)``.

    ``squares (k, t)`` are the sums of the squares of the weights divided by the mass, and ``total`` is that of all
    rows; the covariances of the shares follow from them. Rows in clusters have ``covariance (k, k, t)`` with
    ``freedom`` degrees of freedom, and ``total (t,)`` is 1 over the number of independent rows.
    """

    share: Floats
    squares: Floats
    total: float | Floats
    covariance: Floats | None = None
    freedom: float = np.inf


def shares_between(
    event: Event, spans: Sequence[tuple[Integers, Integers]], size: int, variance: ClusterVariance = "cr2"
) -> RowShares:
    """Return the shares of the events, and of the other rows, of each span: ``(2 len(spans), size)``.

    A row is in a span at the thresholds from ``start (n,)`` to before ``end (n,)``. ``variance`` is that of rows in
    clusters. O(n + size) for each span.
    """
    y = event.y.astype(np.int64)
    mass = float(len(event)) if event.w is None else float(event.w.sum())

    def summed(w: Floats | None) -> Floats:
        sums = []
        for start, end in spans:
            starts, ends = (np.bincount(2 * at + y, w, 2 * size + 2).reshape(-1, 2) for at in (start, end))
            inside = np.cumsum(starts - ends, axis=0)[:size].T[::-1]
            sums.append(np.maximum(inside, 0.0))  # rounding of weights
        return np.concatenate(sums)

    share = summed(event.w) / mass
    if event.clusters is not None:
        return _of_clusters(event, event.clusters, spans, share, variance)
    if event.w is None or event.kind == "frequency":
        return RowShares(share, share / mass, 1.0 / mass)
    squares = (event.w / mass) ** 2
    return RowShares(share, summed(squares), float(squares.sum()))


def _of_clusters(
    event: Event,
    clusters: Integers,
    spans: Sequence[tuple[Integers, Integers]],
    share: Floats,
    kind: ClusterVariance,
) -> RowShares:
    """Return shares ``(k, t)`` of rows in clusters with their covariances. O(n t + G k^2 t) for G clusters."""
    w = np.ones(len(event)) if event.w is None else event.w
    with needing_clusters():
        deviation = cluster_deviation(event, np.zeros(len(event)), w, np.ones(1), variance=kind)
    cluster, count = number_of_clusters(clusters)
    total_mass = float(w.sum())
    mass = np.bincount(cluster, w, count) / total_mass
    used = len(deviation.parts)
    scale = {
        "cr0": np.ones(count),
        "cr1": np.full(count, np.sqrt(used / (used - 1.0))),
        "cr2": 1.0 / np.sqrt(1.0 - mass),
    }[kind]
    size = share.shape[1]
    covariance = np.empty((len(share), *share.shape))
    step = max(_BLOCK // (count * len(share)), 1)
    for begin in range(0, size, step):
        width = min(step, size - begin)
        sums = []
        for span in spans:
            start, end = (np.clip(at - begin, 0, width) for at in span)
            for outcome in (1, 0):
                own = w * (event.y == outcome)
                edges = [np.bincount(cluster * (width + 1) + at, own, count * (width + 1)) for at in (start, end)]
                sums.append(np.cumsum((edges[0] - edges[1]).reshape(count, width + 1), axis=1)[:, :width])
        part = slice(begin, begin + width)
        off = (np.stack(sums) / total_mass - mass[:, None] * share[:, None, part]) * scale[:, None]
        covariance[:, :, part] = np.einsum("igt,jgt->ijt", off, off)
    empty = share < _EMPTY
    covariance[empty[:, None] | empty] = 0.0
    kinds, spread = np.arange(len(share)), share * (1.0 - share)
    variance = covariance[kinds, kinds]
    known = (variance > 0.0) & (spread > 0.0)
    # A kind without rows has as many independent rows as the most dependent of the other kinds.
    per_row = np.divide(variance, spread, out=np.zeros_like(spread), where=known).max(axis=0)
    total = np.where(per_row > 0.0, per_row, mass @ mass)
    return RowShares(share, np.zeros_like(share), total, covariance, deviation.freedom)


def decided(event: Event, thresholds: Floats) -> Integers:
    """Return for each row the number of ascending thresholds that are at most p: ``(n,)``."""
    return np.searchsorted(thresholds, event.p, side="right")


def outcome_shares(event: Event, thresholds: Floats, variance: ClusterVariance = "cr2") -> RowShares:
    """Return the shares of true and false positives, false and true negatives, ``(4, t)``: p >= t is positive.

    O(n log t).
    """
    until, size = decided(event, thresholds), len(thresholds)
    return shares_between(event, [(np.zeros_like(until), until), (until, np.full_like(until, size))], size, variance)


def weighted_sum(of: RowShares, coefficients: npt.ArrayLike) -> Floats:
    """Return the sums of coefficients ``(k,)`` or ``(k, t)`` times shares: ``(t,)``."""
    c = np.asarray(coefficients, np.float64).reshape(len(of.share), -1)
    total: Floats = np.einsum("kt,kt->t", np.broadcast_to(c, of.share.shape), of.share)
    return total


def combined(of: RowShares, coefficients: npt.ArrayLike, level: float) -> Estimates:
    """Return the sums of coefficients ``(k,)`` or ``(k, t)`` times shares, with their intervals.

    The interval of each share is Wilson's, for the number of rows that gives the variance of the weighted share. They
    are combined with the correlations of the shares (Zou & Donner 2008), which unlike a normal interval also holds for
    few rows of a kind. Of rows in clusters the quantiles are Student's.
    """
    share, squares, total = of.share, of.squares, of.total
    c = np.broadcast_to(np.asarray(coefficients, np.float64).reshape(len(share), -1), share.shape)
    value = weighted_sum(of, coefficients)
    kinds = np.arange(len(share))
    if of.covariance is None:
        covariance = total * share[:, None] * share - share[:, None] * squares - squares[:, None] * share
        covariance[kinds, kinds] += squares
    else:
        covariance = of.covariance
    variance = np.maximum(covariance[kinds, kinds], 0.0)
    spread = share * (1.0 - share)
    per_row = np.divide(variance, spread, out=np.full_like(spread, total), where=(variance > 0.0) & (spread > 0.0))
    scale = np.sqrt(variance)[:, None] * np.sqrt(variance)
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 0.0)
    correlation[kinds, kinds] = 1.0
    correlation *= np.sign(c)[:, None] * np.sign(c)
    tail = (1.0 + level) / 2.0
    z = float(ndtri(tail) if of.covariance is None else stdtrit(of.freedom, tail)) ** 2 * per_row
    centre, half = (share + z / 2.0) / (1.0 + z), np.sqrt(z) * np.sqrt(spread + z / 4.0) / (1.0 + z)
    below, beyond = np.abs(c) * (share - centre + half), np.abs(c) * (centre + half - share)

    def reach(ends: Floats) -> Floats:
        squares: Floats = np.maximum(np.einsum("it,ijt,jt->t", ends, correlation, ends), 0.0)
        return np.sqrt(squares)

    rises = c > 0.0
    return Estimates(
        value, value - reach(np.where(rises, below, beyond)), value + reach(np.where(rises, beyond, below))
    )


def ratio(of: RowShares, above: npt.ArrayLike, below: npt.ArrayLike, level: float) -> Estimates:
    """Return the ratio of two sums of shares, with the interval of its linearisation, within the possible ratios."""
    c, d = (np.asarray(part, np.float64).reshape(len(of.share), -1) for part in (above, below))
    whole = weighted_sum(of, d)
    value = weighted_sum(of, c) / whole
    off = combined(of, (c - value * d) / whole, level)
    least, greatest = -_greatest_ratio(-c, d), _greatest_ratio(c, d)
    return Estimates(value, np.maximum(value + off.low, least), np.minimum(value + off.high, greatest))


def _greatest_ratio(above: Floats, below: Floats) -> Floats:
    """Return the largest ratio of two sums that any shares have; ``below`` is at least 0."""
    # A kind without a part in the divisor raises the ratio without limit if it adds to the sum above.
    ratios = np.where(below > 0.0, above / np.where(below > 0.0, below, 1.0), np.where(above > 0.0, np.inf, -np.inf))
    return np.asarray(ratios.max(axis=0))


def net_benefit(of: RowShares, thresholds: Floats, level: float, *, standardised: bool = False) -> Estimates:
    """Return the net benefit of outcome shares at thresholds; if ``standardised``, divided by the rate of events."""
    odds = thresholds / (1.0 - thresholds)
    coefficients = np.stack([np.ones_like(odds), -odds, np.zeros_like(odds), np.zeros_like(odds)])
    return ratio(of, coefficients, EVENTS, level) if standardised else combined(of, coefficients, level)


def _rate(event: Event) -> float:
    """Return the rate of events; raise ``OneClass`` without events."""
    rate = mean_over_rows(event.y.astype(np.float64), event.w)
    if not rate:
        raise OneClass.at("/labels", "contain no event, and the rate of events is the divisor")
    return rate


def _measure(event: Event, resampling: Resampling, *, threshold: float, standardised: bool) -> MeasureResult:
    thresholds = np.array([float(threshold)])
    if standardised:
        _rate(event)
    of = outcome_shares(replace(event, clusters=None), thresholds)
    level = resampling.level or 0.95
    benefit = net_benefit(of, thresholds, level, standardised=standardised)
    rate = float(weighted_sum(of, EVENTS)[0])
    treat_all = (rate - threshold / (1.0 - threshold) * (1.0 - rate)) / (rate if standardised else 1.0)
    result = MeasureResult(float(benefit.value[0]), parts={"treat_all": treat_all})
    if event.per_row > 1:
        return result

    def interval() -> tuple[float, float]:
        ends = benefit
        if event.clusters is not None:
            of_clusters = outcome_shares(event, thresholds, resampling.cluster_variance)
            ends = net_benefit(of_clusters, thresholds, level, standardised=standardised)
        return float(ends.low[0]), float(ends.high[0])

    return with_interval(result, interval, resampling)


def _influence(event: Event, _: Resampling, *, threshold: float, standardised: bool) -> Floats:
    odds = threshold / (1.0 - threshold)
    gained: Floats = np.where(event.p >= threshold, np.where(event.y == 1, 1.0, -odds), 0.0)
    if not standardised:
        return centred(gained, event.w)
    rate = _rate(event)
    value = mean_over_rows(gained, event.w) / rate
    return centred((gained - np.where(event.y == 1, value, 0.0)) / rate, event.w)


MEASURES = (
    Measure(
        "net-benefit",
        "Net benefit of decisions at a threshold",
        "Decisions",
        "TP / n - FP / n t / (1 - t) for the decisions p >= t at the threshold t: true positives per row, less the "
        "false positives at the odds of t, which are the cost of a false positive relative to the benefit of a true "
        "one. With standardised it is divided by the rate of events; 1 is then perfect. Part treat_all: the net "
        "benefit of a positive decision for all rows; that of none is 0. The interval combines Wilson's of the shares "
        "of true and false positives; of pooled events it is from the influence of rows",
        "Vickers & Elkin (2006); Vickers, van Calster & Steyerberg (2019); Zou & Donner (2008)",
        None,
        1.0,
        "O(n)",
        event=_measure,
        influence=_influence,
        better="larger",
        needs="labels; at least one event if standardised",
        clustered=("interval",),
        options={"threshold": Option(0.5, low=1e-6, high=1.0 - 1e-6, real=True), "standardised": OFF},
        seconds=lambda n, _classes, _options: 3e-8 * n,
    ),
)
