"""How far chance moves a fitted curve, from the Gauss-Newton matrix of its heights and knots."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from calibrant.cells import Floats
from calibrant.maps.piecewise_linear import Polyline
from calibrant.piecewise.families import Family, abscissa

#: Probabilities are kept this far from 0 and 1 where curvature is taken.
_CLIP = 1e-6
#: Prior curvature, in rows, of what no row determines.
_RIDGE = 1e-3


def deviations(
    family: Family, curve: Polyline, p: Floats, w: Floats, random: np.random.Generator, count: int
) -> Floats:
    """How far chance could move the calibrated probability at each cell ``p (C,)``: ``(count, C)`` draws.

    The curve's heights H and inner knots X are normal about the fit with covariance (J' K J)^-1 (Laplace):
    J holds df/dH = phi and df/dX = -(slope on that side) phi, K the Fisher information of the log loss,
    ``w (C,)`` the cells' masses in rows. How many pieces there are is taken as known, and the curve as
    linear in its parameters. O(count C B + C B^2 + B^3).
    """
    x = abscissa(family, p)
    knots, heights = curve.knots, curve.heights
    hats = np.array([np.interp(x, knots, unit) for unit in np.eye(len(knots))]).T
    slopes = np.diff(heights) / np.diff(knots)
    piece = np.clip(np.searchsorted(knots, x, side="left") - 1, 0, len(slopes) - 1)
    jacobian = np.hstack([hats, -slopes[piece, None] * hats[:, 1:-1]])
    f = curve(x)
    c = np.clip(f if family == "pl" else expit(f), _CLIP, 1.0 - _CLIP)
    variance = c * (1.0 - c)
    matrix = jacobian.T @ (jacobian * (w / variance if family == "pl" else w * variance)[:, None])
    # In units of each parameter's own information the ridge is blind to scales.
    scale = np.sqrt(np.diag(matrix) + 1e-12)
    factor = np.linalg.cholesky(matrix / np.outer(scale, scale) + _RIDGE * np.eye(len(matrix)))
    noise = np.linalg.solve(factor.T, random.standard_normal((len(factor), count))) / scale[:, None]
    moved: Floats = (jacobian @ noise).T * (1.0 if family == "pl" else variance)
    return moved
