"""Differences of all pairs of contestants by one measure, with simultaneous intervals and p-values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from scipy.special import stdtr, stdtrit

from calibrant.core.cells import Floats
from calibrant.core.choices import Correction as Correction

#: Differences up to this, and deviations up to this fraction of the largest, are rounding errors.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ContestantValue:
    """Value of one contestant and its uncertainty.

    Attributes
    ----------
    name : str
        Name of the contestant.
    value : float
        Value that ranks it.
    draws : ndarray, shape (resamples,)
        Deviations of resampled values, paired with those of the other contestants.
    bias : tuple of float
        Lower and upper bound of the bias of the value.
    rows : ndarray, shape (n,), optional
        Deviation by each row, if the squares of the differences of two contestants sum to the variance.
    freedom : float, default inf
        Degrees of freedom of that variance.

    See Also
    --------
    compare_pairs : Compares several of these.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.comparison import ContestantValue
    >>> ContestantValue("isotonic", 0.05, np.zeros(100)).bias
    (0.0, 0.0)
    """

    name: str
    value: float
    draws: Floats
    bias: tuple[float, float] = (0.0, 0.0)
    rows: Floats | None = None
    freedom: float = np.inf


@dataclass(frozen=True)
class Pair:
    """Difference of two contestants.

    Attributes
    ----------
    between : tuple of str
        Names of the two contestants.
    difference : float
        Value of the first minus value of the second.
    interval : tuple of float or None
        Simultaneous confidence interval over all pairs of the measure.
    p_value : float or None
        P-value adjusted for all pairs of the measure.
    unadjusted : float or None
        P-value of this pair alone.
    problem : str or None
        Why there are no interval and no p-values.

    See Also
    --------
    compare_pairs : Computes all pairs.

    Examples
    --------
    >>> from calibrant.comparison import Pair
    >>> Pair(("isotonic", "beta"), 0.01).difference
    0.01
    """

    between: tuple[str, str]
    difference: float
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    unadjusted: float | None = None
    problem: str | None = None


def compare_pairs(
    standings: Sequence[ContestantValue],
    *,
    level: float,
    correction: Correction = "max-t",
    apart: Callable[[str, str], float] | None = None,
) -> tuple[Pair, ...]:
    """Compare every contestant with every other on the same rows.

    Parameters
    ----------
    standings : sequence of ContestantValue
        Two or more contestants with paired draws.
    level : float
        Simultaneous level of the intervals, in (0, 1).
    correction : {"max-t", "holm"}, default "max-t"
        ``max-t`` uses one threshold for the largest |deviation| / standard error over all pairs (Westfall & Young
        1993, section 2.3, single step). ``holm`` steps down the p-values of the pairs (Holm 1979), with intervals at
        level 1 - (1 - level) / pairs (Bonferroni); contestants with deviations by ``rows`` then have p-values and
        intervals of Student's or the normal distribution, which for the AUROC are those of DeLong et al. (1988).
    apart : callable, optional
        Upper bound of the difference between the biases of two contestants, given their names.

    Returns
    -------
    tuple of Pair
        All pairs, in the order of the standings.

    See Also
    --------
    calibrant.compare : Compares maps.

    Notes
    -----
    The biases are known only up to their bounds: a debiased calibration error is too high by up to half the noise of
    its bins if predictions are nearly calibrated, and unbiased if gaps are large. The difference of the values
    corrected by all possible biases is a range; the interval extends it by a threshold times the standard error, and
    p-values of resamples measure its distance from 0 as (1 + #) / (B + 1) over B resamples. Contestants with identical
    predictions differ by 0 with p-value 1. O(pairs x resamples).

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant.comparison import ContestantValue, compare_pairs
    >>> draws = np.linspace(-0.01, 0.01, 101)
    >>> pair = compare_pairs([ContestantValue("one", 0.05, draws), ContestantValue("two", 0.02, -draws)], level=0.95)[0]
    >>> round(pair.difference, 3), round(pair.p_value, 3)
    (0.03, 0.01)
    """
    chosen = list(combinations(standings, 2))
    drawn = np.stack([first.draws - two.draws for first, two in chosen])
    values = np.array([first.value - two.value for first, two in chosen])
    biases = np.array([(first.bias[0] - two.bias[1], first.bias[1] - two.bias[0]) for first, two in chosen])
    if apart is not None:
        most = np.array([apart(first.name, two.name) for first, two in chosen])
        biases = np.clip(biases, -most[:, None], most[:, None])
    ends = values - biases[:, 1], values - biases[:, 0]
    by_row = correction == "holm" and all(first.rows is not None for first in standings)
    if by_row:
        rows = {first.name: np.asarray(first.rows) for first in standings}
        error = np.array([np.linalg.norm(rows[first.name] - rows[two.name]) for first, two in chosen])
        largest_error = max(map(np.linalg.norm, rows.values()), default=0.0)
    else:
        error, largest_error = drawn.std(axis=1), np.abs(drawn).max(initial=0.0)
    error[error <= _ROUNDING * float(largest_error)] = 0.0
    away = np.maximum(np.maximum(ends[0], -ends[1]), 0.0)
    observed = np.divide(away, error, out=np.where(away > _ROUNDING, np.inf, 0.0), where=error > 0.0)
    moved = np.abs(np.divide(drawn, error[:, None], out=np.zeros_like(drawn), where=error[:, None] > 0.0))
    freedom = min(first.freedom for first in standings)
    own = 2.0 * stdtr(freedom, -observed) if by_row else _p_values(moved, observed)
    if correction == "max-t":
        largest = moved.max(axis=0)
        adjusted = _p_values(np.broadcast_to(largest, moved.shape), observed)
        reach = np.full(len(chosen), np.quantile(largest, level))
    else:
        adjusted = holm(own)
        tail = (1.0 - level) / len(chosen)
        reach = np.quantile(moved, 1.0 - tail, axis=1)
        if by_row:
            reach = np.full(len(chosen), stdtrit(freedom, 1.0 - tail / 2.0))
    low, high = ends[0] - reach * error, ends[1] + reach * error
    return tuple(
        Pair(
            (first.name, two.name), float(values[i]), (float(low[i]), float(high[i])), float(adjusted[i]), float(own[i])
        )
        for i, (first, two) in enumerate(chosen)
    )


def rank_intervals(
    names: Sequence[str], pairs: Sequence[Pair], *, better: Literal["smaller", "larger"]
) -> dict[str, tuple[int, int]] | None:
    """Return the simultaneous interval of the rank of each contestant; None if a pair has no interval.

    From simultaneous intervals of the differences of all pairs: 1 plus the number of contestants that are certainly
    better, and the number of all contestants minus those that are certainly worse (Mogstad, Romano, Shaikh & Wilhelm
    2024, section 3). All intervals contain the true ranks with at least the probability of the level. O(pairs).

    Examples
    --------
    >>> pairs = [Pair(("a", "b"), -0.2, (-0.3, -0.1)), Pair(("a", "c"), 0.0, (-0.1, 0.1))]
    >>> rank_intervals(["a", "b", "c"], [*pairs, Pair(("b", "c"), 0.2, (0.0, 0.4))], better="smaller")
    {'a': (1, 2), 'b': (2, 3), 'c': (1, 3)}
    """
    certainly_better, certainly_worse = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for pair in pairs:
        if not {*pair.between} <= {*names}:
            continue
        if pair.interval is None:
            return None
        first, second = pair.between if better == "smaller" else pair.between[::-1]
        for winner, loser, is_sure in (
            (first, second, pair.interval[1] < 0.0),
            (second, first, pair.interval[0] > 0.0),
        ):
            certainly_better[loser] += is_sure
            certainly_worse[winner] += is_sure
    return {name: (1 + certainly_better[name], len(names) - certainly_worse[name]) for name in names}


def holm(p_values: Floats) -> Floats:
    """Return Holm's (1979) adjusted p-values ``(m,)``: cumulative maxima of (m - i + 1) p_(i), at most 1.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _p_values(moved: Floats, observed: Floats) -> Floats:
    """Return the fraction of resamples ``moved (pairs, resamples)`` that reach the ``observed (pairs,)``."""
    reached = np.count_nonzero(moved >= observed[:, None] - _ROUNDING, axis=1)
    p_values: Floats = (1.0 + reached) / (moved.shape[1] + 1.0)
    return p_values
