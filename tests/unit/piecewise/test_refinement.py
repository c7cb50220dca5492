"""The fits of PL and PL3 are optima: no knot and no height can be moved with a gain."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import lsq_linear, minimize

from calibrant.core.cells import Floats, SortedRows, sort_rows
from calibrant.core.synthetic import shaped_predictions
from calibrant.maps.piecewise_linear import PiecewiseLinear, Polyline
from calibrant.piecewise.families import Family, abscissa, bounds, cell_losses
from calibrant.piecewise.fitting import CrossFit, cross_fit, fit_piecewise
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Final, Loss, PiecewiseOptions, Starts

FAMILIES: tuple[Family, ...] = ("pl", "pl3")
LOSSES: tuple[Loss, ...] = ("log-loss", "brier")
ROW = 1e-8
SIZES = np.concatenate([10.0 ** np.arange(-7, 0), [0.03, 0.3, 0.9]])


def _cells(seed: int, *, weighted: bool = False, n: int = 200) -> FoldCells:
    p, y, _ = shaped_predictions(n, shape="beta1", error=0.05, seed=seed)
    weights = np.random.default_rng(seed).lognormal(size=n) if weighted else None
    return fold_cells(sort_rows(p, y.astype(np.int8), weights), 10, 0)


def _fit(
    cells: FoldCells, family: Family, pieces: int, options: PiecewiseOptions, device: str = "cpu"
) -> tuple[Floats, Floats]:
    """Return the knots and heights of a fit to all rows."""
    fits = cross_fit(family, cells, (pieces,), options, device=device, all_rows=True).refined([0])
    return fits.knots[0][0], fits.heights[0][0]


def _losses(cells: FoldCells, family: Family, loss: Loss, knots: Floats, heights: Floats) -> Floats:
    """Return the mean losses ``(M,)`` of curves ``(M, B+1)``."""
    w, wy = (part[-1:] for part in cells.training())
    x = abscissa(family, cells)
    f = np.array([np.interp(x, k, h) for k, h in zip(knots, heights, strict=True)])
    losses: Floats = cell_losses(family, loss, f, w, wy).sum(axis=1) / w.sum()
    return losses


def _largest_fall(cells: FoldCells, family: Family, options: PiecewiseOptions, knots: Floats, heights: Floats) -> float:
    """Return how much a change of one height or one knot lowers the mean loss."""
    size = len(knots)
    changes = np.concatenate([SIZES, -SIZES]) * (1.0 if family == "pl" else 10.0)
    x = abscissa(family, cells)
    moved = [(knots, heights)]
    for i, change in itertools.product(range(size), changes):
        low, high = bounds(family)
        if options.monotone:
            low, high = heights[i - 1] if i else low, heights[i + 1] if i + 1 < size else high
        other = heights.copy()
        other[i] = np.clip(heights[i] + change, low, high)
        moved.append((knots, other))
    for i in range(1, size - 1):
        for position in np.concatenate([knots[i] + changes, x, (x[1:] + x[:-1]) / 2.0]):
            if knots[i - 1] < position < knots[i + 1]:
                other = knots.copy()
                other[i] = position
                moved.append((other, heights))
    every = _losses(cells, family, options.loss, *(np.array(part) for part in zip(*moved, strict=True)))
    return float(every[0] - every.min())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "loss", "monotone", "weighted"), list(itertools.product(FAMILIES, LOSSES, (False, True), (False, True)))
)
def test_no_change_of_one_height_or_knot_lowers_the_loss_of_a_fit(
    family: Family, loss: Loss, monotone: bool, weighted: bool
) -> None:
    options = PiecewiseOptions(loss=loss, monotone=monotone)
    for pieces in (1, 2, 3):
        cells = _cells(pieces, weighted=weighted)
        assert _largest_fall(cells, family, options, *_fit(cells, family, pieces, options)) < ROW


@pytest.mark.parametrize("final", ["fold-average", "refit"])
def test_no_change_of_one_height_or_knot_lowers_the_loss_of_a_curve_of_a_map(final: Final) -> None:
    p, y, _ = shaped_predictions(200, shape="beta1", error=0.05, seed=4)
    rows = sort_rows(p, y.astype(np.int8))
    options = PiecewiseOptions(loss="brier", candidates=(2,), final=final)
    curve, _ = fit_piecewise("pl", rows, options)
    assert isinstance(curve, PiecewiseLinear)
    cells = fold_cells(rows, 10, 0)
    w, wy = cells.training()
    for line, model in enumerate(curve.models):
        line_of_fit = line if final == "fold-average" else -1
        own = FoldCells(cells.p, w[line_of_fit][None], wy[line_of_fit][None])
        assert _largest_fall(own, "pl", options, model.knots, model.heights) < ROW


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_piece_of_pl_with_squared_loss_is_the_bounded_least_squares_line(monotone: bool, weighted: bool) -> None:
    for seed in range(30):
        cells = _cells(seed, weighted=weighted)
        w, wy = (part[-1] for part in cells.training())
        root = np.sqrt(w)
        line = np.column_stack([1.0 - cells.p, cells.p])
        exact = lsq_linear(root[:, None] * line, wy / root, bounds=(0.0, 1.0), tol=1e-14).x
        knots, heights = _fit(cells, "pl", 1, PiecewiseOptions(loss="brier", monotone=monotone))
        assert exact[0] < exact[1]  # the constraint of a monotone line is not active
        losses = _losses(cells, "pl", "brier", np.array([knots] * 2), np.array([heights, exact]))
        assert losses[0] < losses[1] + ROW


@pytest.mark.parametrize("family", FAMILIES)
def test_one_piece_with_log_loss_is_the_optimum(family: Family) -> None:
    for seed in range(6):
        cells = _cells(seed)
        knots, heights = _fit(cells, family, 1, PiecewiseOptions())

        def loss(heights: Floats, cells: FoldCells = cells, knots: Floats = knots) -> float:
            return float(_losses(cells, family, "log-loss", knots[None], heights[None])[0])

        start = np.array([0.1, 0.9]) if family == "pl" else np.array([-30.0, 30.0])
        box = [(1e-9, 1.0 - 1e-9)] * 2 if family == "pl" else [(-800.0, 800.0)] * 2
        exact = minimize(loss, start, bounds=box, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13})
        assert loss(heights) < exact.fun + ROW


@pytest.mark.parametrize(("family", "loss"), list(itertools.product(FAMILIES, LOSSES)))
def test_several_starts_fit_at_least_as_well_as_one(family: Family, loss: Loss) -> None:
    cells = _cells(7)
    losses = []
    every: tuple[Starts, ...] = ("quantiles", "several")
    for starts in every:
        curve = _fit(cells, family, 3, PiecewiseOptions(loss=loss, starts=starts))
        losses.append(_losses(cells, family, loss, curve[0][None], curve[1][None])[0])
    assert losses[1] <= losses[0] + 1e-15


@pytest.mark.slow
@pytest.mark.parametrize(("family", "monotone"), list(itertools.product(FAMILIES, (False, True))))
def test_searched_widely_more_pieces_never_fit_worse_and_the_refinement_never_loses(
    family: Family, monotone: bool
) -> None:
    random = np.random.default_rng(1)
    p = random.random(1000)
    y = (random.random(1000) < 0.5 + 0.3 * np.sin(8 * p)).astype(np.int8)
    cells, counts = fold_cells(sort_rows(p, y), 10, 0), tuple(range(1, 9))
    options = PiecewiseOptions(monotone=monotone, starts="several")
    fits = cross_fit(family, cells, counts, options, device="cpu", all_rows=True)
    losses = [
        np.concatenate(
            [_losses(cells, family, "log-loss", k, h) for k, h in zip(both.knots, both.heights, strict=True)]
        )
        for both in (fits, fits.refined(range(8)))
    ]
    assert np.all(np.diff(losses[0]) < 1e-9)
    assert losses[0][-1] < losses[0][0] - (0.02 if monotone else 0.08)
    assert np.all(losses[1] < losses[0] + 1e-12)


def test_knots_of_a_fit_do_not_meet() -> None:
    for seed in range(10):
        cells = _cells(seed)
        knots, _ = _fit(cells, "pl", 6, PiecewiseOptions())
        assert np.diff(knots).min() > 1e-9


def test_the_calibration_error_of_a_fit_follows_the_line_of_least_squares() -> None:
    p, y, _ = shaped_predictions(200, shape="beta1", error=0.05, seed=0)
    curve, _ = fit_piecewise(
        "pl", sort_rows(p, y.astype(np.int8)), PiecewiseOptions(loss="brier", candidates=(1,), final="refit")
    )
    exact = lsq_linear(np.column_stack([1.0 - p, p]), y, bounds=(0.0, 1.0), tol=1e-14).x
    line = Polyline(np.array([0.0, 1.0]), exact)
    assert np.abs(curve(p) - p).mean() == pytest.approx(np.abs(line(p) - p).mean(), abs=1e-4)
    assert np.abs(curve(p) - p).mean() > 0.01


#: Places between two neighbouring cells at which a knot is tried.
SHARES = np.array([0.0, 0.1, 0.25, 0.5, 0.75, 0.9])
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
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


def _losses_of_fits(fits: CrossFit, knots: Floats, heights: Floats) -> Floats:
    f = np.array([np.interp(fits.data.x, k, h) for k, h in zip(knots, heights, strict=True)])
    w, wy = (np.broadcast_to(part, f.shape) for part in (fits.data.w, fits.data.wy))
    losses: Floats = cell_losses(fits.family, fits.data.loss, f, w, wy).sum(axis=1)
    return losses


def _with(heights: Floats, i: int, others: Floats) -> Floats:
    every = np.tile(heights, (len(others), 1))
    every[:, i] = others
    return every


def _lowest_of_knots(fits: CrossFit, knots: Floats, heights: Floats) -> float:
    """Return the least loss over positions of each knot between its neighbours: in every gap, then near the best."""
    least = 3e-7 * float(np.ptp(knots))
    x = fits.data.x
    lowest, moved, lows, highs = [np.inf], [], [], []
    for i in range(1, len(knots) - 1):
        low, high = knots[i - 1] + least, knots[i + 1] - least
        if low >= high:
            continue
        points = np.unique(np.concatenate([[low], x[(x > low) & (x < high)], [knots[i].clip(low, high)], [high]]))
        tried = np.append((points[:-1, None] + SHARES * np.diff(points)[:, None]).ravel(), high)
        losses = _losses_of_fits(fits, _with(knots, i, tried), np.tile(heights, (len(tried), 1)))
        lowest.append(float(losses.min()))
        best = losses.argsort()[:5]
        moved += [i] * len(best)
        lows.append(tried[np.maximum(best - 1, 0)])
        highs.append(tried[np.minimum(best + 1, len(tried) - 1)])
    if moved:
        lowest.append(
            _lowest_between(fits, knots, heights, np.array(moved), np.concatenate(lows), np.concatenate(highs))
        )
    return min(lowest)


def _lowest_between(
    fits: CrossFit, knots: Floats, heights: Floats, moved: npt.NDArray[np.int64], low: Floats, high: Floats
) -> float:
    """Return the least loss with knot ``moved (M,)`` between ``low (M,)`` and ``high (M,)``, by golden sections."""
    lines, every_height = np.arange(len(moved)), np.tile(heights, (len(moved), 1))

    def losses(position: Floats) -> Floats:
        every_knot = np.tile(knots, (len(moved), 1))
        every_knot[lines, moved] = position
        return _losses_of_fits(fits, every_knot, every_height)

    inner = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    values = [losses(position) for position in inner]
    lowest = float(np.min(values))
    for _ in range(30):
        left = values[0] < values[1]
        low, high = np.where(left, low, inner[0]), np.where(left, inner[1], high)
        position = np.where(left, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
        value = losses(position)
        inner = [np.where(left, position, inner[1]), np.where(left, inner[0], position)]
        values = [np.where(left, value, values[1]), np.where(left, values[0], value)]
        lowest = min(lowest, float(value.min()))
    return lowest


def _largest_gain(seed: int, shape: int, family: Family, loss: Loss) -> float:
    random = np.random.default_rng(seed)
    pieces = int(random.integers(2, 9))
    return _gain_left(_rows(random, shape), pieces, family, PiecewiseOptions(loss=loss, folds=5))


def _gain_left(rows: SortedRows, pieces: int, family: Family, options: PiecewiseOptions) -> float:
    """Return how much a change of one height or knot lowers the mean loss of a fit to these rows."""
    cells = fold_cells(rows, options.folds, 0)
    fits = cross_fit(family, cells, (pieces,), options, device="cpu", all_rows=True).refined([0])
    knots, heights = fits.knots[0][0], fits.heights[0][0]
    np.testing.assert_array_equal(fits.data.x, abscissa(family, cells))
    lowest = [_lowest_of_knots(fits, knots, heights)]
    low, high = bounds(family)
    for i in range(pieces + 1):
        if options.monotone:
            low, high = heights[i - 1] if i else low, heights[i + 1] if i < pieces else bounds(family)[1]
        others = (heights[i] + STEPS * (1.0 if family == "pl" else 10.0)).clip(low, high)
        lowest.append(float(_losses_of_fits(fits, np.tile(knots, (len(others), 1)), _with(heights, i, others)).min()))
    assert fits.converged == (1,)
    return float(_losses_of_fits(fits, knots[None], heights[None])[0]) - min(lowest)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_knot_or_height_of_many_random_fits_can_be_moved_with_a_gain(family: Family, loss: Loss) -> None:
    gains = {(seed, shape): _largest_gain(seed, shape, family, loss) for seed in range(100, 150) for shape in range(5)}
    assert {case: gain for case, gain in gains.items() if gain > ROW} == {}


def _bent_rows(p: Floats, random: np.random.Generator) -> SortedRows:
    y = (random.random(len(p)) < np.where(p < 0.4, 0.3 * p, p**0.7)).astype(np.int8)
    y[:2] = 0, 1
    return sort_rows(p, y)


def test_the_last_ones_of_equal_heights_at_a_bound_leave_it() -> None:
    random = np.random.default_rng(47)
    p, y = random.beta(1, 300, 80), np.zeros(80, dtype=np.int8)
    y[random.integers(80)] = 1
    options = PiecewiseOptions(folds=5, monotone=True)
    assert _gain_left(sort_rows(p, y), 4, "pl", options) < ROW


def test_heights_are_optimal_after_a_knot_stops_at_a_cell() -> None:
    random = np.random.default_rng(46)
    rows = _bent_rows(random.choice(np.linspace(0.0, 1.0, 20), 80), random)
    assert _gain_left(rows, 3, "pl", PiecewiseOptions(loss="brier", folds=5, monotone=True)) < ROW


def test_a_gain_in_a_small_part_of_a_gap_is_found() -> None:
    random = np.random.default_rng(1105)
    random.integers(6)
    p = random.beta(0.3, 0.3, 600)
    p[:9] = 5 * [0.0] + 4 * [1.0]
    assert _gain_left(_bent_rows(p, random), 3, "pl", PiecewiseOptions(folds=5)) < ROW
