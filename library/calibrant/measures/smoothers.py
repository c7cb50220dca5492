"""Measures of the distance between predictions and a smooth calibration curve: ICI, E50, E90 and Emax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from calibrant.core.cells import Cells, Floats
from calibrant.core.errors import InvalidOption, NotConverged, OneClass
from calibrant.core.options import Option
from calibrant.core.reductions import Event
from calibrant.measures.clinical import LogisticModel, counts_rows, logits, maximum, quantiles
from calibrant.measures.intervals import Distance, Integers, Resampling, quantile, row_scale
from calibrant.measures.measure import CLINICAL, Measure, MeasureResult

CurveName = Literal["loess", "loess-direct", "rcs", "logistic"]
#: Up to this many rows the default curve is loess; the most different predictions of loess-direct.
MOST_OF_LOESS = 2000
#: Knots of the restricted cubic spline: quantiles of the logits (Harrell 2015, table 2.3).
_KNOTS = np.array([0.05, 0.275, 0.5, 0.725, 0.95])
#: Quantiles of gaps that follow a few of them, so that the true gaps matter more than their direction.
_LOCAL = (0.5, 0.9)
#: The largest leverage for which a residual is corrected.
_LEVERAGE = 0.9
#: The most points at which the noise of an interval is computed.
_POINTS = 256


class Smoother(NamedTuple):
    """A fitted curve of D coefficients.

    ``at(p (m,))`` returns the curve, ``(m,)``, and its derivatives by the coefficients, ``(m, D)``; ``moves (m, D)`` is
    the change of the coefficients by a residual of 1 in a row of each cell.
    """

    name: CurveName
    at: Callable[[Floats], tuple[Floats, Floats]]
    moves: Floats


def smoother(event: Event, curve: CurveName | None) -> Smoother:
    """Return the curve of an event, fitted once; without a name, loess up to 2,000 rows and a spline beyond."""
    fitted: dict[CurveName | None, Smoother] = vars(event.cells).setdefault("smoothers", {})
    if curve not in fitted:
        fitted[curve] = _fitted(event, curve)
    return fitted[curve]


def _fitted(event: Event, curve: CurveName | None) -> Smoother:
    cells = event.cells
    rows = cells.w if counts_rows(event) else cells.rows
    if not 0.0 < float(cells.wy.sum()) < float(cells.w.sum()):
        raise OneClass("labels contain one class")
    name = curve or ("loess" if float(rows.sum()) <= MOST_OF_LOESS else "rcs")
    if name == "rcs":
        return _logistic(name, cells, _spline(cells, counted=counts_rows(event)))
    if name == "logistic":
        return _logistic(name, cells, lambda logit: np.column_stack([np.ones_like(logit), logit]))
    if name == "loess-direct":
        if len(cells) > MOST_OF_LOESS:
            raise InvalidOption(f"loess-direct takes at most {MOST_OF_LOESS} different predictions; use loess or rcs")
        return _direct(cells, rows)
    places = vertices(cells.p, rows)
    maps = np.vstack(local_fits(cells.p, rows, cells.w, places))
    coefficients = maps @ (cells.wy / cells.w)

    def at(p: Floats) -> tuple[Floats, Floats]:
        basis = blended(places, p)
        return basis @ coefficients, basis

    return Smoother(name, at, (maps / cells.w).T)


def _direct(cells: Cells, rows: Floats) -> Smoother:
    mean = cells.wy / cells.w

    def at(p: Floats) -> tuple[Floats, Floats]:
        maps = local_fits(cells.p, rows, cells.w, p)[0]
        return maps @ mean, maps

    return Smoother("loess-direct", at, np.diag(1.0 / cells.w))


def _spline(cells: Cells, *, counted: bool) -> Callable[[Floats], Floats]:
    """Return the features of logits for a restricted cubic spline."""
    knots = quantiles(logits(cells.p, cells.logit), cells.w, _KNOTS, counted=counted)
    if (np.diff(knots) <= 0.0).any():
        raise NotConverged("the predictions have too few different values for a spline with 5 knots")
    return lambda logit: _restricted(logit, knots)


def _logistic(name: CurveName, cells: Cells, features: Callable[[Floats], Floats]) -> Smoother:
    """Return logistic regression on features ``(m, D)`` of logits ``(m,)``, of which the second is the logit."""
    logit = logits(cells.p, cells.logit)
    x = features(logit)
    start = np.append([0.0, 1.0], np.zeros(x.shape[1] - 2))
    theta, _, information = maximum(LogisticModel(x, np.zeros_like(logit), cells.w, cells.wy), start)

    def at(p: Floats) -> tuple[Floats, Floats]:
        basis = features(logit[np.searchsorted(cells.p, p)] if cells.logit is not None else logits(p, None))
        fitted = expit(basis @ theta)
        return fitted, basis * (fitted * (1.0 - fitted))[:, None]

    return Smoother(name, at, x @ np.linalg.inv(information))


def _restricted(x: Floats, knots: Floats) -> Floats:
    """Return the basis of a cubic spline that is linear beyond its K knots: ``(n, K)``, the first column 1."""
    last = knots[-1] - knots[-2]
    with np.errstate(over="ignore", invalid="ignore"):  # fits to what is not finite do not converge
        cubes = np.maximum(x[:, None] - knots, 0.0) ** 3
        bent = cubes[:, :-2] - np.outer(cubes[:, -2], knots[-1] - knots[:-2]) / last
        bent += np.outer(cubes[:, -1], knots[-2] - knots[:-2]) / last
        return np.column_stack([np.ones_like(x), x, bent / (knots[-1] - knots[0]) ** 2])


def _size(share: float | None) -> Callable[[Floats], Floats]:
    """Return the size of gaps ``(..., d)`` of equal weight: their mean if ``share`` is None, or that quantile."""

    def size(gaps: Floats) -> Floats:
        sizes = np.abs(gaps)
        return np.asarray(sizes.mean(axis=-1)) if share is None else quantile(sizes, share)

    return size


def _entry(name: str, title: str, what: str, share: float | None) -> Measure:
    size = _size(share)

    def compute(event: Event, _: Resampling, *, curve: CurveName | None) -> MeasureResult:
        cells, fitted = event.cells, smoother(event, curve)
        gaps = np.abs(fitted.at(cells.p)[0] - cells.p)
        if share is None:
            value = float(cells.w @ gaps / cells.w.sum())
        else:
            value = float(quantiles(gaps, cells.w, np.array([share]), counted=counts_rows(event))[0])
        return MeasureResult(value, definition={"curve": fitted.name})

    def distance(event: Event, _: Resampling, *, curve: CurveName | None) -> Distance:
        cells, fitted = event.cells, smoother(event, curve)
        counted = counts_rows(event)
        count = int(min(cells.w.sum() if counted else cells.rows.sum(), _POINTS))
        near = np.searchsorted(cells.p, quantiles(cells.p, cells.w, np.linspace(0.0, 1.0, count), counted=counted))
        points = cells.p[np.minimum(near, len(cells) - 1)]
        value, basis = fitted.at(points)
        cell = np.minimum(np.searchsorted(cells.key, event.key), len(cells) - 1)
        curve_values, bases = fitted.at(cells.p)
        # A row draws the curve to its outcome: its residual is too small by the root of 1 - its leverage.
        leverage = (bases * fitted.moves).sum(axis=1)[cell]
        if event.w is not None and not counted:
            leverage *= event.w
        off = (event.y - curve_values[cell]) * row_scale(event) / np.sqrt(1.0 - np.clip(leverage, 0.0, _LEVERAGE))

        def noise(group: Integers, groups: int) -> Floats:
            moves = fitted.moves[cell] * off[:, None]
            return np.column_stack([np.bincount(group, column, groups) for column in moves.T])

        return Distance(value - points, noise, size, local=share in _LOCAL, basis=basis.T)

    return Measure(
        name,
        title,
        CLINICAL,
        f"The {what} of |c(p) - p| over the rows, with c a smooth calibration curve: loess (span 3/4, degree 2, "
        "interpolated between vertices, as R's default), loess-direct (a fit at each prediction), or rcs, logistic "
        "regression on a restricted cubic spline of logit p with 5 knots; null is loess up to 2,000 rows and rcs "
        "beyond, and the definition of the result names it. Values of loess are not clipped to [0, 1]",
        "Austin & Steyerberg (2019); Cleveland & Grosse (1991); Harrell (2015)",
        0.0,
        None,
        "O(n log n); loess-direct O(n^2)",
        event=compute,
        distance=distance,
        needs="both outcomes",
        options={"curve": Option(None, choices=(None, "loess", "loess-direct", "rcs"))},
        seconds=_seconds,
        resample_seconds=lambda _n, _options: 2e-4,
    )


def _seconds(n: int, _classes: int, options: Mapping[str, Any]) -> float:
    return 5e-3 + 3e-6 * n + (1e-7 * min(n, MOST_OF_LOESS) ** 2 if options["curve"] == "loess-direct" else 0.0)


MEASURES = (
    _entry("ici", "Integrated calibration index", "mean", None),
    _entry("e50", "Median distance from a smooth curve", "median", 0.5),
    _entry("e90", "90 % quantile of the distance from a smooth curve", "90 % quantile", 0.9),
    _entry("emax", "Largest distance from a smooth curve", "maximum", 1.0),
)

# --- Local quadratic regression on one variable, with the fits and the interpolation of R's ``loess``

#: The share of the rows that a local fit uses, and the share of those that a cell between two vertices holds.
SPAN, _CELL = 0.75, 0.2
#: The box of the vertices is wider than the predictions by this share at either end.
_BOX = 0.005
#: Distances below this share of the farthest have weight 1, and those above the other share weight 0.
_NEAR, _FAR = 0.001, 0.999
#: Singular values below this share of the largest are left out.
_RANK = 1e-10


def local_fits(x: Floats, rows: Floats, w: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return the values and the slopes of local fits as linear maps of the mean outcomes of ``x``: both ``(m, n)``.

    Each fit at ``at (m,)`` is a quadratic polynomial by least squares, with tricube weights on the nearest ``SPAN`` of
    the rows, times ``w (n,)``; ``rows (n,)`` is the number of rows with each ``x (n,)``. O(m n log n).
    """
    nearest = max(int(float(rows.sum()) * SPAN + 1e-5), 1)
    values, slopes = np.empty((len(at), len(x))), np.empty((len(at), len(x)))
    for i, place in enumerate(at):
        away = x - place
        distance = np.abs(away)
        order = np.argsort(distance, kind="stable")
        farthest = float(distance[order[np.searchsorted(np.cumsum(rows[order]), nearest)]])
        share = np.minimum(distance / max(farthest, 1e-150), 1.0)
        root = np.sqrt(w * np.where(share < _FAR, np.where(share > _NEAR, (1.0 - share**3) ** 3, 1.0), 0.0))
        features = np.column_stack([root, root * away, root * away**2])
        size = np.maximum(np.linalg.norm(features, axis=0), 1e-150)
        inverse = np.linalg.pinv(features / size, rcond=_RANK) / size[:, None] * root
        values[i], slopes[i] = inverse[0], inverse[1]
    return values, slopes


