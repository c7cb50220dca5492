"""Checks of rows one by one: what is wrong with a row refuses that row, and leaves the others alone.

The tolerances are those of ``calibrant.batch``, which refuses whole batches.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calibrant.batch import SUM_ROUNDING, TOLERANCE, Scale
from calibrant.cells import Floats
from monitoring.taking.reasons import Why

Whys = npt.NDArray[np.uint8]


def check_predictions(values: Floats, scale: Scale) -> tuple[Whys, Floats]:
    """What is wrong with each of ``values (n,)`` or ``(n, K)``, and the values as they count.

    Those within the tolerance are clipped and divided by their sum, as ``read_predictions`` does; those of refused
    rows become 1/2, or 1/K. O(n K).
    """
    why = np.zeros(len(values), np.uint8)
    if not values.size:
        return why, values
    # A NaN survives min and max, so two passes find whether anything is out of place.
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        why[_any(~np.isfinite(values))] = Why.NOT_FINITE
        values = _without(values, why)
    if scale == "logit":
        return why, values
    if not (low >= 0.0 and high <= 1.0):
        why[_any((values < -TOLERANCE) | (values > 1.0 + TOLERANCE))] = Why.OUT_OF_RANGE
        values = _without(np.clip(values, 0.0, 1.0), why)
    return (why, values) if values.ndim == 1 else _check_sums(values, why)


def _check_sums(values: Floats, why: Whys) -> tuple[Whys, Floats]:
    """Rows of sum 1; those of another sum are refused, those nearly of it divided by it."""
    sums = values @ np.ones(values.shape[1])
    away = np.abs(sums - 1.0)
    if away.max() <= SUM_ROUNDING:
        return why, values
    # What clipping takes from a row of many classes may be more than the tolerance of one number.
    wrong = (away > TOLERANCE) & (why == 0)
    why[wrong] = Why.WRONG_SUM
    values = _without(values, why)
    off = (away > SUM_ROUNDING) & (why == 0)
    values[off] /= sums[off, None]
    return why, values


def _any(cells: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether it is true of any number of a row."""
    return cells if cells.ndim == 1 else np.logical_or.reduce(cells, axis=1)


def _without(values: Floats, why: Whys) -> Floats:
    """A copy of the values with something harmless in the rows that are refused."""
    found = values.copy()
    found[why != 0] = 0.5 if values.ndim == 1 else 1.0 / values.shape[1]
    return found


def check_labels(labels: Floats, n_classes: int) -> Whys:
    """What is wrong with each label: whole numbers from 0 to ``n_classes`` - 1 are right."""
    with np.errstate(invalid="ignore"):
        wrong = ~((labels >= 0) & (labels < n_classes) & (labels == np.floor(labels)))
    return np.where(wrong, np.uint8(Why.INVALID_LABEL), np.uint8(0))


def check_times(times: Floats, now: float, *, skew: float, retention: float) -> Whys:
    """What is wrong with each time, in seconds since 1970; NaN is none given."""
    why = np.zeros(len(times), np.uint8)
    why[times > now + skew] = Why.FUTURE
    why[(times > now + skew) & (np.abs(times / 1000.0 - now) <= max(skew, retention))] = Why.MILLISECONDS
    why[times < now - retention] = Why.TOO_OLD
    return why
