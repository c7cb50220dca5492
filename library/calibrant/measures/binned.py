"""Calibration errors over bins: plain and debiased, of any norm, and how large chance alone makes them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import ndtr

from calibrant.binning import Bins
from calibrant.cells import Floats
from calibrant.measures.intervals import Distance, Integers, row_scale
from calibrant.reductions import Event

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
    # From 40 on the normal law's tail is 0; a tiny deviation would overflow.
    ratio = np.divide(mean, np.maximum(deviation, np.abs(mean) / 40.0), out=np.zeros_like(mean), where=deviation > 0)
    folded = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(deviation > 0, folded, np.abs(mean))


def chance_error(event: Event, bins: Bins) -> tuple[float, float]:
    """The error, norm 1, that these bins show by chance: of calibrated predictions, and with the gaps seen plugged in.

    mu = sum_k (m_k / m) E|N(mu_k, sigma_k^2)| (Gruber & Buettner 2022, eq. 22). Of calibrated ones mu_k = 0 and
    sigma_k^2 = sum p (1 - p) / n_k^2; the plug-in has mu_k = pbar_k - ybar_k and sigma_k^2 = (V(p) + V(y)) / n_k of
    the bin (eq. 24), and so counts the noise of the gaps seen as error: it is the larger. O(n).
    """
    share = bins.mass / bins.mass.sum()
    place = bins.index(event.p)
    w = np.ones(len(event)) if event.w is None else event.w
    chance = np.bincount(place, w * event.p * (1.0 - event.p), len(bins)) / bins.mass
    spread = np.bincount(place, w * (event.p - bins.mean_p[place]) ** 2, len(bins)) / bins.mass
    calibrated = folded_normal_mean(np.zeros(len(bins)), np.sqrt(chance / bins.rows))
    seen = np.sqrt((spread + bins.mean_y * (1.0 - bins.mean_y)) / bins.rows)
    return float(share @ calibrated), float(share @ folded_normal_mean(bins.mean_p - bins.mean_y, seen))


def squared_bias(event: Event, bins: Bins) -> float:
    """Bias of the plain squared error: (1/n) sum over non-empty bins of V(p - y) (Minderer et al. 2021, Lemma 1).

    V(p - y) = a (1 - a) (1 - 2 d) + V(p), a the bin's share of positives, d the difference of the mean predictions of
    positives and negatives; the paper's lemma has (1 - d) by mistake, its derivation (1 - 2 d). O(n).
    """
    place = bins.index(event.p)
    w = np.ones(len(event)) if event.w is None else event.w
    off = event.p - event.y - (bins.mean_p - bins.mean_y)[place]
    variance = np.bincount(place, w * off**2, len(bins)) / bins.mass
    return float((bins.mass / bins.mass.sum()) @ (variance / bins.rows))


def binned_distance(event: Event, bins: Bins, order: float, *, root: bool) -> Distance:
    """The gaps of the bins, and the size of them that a norm of this order gives (infinite: the largest)."""
    share = bins.mass / bins.mass.sum()
    gap = bins.mean_y - bins.mean_p

    # Deviations from a bin's own mean are too small by its one degree of freedom.
    freed = np.sqrt(np.divide(bins.rows, bins.rows - 1.0, out=np.ones(len(bins)), where=bins.rows > 1.0 + 1e-9))

    def noise(group: Integers, groups: int) -> Floats:
        place = bins.index(event.p)
        off = (event.y - event.p - gap[place]) * freed[place]
        key = group * len(bins) + place
        sums = np.bincount(key, row_scale(event.w, event.kind) * off, groups * len(bins))
        return sums.reshape(groups, len(bins)) / bins.mass

    def size(u: Floats) -> Floats:
        if np.isinf(order):
            largest: Floats = np.abs(u).max(axis=-1)
            return largest
        power: Floats = np.abs(u) @ share if order == 1 else np.abs(u) ** order @ share
        return power ** (1.0 / order) if root else power

    deviation = np.sqrt(bins.mean_y * (1.0 - bins.mean_y) / np.maximum(bins.rows, 1.0))

    def debiased(u: Floats) -> Floats:
        mended: Floats = 2.0 * size(u) - folded_normal_mean(u, np.broadcast_to(deviation, u.shape)) @ share
        return mended

    # Of norm 2 the correction is a constant, and moves nothing.
    return Distance(gap, noise, size, debiased if order == 1 and not root else None)
