"""The event rate of an unlabelled window under label shift, from tallies, and the map corrected for it."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, ndtri

from calibrant.core.arguments import explained
from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import (
    CalibrationError,
    EmptyBatch,
    InvalidOption,
    NotConverged,
    TooFewRows,
    UnknownReduction,
)
from calibrant.core.options import read_fraction, read_seed
from calibrant.maps.beta import Beta, fit_beta
from calibrant.maps.calibration_map import CalibrationMap
from calibrant.monitoring.event_tally import EventTally, check_tally
from calibrant.monitoring.label_shift import LabelShift, mixture_p_value
from calibrant.monitoring.tally import CELLS

#: Fewest rows of the reference with and without the event.
_FEWEST = 20
#: Resamples of the reference, blocks of predictions in the test of the assumption, and steps of bisection.
_RESAMPLES, _BLOCKS, _STEPS = 40, 24, 60
#: Least weight of a class in a corrected map, and least calibrated prediction.
_LEAST, _TINY = 1e-9, 1e-12


@explained
def estimate_event_shift(
    reference: EventTally, window: EventTally, *, level: float = 0.95, alpha: float = 0.001, seed: int = 0
) -> LabelShift:
    """Estimate from tallies the rate of an event in an unlabelled window, and correct a map for it.

    Parameters
    ----------
    reference : EventTally
        Labelled rows of the reference period: at least 20 with the event, and 20 without it.
    window : EventTally
        Rows of the window; their labels are not used.
    level : float, default 0.95
        Level of the confidence intervals, in (0, 1).
    alpha : float, default 0.001
        The estimate is withheld if the test of its assumption has a smaller p-value. In (0, 1).
    seed : int, default 0
        Seed of the resamples of the reference.

    Returns
    -------
    LabelShift
        Frequencies of the classes 0 and 1 with intervals, the check by BBSE and the corrected map; or why they are
        withheld. ``bbse`` compares mean calibrated predictions.

    Raises
    ------
    CalibrationError
        If an argument is invalid, a tally has no rows, or the reference has too few of a class (``TooFewRows``).

    See Also
    --------
    estimate_label_shift : The same for K classes, from rows.

    Notes
    -----
    Label shift means that P(prediction | class) is that of the reference. The rate maximises the likelihood of Saerens
    et al. (2002), with beta calibration of the reference as bias-corrected predictions. Its variance is that of the
    window plus that over 40 Poisson resamples of the reference. A chi-square test compares the window by prediction
    with the mixture of the reference's classes, with the noise of both. The cost is that of 41 fits to the cells.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).uniform(size=9000)
    >>> y = np.random.default_rng(1).uniform(size=9000) < p
    >>> kept = (np.arange(9000) % 4 == 0) | ~y  # three quarters of the events are missing
    >>> half = np.arange(9000) < 4000
    >>> before, now = calibrant.tally(p[half], y[half]), calibrant.tally(p[~half & kept], y[~half & kept])
    >>> found = calibrant.estimate_event_shift(before, now)
    >>> bool(found.low[1] < y[~half & kept].mean() < found.high[1]), bool(found.high[1] < 0.3)
    (True, True)
    """
    level, alpha, seed = read_fraction(level, "/level"), read_fraction(alpha, "/alpha"), read_seed(seed)
    check_tally(reference, "/reference")
    check_tally(window, "/window")
    first, other = ((tally.reduction, tally.scale, tally.n_classes) for tally in (reference, window))
    if first != other:
        raise InvalidOption.at("/window", "must have the event, scale and number of classes of the reference")
    if not len(window):
        raise EmptyBatch.at("/window", "has no rows")
    return shift_from(fit_shift_reference(reference, seed), window, level, alpha)


@dataclass(frozen=True)
class ShiftReference:
    """What an estimate needs of a reference: rows ``counts (CELLS, 2)``, mean predictions, and fits.

    ``resamples`` are fits to resamples, each with its mean over the resample.
    """

    counts: Floats
    means: Floats
    fitted: CalibrationMap
    curve: Beta
    resamples: tuple[tuple[Beta, float], ...]


def fit_shift_reference(reference: EventTally, seed: int = 0) -> ShiftReference:
    """Return the fits; raise ``EmptyBatch``, ``UnknownReduction``, ``TooFewRows`` or ``NotConverged``. 41 fits."""
    if not len(reference):
        raise EmptyBatch.at("/reference", "has no rows")
    if reference.reduction == "confidence" or reference.reduction.startswith(("top:", "within-top:")):
        raise UnknownReduction.at("/reference", "must be a tally of a class: that a decision is right is not a class")
    counts, sums = _by_cell(reference)
    few = [k for k in (0, 1) if counts[:, k].sum() < _FEWEST]
    if few:
        rows_of_outcome = int(counts[:, few[0]].sum())
        message = f"needs at least {_FEWEST} rows of both outcomes; outcome {few[0]} has {rows_of_outcome}"
        raise TooFewRows.at("/reference", message)
    zero, of_positives = (np.flatnonzero(counts[:, k]) for k in (0, 1))
    if zero[-1] < of_positives[0] or of_positives[-1] < zero[0]:
        raise NotConverged("the predictions of the reference separate its outcomes")
    means = sums.sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)
    curve = _fitted(counts, means)
    fitted = CalibrationMap("beta", curve, reference.reduction, reference.scale, reference.n_classes, {})
    random, resamples = np.random.default_rng(seed), []
    for _ in range(_RESAMPLES):
        drawn = random.poisson(counts).astype(np.float64)
        with suppress(CalibrationError):  # separable, or of one class
            other = _fitted(drawn, means)
            resamples.append((other, float(drawn.sum(axis=1) @ other(means) / drawn.sum())))
    if len(resamples) <= _RESAMPLES // 2:
        raise NotConverged("fits to resamples of the reference did not converge")
    return ShiftReference(counts, means, fitted, curve, tuple(resamples))


def _fitted(counts: Floats, means: Floats) -> Beta:
    """Return beta calibration of the cells with rows."""
    there = np.flatnonzero(counts.sum(axis=1))
    mass, positive = counts[there].sum(axis=1), counts[there, 1]
    return fit_beta(Cells(means[there], mass, mass, mass, positive, positive))


def shift_from(reference: ShiftReference, window: EventTally, level: float, alpha: float) -> LabelShift:
    """Return the estimate for a window with rows. O(resamples cells)."""
    counts, curve = reference.counts, reference.curve
    of_window, sums = _by_cell(window)
    rows = of_window.sum(axis=1)
    there = np.flatnonzero(rows)
    n, places = rows[there], sums.sum(axis=1)[there] / rows[there]
    m, rate = float(n.sum()), float(counts[:, 1].sum() / counts.sum())
    of_positives, zero = _ratios(curve, float(counts.sum(axis=1) @ curve(reference.means) / counts.sum()), places)
    q = _most_likely(of_positives, zero, n)
    frequencies, estimated = np.array([1.0 - rate, rate]), np.array([1.0 - q, q])
    p_value = mixture_p_value(*_blocks(counts, rows), estimated)
    if p_value < alpha:
        reason = f"the predictions are not a mixture of those of the reference's classes (p = {p_value:.2g})"
        return LabelShift(round(m), frequencies, None, None, None, None, p_value, level, withheld=reason)
    low, high = _interval(reference, of_positives, zero, n, places, q, level)
    gain = math.log(max(q / rate, _LEAST)) - math.log(max((1.0 - q) / (1.0 - rate), _LEAST))
    corrected = replace(
        reference.fitted,
        function=replace(curve, c=curve.c + gain),
        diagnostics={**reference.fitted.diagnostics, "class_frequencies": estimated.tolist()},
        training_digest=None,
    )
    ends = np.array([1.0 - high, low]), np.array([1.0 - low, high])
    bbse = _bbse(reference, n, places)
    return LabelShift(round(m), frequencies, estimated, *ends, bbse, p_value, level, corrected)


def _interval(
    reference: ShiftReference, of_positives: Floats, zero: Floats, rows: Floats, places: Floats, q: float, level: float
) -> tuple[float, float]:
    """Return the confidence limits of the rate; see the notes of ``estimate_event_shift``."""
    slope = (of_positives - zero) / (q * of_positives + (1.0 - q) * zero)
    information = float(rows @ slope**2)
    if information < 1.0:  # the predictions do not distinguish the outcomes
        return 0.0, 1.0
    steps = []
    for curve, mean in reference.resamples:  # one Newton step from the rate
        of_one, of_zero = _ratios(curve, mean, places)
        steps.append(float(rows @ ((of_one - of_zero) / (q * of_one + (1.0 - q) * of_zero))) / information)
    reach = float(ndtri(0.5 + level / 2.0)) * math.sqrt(1.0 / information + float(np.var(steps, ddof=1)))
    low, high = max(0.0, q - reach), min(1.0, q + reach)
    drop = float(chdtri(1, 1.0 - level)) / 2.0
    if q == 1.0:
        low = min(low, _limit(of_positives, zero, rows, q, drop, 0.0))
    if q == 0.0:
        high = max(high, _limit(of_positives, zero, rows, q, drop, 1.0))
    return low, high


def _by_cell(counts: EventTally) -> tuple[Floats, Floats]:
    """Return the rows and the sums of predictions by cell and outcome: ``(CELLS, 2)`` each."""
    keys = counts.tally.keys % np.uint32(2 * CELLS)
    rows, sums = (
        np.bincount(keys, values, 2 * CELLS).reshape(CELLS, 2) for values in (counts.tally.rows, counts.tally.p_sum)
    )
    return rows.astype(np.float64), sums.astype(np.float64)


def _ratios(curve: Beta, mean: float, places: Floats) -> tuple[Floats, Floats]:
    """Return the densities at predictions with and without the event, relative to those of the reference."""
    mean = min(max(mean, _TINY), 1.0 - _TINY)
    c = np.clip(curve(places), _TINY, 1.0 - _TINY)
    return c / mean, (1.0 - c) / (1.0 - mean)


def _most_likely(of_positives: Floats, zero: Floats, rows: Floats) -> float:
    """Return the rate with the largest likelihood, by bisection of its decreasing derivative. O(cells) per step."""

    def derivative(q: float) -> float:
        return float(rows @ ((of_positives - zero) / (q * of_positives + (1.0 - q) * zero)))

    if derivative(0.0) <= 0.0:
        return 0.0
    if derivative(1.0) >= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if derivative(middle) > 0.0 else (low, middle)
    return (low + high) / 2.0


def _limit(of_positives: Floats, zero: Floats, rows: Floats, q: float, drop: float, end: float) -> float:
    """Return the rate between ``q`` and ``end`` at which the log likelihood is ``drop`` below its maximum."""

    def loglik(rate: float) -> float:
        return float(rows @ np.log(rate * of_positives + (1.0 - rate) * zero))

    low, high, highest = q, end, loglik(q)
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if loglik(middle) > highest - drop else (low, middle)
    return high


def _bbse(reference: ShiftReference, rows: Floats, places: Floats) -> Floats | None:
    """Return the frequencies that explain the window's mean calibrated prediction, clipped at 0."""
    zero, of_positives = (reference.curve(reference.means) @ reference.counts / reference.counts.sum(axis=0)).tolist()
    if abs(of_positives - zero) < _LEAST:
        return None
    now = float(rows @ reference.curve(places) / rows.sum())
    q = min(max((now - zero) / (of_positives - zero), 0.0), 1.0)
    return np.array([1.0 - q, q])


def _blocks(counts: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return the rows of the reference by block and outcome, and those of the window; blocks have equal mass."""
    there = counts.sum(axis=1)
    block = np.minimum(np.floor((np.cumsum(there) - there / 2.0) / there.sum() * _BLOCKS), _BLOCKS - 1).astype(np.int64)
    by_block = np.zeros((_BLOCKS, 2))
    np.add.at(by_block, block, counts)
    used = by_block.sum(axis=1) > 0.0
    window = np.bincount(block, rows, _BLOCKS).astype(np.float64)
    # Blocks without rows of the reference are joined to the one before.
    place = np.maximum(np.cumsum(used) - 1, 0)
    return by_block[used], np.bincount(place, window, int(used.sum())).astype(np.float64)
