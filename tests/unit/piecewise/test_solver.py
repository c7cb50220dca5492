from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from calibrant.core.cells import Floats, sort_rows
from calibrant.piecewise.arrays import on_host, placed, solve_positive
from calibrant.piecewise.families import Family, abscissa, ends, knots_of, terms
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions, Starts
from calibrant.piecewise.search import starting_models
from calibrant.piecewise.solver import Data, Models, State, curve_values, local, solve

FAMILIES: tuple[Family, ...] = ("pl", "pl3")
LOSSES: tuple[Loss, ...] = ("log-loss", "brier")
#: NumPy, and PyTorch on the processor.
DEVICES = ("cpu", "cpu:0")
CASES = list(itertools.product(FAMILIES, LOSSES, (False, True)))


def _cells(n: int = 400, seed: int = 0) -> FoldCells:
    random = np.random.default_rng(seed)
    p = random.beta(0.8, 0.8, n)
    return fold_cells(sort_rows(p, (random.random(n) < p**1.4).astype(np.int8)), 4, seed)


def _data(cells: FoldCells, family: Family, loss: Loss, monotone: bool, device: str = "cpu") -> Data:
    w, wy = cells.training()
    mass = w.sum(axis=1, keepdims=True)
    x = abscissa(family, cells)
    return Data(family, loss, monotone, ends(family, x), *(placed(part, device) for part in (x, w / mass, wy / mass)))


def _models(
    cells: FoldCells,
    family: Family,
    counts: tuple[int, ...],
    monotone: bool,
    device: str = "cpu",
    starts: Starts = "several",
) -> Models:
    options = PiecewiseOptions(monotone=monotone, starts=starts)
    outer = ends(family, abscissa(family, cells))
    return starting_models(family, cells, *cells.training(), outer, counts, options, device)[0]


def _loss(problem: Data, models: Models, heights: Floats, widths: Floats) -> Floats:
    knots, _ = knots_of(widths, *problem.ends, models.valid)
    f = curve_values(problem.x, knots, heights)
    return terms(problem.family, problem.loss, f, problem.w[models.line], problem.wy[models.line]).loss


@pytest.mark.parametrize(("family", "loss", "monotone"), CASES)
def test_the_gradient_is_that_of_finite_differences(family: Family, loss: Loss, monotone: bool) -> None:
    cells = _cells()
    points, models = _data(cells, family, loss, monotone), _models(cells, family, (1, 3, 5), monotone)
    # Away from the start, where curves coincide and knots may be on cells, and have two slopes.
    share = np.random.default_rng(0).random(models.heights.shape)
    heights = 0.1 + 0.8 * share if family == "pl" else models.heights + share
    models = replace(models, heights=heights, widths=models.widths + 0.01 * share[:, 1:])
    here = local(points, models)
    np.testing.assert_allclose(here.loss, _loss(points, models, models.heights, models.widths))
    size = models.heights.shape[1]
    step = 1e-6
    for k in range(here.gradient.shape[1]):
        heights, widths = np.zeros_like(models.heights), np.zeros_like(models.widths)
        (heights if k < size else widths)[:, k if k < size else k - size] = step
        up = _loss(points, models, models.heights + heights, models.widths + widths)
        down = _loss(points, models, models.heights - heights, models.widths - widths)
        np.testing.assert_allclose(here.gradient[:, k], (up - down) / (2 * step), rtol=2e-4, atol=2e-7)


@pytest.mark.parametrize(("family", "loss"), list(itertools.product(FAMILIES, LOSSES)))
def test_no_step_makes_a_loss_larger_and_the_gauss_newton_matrix_is_positive(family: Family, loss: Loss) -> None:
    cells = _cells()
    points, models = _data(cells, family, loss, False), _models(cells, family, (2, 4), False)
    before = local(points, models)
    assert np.linalg.eigvalsh(before.matrix).min() > -1e-9
    for steps in (1, 5, 30):
        after = solve(points, models, steps=steps, tolerance=1e-9)
        assert np.all(after.loss <= before.loss + 1e-15)
        np.testing.assert_array_equal(after.models.name, models.name)


def test_one_piece_of_pl3_is_logistic_regression() -> None:
    """With its outer nodes far away one piece is a line in the logit: the optimum is Platt's, unsmoothed."""
    from calibrant.maps.platt import fit_platt

    random = np.random.default_rng(5)
    p = random.beta(0.8, 0.8, 240)  # few enough to stay uncompressed
    rows = sort_rows(p, (random.random(240) < p**1.4).astype(np.int8))
    cells = fold_cells(rows, 4, 0)
    points, models = _data(cells, "pl3", "log-loss", False), _models(cells, "pl3", (1,), False)
    solved = solve(points, models, steps=60, tolerance=1e-14)
    from calibrant.core.cells import cells_of

    platt = fit_platt(cells_of(rows), target_smoothing=False)
    knots, _ = knots_of(solved.models.widths, *points.ends, solved.models.valid)
    curve = expit(curve_values(points.x, knots, solved.models.heights))[4 * 2]
    np.testing.assert_allclose(curve, platt(cells.p), atol=1e-6)


