"""A scan of random fits: no single height or knot can be moved with a gain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from calibrant.core.cells import Floats, SortedRows, sort_rows
from calibrant.piecewise.families import Family, abscissa, bounds, cell_losses
from calibrant.piecewise.fitting import CrossFit, cross_fit
from calibrant.piecewise.folds import fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions

ROW = 1e-8
FAMILIES: tuple[Family, ...] = ("pl", "pl3")
LOSSES: tuple[Loss, ...] = ("log-loss", "brier")
#: Places between two neighbouring cells at which a knot is tried.
SHARES = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])
STEPS = np.concatenate([-(10.0 ** np.arange(-7, 0.1, 0.25)), 10.0 ** np.arange(-7, 0.1, 0.25)])


def _rows(random: np.random.Generator, shape: int) -> SortedRows:
    """Draw predictions of one of five shapes, with waves or a straight line as the true map."""
    n = int(random.choice([60, 200, 500, 1000]))
    p = [
        lambda: random.random(n),
        lambda: random.beta(0.5, 0.5, n),
        lambda: random.beta(5, 1, n),
        lambda: random.random(n).round(2),
        lambda: random.beta(1, 20, n),
    ][shape]().clip(1e-9, 1.0 - 1e-9)
    true = p ** random.uniform(0.5, 2.0) if shape < 4 else (1.5 * p).clip(0.0, 1.0)
    true = (true + (0.2 * np.sin(random.uniform(2.0, 12.0) * p) if shape < 3 else 0.0)).clip(0.01, 0.99)
    y = (random.random(n) < true).astype(np.int8)
    y[:2] = [0, 1]
    return sort_rows(p, y)


def _losses(fits: CrossFit, knots: Floats, heights: Floats) -> Floats:
    f = np.array([np.interp(fits.data.x, k, h) for k, h in zip(knots, heights, strict=True)])
    w, wy = (np.broadcast_to(part, f.shape) for part in (fits.data.w, fits.data.wy))
    losses: Floats = cell_losses(fits.family, fits.data.loss, f, w, wy).sum(axis=1)
    return losses


def _with(values: Floats, i: int, others: Floats) -> Floats:
    every = np.tile(values, (len(others), 1))
    every[:, i] = others
    return every


def _lowest_of_knot(fits: CrossFit, knots: Floats, heights: Floats, i: int) -> float:
    """Return the least loss over positions of a knot between its neighbours: in every gap, then near the best."""
    least = 3e-7 * float(np.ptp(knots))
    low, high = knots[i - 1] + least, knots[i + 1] - least
    if low >= high:
        return np.inf
    x = fits.data.x
    points = np.unique(np.concatenate([[low], x[(x > low) & (x < high)], [knots[i].clip(low, high)], [high]]))
    tried = np.append((points[:-1, None] + SHARES * np.diff(points)[:, None]).ravel(), high)
    losses = _losses(fits, _with(knots, i, tried), np.tile(heights, (len(tried), 1)))
    lowest = [float(losses.min())]
    for best in losses.argsort()[:5]:
        around = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
        found = minimize_scalar(
            lambda z: float(_losses(fits, _with(knots, i, np.array([z])), heights[None])[0]),
            bounds=around,
            method="bounded",
            options={"xatol": 1e-12},
        )
        lowest.append(float(found.fun))
    return min(lowest)


def _largest_gain(seed: int, shape: int, family: Family, loss: Loss) -> float:
    random = np.random.default_rng(seed)
    pieces = int(random.integers(2, 9))
    cells = fold_cells(_rows(random, shape), 5, 0)
    options = PiecewiseOptions(loss=loss, folds=5)
    fits = cross_fit(family, cells, (pieces,), options, device="cpu", all_rows=True).refined([0])
    knots, heights = fits.knots[0][0], fits.heights[0][0]
    np.testing.assert_array_equal(fits.data.x, abscissa(family, cells))
    lowest = [_lowest_of_knot(fits, knots, heights, i) for i in range(1, pieces)]
    for i in range(pieces + 1):
        others = (heights[i] + STEPS * (1.0 if family == "pl" else 10.0)).clip(*bounds(family))
        lowest.append(float(_losses(fits, np.tile(knots, (len(others), 1)), _with(heights, i, others)).min()))
    assert fits.converged == (1,)
    return float(_losses(fits, knots[None], heights[None])[0]) - min(lowest)


def _scan(seeds: range, family: Family, loss: Loss) -> None:
    gains = {(seed, shape): _largest_gain(seed, shape, family, loss) for seed in seeds for shape in range(5)}
    assert {case: gain for case, gain in gains.items() if gain > ROW} == {}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_knot_or_height_of_a_random_fit_can_be_moved_with_a_gain(family: Family, loss: Loss) -> None:
    _scan(range(2), family, loss)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_knot_or_height_of_many_random_fits_can_be_moved_with_a_gain(family: Family, loss: Loss) -> None:
    _scan(range(100, 150), family, loss)
