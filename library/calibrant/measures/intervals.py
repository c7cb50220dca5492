"""Confidence intervals of any measure, by resampling rows through sums instead of one by one.

Rows are dealt at random into at most ``GROUPS`` groups, and a resample gives each group a normal multiplier (the
multiplier, or wild, bootstrap: Wu 1986; van der Vaart & Wellner 1996, section 2.9). What a measure adds up over rows is
added up over groups once, and all resamples are one product of matrices, whatever the number of rows. All events of
one row of a batch stay together. Subjects come with their rows in order (``in_order``), so that the order in which they
were sent does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats, WeightsKind
from calibrant.errors import InvalidOption, TooFewRows
from calibrant.options import read_seed
from calibrant.progress import check, report
from calibrant.reductions import Classes, Event, Subject

#: Groups of rows; as many rows or fewer are resampled singly.
GROUPS = 2048
#: At most so many numbers are drawn for one interval.
_MAX_DRAWS = 16_000_000
#: Gaps this many times the observed ones are large beside the noise.
_LARGE = 1e4
#: True sizes are tried between those that would show at least, and at most, the observed size this often.
_FEW = 0.025
#: The number of resamples used to find them.
_SOME = 256
#: The number of true sizes tried between them.
_TRUTHS = 9
#: Resamples whose value does not exist are left out, up to this share.
_LOST = 0.1

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Resampling:
    """``level`` in (0, 1) of the intervals, None for none; how many resamples, and the seed of their generator."""

    level: float | None = None
    resamples: int = 1000
    seed: int = 0

    @classmethod
    def read(cls, interval: object, resamples: object = 1000, seed: object = 0) -> Resampling:
        """Check the options of ``evaluate``."""
        if type(resamples) is not int or not 100 <= resamples <= 100_000:
            raise InvalidOption.at("/resamples", "must be an integer from 100 to 100000")
        seed = read_seed(seed)
        if interval is None:
            return cls(None, resamples, seed)
        if not isinstance(interval, int | float) or isinstance(interval, bool) or not 0.0 < interval < 1.0:
            raise InvalidOption.at("/interval", "must be a level above 0 and below 1, such as 0.95")
        return cls(float(interval), resamples, seed)

    @property
    def tails(self) -> tuple[float, float]:
        """The probabilities below the two ends of an interval."""
        level = 0.95 if self.level is None else self.level
        return (1.0 - level) / 2.0, (1.0 + level) / 2.0

    def generator(self) -> np.random.Generator:
        """A fresh generator: every measure gets the same draws, whatever else is measured."""
        return np.random.default_rng(self.seed)


#: No interval, and the default seed.
PLAIN = Resampling()


@dataclass(frozen=True)
class Distance:
    """A measure that is the size of gaps between labels and predictions: value = size(gap).

    ``gap (d,)``. ``noise(group (n,), groups)`` adds up, by group of its rows, what each row's chance deviation adds to
    the gaps: ``(groups, d)``, rows in the order of the event's. ``size`` takes ``(..., d)`` to ``(...)``; it must be
    absolutely homogeneous, of any degree. ``debiased``, of the same shapes, is the size less what the noise adds to it,
    where that changes with the gaps and has a closed form.
    """

    gap: Floats
    noise: Callable[[Integers, int], Floats]
    size: Callable[[Floats], Floats]
    debiased: Callable[[Floats], Floats] | None = None


def row_scale(w: Floats | None, kind: WeightsKind) -> Floats | float:
    """What a row's deviation counts in a resample: a frequency weight is so many independent rows, another is one."""
    if w is None:
        return 1.0
    return np.sqrt(w) if kind == "frequency" else w


def joined(parts: Sequence[Distance], combine: Callable[[Floats], Floats]) -> Distance:
    """One distance of several on the same rows, whose sizes ``combine`` takes from ``(..., parts)`` to ``(...)``."""
    ends = np.cumsum([len(part.gap) for part in parts])[:-1]

    def together(each: Sequence[Callable[[Floats], Floats]]) -> Callable[[Floats], Floats]:
        def found(u: Floats) -> Floats:
            sizes = [of_part(piece) for of_part, piece in zip(each, np.split(u, ends, axis=-1), strict=True)]
            return combine(np.stack(sizes, axis=-1))

        return found

    known = [part.debiased for part in parts if part.debiased is not None]

    return Distance(
        np.concatenate([part.gap for part in parts]),
        lambda group, groups: np.concatenate([part.noise(group, groups) for part in parts], axis=1),
        together([part.size for part in parts]),
        together(known) if len(known) == len(parts) else None,
    )


