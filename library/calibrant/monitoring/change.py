"""When calibration changed: the change time, its interval and a description, from tallies of time buckets."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit, logsumexp

from calibrant.core.arguments import explained
from calibrant.core.cells import Floats
from calibrant.core.errors import EmptyBatch, InvalidOption, LengthMismatch, NotANumber
from calibrant.core.logistic import fit_logistic
from calibrant.core.options import read_fraction
from calibrant.core.results import PlainResult, plain_json
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.evidence import block_of_cell, log_bets, log_weights, shifts
from calibrant.monitoring.tally import CELLS, Tally, merged

# **Model.** Predictions are calibrated before an unknown time, and the log-odds of the outcome are those of the
# prediction plus a shift delta(p) after it. All times have the same prior probability. In the bucket of the change the
# shift is multiplied by the share of the bucket after it.
#
# **Shifts.** The evidence of the monitor gives a first start. From the rows since then come a smooth shift (a penalised
# logistic regression on level, spread and curvature) and constant shifts on the ranges of predictions with the highest
# marginal likelihood; each with several sizes. The posterior of the time is their average.
#
# **Tempering.** The shifts are fitted to the rows that date the change, and monitors stop at an alarm. Both make the
# posterior too narrow, so the likelihood has the power 0.85; docs/benchmarks/change-time.md has the coverage.

_TEMPER = 0.85
#: Power of the posterior for the estimate, whose median is then between the median and the mode. If several times are
#: likely, the median is often between them; the median error of the estimate is smaller near the mode.
_SHARPER = 4.0
#: Times considered within a bucket, by the share of the bucket that is after the change.
_SHARES = np.array([1.0, 0.75, 0.5, 0.25])
#: Sizes relative to the fitted shift.
_SIZES = 2.0 ** np.linspace(-1.5, 1.0, 6)
#: Parts of the arcsine grid between which ranges start and end, number of ranges, and standard deviation of a shift.
_PARTS, _RANGES, _RANGE_SCALE = 32, 24, 0.4
#: Prior standard deviations of level, spread and curvature; and with a shift of one part of the grid, and of that part.
_SMOOTH, _WITH_PART = (0.4, 0.2, 0.2), (0.1, 0.1, 0.1, 1.0)
#: Logarithm of the weight of the smooth shift, which has three fitted parameters, relative to all ranges.
_FITTED = -2.0
#: Ends of described ranges of predictions, and the largest logit.
_ENDS = np.array([0.0, 0.01, 0.02, 0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.98, 0.99, 1.0])
_FARTHEST = 6.0


@dataclass(frozen=True)
class ChangeTime(PlainResult):
    """When calibration changed, and how.

    Attributes
    ----------
    time : float or datetime
        Estimated time of the change.
    interval : tuple of (float or datetime)
        Interval of the time with the given probability.
    predictions : tuple of float
        Range of predictions in which the calibration gap since then is clearest.
    gap : float
        Mean label minus mean prediction in this range, in (-1, 1). Positive if predictions are too low.
    rows : int
        Rows in this range since the change.

    See Also
    --------
    change_time : Estimates the time.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.ChangeTime(9.5, (8.0, 11.0), (0.2, 0.4), 0.08, 1200).message
    'since 9.5 predictions of 0.2 to 0.4 are 8 points too low'
    """

    time: Any
    interval: tuple[Any, Any]
    predictions: tuple[float, float]
    gap: float
    rows: int

    @property
    def message(self) -> str:
        """Describe the change in a sentence, with the gap in percentage points.

        See Also
        --------
        to_dict : Returns all values.

        Examples
        --------
        >>> import calibrant, datetime
        >>> day = datetime.datetime(2026, 3, 14, 6)
        >>> calibrant.ChangeTime(day, (day, day), (0.0, 1.0), -0.05, 1200).message
        'since 14 March predictions are 5 points too high'
        """
        when = f"{self.time.day} {self.time:%B}" if isinstance(self.time, dt.datetime) else f"{self.time:g}"
        low, high = self.predictions
        of = "" if (low, high) == (0.0, 1.0) else f" of {low:g} to {high:g}"
        points = f"{abs(self.gap) * 100.0:.2g}"
        side = "low" if self.gap > 0.0 else "high"
        return f"since {when} predictions{of} are {points} point{'' if points == '1' else 's'} too {side}"

    def _document(self) -> dict[str, Any]:
        moments = (self.time, *self.interval)
        time, low, high = (value.isoformat() if isinstance(value, dt.datetime) else value for value in moments)
        return {**plain_json(self), "time": time, "interval": [low, high], "message": self.message}


@explained
def change_time(buckets: Sequence[EventTally | None], times: Sequence[Any], *, level: float = 0.95) -> ChangeTime:
    """Estimate when predictions stopped being calibrated, from tallies of consecutive time buckets.

    Parameters
    ----------
    buckets : sequence of EventTally or None
        Tallies of B consecutive time buckets, up to the alarm; None for a bucket without rows.
    times : sequence of float, date or datetime
        The B + 1 ascending ends of the buckets.
    level : float, default 0.95
        Probability of the interval, in (0, 1).

    Returns
    -------
    ChangeTime
        Time of the change, its interval, and a description.

    Raises
    ------
    CalibrationError
        If an argument is invalid, or there are no rows (``EmptyBatch``).

    See Also
    --------
    tally : Counts rows.

    Notes
    -----
    The estimate assumes that there was one change, as after an alarm, and that predictions were calibrated before it.
    The interval is that of a posterior distribution with a uniform prior on the time, and the estimate is between its
    median and its mode; within a bucket, rows are assumed to be spread evenly. Both are between the start of the first
    bucket with rows and the end of the last one. O(B) with about 1.5 ms per bucket.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> random = np.random.default_rng(0)
    >>> buckets = []
    >>> for day in range(40):
    ...     p = random.random(500)
    ...     labels = random.random(500) < np.minimum(p + 0.1 * (day >= 30), 1)
    ...     buckets.append(calibrant.tally(p, labels.astype(int)))
    >>> found = calibrant.change_time(buckets, range(41))
    >>> bool(found.interval[0] <= 30 <= found.interval[1]), found.gap > 0
    (True, True)
    """
    tallies = _read_buckets(buckets)
    times = [_read_time(time) for time in times] if np.iterable(times) else []
    ends = _read_times(times, len(tallies))
    level = read_fraction(level, "/level")
    # Before the first row and after the last one, nothing is known.
    counted = [i for i, tally in enumerate(tallies) if len(tally)]
    first, last = counted[0], counted[-1]
    tallies, times, ends = tallies[first : last + 1], times[first : last + 2], ends[first : last + 2]
    place, weight = posterior(*(np.array(sums) for sums in zip(*map(_sums, tallies), strict=True)))
    tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
    low, high = _quantiles(place, weight, tails).clip(0.0, len(tallies))
    sharp = weight**_SHARPER
    middle = _quantiles(place, sharp / sharp.sum(), [0.5]).clip(low, high)[0]
    after = merged(tallies[min(int(np.ceil(middle)), len(tallies) - 1) :])
    return ChangeTime(_time(middle, times, ends), (_time(low, times, ends), _time(high, times, ends)), *_gap(after))


def _quantiles(place: Floats, weight: Floats, shares: Sequence[float]) -> Floats:
    """Return quantiles of the places, each of which stands for the interval of one step around it."""
    edge = np.append(place, place[-1] + 1.0 / len(_SHARES)) - 0.5 / len(_SHARES)
    return np.interp(shares, np.append(0.0, np.cumsum(weight)), edge)


def posterior(n: Floats, y: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Return places of the change in units of buckets, ascending ``(4 B,)``, and their probabilities.

    ``n``, ``y`` and ``p (B, K)`` are rows and sums of labels and predictions of each time bucket and block of the grid.
    """
    deltas, log_prior = _candidates(n, y, p)
    since = _since(_gains(n, y, p, deltas))
    after = np.vstack([since[1:], np.zeros(len(deltas))])
    parts = [_gains(n, y, p, share * deltas) for share in _SHARES]
    log_likelihood = np.stack([logsumexp(after + part + log_prior, axis=1) for part in parts], axis=1).ravel()
    log_weight = _TEMPER * log_likelihood
    place = (np.arange(len(n))[:, None] + 1.0 - _SHARES).ravel()
    return place, np.exp(log_weight - logsumexp(log_weight))


