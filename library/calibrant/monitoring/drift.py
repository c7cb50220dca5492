"""An anytime-valid test of whether predictions of a stream are distributed as in a reference, from tallies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import betaln, xlog1py, xlogy

from calibrant.core.arguments import explained
from calibrant.core.cells import Floats
from calibrant.core.errors import EmptyBatch, InvalidOption
from calibrant.core.options import plain
from calibrant.monitoring.event_tally import EventTally, check_tallies, check_tally
from calibrant.monitoring.evidence import log_start_weight, weight_from
from calibrant.monitoring.tally import CELLS, Integers, Tally, borders

# **The null hypothesis.** The predictions of reference and stream are exchangeable, as if drawn independently from one
# unknown distribution (de Finetti). Whether a prediction is in a fixed set A is then Bernoulli(theta) with unknown
# theta, the same in both.
#
# **The bet.** For a start s, q_s is the probability of the rows of the reference and of those since s if theta is one
# number in the reference and another one since s, both drawn from Jeffreys' prior. Divided by the largest likelihood
# over theta of these rows together,
#
#     E = q_s(reference, since s) / max_theta theta^k (1 - theta)^(n - k),
#
# it is at most the likelihood ratio against the true theta, which is a martingale that starts at 1 with the first row
# of the reference (universal inference: Wasserman, Ramdas & Balakrishnan 2020). So the reference is data with its own
# noise, and not the truth. Averages over starts and sets with fixed weights of sum 1 keep this; by Ville's inequality
# the average ever reaches 1 / alpha with probability at most alpha. A bet uses no rows of the stream before its start,
# so a deleted bucket takes only its own start with it, and every remaining bet has all its rows.

#: Sets of predictions: below each of these fractions of the arcsine grid, and each of this many parts.
_CUTS = (1 / 64, 1 / 32, *(k / 16 for k in range(1, 16)), 31 / 32, 63 / 64)
_PARTS = 8


@dataclass(frozen=True)
class PredictionDrift:
    """Evidence that predictions are distributed differently than in the reference.

    Attributes
    ----------
    log_e : float
        Logarithm of the e-process. Without drift the probability that it ever reaches log(1 / alpha) is at most alpha.
    start : int
        Number of the bucket since which the evidence is strongest.
    low, high : float
        Range of predictions whose frequency has changed most clearly.
    before, since : float
        Share of the predictions in the range, in the reference and since ``start``.

    See Also
    --------
    prediction_drift : Computes this.

    Examples
    --------
    >>> import math
    >>> from calibrant.monitoring.drift import PredictionDrift
    >>> PredictionDrift(math.log(200), 3, 0.0, 0.5, 0.4, 0.6).level
    0.005
    """

    log_e: float
    start: int
    low: float
    high: float
    before: float
    since: float

    @property
    def level(self) -> float:
        """The smallest alpha at which drift is found now, min(1, 1 / E).

        See Also
        --------
        prediction_drift : Computes the evidence.

        Examples
        --------
        >>> from calibrant import PredictionDrift
        >>> PredictionDrift(-2.0, 0, 0.0, 0.5, 0.5, 0.5).level
        1.0
        """
        return round(math.exp(min(-self.log_e, 0.0)), 12)


@explained
def prediction_drift(reference: EventTally, stream: Sequence[EventTally], *, first: int = 0) -> PredictionDrift:
    """Test, at any time, whether the predictions of a stream are distributed as in a reference.

    Parameters
    ----------
    reference : EventTally
        Tally of the reference period. Its labels are not used.
    stream : sequence of EventTally
        One tally for each time bucket, in the order of time; buckets without rows are allowed.
    first : int, default 0
        Number of the first bucket, counted from the start of the stream, if older ones were deleted.

    Returns
    -------
    PredictionDrift
        Evidence; its ``level`` may be compared with alpha after every bucket.

    Raises
    ------
    CalibrationError
        If the reference has no rows (``EmptyBatch``), or the tallies are of different events (``InvalidOption``).

    See Also
    --------
    tally : Counts rows.

    Notes
    -----
    The e-process bets that the share of predictions in one of 27 fixed ranges changed at the start of some bucket. It
    assumes that rows are exchangeable without drift, and accounts for the noise of the reference by universal inference
    (Wasserman, Ramdas & Balakrishnan 2020). Deleted buckets and the starts in them no longer count, and the evidence
    stays valid. O(B cells) for B buckets.

    Examples
    --------
    >>> import calibrant, numpy as np
    >>> p = np.random.default_rng(0).uniform(size=(8, 1000))
    >>> counted = [calibrant.tally(row, row > 0.5) for row in p]
    >>> calibrant.prediction_drift(counted[0], counted[1:]).level > 0.05
    True
    >>> calibrant.prediction_drift(counted[0], [calibrant.tally(p[1] ** 2, p[1] > 0.5)]).level < 0.001
    True
    """
    check_tally(reference, "/reference")
    stream = check_tallies(stream, "/stream")
    if not len(reference):
        raise EmptyBatch.at("/reference", "has no rows")
    first = plain(first)
    if type(first) is not int or first < 0:
        raise InvalidOption.at("/first", "must be a non-negative integer")
    for i, part in enumerate(stream):
        if (part.reduction, part.scale, part.n_classes) != (reference.reduction, reference.scale, reference.n_classes):
            raise InvalidOption.at(f"/stream/{i}", "must have the event, scale and number of classes of the reference")
    return drift_of_counts(
        drift_counts(reference.tally), np.array([drift_counts(part.tally) for part in stream]), first
    )


def drift_of_counts(reference: Floats, buckets: Floats, first: int = 0) -> PredictionDrift:
    """Return the evidence from the rows in each set and in all: ``(2, J)``, and ``(B, 2, J)`` of the stream. O(B J)."""
    ranges, (inside, rows) = drift_ranges(), reference
    if not len(buckets):
        return PredictionDrift(
            math.log(weight_from(first)), first, *ranges[0].tolist(), *[float(inside[0] / rows[0])] * 2
        )
    since = np.cumsum(buckets[::-1], axis=0)[::-1]
    since_inside, since_rows = since[:, 0], since[:, 1]
    apart = (
        _marginal(inside, rows)
        + _marginal(since_inside, since_rows)
        - _highest(inside + since_inside, rows + since_rows)
    )
    later = _marginal(inside, rows) - _highest(inside, rows)
    last = first + len(buckets)
    weights = np.array([_log_weight(start) for start in range(first, last)])
    bets = np.vstack([apart + weights[:, None], later + math.log(weight_from(last))]) - math.log(len(ranges))
    highest = float(bets.max())
    log_e = highest + math.log(float(np.exp(bets - highest).sum()))
    start, chosen = divmod(int(bets[:-1].argmax()), len(ranges))
    before = float(inside[chosen] / rows[chosen])
    now = float(since_inside[start, chosen] / max(since_rows[start, chosen], 1.0))
    low, high = ranges[chosen].tolist()
    return PredictionDrift(log_e, first + start, low, high, before, now)


@cache
def _log_weight(start: int) -> float:
    return log_start_weight(start)


def _marginal(inside: Floats, rows: Floats) -> Floats:
    """Return the log probability of a sequence under Jeffreys' prior Beta(1/2, 1/2)."""
    log_probability: Floats = betaln(inside + 0.5, rows - inside + 0.5) - betaln(0.5, 0.5)
    return log_probability