def distance_interval(
    distance: Distance, subject: Subject, resampling: Resampling, *, triangle: bool = False
) -> tuple[float, float]:
    """Interval of a distance, by inverting tests of its size. O(n + resamples (groups + d)).

    A percentile interval of resampled distances fails: each is biased upward from a value that is so already, and at
    1,000 rows of a calibrated model it never covers the truth. Instead, a size is held to be possible when the value
    seen lies between the tails of the values that such gaps would show: gaps of that size, along the direction of the
    gaps seen, plus noise. Calibration itself, size 0, is a lower end like any other. Bins are held fixed, and so is
    their number.

    With ``triangle`` it is the value give or take a quantile of size(noise), which the triangle inequality makes valid
    where the size obeys it.
    """
    group, groups, _ = _deal(subject, resampling)
    draws = _multiplied(distance.noise(group, groups), resampling)
    low_tail, high_tail = resampling.tails
    seen = float(distance.size(distance.gap))
    if triangle:
        reach = float(np.quantile(distance.size(draws), high_tail - low_tail))
        return seen - reach, seen + reach
    direction = _direction(distance, draws)

    def shown(size: float, tail: float) -> float:
        return float(np.quantile(distance.size(draws + size * direction), tail))

    low = _solve(lambda size: shown(size, high_tail), seen)
    high = _solve(lambda size: shown(size, low_tail), seen)
    return float(distance.size(low * direction)), max(float(distance.size(high * direction)), seen)


def influence_interval(
    value: float, influence: Floats, subject: Subject, resampling: Resampling
) -> tuple[float, float]:
    """Interval of what each row moves by its ``influence (n,)``, of weighted mean 0. O(n + resamples x groups)."""
    low, high = np.quantile(influence_draws(influence, subject, resampling), resampling.tails)
    return value + float(low), value + float(high)


def influence_draws(influence: Floats, subject: Subject, resampling: Resampling) -> Floats:
    """By how much resamples move what each row moves by its ``influence (n,)``: ``(resamples,)``.

    The multipliers come from the seed and the number of rows alone: of subjects with their rows in one order, the
    draws are paired. Raises ``TooFewRows``.
    """
    group, groups, (w, kind) = _deal(subject, resampling)
    mass = float(len(group)) if w is None else float(w.sum())
    sums = np.bincount(group, row_scale(w, kind) * influence, groups)[:, None] / mass
    # The mean of n rows varies by s^2 / n with s^2 over n - 1.
    effective = mass if w is None or kind == "frequency" else mass * mass / float(w @ w)
    if effective <= 1.0 + 1e-9:
        raise TooFewRows("an interval needs more than one row")
    moved: Floats = _multiplied(sums, resampling)[:, 0] * np.sqrt(effective / (effective - 1.0))
    return moved


def distance_draws(
    distance: Distance, subject: Subject, resampling: Resampling, *, debiased: bool, triangle: bool = False
) -> tuple[Floats, tuple[float, float]]:
    """By how much resamples move a distance, ``(resamples,)`` of mean 0, and the ends of what its bias may be.

    With ``debiased``, of the debiased value if the distance has one; else of the size. A resampled size is biased
    upward from one that is so already: the mean of the resamples is taken off. What bias the value itself has depends
    on how large the true gaps are: the ends are those under gaps, along the direction of those seen, of every size
    between the two that show at least, and at most, what is seen in 2.5 % of samples. With ``triangle``, of a supremum,
    the moves are stretched to have at least the spread that they have about large gaps: a supremum near the noise, or
    of a path that is rough twice over, moves too little. Paired as ``influence_draws`` are.
    O(n + resamples (groups + d)).
    """
    group, groups, _ = _deal(subject, resampling)
    draws = _multiplied(distance.noise(group, groups), resampling)
    resampled = distance.debiased if debiased and distance.debiased is not None else distance.size
    direction, seen = _direction(distance, draws), float(distance.size(distance.gap))

    some = draws[:_SOME]

    def reaching(tail: float) -> float:
        return _solve(lambda size: float(np.quantile(distance.size(some + size * direction), tail)), seen)

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
    """The gaps seen, each as far from 0 as noise may have hidden."""
    spread = np.sqrt(np.mean(draws**2, axis=0))
    direction: Floats = np.where(distance.gap < 0.0, -1.0, 1.0) * (np.abs(distance.gap) + spread)
    return direction


