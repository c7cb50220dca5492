"""The four KS graphs: cumulative scores and labels along the predictions, and their slopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from calibrant.core.cells import Cells, Floats
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture
from calibrant.measures.cumulative import ks_error
from calibrant.measures.intervals import Resampling

#: The most points of the path that the spline is fitted to.
_PLACES = 10_000


@dataclass(frozen=True)
class KsGraphs(Picture):
    """Data of the KS graphs: arrays of shape (t,) at some distinct predictions; the first point is before all rows.

    The graphs are (a) cumulative score and label against ``fractile``; (b) the same against ``cumulative_score``;
    (c) score and probability against ``fractile``; (d) the same against ``score``.

    Attributes
    ----------
    fractile : ndarray
        Fraction of the mass up to a point.
    score : ndarray
        Prediction at the point.
    cumulative_score, cumulative_label : ndarray
        Sums up to the point, divided by the mass.
    probability : ndarray
        Estimate of P(Y=1) at the score.
    ks : float
        Largest absolute difference of the cumulative curves.
    signed : float
        The same with its sign, above 0 if there are more positives than predicted.
    reached_fractile, reached_score : float
        Where the largest difference is reached.
    end : float
        Signed difference at the end.
    """

    fractile: Floats
    score: Floats
    cumulative_score: Floats
    cumulative_label: Floats
    probability: Floats
    ks: float
    signed: float
    reached_fractile: float
    reached_score: float
    end: float


def ks_graphs(event: Event, _: Resampling, *, points: int, knots: int) -> KsGraphs:
    """Compute the graphs of Gupta et al. (2021), Figure 1. O(n log n).

    Curves are evaluated at the ends of ties, as in ``ks_error``. The points include the largest difference.
    """
    cells = event.cells
    path = cells.cumulative_wy - cells.cumulative_wp
    top = int(np.abs(path).argmax())
    even = np.searchsorted(cells.cumulative_w, cells.mass * np.linspace(0.0, 1.0, points - 1))
    at = np.unique(np.concatenate((np.minimum(even, len(cells)), [0, top, len(cells)])))
    score = cells.p[np.maximum(at - 1, 0)]
    fractile = cells.cumulative_w / cells.mass
    n = _places(cells)
    # Row i of n is at (i - 1) / (n - 1) of the spline, a tie at the middle of its rows.
    middle = ((fractile[at] + fractile[np.maximum(at - 1, 0)]) * n - 1.0) / 2.0 / (n - 1.0)
    # A step there is n / (n - 1) times a step of the fractile; the released code omits this factor.
    slope = difference_spline(cells, knots)(np.clip(middle, 0.0, 1.0), 1) * n / (n - 1.0)
    return KsGraphs(
        fractile[at],
        score,
        cells.cumulative_wp[at] / cells.mass,
        cells.cumulative_wy[at] / cells.mass,
        np.clip(score + slope, 0.0, 1.0),
        ks_error(cells),
        float(path[top]) / cells.mass,
        float(fractile[top]),
        float(cells.p[max(top - 1, 0)]),
        float(path[-1]) / cells.mass,
    )


def difference_spline(cells: Cells, knots: int) -> scipy.interpolate.CubicSpline:
    """Fit a natural cubic spline by least squares to cumulative label minus score against the fractile.

    Score plus slope of the spline estimates P(Y=1 | score) (Gupta et al. 2021, section 4). The paper fits the
    cumulative labels against i / N; like the released code, this fits the difference, D_i at (i - 1) / (n - 1), with
    ``knots`` evenly spaced knots. Within a tie, the path is straight; the released code follows the order of the rows.
    The fit uses one point per row, but at least 32 and at most 10,000 evenly spaced points. O(m + 10,000 knots^2).
    """
    n = _places(cells)
    path = (cells.cumulative_wy - cells.cumulative_wp) / cells.mass
    differences = np.interp(np.arange(1, n + 1) / n, cells.cumulative_w / cells.mass, path)
    places = np.linspace(0.0, 1.0, knots)
    basis = scipy.interpolate.CubicSpline(places, np.eye(knots), bc_type="natural")(np.arange(n) / (n - 1.0))
    return scipy.interpolate.CubicSpline(places, np.linalg.lstsq(basis, differences, rcond=None)[0], bc_type="natural")


def _places(cells: Cells) -> int:
    """Return the number of points of the fit."""
    rows = cells.mass if cells.counts_rows else float(cells.rows.sum())
    return int(min(max(rows, 32.0), _PLACES))
