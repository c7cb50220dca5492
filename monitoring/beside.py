"""Two sets of independent rows, one beside the other: how their measures, their labels and their predictions differ."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import kolmogorov, ndtri

from calibrant.cells import Floats
from calibrant.diagrams.reliability import wilson
from calibrant.tallies.tally import Tally
from monitoring.leaves import WIDTH, pooled
from schemas.monitor_answers import Difference, MeasureReading, Readings, Shift

Interval = tuple[float, float]


def measures_beside(here: Readings, there: Readings) -> dict[str, Difference]:
    """Each measure of some rows, less that of others; debiased values where both have one."""
    return {key: _beside(here[key], there[key]) for key in here if key in there}


def _beside(here: MeasureReading, there: MeasureReading) -> Difference:
    debiased = here.debiased is not None and there.debiased is not None
    one, other = (here.debiased, there.debiased) if debiased else (here.value, there.value)
    return difference(one, other, here.interval, there.interval)


def difference(
    one: float | None, other: float | None, of_one: Interval | None, of_other: Interval | None
) -> Difference:
    """Two values and their difference, with an interval made of theirs.

    The squares of the distances to the ends are added (Newcombe 1998; Zou & Donner 2008, section 2): of two normal
    estimates this is the interval of their difference, and it keeps the asymmetry of theirs. A value outside its
    interval, as a plain size of gaps may be, counts as its nearest end.
    """
    if one is None or other is None:
        return Difference(value=one, reference=other, difference=None)
    if of_one is None or of_other is None:
        return Difference(value=one, reference=other, difference=one - other)
    a, b = (min(max(value, low), high) for value, (low, high) in ((one, of_one), (other, of_other)))
    low = a - b - math.hypot(a - of_one[0], of_other[1] - b)
    high = a - b + math.hypot(of_one[1] - a, b - of_other[0])
    gap = one - other
    return Difference(value=one, reference=other, difference=gap, interval=(min(low, gap), max(high, gap)))


def label_rates_beside(here: Tally, there: Tally, level: float | None) -> Difference:
    """The shares of rows whose events came true, with Newcombe's interval (1998, method 10) of their difference."""
    (one, of_one), (other, of_other) = (_label_rate(tally, level) for tally in (here, there))
    return difference(one, other, of_one, of_other)


def mean_predictions_beside(here: Tally, there: Tally, level: float | None) -> Difference:
    """The mean predictions, with the normal interval of their difference; a cell's rows count at its mean."""
    (one, of_one), (other, of_other) = (_mean_prediction(tally, level) for tally in (here, there))
    return difference(one, other, of_one, of_other)


def shift(here: Tally, there: Tally) -> Shift | None:
    """The largest gap between the two distributions of the predictions; None where either has no rows.

    The p-value is Kolmogorov's (Smirnov 1939), of the gap at the ends of the cells: at most the rows' own gap, so that
    the p-value is at least theirs. O(cells).
    """
    n, m = len(here), len(there)
    if not n or not m:
        return None
    gaps = np.cumsum(_by_cell(here)) / n - np.cumsum(_by_cell(there)) / m
    distance = min(float(np.abs(gaps).max()), 1.0)
    return Shift(distance=distance, p_value=float(kolmogorov(math.sqrt(n * m / (n + m)) * distance)))


def _by_cell(tally: Tally) -> Floats:
    rows: Floats = pooled([tally])[0].reshape(WIDTH // 2, 2).sum(axis=1)
    return rows


def _label_rate(tally: Tally, level: float | None) -> tuple[float | None, Interval | None]:
    n = len(tally)
    if not n:
        return None, None
    share = int(tally.rows[tally.keys & 1 == 1].sum()) / n
    if level is None:
        return share, None
    low, high = wilson(np.array([share]), np.array([float(n)]), level)
    return share, (float(low[0]), float(high[0]))


def _mean_prediction(tally: Tally, level: float | None) -> tuple[float | None, Interval | None]:
    n = len(tally)
    if not n:
        return None, None
    mean = float(tally.p_sum.sum()) / n
    if level is None:
        return mean, None
    spread = math.sqrt(max(float((tally.p_sum**2 / tally.rows).sum()) / n - mean * mean, 0.0) / n)
    reach = float(ndtri((1.0 + level) / 2.0)) * spread
    return mean, (mean - reach, mean + reach)