def resampled_interval(
    value: float, again: Callable[[Subject], float], subject: Subject, resampling: Resampling
) -> tuple[float, float]:
    """The basic bootstrap interval (Davison & Hinkley 1997, section 5.2): 2 value less the quantiles of resamples.

    Rows are drawn with replacement and ``again`` computes the measure of them. O(resamples x the measure).
    """
    found = resampled_values(again, subject, resampling)
    found = found[np.isfinite(found)]
    if len(found) < (1.0 - _LOST) * resampling.resamples:
        raise TooFewRows("too many resamples have no value")
    low, high = np.quantile(found, resampling.tails)
    return 2.0 * value - float(high), 2.0 * value - float(low)


def resampled_values(again: Callable[[Subject], float], subject: Subject, resampling: Resampling) -> Floats:
    """What ``again`` computes of rows drawn with replacement: ``(resamples,)``, NaN where it has no value."""
    random = resampling.generator()
    draw = _drawer(subject)
    found = np.empty(resampling.resamples)
    for i in range(resampling.resamples):
        report(i, resampling.resamples, "resamples")
        found[i] = again(draw(random))
    return found


def _drawer(subject: Subject) -> Callable[[np.random.Generator], Subject]:
    """What draws as many rows with replacement; of an event's weights that count rows, the rows that they count."""
    n = len(subject)
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


def _deal(subject: Subject, resampling: Resampling) -> tuple[Integers, int, tuple[Floats | None, WeightsKind]]:
    """The group of each of the subject's events or rows, how many groups, and the weights of the rows."""
    check()
    held = subject.vector if isinstance(subject, Classes) else subject
    per_row = held.per_row if isinstance(held, Event) else 1
    n = len(held) // per_row
    groups = min(n, GROUPS)
    # Groups of nearly equal size; as many as rows, each row is one.
    group = np.arange(n) % groups
    np.random.default_rng([resampling.seed, 1]).shuffle(group)
    return group if per_row == 1 else np.repeat(group, per_row), groups, (held.w, held.kind)


def _multiplied(sums: Floats, resampling: Resampling) -> Floats:
    """Normal multiples of the groups' sums ``(groups, d)``: ``(resamples, d)``."""
    check()
    if resampling.resamples * max(sums.shape) > _MAX_DRAWS:
        raise InvalidOption.at("/resamples", f"times bins would pass {_MAX_DRAWS}; ask for fewer of either")
    draws: Floats = _multipliers(resampling.seed, resampling.resamples, len(sums)) @ sums
    return draws


@lru_cache(maxsize=2)
def _multipliers(seed: int, resamples: int, groups: int) -> Floats:
    """Normal multipliers ``(resamples, groups)``, those of the last calls kept: all measures of a batch share them.

    Two, since the cells of a monitor and the ends of their blocks are read in turn.
    """
    drawn = np.random.default_rng(seed).standard_normal((resamples, groups))
    drawn.flags.writeable = False
    return drawn


def _solve(increasing: Callable[[float], float], target: float) -> float:
    """The size from 0 on at which an increasing function reaches the target; 0 if it begins above."""
    low, high = 0.0, 1.0
    if increasing(low) >= target:
        return 0.0
    while increasing(high) < target:
        check()
        low, high = high, 2.0 * high
    for _ in range(30):
        check()
        middle = (low + high) / 2.0
        low, high = (middle, high) if increasing(middle) < target else (low, middle)
    return high
