"""Losses of forecasts row by row, with the derivatives that the average of maps needs."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from calibrant.core.cells import Floats

_INV_SQRT_PI = 1.0 / np.sqrt(np.pi)


def crps_normal(mean: Floats, sd: Floats, y: Floats) -> Floats:
    """Return the CRPS of normal forecasts ``(n,)``; smaller is better (Gneiting et al. 2005, eq. 5)."""
    z = (y - mean) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    scores: Floats = sd * (z * (2.0 * ndtr(z) - 1.0) + 2.0 * density - _INV_SQRT_PI)
    return scores


def crps_normal_slopes(mean: Floats, sd: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the derivatives ``(n,)`` of the CRPS by the mean and by the standard deviation."""
    z = (y - mean) / sd
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return 1.0 - 2.0 * ndtr(z), 2.0 * density - _INV_SQRT_PI


def quantile_score(q: Floats, levels: Floats, y: Floats) -> Floats:
    """Return twice the mean pinball loss over the levels ``(n,)``: the WIS if levels are symmetric with a median."""
    error = y[:, None] - q
    scores: Floats = 2.0 * np.maximum(levels * error, (levels - 1.0) * error).mean(axis=1)
    return scores


def dawid_sebastiani(mean: Floats, variance: Floats, y: Floats) -> Floats:
    """Return the Dawid-Sebastiani score ``(n,)``: squared error over variance, plus log variance."""
    return (y - mean) ** 2 / variance + np.log(variance)
