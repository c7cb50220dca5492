"""The power law between calibration error and classification error over batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.cells import Floats

#: Fewer batches than this give no law.
LEAST_BATCHES = 5
#: Resamples whose law does not exist are left out, up to this share.
_LOST = 0.1


@dataclass(frozen=True)
class Point:
    """One batch: its classification ``error``, its ``calibration`` error, and by how much the same resamples of its
    rows move each, ``(resamples,)``; None where the measure has no resamples.
    """

    error: float
    calibration: float
    error_draws: Floats | None = None
    calibration_draws: Floats | None = None


@dataclass(frozen=True)
class PowerLaw:
    """``calibration = factor * error ** exponent``, over the batches ``used`` by their places in what was given.

    ``exponent`` and ``factor`` are None where ``problem`` says why there is no law; ``interval`` is the exponent's.
    """

    exponent: float | None
    factor: float | None
    interval: tuple[float, float] | None
    used: tuple[int, ...]
    problem: str | None = None


def power_law(points: Sequence[Point], *, level: float = 0.95) -> PowerLaw:
    """The power law y = a x^k of calibration error y and classification error x over batches.

    The line of least squares through (log x, log y) (Minderer et al. 2021, Figure 11). Batches whose error or
    calibration error is not above 0 have no logarithm and are left out; of debiased values, which may be negative, that
    leaves out batches that show no miscalibration, and biases the law upward there.

    Parameters
    ----------
    points : one a batch, of independent batches
    level : in (0, 1) of the exponent's interval

    Returns
    -------
    PowerLaw
        without exponent where fewer than five batches remain, or all have one error; its interval holds the exponents
        between the quantiles of those of resampled rows (percentile bootstrap: rows within each batch, the batches
        themselves held fixed), and is None where over a tenth of the resamples have an error that is not above 0

    Notes
    -----
    O(batches x resamples).

    Examples
    --------
    >>> law = power_law([Point(x, 0.5 * x**2) for x in (0.05, 0.1, 0.2, 0.3, 0.4)])
    >>> round(law.exponent, 6), round(law.factor, 6), law.interval
    (2.0, 0.5, None)
    """
    used = tuple(i for i, point in enumerate(points) if point.error > 0.0 and point.calibration > 0.0)
    if len(used) < LEAST_BATCHES:
        told = f"{len(used)} of {len(points)} batches have both errors above 0"
        return PowerLaw(None, None, None, used, f"no power law: {told}, and it takes {LEAST_BATCHES}")
    kept = [points[i] for i in used]
    x, y = np.log([p.error for p in kept]), np.log([p.calibration for p in kept])
    if np.ptp(x) < 1e-9:
        return PowerLaw(None, None, None, used, "no power law: all batches have the same classification error")
    exponent = float(_slopes(x, y))
    factor = float(np.exp(y.mean() - exponent * x.mean()))
    interval, problem = _interval(kept, level)
    return PowerLaw(exponent, factor, interval, used, problem)


def _slopes(x: Floats, y: Floats) -> Floats:
    """Slopes ``(...,)`` of the lines of least squares through ``x, y (..., b)``."""
    off = x - x.mean(axis=-1, keepdims=True)
    slopes: Floats = (off * y).sum(axis=-1) / (off * off).sum(axis=-1)
    return slopes


def _interval(points: Sequence[Point], level: float) -> tuple[tuple[float, float] | None, str | None]:
    moved = [(p.error_draws, p.calibration_draws) for p in points]
    drawn = [(error, calibration) for error, calibration in moved if error is not None and calibration is not None]
    if len(drawn) < len(points):
        return None, "no interval: the measure has no resamples on every batch"
    x = np.stack([p.error + error for p, (error, _) in zip(points, drawn, strict=True)], axis=-1)
    y = np.stack([p.calibration + draws for p, (_, draws) in zip(points, drawn, strict=True)], axis=-1)
    known = (x > 0.0).all(axis=-1) & (y > 0.0).all(axis=-1)
    if known.mean() < 1.0 - _LOST:
        return None, "no interval: in too many resamples a batch's error is not above 0"
    low, high = np.quantile(_slopes(np.log(x[known]), np.log(y[known])), [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return (float(low), float(high)), None
