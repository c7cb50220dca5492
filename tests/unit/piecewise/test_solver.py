from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant.cells import sort_rows
from calibrant.piecewise.families import Family, abscissa, ends, heights_of, knots_of, terms
from calibrant.piecewise.folds import FoldCells, fold_cells
from calibrant.piecewise.options import Loss, PiecewiseOptions
from calibrant.piecewise.solver import Data, Models, _Batch, _local, curve_values, solve
from calibrant.piecewise.starts import starting_models

FAMILIES: tuple[Family, ...] = ("pl", "pl3")
LOSSES: tuple[Loss, ...] = ("log-loss", "brier")


def _cells(n: int = 400, seed: int = 0) -> FoldCells:
    random = np.random.default_rng(seed)
    p = random.beta(0.8, 0.8, n)
    return fold_cells(sort_rows(p, (random.random(n) < p**1.4).astype(np.int8)), 4, seed)


def _data(cells: FoldCells, family: Family, loss: Loss, monotone: bool) -> Data:
    w, wy = cells.training()
    mass = w.sum(axis=1, keepdims=True)
    x = torch.tensor(abscissa(family, cells.p))
    return Data(family, loss, monotone, x, torch.tensor(w / mass), torch.tensor(wy / mass))


def _models(cells: FoldCells, family: Family, counts: tuple[int, ...], monotone: bool) -> Models:
    options = PiecewiseOptions(monotone=monotone, starts="several")
    return starting_models(family, cells.p, *cells.training(), counts, options, "cpu")[0]


def _loss(data: Data, models: Models, heights: Tensor, widths: Tensor) -> Tensor:
    low, high = ends(data.family)
    values, _ = heights_of(data.family, heights, monotone=data.monotone)
    knots, _ = knots_of(widths, low, high, models.valid)
    f = curve_values(data.x, knots, values)
    return terms(data.family, data.loss, f, data.w[models.line], data.wy[models.line]).loss.sum(dim=1)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "loss", "monotone"), list(itertools.product(FAMILIES, LOSSES, (False, True))))
def test_the_gradient_is_that_of_finite_differences(family: Family, loss: Loss, monotone: bool) -> None:
    cells = _cells()
    data, models = _data(cells, family, loss, monotone), _models(cells, family, (1, 3, 5), monotone)
    # Away from the start: there increments may lie on their bound, and curves of different starts coincide.
    shift = 0.05 + 0.2 * torch.rand(
        models.heights.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    # Nor on cells, where a knot has two slopes.
    models = replace(models, heights=models.heights + shift, widths=models.widths + 0.01 * shift[:, 1:])
    here = _local(_Batch.of(data, models), models)
    torch.testing.assert_close(here.loss, _loss(data, models, models.heights, models.widths))
    size = models.heights.shape[1]
    step = 1e-6
    for k in range(here.gradient.shape[1]):
        heights, widths = torch.zeros_like(models.heights), torch.zeros_like(models.widths)
        (heights if k < size else widths)[:, k if k < size else k - size] = step
        up = _loss(data, models, models.heights + heights, models.widths + widths)
        down = _loss(data, models, models.heights - heights, models.widths - widths)
        torch.testing.assert_close(here.gradient[:, k], (up - down) / (2 * step), rtol=2e-4, atol=2e-7)


@pytest.mark.parametrize(("family", "loss"), list(itertools.product(FAMILIES, LOSSES)))
def test_no_step_makes_a_loss_larger_and_the_gauss_newton_matrix_is_positive(family: Family, loss: Loss) -> None:
    cells = _cells()
    data, models = _data(cells, family, loss, False), _models(cells, family, (2, 4), False)
    before = _local(_Batch.of(data, models), models)
    assert torch.linalg.eigvalsh(before.matrix).min() > -1e-9
    for steps in (1, 5, 30):
        after = solve(data, models, steps=steps, tolerance=1e-9)
        assert torch.all(after.loss <= before.loss + 1e-15)
        torch.testing.assert_close(after.models.name, models.name)


def test_one_piece_of_pl3_is_logistic_regression() -> None:
    """With its outer nodes far away one piece is a line in the logit: the optimum is Platt's, unsmoothed."""
    from calibrant.maps.platt import fit_platt

    random = np.random.default_rng(5)
    p = random.beta(0.8, 0.8, 240)  # few enough to stay uncompressed
    rows = sort_rows(p, (random.random(240) < p**1.4).astype(np.int8))
    cells = fold_cells(rows, 4, 0)
    data, models = _data(cells, "pl3", "log-loss", False), _models(cells, "pl3", (1,), False)
    solved = solve(data, models, steps=60, tolerance=1e-14)
    from calibrant.cells import cells_of

    platt = fit_platt(cells_of(rows), target_smoothing=False)
    knots, _ = knots_of(solved.models.widths, *ends("pl3"), solved.models.valid)
    curve = torch.sigmoid(curve_values(data.x, knots, solved.models.heights))[4 * 2]
    np.testing.assert_allclose(curve.numpy(), platt(cells.p), atol=1e-6)


def test_a_batch_of_models_is_solved_like_each_of_them_alone() -> None:
    cells = _cells()
    data = _data(cells, "pl", "log-loss", False)
    together = solve(data, _models(cells, "pl", (3,), False), steps=25, tolerance=1e-9)
    models = _models(cells, "pl", (3,), False)
    for i in (0, 3, 9):
        alone = solve(data, models[torch.tensor([i])], steps=25, tolerance=1e-9)
        torch.testing.assert_close(alone.loss[0], together.loss[i], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("certain", [False, True])
def test_padding_to_more_pieces_changes_nothing(family: Family, certain: bool) -> None:
    random = np.random.default_rng(0)
    p = random.beta(0.8, 0.8, 400)
    if certain:  # predictions of exactly 0 and 1 lie on the outermost knots
        p = np.concatenate([p, np.zeros(100), np.ones(200)])
    cells = fold_cells(sort_rows(p, (random.random(len(p)) < p**1.4 * 0.8).astype(np.int8)), 4, 0)
    data = _data(cells, family, "log-loss", False)
    padded = _models(cells, family, (2, 9), False)
    plain = _models(cells, family, (2,), False)
    short = padded[padded.valid.sum(dim=1) == 2]
    for i in (0, 2, 4):  # starts at quantiles; what elimination starts from depends on the largest model
        a = solve(data, short[torch.tensor([i])], steps=25, tolerance=1e-9)
        b = solve(data, plain[torch.tensor([i])], steps=25, tolerance=1e-9)
        torch.testing.assert_close(a.loss, b.loss, rtol=1e-9, atol=1e-12)
