"""Confidence intervals of measures by resampling groups of rows.

Rows are assigned at random to at most ``GROUPS`` groups, and a resample gives each group a normal multiplier (the
multiplier, or wild, bootstrap: Wu 1986; van der Vaart & Wellner 1996, section 2.9). Sums over rows are computed once
for each group, and all resamples are one matrix product, regardless of the number of rows. All events of a row are in
the same group, and so are all rows of a cluster. Subjects have their rows in canonical order (``in_order``), so
that the given order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import get_args

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

from calibrant.core.cells import Floats
from calibrant.core.clusters import ClusterDeviation, ClusterVariance, cluster_deviation, number_of_clusters
from calibrant.core.errors import CalibrationError, InvalidOption, TooFewRows
from calibrant.core.options import is_between, plain, read_seed
from calibrant.core.progress import check, report
from calibrant.core.reductions import Classes, Event, Subject, Vector

#: The most groups; up to this many rows, each row is a group.
GROUPS = 2048
#: The most random numbers times bins of one interval.
_MAX_DRAWS = 16_000_000
#: Random numbers that are few: 4 MB.
_FEW_DRAWS = 1 << 19
#: Gaps this many times the observed ones are large compared with the noise.
_LARGE = 1e4
#: True sizes are tried between those that give at least, and at most, the observed size with this probability.
_FEW = 0.025
#: The number of resamples used to find them.
_SOME = 256
#: The number of true sizes tried between them.
_TRUTHS = 9
#: Error of a size that is solved for, as a fraction of it.
_SOLVED = 1e-9
#: Narrower intervals have no width but rounding.
_WIDTH = 1e-12
#: Why there is no interval.
NO_WIDTH = "the rows vary too little"
#: Resamples without a value are left out, up to this fraction.
_LOST = 0.1
#: Weights whose loss of degrees of freedom is at most this are equal, up to rounding.
_EQUAL = 1e-12

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Resampling:
    """Level of the intervals in (0, 1), or None for none; number of resamples and their seed; variance of clusters."""

    level: float | None = None
    resamples: int = 1000
    seed: int = 0
    cluster_variance: ClusterVariance = "cr2"

    @classmethod
    def read(
        cls, interval: object, resamples: object = 1000, seed: object = 0, cluster_variance: ClusterVariance = "cr2"
    ) -> Resampling:
        """Check the options of ``evaluate``."""
        if cluster_variance not in get_args(ClusterVariance):
            raise InvalidOption.at("/cluster_variance", f"must be one of: {', '.join(get_args(ClusterVariance))}")
        interval, resamples = plain(interval), plain(resamples)
        if type(resamples) is not int or not 100 <= resamples <= 100_000:
            raise InvalidOption.at("/resamples", "must be an integer from 100 to 100000")
        seed = read_seed(seed)
        if interval is None:
            return cls(None, resamples, seed, cluster_variance)
        if not isinstance(interval, int | float) or isinstance(interval, bool) or not is_between(interval):
            raise InvalidOption.at("/interval", "must be a number above 0 and below 1, such as 0.95")
        return cls(float(interval), resamples, seed, cluster_variance)

    @property
    def tails(self) -> tuple[float, float]:
        """The probabilities below the two ends of an interval."""
        level = 0.95 if self.level is None else self.level
        return (1.0 - level) / 2.0, (1.0 + level) / 2.0

    def generator(self) -> np.random.Generator:
        """Return a new generator, so that the draws of a measure do not depend on other measures."""
        return np.random.default_rng(self.seed)


#: No intervals, and the default seed.
PLAIN = Resampling()


@dataclass(frozen=True)
class Distance:
    """A measure that is the size of gaps between labels and predictions: value = size(gap).

    ``gap`` has shape ``(d,)``. ``noise(group (n,), groups)`` returns the contributions of random deviations to the
    gaps, summed over the rows of each group: ``(groups, d)``; or with ``basis (k, d)``, of a curve with few
    coefficients, those to the coefficients, ``(groups, k)``, whose product with it they are. ``size`` maps ``(..., d)``
    to ``(...)`` and must be absolutely homogeneous, of any degree. ``debiased``, of the same shapes, is the size minus
    the effect of the noise, if that depends on the gaps and has a closed form. ``spread`` maps true gaps ``(d,)`` to
    the standard deviation of the noise that they have, relative to that of ``noise``; None if it is 1. A size is
    ``local`` if it follows a few of the gaps, as a quantile does. ``freedom`` returns the degrees of freedom of the
    noise of rows in clusters; without it, the noise is normal.
    """

    gap: Floats
    noise: Callable[[Integers, int], Floats]
    size: Callable[[Floats], Floats]
    debiased: Callable[[Floats], Floats] | None = None
    spread: Callable[[Floats], Floats] | None = None
    local: bool = False
    freedom: Callable[[], float] | None = None
    basis: Floats | None = None

    def of_gaps(self, noise: Floats) -> Floats:
        """Return the contributions to the gaps ``(..., d)`` of what ``noise`` returns."""
        return noise if self.basis is None else noise @ self.basis


def has_width(interval: tuple[float, float]) -> bool:
    """Return whether an interval has a width beyond rounding; others would claim a value without uncertainty."""
    return interval[1] - interval[0] > _WIDTH


def row_scale(rows: Event | Vector) -> Floats | float:
    """Return the scale of the deviation of a row: a frequency weight of w counts as w rows, independent or not.

    That of G clusters has the factor (G / (G - 1))^1/2.
    """
    if rows.clusters is None:
        return 1.0 if rows.w is None else np.sqrt(rows.w) if rows.kind == "frequency" else rows.w
    clusters = number_of_clusters(rows.clusters)[1]
    factor = float(np.sqrt(clusters / (clusters - 1.0)))
    return factor if rows.w is None else factor * rows.w


def joined(parts: Sequence[Distance], combine: Callable[[Floats], Floats]) -> Distance:
    """Join distances on the same rows; ``combine`` maps their sizes ``(..., parts)`` to ``(...)``."""
    ends = np.cumsum([len(part.gap) for part in parts])[:-1]

    def together(functions: Sequence[Callable[[Floats], Floats]]) -> Callable[[Floats], Floats]:
        def found(u: Floats) -> Floats:
            sizes = [of_part(piece) for of_part, piece in zip(functions, np.split(u, ends, axis=-1), strict=True)]
            return combine(np.stack(sizes, axis=-1))

        return found

    known = [part.debiased for part in parts if part.debiased is not None]
    freedoms = [part.freedom for part in parts if part.freedom is not None]

    def spread(u: Floats) -> Floats:
        pieces = zip(parts, np.split(u, ends, axis=-1), strict=True)
        return np.concatenate([np.ones_like(u) if part.spread is None else part.spread(u) for part, u in pieces])

    return Distance(
        np.concatenate([part.gap for part in parts]),
        lambda group, groups: np.concatenate([part.of_gaps(part.noise(group, groups)) for part in parts], axis=1),
        together([part.size for part in parts]),
        together(known) if len(known) == len(parts) else None,
        spread if any(part.spread is not None for part in parts) else None,
        any(part.local for part in parts),
        (lambda: min(freedom() for freedom in freedoms)) if freedoms else None,
    )


def distance_interval(
    distance: Distance, subject: Subject, resampling: Resampling, *, triangle: bool = False
) -> tuple[float, float]:
    """Return the interval of a distance by inverting tests of its size. O(n + resamples (groups + d)).

    Percentile intervals of resampled distances are not valid: the value is biased upward, and resamples are biased
    upward again, so that for 1,000 rows of a calibrated model they never cover the truth. Instead, a size is in the
    interval if the observed value lies between the tails of its distribution under gaps of that size, in the direction
    of the observed gaps, plus noise. The lower end may be 0 (calibration). Bins and their number are fixed. The
    direction is more even than the true gaps, so that a quantile of gaps in it varies too little: the interval of a
    ``local`` size also holds the percentile interval. Rows of a cluster move several gaps together, and then the size
    varies most if all gaps have one sign, which noise hides: of rows in clusters, the interval also holds that in the
    direction of such gaps.

    Raises ``CalibrationError`` for a value of 0 that even calibrated predictions do not have, which only an in-sample
    map reaches.

    With ``triangle`` it is the value plus and minus a quantile of size(noise), which is valid if the size satisfies the
    triangle inequality.
    """
    draws = _noise(distance, subject, resampling)
    low_tail, high_tail = resampling.tails
    observed = float(distance.size(distance.gap))
    if triangle:
        reach = float(np.quantile(distance.size(draws), high_tail - low_tail))
        return observed - reach, observed + reach
    direction = _direction(distance, draws)
    ends = _plausible(distance, draws, direction, resampling)
    if subject.clusters is not None:
        others = _plausible(distance, draws, np.abs(direction), resampling)
        ends = min(ends[0], others[0]), max(ends[1], others[1])
    if not distance.local:
        return ends
    resampled = distance.size(distance.gap + draws)
    low, high = (float(quantile(resampled, tail)) for tail in (low_tail, high_tail))
    return min(ends[0], low), max(ends[1], high)


def _noise(distance: Distance, subject: Subject, resampling: Resampling) -> Floats:
    """Return the noise of the gaps in resamples: ``(resamples, d)``."""
    draws = distance.of_gaps(_multiplied(distance.noise(*_deal(subject, resampling)), resampling))
    return draws if distance.freedom is None else draws / _paired_spreads(distance.freedom(), resampling)[:, None]


def _plausible(distance: Distance, draws: Floats, direction: Floats, resampling: Resampling) -> tuple[float, float]:
    """Return the least and the largest size, of gaps in a direction, for which the observed size is plausible."""
    observed, (low_tail, high_tail) = float(distance.size(distance.gap)), resampling.tails

    def reached(size: float, tail: float) -> float:
        gap = size * direction
        moved = draws + gap if distance.spread is None else draws * distance.spread(gap) + gap
        return float(quantile(distance.size(moved), tail))

    if draws.any() and observed <= _WIDTH < reached(0.0, low_tail):
        raise CalibrationError("the value is 0, which calibrated predictions exceed by chance")
    low = _solve(lambda size: reached(size, high_tail), observed)
    high = _solve(lambda size: reached(size, low_tail), observed)
    return float(distance.size(low * direction)), max(float(distance.size(high * direction)), observed)


def quantile(values: Floats, share: float) -> Floats:
    """Return ``np.quantile(values, share, axis=-1)`` of ``(..., n)``, in a fifth of its time for rows of hundreds."""
    last = values.shape[-1] - 1
    place = share * last
    below = int(place)
    above = min(below + 1, last)
    parted = np.partition(values, above, axis=-1)
    high = parted[..., above]
    low = parted[..., :above].max(axis=-1) if above > below else high
    part = place - below
    # As in NumPy: from the nearer end, so that rounding is monotonic.
    return np.asarray(low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part))


def influence_interval(
    value: float, influence: Floats, subject: Subject, resampling: Resampling
) -> tuple[float, float]:
    """Return the interval from the influence of each row ``(n,)``, weighted mean 0. O(n + resamples x groups).

    Of rows in clusters it is that of ``influence_of_clusters``.
    """
    if subject.clusters is not None:
        reach = influence_of_clusters(influence, subject, resampling).reach(resampling.tails[1])
        return value - reach, value + reach
    low, high = np.quantile(influence_draws(influence, subject, resampling), resampling.tails)
    return value + float(low), value + float(high)


def influence_draws(influence: Floats, subject: Subject, resampling: Resampling) -> Floats:
    """Return the deviations of resamples from the influence of each row ``(n,)``: ``(resamples,)``.

    The multipliers depend only on the seed and the number of rows, so that draws of subjects with the same order of
    rows are paired. With unequal importance weights, a few rows determine the estimated variance: the draws are
    Student's, with the degrees of freedom (sum w^2)^2 / sum w^4 (Satterthwaite 1946; Bell & McCaffrey 2002) beyond
    those of equal weights. Those of rows in clusters have the variance and degrees of freedom of
    ``influence_of_clusters``. Raises ``TooFewRows``.
    """
    rows = _held(subject)
    w, kind = rows.w, rows.kind
    if rows.clusters is not None:
        deviation = influence_of_clusters(influence, subject, resampling)
        group = _groups(len(deviation.parts), resampling)
        parts: Floats = np.bincount(group, deviation.parts).astype(np.float64, copy=False)
        return _multiplied(parts[:, None], resampling)[:, 0] / _spreads(deviation.freedom, resampling)
    group, groups = _deal(subject, resampling)
    mass = float(len(group)) if w is None else float(w.sum())
    sums = np.bincount(group, row_scale(rows) * influence, groups)[:, None] / mass
    # The variance of a mean of n rows is s^2 / n, where s^2 divides by n - 1.
    effective = mass if w is None or kind == "frequency" else mass * mass / float(w @ w)
    if effective <= 1.0 + 1e-9:
        raise TooFewRows("an interval needs at least two rows")
    moved: Floats = _multiplied(sums, resampling)[:, 0] * np.sqrt(effective / (effective - 1.0))
    lost = _lost_freedom(rows)
    if lost <= _EQUAL:
        return moved
    return moved / _spreads(1.0 / lost, resampling)


def _spreads(freedom: float, resampling: Resampling) -> Floats:
    """Return the estimated standard deviations of resamples, relative to the true one: ``(resamples,)``."""
    random = np.random.default_rng([resampling.seed, 4])
    return np.sqrt(random.chisquare(freedom, resampling.resamples) / freedom)


def _paired_spreads(freedom: float, resampling: Resampling) -> Floats:
    """Return ``_spreads`` as quantiles of the same numbers, so that those of other freedoms are nearly equal."""
    u = np.random.default_rng([resampling.seed, 4]).random(resampling.resamples)
    spreads: Floats = np.sqrt(2.0 * gammaincinv(freedom / 2.0, u) / freedom)
    return spreads


def influence_of_clusters(influence: Floats, subject: Subject, resampling: Resampling) -> ClusterDeviation:
    """Return the deviation of a value from the influence of each row ``(n,)``, summed within clusters. O(n log n).

    The information of a row is its weight. Raises ``TooFewRows``.
    """
    rows = _held(subject)
    w = np.ones(len(rows)) if rows.w is None else rows.w
    return cluster_deviation(rows, w * influence, w, np.ones(1), variance=resampling.cluster_variance)


def influence_deviations(
    influence: Floats, subject: Subject, resampling: Resampling, *, by_outcome: bool = False
) -> tuple[Floats, float]:
    """Return the deviation of the value by each row or cluster, whose squares sum to its variance, and its freedom.

    Deviations of several subjects on the same rows may be subtracted, which gives those of the difference. With
    ``by_outcome``, for an influence that is centred within each outcome, the variance of each outcome divides by its
    number of rows minus 1, as in DeLong, DeLong & Clarke-Pearson (1988). Degrees of freedom are those of
    ``influence_draws``, infinite for equal weights. Raises ``TooFewRows``.
    """
    rows = _held(subject)
    if rows.clusters is not None:
        deviation = influence_of_clusters(influence, subject, resampling)
        return deviation.parts, deviation.freedom
    w = np.ones(len(influence)) if rows.w is None else rows.w
    outcome = rows.y if by_outcome and isinstance(rows, Event) else np.zeros(len(influence))
    scale = np.asarray(row_scale(rows)) / w.sum()
    for part in (outcome == k for k in np.unique(outcome)):
        mass, is_counted = float(w[part].sum()), rows.w is None or rows.kind == "frequency"
        effective = mass if is_counted else mass * mass / float(w[part] @ w[part])
        if effective <= 1.0 + 1e-9:
            raise TooFewRows("an interval needs at least two rows" + (" of each outcome" if by_outcome else ""))
        scale = np.where(part, scale * np.sqrt(effective / (effective - 1.0)), scale)
    moved: Floats = (scale * influence).reshape(-1, rows.per_row).sum(axis=1)
    lost = _lost_freedom(rows)
    return moved, 1.0 / lost if lost > _EQUAL else np.inf


def _lost_freedom(rows: Event | Vector) -> float:
    """Return the loss of degrees of freedom by unequal importance weights: (sum w^4) / (sum w^2)^2 - 1 / n."""
    if rows.w is None or rows.kind == "frequency":
        return 0.0
    squares = rows.w[:: rows.per_row] ** 2
    return float(squares @ squares) / float(squares.sum()) ** 2 - 1.0 / np.count_nonzero(squares)


def distance_draws(
    distance: Distance, subject: Subject, resampling: Resampling, *, debiased: bool, triangle: bool = False
) -> tuple[Floats, tuple[float, float]]:
    """Return the deviations of resampled distances, ``(resamples,)`` with mean 0, and bounds of the bias of the value.

    With ``debiased`` they are those of the debiased value, if the distance has one. Resampled sizes are biased, so
    their mean is subtracted. The bias of the value depends on the size of the true gaps: the bounds are the extremes
    over gaps, in the direction of the observed ones, of all sizes between those that give at least, and at most, the
    observed value in 2.5 % of samples. With ``triangle`` (suprema), deviations are scaled to have at least the standard
    deviation that they have for large gaps, since those of a supremum close to the noise are too small. Draws are
    paired as those of ``influence_draws``. O(n + resamples (groups + d)).
    """
    draws = _noise(distance, subject, resampling)
    resampled = distance.debiased if debiased and distance.debiased is not None else distance.size
    direction, observed = _direction(distance, draws), float(distance.size(distance.gap))

    some = draws[:_SOME]

    def reaching(tail: float) -> float:
        return _solve(lambda size: float(np.quantile(distance.size(some + size * direction), tail)), observed)

    def bias(size: float) -> float:
        return float(resampled(some + size * direction).mean()) - float(distance.size(size * direction))

    biases = [bias(size) for size in np.linspace(reaching(1.0 - _FEW), reaching(_FEW), _TRUTHS).tolist()]
    moved = resampled(distance.gap + draws)
    moved -= moved.mean()
    if triangle:
        about = np.std(distance.size(draws + _LARGE * direction))
        moved *= max(1.0, float(about) / max(float(moved.std()), 1e-300))
    return moved, (min(0.0, *biases), max(0.0, *biases))


def _direction(distance: Distance, draws: Floats) -> Floats:
    """Return the observed gaps, moved away from 0 by the standard deviation of their noise."""
    spread = np.sqrt(np.mean(draws**2, axis=0))
    direction: Floats = np.where(distance.gap < 0.0, -1.0, 1.0) * (np.abs(distance.gap) + spread)
    return direction


def resampled_interval(
    value: float, again: Callable[[Subject], float], subject: Subject, resampling: Resampling
) -> tuple[float, float]:
    """Return the basic bootstrap interval (Davison & Hinkley 1997, section 5.2): 2 value - quantiles of resamples.

    Rows are drawn with replacement, and ``again`` computes the measure. O(resamples x the measure).
    """
    resampled = resampled_values(again, subject, resampling)
    resampled = resampled[np.isfinite(resampled)]
    if len(resampled) < (1.0 - _LOST) * resampling.resamples:
        raise TooFewRows("too many resamples have no value")
    low, high = np.quantile(resampled, resampling.tails)
    if not low <= value <= high:
        raise TooFewRows("resamples are biased by more than their spread; use fewer bins or more rows")
    return 2.0 * value - float(high), 2.0 * value - float(low)


def resampled_values(again: Callable[[Subject], float], subject: Subject, resampling: Resampling) -> Floats:
    """Return the results of ``again`` for rows drawn with replacement: ``(resamples,)``, NaN without a value."""
    random = resampling.generator()
    draw = _drawer(subject)
    values = np.empty(resampling.resamples)
    for i in range(resampling.resamples):
        report(i, resampling.resamples, "resamples")
        values[i] = again(draw(random))
    return values


def _drawer(subject: Subject) -> Callable[[np.random.Generator], Subject]:
    """Return a function that draws as many rows with replacement, counting frequency weights as rows; or clusters."""
    n = len(subject)
    rows = _held(subject)
    if rows.clusters is not None:
        cluster, clusters = number_of_clusters(rows.clusters[:: rows.per_row])
        own, shares = np.arange(len(cluster)), np.full(clusters, 1.0 / clusters)
        return lambda random: subject.rows(np.repeat(own, random.multinomial(clusters, shares)[cluster]))
    if isinstance(subject, Event):
        n //= subject.per_row
        w = subject.w
        if w is not None and subject.per_row == 1 and subject.cells.counts_rows:
            event, total, shares = subject, int(w.sum()), w / w.sum()

            def counted(random: np.random.Generator) -> Subject:
                counts = random.multinomial(total, shares)
                drawn = np.flatnonzero(counts)
                return replace(event.rows(drawn), w=counts[drawn].astype(np.float64))

            return counted
    return lambda random: subject.rows(random.integers(0, n, n))


def _held(subject: Subject) -> Event | Vector:
    return subject.vector if isinstance(subject, Classes) else subject


def _deal(subject: Subject, resampling: Resampling) -> tuple[Integers, int]:
    """Return the group of each event or row, and the number of groups; all rows of a cluster are in one group."""
    check()
    rows = _held(subject)
    if rows.clusters is not None:
        cluster, clusters = number_of_clusters(rows.clusters)
        return _groups(clusters, resampling)[cluster], min(clusters, GROUPS)
    n = len(rows) // rows.per_row
    return np.repeat(_groups(n, resampling), rows.per_row), min(n, GROUPS)


def _groups(n: int, resampling: Resampling) -> Integers:
    """Return the group of each of n rows or clusters; groups differ in size by at most 1."""
    group = np.arange(n) % min(n, GROUPS)
    np.random.default_rng([resampling.seed, 1]).shuffle(group)
    return group


def _multiplied(sums: Floats, resampling: Resampling) -> Floats:
    """Return normal multiples of the sums of groups ``(groups, d)``: ``(resamples, d)``."""
    check()
    if resampling.resamples * max(sums.shape) > _MAX_DRAWS:
        raise InvalidOption.at("/resamples", f"times the number of bins must be at most {_MAX_DRAWS}")
    return _multipliers(resampling.seed, resampling.resamples, len(sums)) @ sums


def _multipliers(seed: int, resamples: int, groups: int) -> Floats:
    """Return normal multipliers ``(resamples, groups)``, which all measures of a batch share.

    Two results are cached, since the cells of a monitor and the ends of their blocks alternate; of small ones sixteen,
    for the groups of a report: at most 64 MB.
    """
    return (_few_multipliers if resamples * groups <= _FEW_DRAWS else _many_multipliers)(seed, resamples, groups)


def _drawn(seed: int, resamples: int, groups: int) -> Floats:
    drawn = np.random.default_rng(seed).standard_normal((resamples, groups))
    drawn.flags.writeable = False
    return drawn


_few_multipliers, _many_multipliers = lru_cache(maxsize=16)(_drawn), lru_cache(maxsize=2)(_drawn)


def _solve(increasing: Callable[[float], float], target: float) -> float:
    """Return the size, at least 0, at which an increasing function reaches the target; 0 if it starts above."""

    def above(size: float) -> float:
        check()
        return increasing(size) - target

    if above(0.0) >= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while above(high) < 0.0:
        low, high = high, 2.0 * high
    from scipy.optimize import brentq

    return float(brentq(above, low, high, xtol=_SOLVED * high))
