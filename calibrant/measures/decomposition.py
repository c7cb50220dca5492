"""Decompositions of a proper score into miscalibration, discrimination and uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import entr, rel_entr, xlog1py, xlogy

from calibrant.binning import Bins, equal_mass, equal_width_of_cells
from calibrant.cells import Cells, Floats
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.measures.binned import expected_calibration_errors

DecomposedScore = Literal["brier", "log-loss"]
BinsOf = Literal["equal-mass", "equal-width"]


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty + within_bins.

    ``within_bins`` is None where predictions are not binned. For the Brier score it is ``within_bin_variance`` less
    ``within_bin_covariance``, and the miscalibration has a ``debiased`` value where every bin has at least one row.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    within_bins: float | None = None
    within_bin_variance: float | None = None
    within_bin_covariance: float | None = None
    debiased: float | None = None

    def terms(self) -> dict[str, float]:
        """Every term that there is, by name."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "debiased"}


def summed(parts: Sequence[Decomposition]) -> Decomposition:
    """The sum of decompositions term by term; a term that one lacks, the sum lacks."""
    names = [name for name in vars(parts[0]) if all(getattr(part, name) is not None for part in parts)]
    return Decomposition(**{name: float(sum(getattr(part, name) for part in parts)) for name in names})


def corp_decomposition(cells: Cells, score: DecomposedScore) -> Decomposition:
    """By isotonic regression: CORP (Dimitriadis, Gneiting & Jordan 2021). O(m) on cells.

    With x the best non-decreasing map of the predictions (pool adjacent violators) and S the mean score,
    miscalibration = S(p) - S(x), discrimination = S(ybar) - S(x), uncertainty = S(ybar). None is below 0. Blocks of x
    at exactly 0 or 1 hold one outcome only and score 0.
    """
    x = np.clip(isotonic_regression(cells.wy / cells.w, weights=cells.w).x, 0.0, 1.0)
    # In a block the share of positives is x, so that its score is the entropy of x.
    best = float(cells.w @ _entropy(x, score)) / cells.mass
    given, uncertainty = _score(cells, score), _uncertainty(cells, score)
    return Decomposition(given, max(given - best, 0.0), max(uncertainty - best, 0.0), uncertainty)


def binned_decomposition(cells: Cells, score: DecomposedScore, binning: BinsOf, n_bins: int) -> Decomposition:
    """Over bins of mean prediction pbar_k, label share ybar_k and mass share v_k (Murphy 1973). O(m) on cells.

    miscalibration sum v_k d(pbar_k, ybar_k), discrimination sum v_k d(ybar, ybar_k), uncertainty g(ybar), with
    d(a, b) = (a - b)^2 and g(a) = a (1 - a) for the Brier score, d(a, b) = KL(b | a) and g the entropy for the log
    loss, where pbar_k is clipped as predictions are. They add up to the score of binned predictions; the terms within
    the bins make up for the rest. For the Brier score these are the variance sum (p - pbar_k)^2 / n and the covariance
    2 sum (p - pbar_k)(y - ybar_k) / n (Stephenson, Coelho & Jolliffe 2008). Debiased is each (pbar_k - ybar_k)^2 less
    ybar_k (1 - ybar_k) / (n_k - 1) (Ferro & Fricker 2012).
    """
    bins = bins_of(cells, binning, n_bins)
    bins = replace(bins, mean_y=np.clip(bins.mean_y, 0.0, 1.0))  # differences of sums round
    share = bins.mass / bins.mass.sum()
    given, uncertainty = _score(cells, score), _uncertainty(cells, score)
    discrimination = max(uncertainty - float(share @ _entropy(bins.mean_y, score)), 0.0)
    if score == "log-loss":
        found = divergence(cells_of_bins(bins))
        return Decomposition(given, found, discrimination, uncertainty, given - found + discrimination - uncertainty)
    place = bins.index(cells.p)
    off = cells.p - bins.mean_p[place]
    variance = float(cells.w @ off**2) / cells.mass
    covariance = 2.0 * float(off @ (cells.wy - cells.w * bins.mean_y[place])) / cells.mass
    plain, debiased = expected_calibration_errors(share, bins.rows, bins.mean_p, bins.mean_y, 2)
    return Decomposition(
        given,
        float(plain),
        discrimination,
        uncertainty,
        variance - covariance,
        variance,
        covariance,
        float(debiased) if bins.rows.min() >= 1.0 else None,
    )


def bins_of(cells: Cells, binning: BinsOf, n_bins: int) -> Bins:
    """The bins of a binned decomposition."""
    return equal_mass(cells, n_bins) if binning == "equal-mass" else equal_width_of_cells(cells, n_bins)


def cells_of_bins(bins: Bins) -> Cells:
    """Bins as cells at their mean predictions, with as many effective rows."""
    mass, wy, w2 = bins.mass, bins.mass * bins.mean_y, bins.mass * (bins.mass / bins.rows)
    return Cells(bins.mean_p, bins.rows, mass, w2, wy, w2 * bins.mean_y, "importance")


def divergence(cells: Cells) -> float:
    """Mean KL(ybar | p), in nats, of cells with the label shares ybar; predictions are clipped. O(m)."""
    q = np.clip(cells.p, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
    share = np.clip(cells.wy / cells.w, 0.0, 1.0)
    off = rel_entr(share, q) + rel_entr(1.0 - share, 1.0 - q)
    return float(cells.w @ np.maximum(off, 0.0)) / cells.mass


def _score(cells: Cells, score: DecomposedScore) -> float:
    """The mean score of the predictions; the log loss clips them at 2^-52."""
    p, negatives = cells.p, cells.w - cells.wy
    if score == "brier":
        return float(cells.wy @ (1.0 - p) ** 2 + negatives @ p**2) / cells.mass
    p = np.clip(p, PROBABILITY_CLIP, 1.0 - PROBABILITY_CLIP)
    return -float(np.sum(xlogy(cells.wy, p) + xlog1py(negatives, -p))) / cells.mass


def _entropy(share: Floats, score: DecomposedScore) -> Floats:
    """The generalised entropy g of a share of positives; 0 log 0 is 0."""
    found: Floats = share * (1.0 - share) if score == "brier" else entr(share) + entr(1.0 - share)
    return found


def _uncertainty(cells: Cells, score: DecomposedScore) -> float:
    return float(_entropy(np.array(cells.cumulative_wy[-1] / cells.mass), score))
