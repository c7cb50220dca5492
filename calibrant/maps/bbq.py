"""BBQ: Bayesian binning into quantiles, an average over equal-mass binnings."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from calibrant.binning import equal_mass_borders
from calibrant.cells import Cells, Floats
from calibrant.maps.curves import check_outcomes
from calibrant.maps.steps import Steps, bin_of, midway, steps

#: The prior of a binning is worth so many rows, shared out equally among its bins.
_PRIOR_ROWS = 2.0
#: Binnings that hold less than this of the posterior together are left out.
_NEGLIGIBLE = 1e-9
#: A prior mean is at least so far from 0 and 1.
_PRIOR_CLIP = 2.0**-52


def fit_bbq(cells: Cells) -> tuple[Steps, dict[str, int]]:
    """Average of equal-mass binnings, each weighed by its marginal likelihood (Naeini, Cooper & Hauskrecht 2015).

    Binnings of max(1, floor(n^(1/3) / 10)) to min(ceil(n / 5), ceil(10 n^(1/3))) bins, equally likely beforehand; of
    those that ties make the same one stands for all. In a binning of B bins the share of positives of a bin from a to
    b has the prior Beta(N' m / B, N' (1 - m) / B), N' = 2 and m = (a + b) / 2, and its posterior mean is the bin's
    height. Borders lie half-way between neighbouring predictions, the outer ones at 0 and 1. Counts of importance
    weights sum to (sum w)^2 / sum w^2, which is also n. The average is one step function. Binnings that together hold
    less than 1e-9 of the posterior are left out.

    Returns the map, and how many ``models`` it averages and the number of ``bins`` of the likeliest. O(m + B^2 log m)
    for the largest B. Raises ``OneClass`` where all labels are equal.
    """
    check_outcomes(cells)
    scale = 1.0 if cells.kind == "frequency" else cells.mass / float(cells.w2.sum())
    positives, negatives = scale * cells.cumulative_wy, scale * np.append(0.0, np.cumsum(cells.w - cells.wy))
    half_way = np.append(midway(cells.p), 1.0)
    binnings: dict[bytes, tuple[Floats, Floats, float]] = {}
    for count in _counts(scale * cells.mass):
        at = np.unique(equal_mass_borders(cells, np.array(count), np.arange(count + 1)))
        if (key := at.tobytes()) not in binnings:
            edges = half_way[at]
            binnings[key] = (edges[:-1], *_posterior(edges, np.diff(positives[at]), np.diff(negatives[at])))
    evidence = np.array([found[2] for found in binnings.values()])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    kept = order[: int(np.searchsorted(np.cumsum(weights[order]), 1.0 - _NEGLIGIBLE)) + 1]
    models = list(binnings.values())
    starts = np.unique(np.concatenate([models[i][0] for i in kept]))
    heights = np.zeros(len(starts))
    for i in kept:
        heights += weights[i] * models[i][1][bin_of(models[i][0], starts)]
    heights = np.clip(heights / weights[kept].sum(), 0.0, 1.0)
    return steps(starts, heights), {"models": len(kept), "bins": len(models[order[0]][0])}


def _counts(n: float) -> range:
    """The numbers of bins tried; cube roots and weights round, which must not move them."""
    root = float(np.cbrt(n))
    most = max(1, int(min(np.ceil(n / 5.0 - 1e-6), np.ceil(10.0 * root - 1e-6))))
    return range(min(max(1, int(root / 10.0 + 1e-6)), most), most + 1)


def _posterior(edges: Floats, positives: Floats, negatives: Floats) -> tuple[Floats, float]:
    """Posterior means of the bins' shares ``(b,)``, and the logarithm of the binning's marginal likelihood."""
    rows = _PRIOR_ROWS / len(positives)
    centre = np.clip((edges[:-1] + edges[1:]) / 2.0, _PRIOR_CLIP, 1.0 - _PRIOR_CLIP)
    a, b = rows * centre, rows * (1.0 - centre)
    likelihood = gammaln(positives + a) - gammaln(a) + gammaln(negatives + b) - gammaln(b)
    evidence = float(np.sum(likelihood + gammaln(rows) - gammaln(positives + negatives + rows)))
    return (positives + a) / (positives + negatives + rows), evidence
