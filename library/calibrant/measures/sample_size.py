"""The number of rows that a validation needs for precise estimates of O/E and of the calibration slope."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, expit, ndtri

from calibrant.core.arguments import explained
from calibrant.core.arrays import array_of
from calibrant.core.batch import Scale, read_numbers, read_predictions
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption, OutOfRange, WrongShape
from calibrant.core.options import read_fraction
from calibrant.core.results import Shown, Table, counted
from calibrant.measures.clinical import logits

#: Quantiles that stand for a distribution.
_QUANTILES = 100_000
#: The most rows: larger whole numbers are not exact in JSON.
_MOST = 2.0**53
#: The smallest width of an interval.
_LEAST = 1e-6


@dataclass(frozen=True, repr=False)
class SampleSize(Shown):
    """Rows that a validation needs.

    Attributes
    ----------
    n : int
        Rows for every precision that was requested.
    events : int
        Events expected among them, rounded up.
    measures : dict of str to int
        Rows for each measure.
    prevalence : float
        Expected fraction of events.

    See Also
    --------
    sample_size : Computes this.

    Examples
    --------
    >>> import calibrant
    >>> calibrant.sample_size(prevalence=0.018, oe_width=1.0).measures
    {'oe-ratio': 906}
    """

    n: int
    events: int
    measures: dict[str, int]
    prevalence: float

    def _table(self) -> Table:
        title = f"Sample size: {self.n:,} rows, {counted(self.events, 'event')}"
        return Table(title, ("measure", "rows"), [(name, f"{n:,}") for name, n in self.measures.items()])


@explained
def sample_size(
    predictions: Any = None,
    *,
    scale: Scale = "probability",
    logit_normal: Sequence[float] | None = None,
    beta: Sequence[float] | None = None,
    prevalence: float | None = None,
    oe_width: float = 0.2,
    slope_width: float = 0.2,
    level: float = 0.95,
) -> SampleSize:
    """Compute how many rows a validation needs for precise estimates of O/E and of the calibration slope.

    Give the expected predictions in one of four forms. The model is assumed to be calibrated, so that the fraction of
    events is the mean prediction.

    Parameters
    ----------
    predictions : array_like, shape (n,), optional
        Predictions like those expected, such as those of the development rows.
    scale : {"probability", "logit"}, default "probability"
        Scale of ``predictions``.
    logit_normal : (float, float), optional
        Mean and standard deviation of normal log-odds of the predictions.
    beta : (float, float), optional
        Parameters of a beta distribution of the predictions.
    prevalence : float, optional
        The fraction of events alone, in (0, 1); there is then no result for the slope.
    oe_width, slope_width : float, default 0.2
        Widths of the intervals of O/E and of the slope, if both are 1; at least 1e-6.
    level : float, default 0.95
        Level of the intervals, in (0, 1).

    Returns
    -------
    SampleSize
        Rows and events.

    Raises
    ------
    CalibrationError
        If an argument is invalid.

    See Also
    --------
    evaluate : Estimates both measures, ``oe-ratio`` and ``calibration-slope``, with intervals.

    Notes
    -----
    O/E needs (1 - prevalence) / (prevalence SE^2) rows for the standard error SE of its logarithm. The slope needs
    I_a / (SE^2 (I_a I_b - I_ab^2)) for the information of one row about intercept and slope (Riley et al. 2021; the R
    package pmvalsampsize simulates that information, and it is integrated here). The target is a lower bound: smooth
    curves need at least 200 events and 200 other rows too. O(n).

    Examples
    --------
    >>> import calibrant
    >>> calibrant.sample_size(logit_normal=(-2.0, 1.0))
    Sample size: 4,320 rows, 672 events
    measure             rows
    oe-ratio           2,094
    calibration-slope  4,320
    """
    forms = {"predictions": predictions, "logit_normal": logit_normal, "beta": beta, "prevalence": prevalence}
    passed = [name for name, value in forms.items() if value is not None]
    if len(passed) != 1:
        raise InvalidOption.at("", f"give exactly one of {', '.join(forms)}")
    for name, width in (("oe_width", oe_width), ("slope_width", slope_width)):
        if isinstance(width, bool) or not isinstance(width, int | float) or not _LEAST <= width < math.inf:
            raise InvalidOption.at(f"/{name}", f"must be a number of at least {_LEAST}")
    z = float(ndtri((1.0 + read_fraction(level, "/level")) / 2.0))
    log_odds = None
    if prevalence is not None:
        rate = read_fraction(prevalence, "/prevalence")
    else:
        log_odds = _log_odds(predictions, scale, logit_normal, beta)
        rate = float(expit(log_odds).mean())
        if not 0.0 < rate < 1.0:
            raise OutOfRange.at(f"/{passed[0]}", "must have a mean prediction above 0 and below 1")
    # The width of exp(-+ z SE) is 2 sinh(z SE).
    needed = {"oe-ratio": (1.0 - rate) / rate * (z / math.asinh(oe_width / 2.0)) ** 2}
    if log_odds is not None:
        p = expit(log_odds)
        of_row = p * (1.0 - p)
        information, moved, squared = (float((of_row * log_odds**k).mean()) for k in range(3))
        rest = information * squared - moved**2
        if rest <= 1e-12 * information * squared:
            raise OutOfRange.at(f"/{passed[0]}", "must vary: equal predictions have no slope")
        needed["calibration-slope"] = information / rest * (2.0 * z / slope_width) ** 2
    if not max(needed.values()) < _MOST:
        raise OutOfRange.at(f"/{passed[0]}", "needs more than 2^53 rows for intervals of these widths")
    rows = {name: math.ceil(n) for name, n in needed.items()}
    n = max(rows.values())
    return SampleSize(n, math.ceil(n * rate), rows, rate)


def _log_odds(
    predictions: Any, scale: Scale, logit_normal: Sequence[float] | None, beta: Sequence[float] | None
) -> Floats:
    """Return the log-odds of predictions, or quantiles of those of a distribution."""
    q = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if logit_normal is not None:
        mean, sd = _pair(logit_normal, "/logit_normal", positive=(1,))
        return np.asarray(mean + sd * ndtri(q))
    if beta is not None:
        a, b = _pair(beta, "/beta", positive=(0, 1))
        p, rest = betaincinv(a, b, q), betaincinv(b, a, 1.0 - q)
        return np.asarray(np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(rest, 1e-300)))
    checked = read_predictions(array_of(predictions, "predictions"), scale=scale)
    if checked.n_classes is not None:
        raise WrongShape.at("/predictions", "must have shape (n,)")
    numbers = checked.given.astype(np.float64)
    return numbers if scale == "logit" else logits(numbers, None)


def _pair(values: Sequence[float], pointer: str, *, positive: tuple[int, ...]) -> tuple[float, float]:
    pair = read_numbers(values, pointer)
    if pair.shape != (2,) or not np.isfinite(pair).all() or any(pair[i] <= 0.0 for i in positive):
        which = "two numbers above 0" if len(positive) == 2 else "a number, and a second one above 0"
        raise InvalidOption.at(pointer, f"must be {which}")
    return float(pair[0]), float(pair[1])
