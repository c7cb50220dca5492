"""Folds of rows in cells, also from a stream of rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import calibrant
from calibrant.core.cells import sort_rows
from calibrant.core.errors import LengthMismatch, OutOfRange, TooFewRows
from calibrant.core.validation import fold_of_rows
from calibrant.maps.curves import clipped_logit
from calibrant.piecewise import folds
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import fit_cells, fit_piecewise
from calibrant.piecewise.folds import MASS_TO_WIDTH, MOST_CELLS, CellStream, _cell_starts, fold_cells
from calibrant.piecewise.options import PiecewiseOptions
from tests.refusals import refused_at
from tests.rows import draw_distorted


def test_few_distinct_predictions_lose_nothing() -> None:
    random = np.random.default_rng(0)
    p, y = np.round(random.random(5000), 2), random.integers(0, 2, 5000).astype(np.int8)
    rows = sort_rows(p, y)
    cells = fold_cells(rows, 10, 0)
    np.testing.assert_array_equal(cells.p, np.unique(p))
    fold = fold_of_rows(5000, 10, 0)
    for number in (0, 9):
        mine = fold == number
        for j in (0, 50, 100):
            here = mine & (rows.p == cells.p[j])
            assert cells.w[number, j] == here.sum()
            assert cells.wy[number, j] == rows.y[here].sum()


def test_training_is_what_the_fold_leaves_and_the_last_line_is_everything() -> None:
    random = np.random.default_rng(1)
    cells = fold_cells(sort_rows(random.random(200), random.integers(0, 2, 200).astype(np.int8)), 5, 0)
    w, wy = cells.training()
    assert w.shape == wy.shape == (6, 200)
    np.testing.assert_allclose(w[:-1] + cells.w, np.broadcast_to(w[-1], (5, 200)))
    assert w[-1].sum() == 200


@pytest.mark.parametrize("weighted", [False, True])
def test_compressed_cells_are_bounded_in_mass_and_width_and_keep_all_sums(weighted: bool) -> None:
    random = np.random.default_rng(2)
    p = random.beta(0.2, 5.0, 200_000)
    y = (random.random(200_000) < p).astype(np.int8)
    w = random.random(200_000) if weighted else None
    rows = sort_rows(p, y, w)
    cells = fold_cells(rows, 10, 0)
    weight = np.ones(200_000) if rows.w is None else rows.w
    assert len(cells.p) <= MOST_CELLS + MOST_CELLS // MASS_TO_WIDTH
    assert cells.w.sum() == pytest.approx(weight.sum())
    assert cells.wy.sum() == pytest.approx(weight @ rows.y)
    assert float(cells.w.sum(axis=0) @ cells.p) == pytest.approx(weight @ rows.p)
    assert np.all(np.diff(cells.p) > 0)
    starts = _cell_starts(rows)
    ends = np.append(starts[1:], 200_000) - 1
    place = 2 / np.pi * np.arcsin(np.sqrt(rows.p))
    assert (place[ends] - place[starts]).max() <= MASS_TO_WIDTH / MOST_CELLS + 1e-12
    assert (ends - starts).max() <= 200_000 / MOST_CELLS + 1


@pytest.mark.parametrize(("n", "bound"), [(1_000, 5e-4), (30_000, 5e-5), (300_000, 1e-5)])
def test_compression_hardly_moves_a_mean_loss(n: int, bound: float) -> None:
    random = np.random.default_rng(3)
    p = random.beta(0.7, 0.7, n)
    rows = sort_rows(p, (random.random(n) < p).astype(np.int8))
    cells = fold_cells(rows, 10, 0)
    w, wy = cells.w.sum(axis=0), cells.wy.sum(axis=0)
    for slope, shift in ((1.3, 0.2), (0.5, -0.4), (1.0, 0.0)):
        c, exact = (expit(slope * clipped_logit(q) + shift) for q in (cells.p, rows.p))
        compressed = -(wy @ np.log(c) + (w - wy) @ np.log1p(-c)) / n
        assert abs(compressed + np.log(np.where(rows.y == 1, exact, 1 - exact)).mean()) < bound


@pytest.mark.parametrize("n", [1_000, 30_000])
def test_compression_hardly_moves_a_fitted_map(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece of PL3 has no knots to choose: what moves the map is the compression alone."""
    random = np.random.default_rng(3)
    p = random.beta(0.7, 0.7, n)
    rows = sort_rows(p**1.3, (random.random(n) < p).astype(np.int8))
    options = PiecewiseOptions(candidates=(1,), final="refit")
    compressed, _ = fit_piecewise("pl3", rows, options)
    monkeypatch.setattr(folds, "LEAST_CELLS", 20 * n)
    monkeypatch.setattr(folds, "MOST_CELLS", 20 * n)
    exact, details = fit_piecewise("pl3", rows, options)
    assert details["cells"] == n
    grid = np.linspace(0.001, 0.999, 999)
    assert np.abs(compressed(grid) - exact(grid)).mean() < 2e-4


