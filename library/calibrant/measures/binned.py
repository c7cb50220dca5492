"""Binned calibration errors, plain and debiased, and their values for calibrated predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.special import ndtr

from calibrant.binning import Bins
from calibrant.cells import Floats
from calibrant.errors import TooFewRows
from calibrant.measures.intervals import GROUPS, Distance, Integers, row_scale
from calibrant.reductions import Event

Norm = Literal[1, 2]
#: Estimated seconds per resample and bin, and how much longer it takes in a norm that needs powers.
_BIN, _POWERS = 5e-7, 3.0
#: The most of the rows that may be alone in their bins, where deviations from the mean of the bin are 0.
_ALONE = 0.1


def expected_calibration_error(bins: Bins, norm: Norm) -> tuple[float, float]:
    """Return the plain and debiased mean distance between observed frequency and mean prediction of the bins.

    Plain, in [0, 1], smaller is better: sum_k (m_k / m) |pbar_k - ybar_k|^norm, without a root
    for ``norm`` 2 (Kangsepp et al. 2022, section 2.2). The plain value is biased upward by the noise
    in ybar_k. The debiased value is not truncated and may be negative.

    Norm 1: 2 ECE - (1/m) sum m_k E|pbar_k - R_k| with R_k ~ N(ybar_k, ybar_k (1 - ybar_k) / n_k)
    (same paper, appendix C.5, which integrates numerically; the folded normal has a closed form).
    Norm 2: each term minus ybar_k (1 - ybar_k) / (n_k - 1) (Kumar et al. 2019); a bin of one row
    is not corrected. O(b).
    """
    share = bins.mass / bins.mass.sum()
    plain, debiased = expected_calibration_errors(share, bins.rows, bins.mean_p, bins.mean_y, norm)
    return float(plain), float(debiased)


def expected_calibration_errors(
    share: Floats, rows: Floats, mean_p: Floats, mean_y: Floats, norm: Norm
) -> tuple[Floats, Floats]:
    """Return plain and debiased errors ``(...,)`` of several sets of bins ``(..., b)``; ``share`` sums to 1."""
    gap = mean_p - mean_y
    variance = mean_y * (1.0 - mean_y)
    if norm == 1:
        plain = np.sum(share * np.abs(gap), axis=-1)
        return plain, 2.0 * plain - np.sum(share * folded_normal_mean(gap, np.sqrt(variance / rows)), axis=-1)
    correction = np.divide(variance, rows - 1.0, out=np.zeros_like(variance), where=rows > 1.0)
    return np.sum(share * gap**2, axis=-1), np.sum(share * (gap**2 - correction), axis=-1)


def folded_normal_mean(mean: Floats, deviation: Floats) -> Floats:
    """Return E|X| for X ~ N(mean, deviation^2), which is |mean| if the deviation is 0.

    s sqrt(2/pi) exp(-m^2 / 2 s^2) + m (1 - 2 Phi(-m / s)), Leone, Nelson & Nottingham (1961).
    """
    # The tail of the normal distribution is 0 beyond 40; a tiny deviation would overflow.
    ratio = np.divide(mean, np.maximum(deviation, np.abs(mean) / 40.0), out=np.zeros_like(mean), where=deviation > 0)
    folded = deviation * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * ratio**2) + mean * (1.0 - 2.0 * ndtr(-ratio))
    return np.where(deviation > 0, folded, np.abs(mean))


def chance_error(event: Event, bins: Bins) -> tuple[float, float]:
    """Return the expected error (norm 1) of calibrated predictions in these bins, and its plug-in estimate.

    mu = sum_k (m_k / m) E|N(mu_k, sigma_k^2)| (Gruber & Buettner 2022, eq. 22). For calibrated predictions mu_k = 0 and
    sigma_k^2 = sum p (1 - p) / n_k^2. The plug-in uses mu_k = pbar_k - ybar_k and sigma_k^2 = (V(p) + V(y)) / n_k of
    the bin (eq. 24); it counts the noise of the observed gaps as error and is larger. O(n).
    """
    share = bins.mass / bins.mass.sum()
    place = bins.index(event.p)
    w = np.ones(len(event)) if event.w is None else event.w
    chance = np.bincount(place, w * event.p * (1.0 - event.p), len(bins)) / bins.mass
    spread = np.bincount(place, w * (event.p - bins.mean_p[place]) ** 2, len(bins)) / bins.mass
    calibrated = folded_normal_mean(np.zeros(len(bins)), np.sqrt(chance / bins.rows))
    deviation = np.sqrt((spread + bins.mean_y * (1.0 - bins.mean_y)) / bins.rows)
    plug_in = folded_normal_mean(bins.mean_p - bins.mean_y, deviation)
    return float(share @ calibrated), float(share @ plug_in)


def squared_bias(event: Event, bins: Bins) -> float:
    """Return the bias of the plain squared error: (1/n) sum of V(p - y) over bins (Minderer et al. 2021, Lemma 1).

    V(p - y) = a (1 - a) (1 - 2 d) + V(p), with a the observed frequency of the bin and d the mean prediction of its
    positives minus that of its negatives. The lemma has (1 - d) by mistake; its derivation has (1 - 2 d). O(n).
    """
    place = bins.index(event.p)
    w = np.ones(len(event)) if event.w is None else event.w
    off = event.p - event.y - (bins.mean_p - bins.mean_y)[place]
    variance = np.bincount(place, w * off**2, len(bins)) / bins.mass
    return float((bins.mass / bins.mass.sum()) @ (variance / bins.rows))


def binned_distance(event: Event, bins: Bins, order: float, *, root: bool) -> Distance:
    """Return the gaps of the bins with their norm of this order (infinite: the largest) as the size.

    Their noise raises ``TooFewRows`` if more than a tenth of the rows are alone in their bins.
    """
    share = bins.mass / bins.mass.sum()
    gap = bins.mean_y - bins.mean_p

    # Deviations from the mean of a bin lose one degree of freedom.
    freed = np.sqrt(np.divide(bins.rows, bins.rows - 1.0, out=np.ones(len(bins)), where=bins.rows > 1.0 + 1e-9))

    def noise(group: Integers, groups: int) -> Floats:
        alone = int(np.count_nonzero(bins.rows <= 1.0 + 1e-9))
        if alone and share[bins.rows <= 1.0 + 1e-9].sum() > _ALONE:
            raise TooFewRows(f"{alone} of {len(bins)} bins have a single row, whose noise is unknown; use fewer bins")
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
        corrected: Floats = 2.0 * size(u) - folded_normal_mean(u, np.broadcast_to(deviation, u.shape)) @ share
        return corrected

    # For norm 2 the correction is a constant and does not change deviations.
    return Distance(gap, noise, size, debiased if order == 1 and not root else None)


def bins_seconds(n: int, options: Mapping[str, Any]) -> float:
    """Estimate the seconds of a resample of the gaps of bins, in a norm that may need powers."""
    bins = min(n, GROUPS if options.get("binning") == "exact" else int(options.get("n_bins", 15)))
    norm = options.get("norm", options.get("p", 1))
    return bins * _BIN * (1.0 if norm in (1, 2, "max") else _POWERS)
