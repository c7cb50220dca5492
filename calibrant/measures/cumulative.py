"""The Kolmogorov-Smirnov calibration error: the largest cumulative gap along the predictions."""

from __future__ import annotations

import numpy as np

from calibrant.cells import Cells

#: Terms of the series below; at x >= 0.02 the rest is below 1e-16.
_TERMS = np.arange(64)


def ks_error(cells: Cells) -> float:
    """Largest absolute cumulative difference between predictions and labels, in [0, 1].

    max_i |D_i|, D_i = (1/m) sum_{j<=i} w_j (y_j - p_j) over rows sorted by prediction (Gupta et
    al. 2021, eq. 6). Smaller is better, 0 at best. D is read at the end of each tie, since inside
    one it would depend on the order of the rows; the published code reads it there too. O(m).
    """
    return float(np.abs(cells.cumulative_wy - cells.cumulative_wp).max()) / cells.mass


def ks_p_value(cells: Cells, error: float) -> float:
    """Probability that a calibrated classifier shows at least this KS error, by the asymptotic law.

    Under calibration the scaled cumulative difference tends to a Brownian motion in the time
    sum w^2 p (1 - p), free at its end, so the statistic m D / sqrt(sum w^2 p (1 - p)) has the law
    of sup |B|: 1 - (4/pi) sum_k (-1)^k / (2k + 1) exp(-(2k + 1)^2 pi^2 / (8 x^2)) (Erdos & Kac
    1946); Kolmogorov's law is that of a bridge, tied at both ends, and does not apply. O(m).
    """
    w2 = cells.w if cells.kind == "frequency" else cells.w2
    spread = float(np.sqrt(w2 @ (cells.p * (1.0 - cells.p))))
    if spread == 0.0:  # every prediction is 0 or 1: any gap at all refutes it
        return 1.0 if error == 0.0 else 0.0
    x = cells.mass * error / spread
    if x < 0.02:
        return 1.0
    odd = 2 * _TERMS + 1
    inside = (4.0 / np.pi) * np.sum((-1.0) ** _TERMS / odd * np.exp(-((odd * np.pi) ** 2) / (8.0 * x * x)))
    return float(np.clip(1.0 - inside, 0.0, 1.0))
