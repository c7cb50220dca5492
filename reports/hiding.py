"""What could hide: how large a calibration error the rows of a report do not exclude."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from reports import found

Floats = npt.NDArray[np.float64]

#: Rows are too alike for an interval where so large a share lies in bins of one label.
_ALIKE = 0.99
#: Halvings in which the largest shift is found.
_HALVINGS = 50


def could_hide(side: Mapping[str, Any]) -> float | None:
    """The largest mean calibration error that is known not to be excluded by these rows; None where nothing is known.

    It is the larger of the upper end of the error's interval and of ``largest_shift`` at the same level: resampled rows
    vary no more than the rows do, so that where these are all alike their interval says nothing.
    """
    answer = found.measure(side, "ece", norm=1)
    if answer is None or answer["definition"].get("interval") is None:
        return None
    ends, shift = error_interval(side), shift_of(side)
    known = [size for size in (None if ends is None else ends[1], shift) if size is not None]
    return max(known, default=None)


def error_interval(side: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of the mean calibration error; None where there is none, and where the rows are too alike for one.

    Resampled labels vary in no bin whose labels are all one: where nearly all rows lie in such bins, what comes out is
    narrow whatever the truth.
    """
    ends = found.interval(found.measure(side, "ece", norm=1))
    shown = found.diagram(side, "reliability")
    if ends is None or shown is None:
        return ends
    share, y = (np.asarray(shown[name], dtype=np.float64) for name in ("share", "label_share"))
    return None if float(share[(y <= 0.0) | (y >= 1.0)].sum()) >= _ALIKE else ends


def shift_of(side: Mapping[str, Any]) -> float | None:
    """``largest_shift`` of the side's reliability diagram; None without one, and where its rows hang together."""
    shown = found.diagram(side, "reliability")
    return None if shown is None or shown["low"] is None else largest_shift(shown, found.level(side))


def largest_shift(reliability: Mapping[str, Any], level: float) -> float:
    """The largest mean error of one direction that the number of events does not exclude at ``level``; in [0, 1].

    The chance of an event is held to be p + e (1 - p), or p (1 - e), in all bins or in one alone. The largest e is that
    at which so few events, or so many, have a probability of (1 - level) / 2, the binomial's of the same mean and
    variance. Of one prediction that is the bound of Clopper & Pearson (1934), of no event among m rows the "rule of
    three". No resample is asked, so it holds of any rows. O(b^2).
    """
    rows, share, p, y = (
        np.asarray(reliability[name], dtype=np.float64) for name in ("rows", "share", "mean_prediction", "label_share")
    )
    if len(rows) == 0:
        return 1.0
    tail = (1.0 - level) / 2.0
    return max(_upwards(rows, share, p, y, tail), _upwards(rows, share, 1.0 - p, 1.0 - y, tail))


def _upwards(rows: Floats, share: Floats, p: Floats, y: Floats, tail: float) -> float:
    """The largest mean error of predictions that are too low."""
    # Where an event is certain there is no room above.
    families = np.vstack([np.ones(len(rows)), np.eye(len(rows))]) * (p < 1.0)
    m, k = families * rows, families @ (rows * y)

    def possible(e: Floats) -> npt.NDArray[np.bool_]:
        chance = p + e[:, None] * (1.0 - p)
        mean, square = (m * chance).sum(axis=1), (m * chance**2).sum(axis=1)
        # The binomial law of this mean and variance; of one chance it is that of the rows.
        alike = np.where(mean > 0.0, square / np.maximum(mean, 1e-300), 0.0)
        of = np.where(square > 0.0, mean**2 / np.maximum(square, 1e-300), m.sum(axis=1))
        few = betainc(np.maximum(of - k, 1e-12), k + 1.0, 1.0 - alike)
        at_least: npt.NDArray[np.bool_] = np.where(k < of, few, 1.0) >= tail
        return at_least

    low, high = np.zeros(len(m)), np.ones(len(m))
    none = ~possible(low) | (m.sum(axis=1) <= 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        kept = possible(middle)
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return float(np.where(none, 0.0, low * (families @ (share * (1.0 - p)))).max())
