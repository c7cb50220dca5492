"""Expected calibration error over bins: plain and debiased, L1 and L2."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtr

from calibrant.binning import Bins
from calibrant.cells import Floats

Norm = Literal[1, 2]


def expected_calibration_error(bins: Bins, norm: Norm) -> tuple[float, float]:
    """Mean distance between label share and mean prediction of the bins: plain, and debiased.

    Plain, in [0, 1], smaller is better: sum_k (m_k / m) |pbar_k - ybar_k|^norm, without a root
    for ``norm`` 2 (Kangsepp et al. 2022, section 2.2). The plain value is biased upward, since
    noise in ybar_k counts as distance. The debiased one is not truncated and may be negative.

    Norm 1: 2 ECE - (1/m) sum m_k E|pbar_k - R_k| with R_k ~ N(ybar_k, ybar_k (1 - ybar_k) / n_k)
    (same paper, appendix C.5; there integrated numerically, here the folded normal's closed form).
    Norm 2: each term less ybar_k (1 - ybar_k) / (n_k - 1) (Kumar et al. 2019); a bin of one row
    is not corrected. O(b).
    """
    share = bins.mass / bins.mass.sum()
    plain, debiased = expected_calibration_errors(share, bins.rows, bins.mean_p, bins.mean_y, norm)
    return float(plain), float(debiased)


def expected_calibration_errors(
    share: Floats, rows: Floats, mean_p: Floats, mean_y: Floats, norm: Norm
) -> tuple[Floats, Floats]:
    """Plain and debiased errors ``(...,)`` of many sets of bins ``(..., b)`` at once; shares sum to 1."""
    gap = mean_p - mean_y
    variance = mean_y * (1.0 - mean_y)
    if norm == 1:
        plain = np.sum(share * np.abs(gap), axis=-1)
        return plain, 2.0 * plain - np.sum(share * folded_normal_mean(gap, np.sqrt(variance / rows)), axis=-1)
    correction = np.divide(variance, rows - 1.0, out=np.zeros_like(variance), where=rows > 1.0)
    return np.sum(share * gap**2, axis=-1), np.sum(share * (gap**2 - correction), axis=-1)


def folded_normal_mean(mean: Floats, deviation: Floats) -> Floats:
    """E|X| of X ~ N(mean, deviation^2); |mean| where the deviation is 0.

    s sqrt(2/pi) exp(-m^2 / 2 s^2) + m (1 - 2 Phi(-m / s)), Leone, Nelson & Nottingham (1961).
    """
    ratio = np.divide(mean, deviation, out=np.zeros_like(mean), where=deviation > 0)
    folded = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(deviation > 0, folded, np.abs(mean))
