"""Pooling a measure over centres: a random-effects meta-analysis with a prediction interval for another centre."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtri, stdtrit

from calibrant.core.cells import Floats
from calibrant.core.choices import PoolingScale
from calibrant.core.results import Measured
from calibrant.measures.measure import MeasureRequest, MeasureResult

#: Functions to the scale on which values are pooled, and back.
_SCALES = {"identity": (np.asarray, np.asarray), "log": (np.log, np.exp), "logit": (logit, expit)}


@dataclass(frozen=True, repr=False)
class Pooled(Measured):
    """A measure pooled over groups, such as the centres of a study.

    Attributes
    ----------
    value : float or None
        Mean over groups.
    interval : tuple of float or None
        Confidence interval of the mean.
    prediction_interval : tuple of float or None
        Interval of the true value of another group; None for fewer than three.
    between : float or None
        Standard deviation of true values between groups, on ``scale``.
    i_squared : float or None
        Share of the variance of estimates that is between groups, in [0, 1].
    groups : int
        Number of groups with a value.
    scale : {"identity", "log", "logit"}
        Scale on which values are pooled.
    problem : str or None
        Why there is no value, or how many groups were left out.

    See Also
    --------
    evaluate : Pools measures over ``groups``, if an interval is requested.

    Notes
    -----
    Variances within groups are from the intervals of their values; that between groups is estimated by restricted
    maximum likelihood. The interval is that of Hartung, Knapp, Sidik and Jonkman with k - 1 degrees of freedom, and the
    prediction interval adds the variance between groups and has k - 2 (Riley et al. 2011; Debray et al. 2017).

    Examples
    --------
    >>> import calibrant
    >>> p, labels, groups = [0.1, 0.4, 0.6, 0.9] * 12, [0, 1, 0, 1] * 12, ["a", "b", "c"] * 16
    >>> report = calibrant.evaluate(p, labels, groups=groups, measures=["oe-ratio"], interval=0.95, resamples=100)
    >>> round(report.pooled["oe-ratio"].value, 6), report.pooled["oe-ratio"].between
    (1.0, 0.0)
    """

    value: float | None
    interval: tuple[float, float] | None = None
    prediction_interval: tuple[float, float] | None = None
    between: float | None = None
    i_squared: float | None = None
    groups: int = 0
    scale: PoolingScale = "identity"
    problem: str | None = None


def random_effects(values: Floats, ends: Floats, level: float, scale: PoolingScale = "identity") -> Pooled:
    """Pool ``values (k,)`` with the intervals ``ends (k, 2)`` at ``level``, from which standard errors follow. O(k)."""
    to, back = _SCALES[scale]
    k, y, tail = len(values), to(values), (1.0 + level) / 2.0
    variance = (np.diff(to(ends), axis=1)[:, 0] / (2.0 * ndtri(tail))) ** 2
    between = _between(y, variance)
    w, v = 1.0 / (variance + between), 1.0 / variance
    mean = float(w @ y / w.sum())
    error = math.sqrt(float(w @ (y - mean) ** 2 / ((k - 1) * w.sum())))
    # The typical variance within groups (Higgins & Thompson 2002).
    within = (k - 1) * float(v.sum() / (v.sum() ** 2 - v @ v))

    def around(freedom: int, error: float) -> tuple[float, float]:
        low, high = back(mean + float(stdtrit(freedom, tail)) * error * np.array([-1.0, 1.0]))
        return float(low), float(high)

    return Pooled(
        float(back(mean)),
        around(k - 1, error),
        around(k - 2, math.hypot(error, math.sqrt(between))) if k > 2 else None,
        math.sqrt(between),
        between / (between + within),
        k,
        scale,
    )


def _between(y: Floats, variance: Floats) -> float:
    """Return the variance between groups at which the restricted likelihood is largest."""
    from scipy.optimize import brentq

    def slope(between: float) -> float:
        w = 1.0 / (variance + between)
        return float(w**2 @ (y - w @ y / w.sum()) ** 2 - w.sum() + w @ w / w.sum())

    high = float(np.var(y, ddof=1) + variance.max())
    while slope(high) > 0.0:
        high *= 2.0
    return 0.0 if slope(0.0) <= 0.0 else float(brentq(slope, 0.0, high, xtol=1e-14 * high))


def pooled_groups(
    requests: Sequence[MeasureRequest],
    by_group: Mapping[str, Mapping[str, MeasureResult]],
    level: float | None,
    *,
    shared: bool = False,
) -> dict[str, Pooled] | None:
    """Return each measure that has a scale for it, pooled; None without such a measure or without intervals.

    Groups that have ``shared`` clusters are dependent, and are not pooled.
    """
    scales = {request.key: request.measure.pooled for request in requests if request.measure.pooled is not None}
    if level is None or not scales or len(by_group) < 2:
        return None
    pooled = {}
    for key, scale in scales.items():
        least, most = {"identity": (-math.inf, math.inf), "log": (0.0, math.inf), "logit": (0.0, 1.0)}[scale]
        known = [(results[key].value, ends) for results in by_group.values() if (ends := results[key].interval)]
        known = [(value, ends) for value, ends in known if least < ends[0] and ends[1] < most]
        out = len(by_group) - len(known)
        problem = f"{out} of {len(by_group)} groups without an interval are left out" if out else None
        if shared:
            pooled[key] = Pooled(None, scale=scale, problem="no value: groups have rows of the same cluster")
            continue
        if len(known) < 2:
            pooled[key] = Pooled(None, groups=len(known), scale=scale, problem=f"no value: {problem}")
            continue
        values, intervals = (np.array(part, dtype=np.float64) for part in zip(*known, strict=True))
        pooled[key] = replace(random_effects(values, intervals, level, scale), problem=problem)
    return pooled