def _highest(inside: Floats, rows: Floats) -> Floats:
    """Return the largest log likelihood of a sequence over its probability."""
    log_likelihood: Floats = xlogy(inside, inside / rows) + xlog1py(rows - inside, -inside / rows)
    return log_likelihood


@cache
def _cells() -> Integers:
    """Return the first cell of each set and the one after its last: ``(2, J)``."""
    ends = [(0, round(cut * CELLS)) for cut in _CUTS]
    ends += [(CELLS * k // _PARTS, CELLS * (k + 1) // _PARTS) for k in range(_PARTS)]
    return np.array(ends).T


def drift_ranges() -> Floats:
    """Return the range of predictions of each set: ``(J, 2)``."""
    return borders()[_cells()].T


def drift_counts(tally: Tally) -> Floats:
    """Return the rows in each set, and in all: ``(2, J)``. O(cells)."""
    return counts_by_range(np.bincount((tally.keys >> np.uint32(1)) % np.uint32(CELLS), tally.rows, CELLS))


def counts_by_range(rows: Floats | Integers) -> Floats:
    """Return the same from the numbers of rows by cell, ``(CELLS,)``."""
    total = np.concatenate([[0.0], np.cumsum(rows)])
    first, end = _cells()
    return np.array([total[end] - total[first], np.full(len(first), total[-1])])