def test_a_heavy_tie_is_not_merged_with_what_is_near_it() -> None:
    """Most scores of one class are exact zeros: merged with the next, they would have a logit of their own no more."""
    random = np.random.default_rng(0)
    p = np.concatenate([np.zeros(20_000), np.ones(3_000), 10 ** random.uniform(-9, 0, 10_000)])
    cells = fold_cells(sort_rows(p, (random.random(len(p)) < p).astype(np.int8)), 10, 0)
    assert cells.p[0] == 0.0
    assert cells.w[:, 0].sum() == 20_000
    assert cells.p[-1] == 1.0
    assert cells.w[:, -1].sum() == 3_000
    coarse = cells.coarse(128)
    assert (coarse.p[0], coarse.p[-1]) == (0.0, 1.0)


def test_coarse_cells_are_the_same_rows() -> None:
    random = np.random.default_rng(4)
    cells = fold_cells(sort_rows(random.random(5000), random.integers(0, 2, 5000).astype(np.int8)), 10, 0)
    coarse = cells.coarse(100)
    assert len(coarse.p) <= 100
    np.testing.assert_allclose(coarse.w.sum(axis=1), cells.w.sum(axis=1))
    np.testing.assert_allclose(coarse.wy.sum(axis=1), cells.wy.sum(axis=1))
    assert cells.coarse(10_000) is cells


GRID = np.linspace(0.001, 0.999, 999)


def test_a_stream_counts_every_row_once_in_its_fold() -> None:
    random = np.random.default_rng(0)
    p, y = random.random(10_007), random.integers(0, 2, 10_007)
    whole, parts = CellStream(7), CellStream(7)
    whole.add(p, y)
    for part in np.array_split(np.arange(10_007), 13):
        parts.add(p[part], y[part])
    first, other = whole.cells(), parts.cells()
    np.testing.assert_allclose(first.p, other.p)
    np.testing.assert_array_equal(first.w, other.w)
    np.testing.assert_array_equal(first.wy, other.wy)
    np.testing.assert_array_equal(first.w.sum(axis=1), np.bincount(np.arange(10_007) % 7))
    assert first.wy.sum() == y.sum()
    assert float(first.w.sum(axis=0) @ first.p) == pytest.approx(p.sum())
    assert len(whole) == 10_007


@pytest.mark.slow
@pytest.mark.parametrize("family", ["pl", "pl3"])
def test_a_fit_from_a_stream_is_near_that_of_the_rows(family: Family) -> None:
    p, y = draw_distorted(300_000, 1, dtype=np.int8)
    stream = CellStream()
    stream.add(p, y)
    options = PiecewiseOptions(candidates=(1, 2, 4), final="refit")
    streamed, details = fit_cells(family, stream.cells(), (1, 2, 4), options)
    direct, details_of_rows = fit_piecewise(family, sort_rows(p, y), options)
    assert details["pieces"] == details_of_rows["pieces"]
    assert np.abs(streamed(GRID) - direct(GRID)).mean() < 1e-3


def test_few_predictions_and_certain_ones_keep_their_values() -> None:
    stream = CellStream(2)
    stream.add(np.array([0.0, 0.25, 1.0, 1.0]), np.array([0, 1, 1, 0]))
    cells = stream.cells()
    np.testing.assert_array_equal(cells.p, [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(cells.w.sum(axis=0), [1, 1, 2])


def test_a_wrong_row_is_named_and_nothing_of_its_chunk_counts() -> None:
    stream = CellStream(2)
    with refused_at("/predictions/1", OutOfRange):
        stream.add(np.array([0.1, np.nan, 2.0]), np.array([0, 1, 1]))
    with refused_at("/labels/1", OutOfRange):
        stream.add(np.array([0.1, 0.2]), np.array([0, 2]))
    with pytest.raises(LengthMismatch):
        stream.add(np.array([0.1, 0.2]), np.array([0]))
    stream.add(np.array([]), np.array([], np.int64))
    assert len(stream) == 0
    with pytest.raises(TooFewRows):
        stream.cells()


@pytest.mark.parametrize("outcome", [0, 1])
def test_the_gain_of_far_logits_has_a_standard_error(outcome: int) -> None:
    random = np.random.default_rng(0)
    z = random.normal(0.0, 2.0, 300)
    y = (random.random(300) < expit(z)).astype(int)
    z[0], y[0] = 1e200, outcome
    gain = calibrant.fit("pl", z, y, scale="logit").diagnostics["held_out_gain"]
    assert 0.0 < gain["standard_error"] < np.inf