def _candidates(n: Floats, y: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Return shifts of the log-odds on the blocks, ``(J, K)``, and the logarithms of their weights."""
    total = _since(log_bets(n, y, p)) + log_weights()
    start, number = divmod(int(total.argmax()), total.shape[1])
    rows, labels, sums = (part[start:].sum(axis=0) for part in (n, y, p))
    middle = _middles()
    q = np.clip(np.where(rows > 0.0, sums / np.maximum(rows, 1.0), middle), 1e-9, 1.0 - 1e-9)
    offset = np.clip(logit(q), -_FARTHEST, _FARTHEST)
    features = np.column_stack([np.ones_like(q), offset / 2.0, np.abs(offset) / 2.0 - 0.5])
    scales: tuple[float, ...] = _SMOOTH
    if shifts()[number].shape == "part":
        features = np.column_stack([features, shifts()[number].at(middle) != 0.0])
        scales = _WITH_PART
    smooth = features @ fit_logistic(features, logit(q), rows, labels, np.array([scales]) ** 2).theta[0]
    ranges, count = _ranges(labels - sums, rows * q * (1.0 - q))
    weights = np.repeat([_FITTED, -np.log(count)], [len(_SIZES), len(ranges) * len(_SIZES)])
    return (np.vstack([smooth, ranges])[:, None, :] * _SIZES[:, None]).reshape(-1, len(q)), weights


def _ranges(surplus: Floats, variance: Floats) -> tuple[Floats, int]:
    """Return the most likely constant shifts on ranges of the grid, ``(R, K)``, and the number of all ranges.

    Their marginal likelihood is that of a Gaussian surplus and a Gaussian prior of the shift.
    """
    place = np.arcsin(np.sqrt(_middles())) * 2.0 / np.pi
    edges = np.searchsorted(place, np.arange(_PARTS + 1) / _PARTS)
    first, last = np.triu_indices(_PARTS + 1, 1)
    sums = [np.append(0.0, np.cumsum(values))[edges] for values in (surplus, variance)]
    of, precision = (sums_to[last] - sums_to[first] for sums_to in sums)
    score = of**2 / (precision + _RANGE_SCALE**-2) / 2.0 - np.log1p(precision * _RANGE_SCALE**2) / 2.0
    best = np.argsort(-score, kind="stable")[:_RANGES]
    block = np.arange(len(surplus))
    inside = (block >= edges[first[best], None]) & (block < edges[last[best], None])
    return inside * (of / (precision + _RANGE_SCALE**-2))[best, None], len(first)


def _gains(n: Floats, y: Floats, p: Floats, deltas: Floats) -> Floats:
    """Return the log likelihood ratio of each bucket and shift: ``(B, J)``."""
    q = np.clip(p / np.maximum(n, 1.0), 0.0, 1.0)
    # As in ``log_bets``, for any shifts.
    losses = [(n * np.maximum(np.log1p(q * np.expm1(delta)) - q * delta, 0.0)).sum(axis=1) for delta in deltas]
    ratios: Floats = (y - p) @ deltas.T - np.stack(losses, axis=1)
    return ratios


def _since(gains: Floats) -> Floats:
    """Return the sums over each bucket and all later ones."""
    return np.cumsum(gains[::-1], axis=0)[::-1]


def _middles() -> Floats:
    """Return the prediction in the middle of each block of the grid."""
    first = np.flatnonzero(np.diff(block_of_cell(), prepend=-1))
    ends = np.append(first, CELLS)
    return np.asarray(np.sin((ends[:-1] + ends[1:]) / CELLS * (np.pi / 4.0)) ** 2)


def _sums(tally: Tally) -> tuple[Floats, Floats, Floats]:
    """Return the rows, and sums of labels and predictions, of each block."""
    block = block_of_cell()[(tally.keys % np.uint32(2 * CELLS)) >> np.uint32(1)]
    count = int(block_of_cell()[-1]) + 1
    labels = tally.rows * (tally.keys & np.uint32(1))
    n, y, p = (np.bincount(block, of, count).astype(np.float64) for of in (tally.rows, labels, tally.p_sum))
    return n, y, p


def _gap(tally: Tally) -> tuple[tuple[float, float], float, int]:
    """Return the range of predictions with the largest standardised gap, the gap, and the rows in it."""
    cells = tally.event().cells
    edges = np.append(np.searchsorted(cells.p, _ENDS[:-1]), len(cells.p))
    first, last = np.triu_indices(len(_ENDS), 1)
    sums = (cells.w, cells.wy - cells.w * cells.p, cells.w * cells.p * (1.0 - cells.p))
    of = [np.append(0.0, np.cumsum(values))[edges] for values in sums]
    rows, surplus, variance = (sums_to[last] - sums_to[first] for sums_to in of)
    # A constant of one row keeps ranges with few rows from having the largest ratio.
    best = int((surplus**2 / (variance + 1.0)).argmax())
    ends = (round(float(_ENDS[first[best]]), 9), round(float(_ENDS[last[best]]), 9))
    return ends, float(surplus[best] / max(rows[best], 1.0)), int(rows[best])


def _read_buckets(buckets: Any) -> list[Tally]:
    listed: list[Any] = list(buckets) if np.iterable(buckets) else [buckets]
    held = [bucket for bucket in listed if bucket is not None]
    if not all(isinstance(bucket, EventTally) for bucket in held):
        raise InvalidOption.at("/buckets", "must be a sequence of EventTally, as returned by calibrant.tally, or None")
    if len({(bucket.reduction, bucket.scale, bucket.n_classes) for bucket in held}) > 1:
        raise InvalidOption.at("/buckets", "must be tallies of the same event, scale and number of classes")
    if not any(len(bucket) for bucket in held):
        raise EmptyBatch.at("/buckets", "have no rows")
    return [merged([]) if bucket is None else bucket.tally for bucket in listed]


def _read_time(time: Any) -> Any:
    """Return the datetime of a date or of a time of numpy; others as they are."""
    if isinstance(time, np.datetime64):
        return time.astype("datetime64[us]").item()
    if isinstance(time, dt.date) and not isinstance(time, dt.datetime):
        return dt.datetime(time.year, time.month, time.day)
    return time


def _read_times(times: Sequence[Any], n: int) -> Floats:
    """Return the ends of the buckets as numbers: ``(n + 1,)``."""
    if len(times) != n + 1:
        raise LengthMismatch.at("/times", f"must have {n + 1} values, the ends of {n} buckets")
    dates = [isinstance(value, dt.datetime) for value in times]
    try:
        numbers = np.array([value - times[0] for value in times]) / dt.timedelta(seconds=1) if all(dates) else times
        ends = np.array(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        raise NotANumber.at("/times", "must be numbers, dates, or datetimes with the same kind of time zone") from None
    if not np.isfinite(ends).all() or (np.diff(ends) <= 0.0).any():
        raise InvalidOption.at("/times", "must be finite and strictly increasing")
    return ends


def _time(place: float, times: Sequence[Any], ends: Floats) -> Any:
    """Return the time of a place in units of buckets."""
    value = float(np.interp(place, np.arange(len(ends)), ends))
    first, last = times[0], times[-1]
    # Not rounded to seconds, which may be after the last bucket or outside of short ones.
    return min(first + dt.timedelta(seconds=value), last) if isinstance(first, dt.datetime) else value