def test_a_batch_of_models_is_solved_like_each_of_them_alone() -> None:
    cells = _cells()
    points = _data(cells, "pl", "log-loss", False)
    together = solve(points, _models(cells, "pl", (3,), False), steps=25, tolerance=1e-9)
    models = _models(cells, "pl", (3,), False)
    for i in (0, 3, 9):
        alone = solve(points, models[np.array([i])], steps=25, tolerance=1e-9)
        np.testing.assert_allclose(alone.loss[0], together.loss[i], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("certain", [False, True])
def test_padding_to_more_pieces_changes_nothing(family: Family, certain: bool) -> None:
    random = np.random.default_rng(0)
    p = random.beta(0.8, 0.8, 400)
    if certain:  # predictions of exactly 0 and 1 lie on the outermost knots
        p = np.concatenate([p, np.zeros(100), np.ones(200)])
    cells = fold_cells(sort_rows(p, (random.random(len(p)) < p**1.4 * 0.8).astype(np.int8)), 4, 0)
    points = _data(cells, family, "log-loss", False)
    padded = _models(cells, family, (2, 9), False)
    plain = _models(cells, family, (2,), False)
    short = padded[padded.valid.sum(axis=1) == 2]
    for i in (0, 2, 4):  # starts at quantiles; what elimination starts from depends on the largest model
        a = solve(points, short[np.array([i])], steps=25, tolerance=1e-9)
        b = solve(points, plain[np.array([i])], steps=25, tolerance=1e-9)
        np.testing.assert_allclose(a.loss, b.loss, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("family", "loss", "monotone"), CASES)
def test_a_step_on_torch_is_that_on_numpy(family: Family, loss: Loss, monotone: bool) -> None:
    cells = _cells()
    steps = []
    for device in DEVICES:
        points = _data(cells, family, loss, monotone, device)
        state = State.of(points, _models(cells, family, (1, 3, 9), monotone, device, "quantiles"))
        start = state.here
        state.advance(points, 1e-9)
        arrays = (start.loss, start.gradient, start.matrix, state.models.heights, state.models.widths, state.here.loss)
        steps.append([on_host(array) for array in arrays])
    for on_numpy, on_torch in zip(*steps, strict=True):
        np.testing.assert_allclose(on_torch, on_numpy, rtol=0.0, atol=1e-12 * np.abs(on_numpy).max())


@pytest.mark.parametrize("pieces", [4, 64])
@pytest.mark.parametrize("device", DEVICES)
def test_a_failed_factorisation_rejects_the_step_of_its_model_alone(device: str, pieces: int) -> None:
    cells = _cells()
    points = _data(cells, "pl3", "log-loss", False, device)
    models = _models(cells, "pl3", (1, pieces), False, device)
    sound, broken = State.of(points, models), State.of(points, models)
    failed = 3
    broken.here.matrix[failed] = -broken.here.matrix[failed] - 1.0
    heights, widths = (on_host(models.heights[failed]).copy(), on_host(models.widths[failed]).copy())
    loss = float(broken.here.loss[failed])
    sound.advance(points, 1e-9)
    converged = broken.advance(points, 1e-9)
    assert not converged[failed]
    assert float(broken.damping[failed]) == pytest.approx(6e-2)
    assert float(broken.here.loss[failed]) == loss
    np.testing.assert_array_equal(on_host(broken.models.heights[failed]), heights)
    np.testing.assert_array_equal(on_host(broken.models.widths[failed]), widths)
    others = np.arange(len(models)) != failed
    for first, other in (
        (sound.models.heights, broken.models.heights),
        (sound.models.widths, broken.models.widths),
        (sound.damping, broken.damping),
        (sound.here.matrix, broken.here.matrix),
    ):
        np.testing.assert_array_equal(on_host(first)[others], on_host(other)[others])


def test_the_largest_model_is_solved_like_a_dense_system() -> None:
    random = np.random.default_rng(0)
    factor = random.standard_normal((2, 129, 129))
    matrix, right = factor @ factor.swapaxes(1, 2) + np.eye(129), random.standard_normal((2, 129))
    expected = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
    solution, failed = solve_positive(matrix, right)
    assert not failed.any()
    np.testing.assert_allclose(solution, expected, rtol=1e-9, atol=1e-12)
