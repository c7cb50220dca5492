"""All pairs of contestants by one measure: differences, and which of them chance explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from calibrant.cells import Floats

Correction = Literal["max-t", "holm"]
#: Differences up to this, and deviations up to this share of the largest, are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Standing:
    """What one contestant is known to reach: the ``value`` that ranks it, by how much resamples move it, ``draws
    (resamples,)``, paired with those of the others, and the ends of what its ``bias`` may be.
    """

    name: str
    value: float
    draws: Floats
    bias: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class Pair:
    """The difference of two contestants, first less second.

    ``interval`` and ``p_value`` hold for all pairs of the measure at once, ``unadjusted`` for this one alone. They are
    None where ``problem`` says why.
    """

    between: tuple[str, str]
    difference: float
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    unadjusted: float | None = None
    problem: str | None = None


def compare_pairs(
    standings: Sequence[Standing],
    *,
    level: float,
    correction: Correction = "max-t",
    apart: Callable[[str, str], float] | None = None,
) -> tuple[Pair, ...]:
    """Compare every contestant with every other on the same rows.

    Parameters
    ----------
    standings : two or more, with draws that are paired
    level : in (0, 1), at which all intervals together hold the true differences
    correction : ``max-t``, one threshold for the largest |deviation| / standard error over all pairs (Westfall & Young
        1993, section 2.3, single step); or ``holm``, the pairs' own p-values stepped down (Holm 1979), with intervals
        each at level 1 - (1 - level) / pairs (Bonferroni)
    apart : of two names, by how much their biases may differ at most; by default by anything within their ends

    Returns
    -------
    tuple of Pair
        in the order of the standings

    Notes
    -----
    The true difference is that of the values less that of their biases, which is known only to lie between ends: a
    debiased calibration error is too high by up to half the noise of its bins where predictions are nearly calibrated,
    and by nothing where gaps are large. The interval takes all of that stretch and a threshold times the standard
    error on both sides; p-values measure how far the stretch is from 0, and are (1 + #) / (B + 1) over B resamples.
    Contestants that agree in every resample and on every row differ by exactly 0, with p 1. O(pairs x resamples).

    Examples
    --------
    >>> draws = np.linspace(-0.01, 0.01, 101)
    >>> pair = compare_pairs([Standing("one", 0.05, draws), Standing("two", 0.02, -draws)], level=0.95)[0]
    >>> round(pair.difference, 3), round(pair.p_value, 3)
    (0.03, 0.01)
    """
    chosen = list(combinations(standings, 2))
    drawn = np.stack([one.draws - two.draws for one, two in chosen])
    values = np.array([one.value - two.value for one, two in chosen])
    biases = np.array([(one.bias[0] - two.bias[1], one.bias[1] - two.bias[0]) for one, two in chosen])
    if apart is not None:
        most = np.array([apart(one.name, two.name) for one, two in chosen])
        biases = np.clip(biases, -most[:, None], most[:, None])
    ends = values - biases[:, 1], values - biases[:, 0]
    error = drawn.std(axis=1)
    error[error <= _ROUNDING * float(np.abs(drawn).max(initial=0.0))] = 0.0
    away = np.maximum(np.maximum(ends[0], -ends[1]), 0.0)
    seen = np.divide(away, error, out=np.where(away > _ROUNDING, np.inf, 0.0), where=error > 0.0)
    moved = np.abs(np.divide(drawn, error[:, None], out=np.zeros_like(drawn), where=error[:, None] > 0.0))
    own = _p_values(moved, seen)
    if correction == "max-t":
        largest = moved.max(axis=0)
        adjusted = _p_values(np.broadcast_to(largest, moved.shape), seen)
        reach = np.full(len(chosen), np.quantile(largest, level))
    else:
        adjusted = holm(own)
        reach = np.quantile(moved, 1.0 - (1.0 - level) / len(chosen), axis=1)
    low, high = ends[0] - reach * error, ends[1] + reach * error
    return tuple(
        Pair((one.name, two.name), float(values[i]), (float(low[i]), float(high[i])), float(adjusted[i]), float(own[i]))
        for i, (one, two) in enumerate(chosen)
    )


def holm(p_values: Floats) -> Floats:
    """Holm's (1979) adjusted p-values ``(m,)``: the i-th smallest times m - i + 1, never falling, at most 1.

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


def _p_values(moved: Floats, seen: Floats) -> Floats:
    """The share of resamples ``moved (pairs, resamples)`` that reach what was ``seen (pairs,)``."""
    reached = np.count_nonzero(moved >= seen[:, None] - _ROUNDING, axis=1)
    p_values: Floats = (1.0 + reached) / (moved.shape[1] + 1.0)
    return p_values
