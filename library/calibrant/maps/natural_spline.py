"""Logistic regression on a natural cubic spline of the logit (Lucena 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from calibrant.cells import Floats, SortedRows
from calibrant.errors import TooFewRows
from calibrant.logistic import fit_logistic, gradient_of
from calibrant.maps.averaged import Averaged, tabulate
from calibrant.maps.curves import clipped_logit
from calibrant.progress import report
from calibrant.validation import fold_of_rows

#: Logits are limited to this range, so that exact zeros and ones do not spread the knots.
_REACH = 16.0
#: Number of knots, at quantiles of the logits, and the candidate strengths of the ridge penalty.
_KNOTS = 30
STRENGTHS = tuple(10.0**e for e in range(-4, 5))


def _basis(z: Floats, knots: Floats) -> Floats:
    """Return the natural cubic spline basis ``(n, len(knots) - 1)`` without the constant (Hastie et al. 2009, 5.4)."""
    last = knots[-1]

    def cubed(k: int) -> Floats:
        found: Floats = (np.maximum(z - knots[k], 0.0) ** 3 - np.maximum(z - last, 0.0) ** 3) / (last - knots[k])
        return found

    tail = cubed(len(knots) - 2)
    return np.column_stack([z, *(cubed(k) - tail for k in range(len(knots) - 2))])


def fit_mli_spline(rows: SortedRows, *, folds: int = 5, seed: int = 0) -> tuple[Averaged, dict[str, Any]]:
    """Fit to sorted rows: the curve, as a table, and the diagnostics of the fit.

    The features are a natural cubic spline of the logit, limited to +-16, with up to 30 knots at quantiles, each of
    unit variance; the ridge strength of least held-out log loss is chosen by cross-validation. O(n) per step. Raises
    ``TooFewRows``.
    """
    n = len(rows.p)
    if n < folds:
        raise TooFewRows.at("/predictions", f"have {n} rows, but {folds} folds need at least {folds}")
    z = np.clip(clipped_logit(rows.p), -_REACH, _REACH)
    w = np.ones(n) if rows.w is None else rows.w
    knots = np.unique(np.quantile(z, np.linspace(0.0, 1.0, _KNOTS), method="inverted_cdf", weights=w))
    y = rows.y.astype(np.float64)

    def features(logits: Floats) -> Floats:
        return logits[:, None] if len(knots) < 3 else _basis(logits, knots)

    raw = features(z)
    centre = np.average(raw, axis=0, weights=w)
    spread = np.sqrt(np.average((raw - centre) ** 2, axis=0, weights=w))
    spread = np.where(spread > 0.0, spread, 1.0)

    def scaled(logits: Floats) -> Floats:
        return np.column_stack([(features(logits) - centre) / spread, np.ones(len(logits))])

    x, fold = scaled(z), fold_of_rows(n, folds, seed, rows.groups)
    kept = np.where(fold == np.arange(folds)[:, None], 0.0, w)

    def variance(strength: float, fits: int) -> Floats:
        found = np.full((fits, x.shape[1]), 0.5 / strength)
        found[:, -1] = 1e6
        return found

    start, losses = None, []
    for i, strength in enumerate(reversed(STRENGTHS)):
        report(i, len(STRENGTHS) + 1, "strengths outside folds")
        start = fit_logistic(x, np.zeros(n), kept, kept * y, variance(strength, folds), start=start).theta
        f = (start @ x.T)[fold, np.arange(n)]
        losses.append(float(w @ (np.logaddexp(0.0, f) - y * f)) / float(w.sum()))
    best = tuple(reversed(STRENGTHS))[int(np.argmin(losses))]
    last = x, np.zeros(n), w[None], (w * y)[None], variance(best, 1)
    theta = fit_logistic(*last).theta
    gradient = float(np.abs(gradient_of(*last, theta)).max() / w.sum())
    curve = tabulate(lambda p: expit(scaled(np.clip(clipped_logit(p), -_REACH, _REACH)) @ theta[0]))
    return curve, {"strength": best, "knots": len(knots), "held_out_log_loss": min(losses), "gradient": gradient}