def vertices(x: Floats, rows: Floats) -> Floats:
    """Return where R's default fits locally, ascending: the cells between them hold few rows of ascending ``x (n,)``.

    ``rows (n,)`` is the number of rows with each x. O(cells log n).
    """
    ends = np.cumsum(rows)
    count = float(ends[-1])
    most = np.floor(count * SPAN * _CELL)
    margin = _BOX * max(x[-1] - x[0], 1e-10 * max(abs(x[0]), abs(x[-1])) + 1e-30)
    box = float(x[0] - margin), float(x[-1] + margin)
    places, cells = list(box), [(0.0, count - 1.0, *box)]
    while cells:
        first, last, low, high = cells.pop()
        if last - first + 1.0 <= most:
            continue
        row = _cut(ends, first, last)
        place = float(x[np.searchsorted(ends, row, side="right")])
        if place not in (low, high):
            places.append(place)
            cells += [(first, row, low, place), (row + 1.0, last, place, high)]
    return np.unique(places)


def _cut(ends: Floats, first: float, last: float) -> float:
    """Return the last row of the lower half: the median, or the nearest row whose successor has another x."""
    middle = np.floor((first + last) / 2.0)
    cell = int(np.searchsorted(ends, middle, side="right"))
    up, down = ends[cell] - 1.0 - middle, middle - (ends[cell - 1] - 1.0) if cell else np.inf
    # Rows are tried alternately above and below, until one of them is outside.
    nearest, outside = min((up, 0), (down, 1)), min((last - middle, 0), (middle - first + 1.0, 1))
    if nearest >= outside:
        return float(middle)
    return float(middle - down if nearest[1] else middle + up)


def blended(places: Floats, at: Floats) -> Floats:
    """Return cubic interpolation at ``at (m,)`` as a linear map of values and slopes at V vertices: ``(m, 2 V)``."""
    low = np.clip(np.searchsorted(places, at) - 1, 0, len(places) - 2)
    width = places[low + 1] - places[low]
    u = (at - places[low]) / width
    weights, row, count = np.zeros((len(at), 2 * len(places))), np.arange(len(at)), len(places)
    weights[row, low] = (1.0 - u) ** 2 * (1.0 + 2.0 * u)
    weights[row, low + 1] = u**2 * (3.0 - 2.0 * u)
    weights[row, count + low] = width * u * (1.0 - u) ** 2
    weights[row, count + low + 1] = -width * u**2 * (1.0 - u)
    return weights
