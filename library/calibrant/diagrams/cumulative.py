"""The four graphs of the KS error: scores and labels added up along the predictions, and their slopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from calibrant.cells import Cells, Floats
from calibrant.diagrams.diagram import Picture
from calibrant.measures.cumulative import ks_error
from calibrant.measures.intervals import Resampling
from calibrant.reductions import Event

#: The spline sees at most so many places of the path.
_PLACES = 10_000


@dataclass(frozen=True)
class KsGraphs(Picture):
    """The path at some of the distinct predictions, all arrays ``(t,)``; the first place is before all rows.

    ``fractile`` is the share of the mass up to a place, ``score`` the prediction there, ``cumulative_score`` and
    ``cumulative_label`` the sums up to it over the mass, ``probability`` the estimate of P(Y=1) at that score.

    The graphs: (a) the two cumulated ones against the fractile; (b) the same against ``cumulative_score``, where that
    itself is straight; (c) score and probability against the fractile; (d) against the score.

    ``ks`` is the largest distance of the two cumulated ones, ``signed`` it with its sign, above 0 where labels are more
    than the scores say, ``reached_fractile`` and ``reached_score`` where; ``end`` the signed distance at the end.
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
    """The graphs of Gupta et al. (2021), Figure 1. O(n log n).

    All is read at the ends of ties, as in ``ks_error``. The place of the largest distance is among the points.
    """
    cells = event.cells
    path = cells.cumulative_wy - cells.cumulative_wp
    top = int(np.abs(path).argmax())
    even = np.searchsorted(cells.cumulative_w, cells.mass * np.linspace(0.0, 1.0, points - 1))
    at = np.unique(np.concatenate((np.minimum(even, len(cells)), [0, top, len(cells)])))
    score = cells.p[np.maximum(at - 1, 0)]
    fractile = cells.cumulative_w / cells.mass
    n = _places(cells)
    # Row i of n lies at (i - 1) / (n - 1) of the spline, and a tie at the middle of its rows.
    middle = ((fractile[at] + fractile[np.maximum(at - 1, 0)]) * n - 1.0) / 2.0 / (n - 1.0)
    # A step there is n / (n - 1) of one of the fractile, which the released code leaves out.
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
    """Natural cubic spline, by least squares, of the cumulative labels less scores against the fractile.

    Score plus its slope estimates P(Y=1 | score) (Gupta et al. 2021, section 4). The paper speaks of the cumulative
    labels against i / N; as its released code, this takes the difference, D_i at (i - 1) / (n - 1), and ``knots``
    evenly spaced ones. Inside a tie the path is straight, where the code follows the order of the rows; of more than
    10,000 rows as many even places stand for all, and of fewer than 32 as many. O(m + 10,000 knots^2).
    """
    n = _places(cells)
    path = (cells.cumulative_wy - cells.cumulative_wp) / cells.mass
    seen = np.interp(np.arange(1, n + 1) / n, cells.cumulative_w / cells.mass, path)
    places = np.linspace(0.0, 1.0, knots)
    basis = scipy.interpolate.CubicSpline(places, np.eye(knots), bc_type="natural")(np.arange(n) / (n - 1.0))
    return scipy.interpolate.CubicSpline(places, np.linalg.lstsq(basis, seen, rcond=None)[0], bc_type="natural")


def _places(cells: Cells) -> int:
    """How many rows the spline sees."""
    rows = cells.mass if cells.counts_rows else float(cells.rows.sum())
    return int(min(max(rows, 32.0), _PLACES))
