from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import minimize

import calibrant
from calibrant.averaging.fitting import fit_averaged
from calibrant.averaging.process import fit_process, hypotheses
from calibrant.core.cells import SortedRows, sort_rows
from calibrant.core.logistic import fit_logistic, product
from calibrant.maps.averaged import table_knots, tabulate
from calibrant.piecewise.fitting import fit_piecewise
from calibrant.piecewise.folds import fold_cells
from calibrant.piecewise.options import AveragedOptions, PiecewiseOptions
from calibrant.piecewise.search import weights
from tests.rows import draw_distorted

GRID = np.concatenate([np.linspace(0, 1, 501), [1e-300, 1e-12, 1 - 2**-53]])
Floats = npt.NDArray[np.float64]


def _drawn(n: int, power: float = 1.5, seed: int = 0) -> SortedRows:
    return sort_rows(*draw_distorted(n, seed, power, dtype=np.int8))


def test_penalised_logistic_regressions_are_at_their_optimum() -> None:
    random = np.random.default_rng(0)
    features, offset = random.standard_normal((50, 3)), random.standard_normal(50)
    w = random.random(50) * 5
    wy = w * random.random(50)
    variance = np.array([[1.0, 0.1, 5.0], [1e6, 1e6, 1e6]])
    modes = fit_logistic(features, offset, w, wy, variance)

    def penalised(theta: Floats, prior: Floats) -> float:
        f = offset + features @ theta
        return float((w * np.logaddexp(0, f) - wy * f).sum() + (theta**2 / prior).sum() / 2)

    for theta, prior in zip(modes.theta, variance, strict=True):
        best = minimize(penalised, np.zeros(3), args=(prior,), tol=1e-12)
        np.testing.assert_allclose(theta, best.x, atol=1e-4)


def test_the_process_finds_the_map_and_doubts_the_identity_only_where_it_is_wrong() -> None:
    truth = np.linspace(0.01, 0.99, 99)
    wrong = fit_process(fold_cells(_drawn(10_000), 10, 0))
    assert np.abs(wrong.mean(truth**1.5) - truth).mean() < 0.015
    assert wrong.identity < 1e-6
    right = fit_process(fold_cells(_drawn(10_000, power=1.0), 10, 0))
    assert np.abs(right.mean(truth) - truth).mean() < 0.01
    assert right.identity > 0.5


def test_draws_of_the_process_spread_about_its_mean_and_are_the_same_each_time() -> None:
    cells = fold_cells(_drawn(3000), 10, 0)
    process = fit_process(cells)
    draws, share = process.draws()
    assert share.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(share @ draws, process.mean(process.p), atol=0.01)
    np.testing.assert_array_equal(draws, fit_process(cells).draws()[0])
    assert len(process.weights) == len(hypotheses()) == 30


def test_certain_predictions_that_are_often_wrong_are_lowered() -> None:
    p = np.concatenate([np.zeros(500), np.ones(500)])
    y = np.concatenate([np.arange(500) % 5 == 0, np.arange(500) % 5 != 0]).astype(np.int8)
    calibrated = calibrant.fit("averaged", p, y).apply([0.0, 1.0])
    np.testing.assert_allclose(calibrated, [0.2, 0.8], atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_average_is_closer_to_the_truth_than_pl(seed: int) -> None:
    rows, truth = _drawn(2000, seed=seed), np.linspace(0.001, 0.999, 999)
    average, details = fit_averaged(rows, AveragedOptions())
    pl, _ = fit_piecewise("pl", rows, PiecewiseOptions())
    assert np.abs(average(truth**1.5) - truth).mean() < np.abs(pl(truth**1.5) - truth).mean() + 0.002
    assert sum(details["weights"].values()) == pytest.approx(1.0, abs=1e-3)


def test_the_average_on_torch_is_that_on_numpy() -> None:
    rows = _drawn(1500)
    on_numpy, diagnostics = fit_averaged(rows, AveragedOptions())
    on_torch, others = fit_averaged(rows, AveragedOptions(), device="cpu:0")
    np.testing.assert_allclose(on_torch(GRID), on_numpy(GRID), atol=2e-5)
    assert diagnostics["process_share"] == pytest.approx(others["process_share"], abs=1e-5)


def test_products_in_parts_are_those_at_once() -> None:
    random = np.random.default_rng(0)
    for rows in (1, 30, 101):
        a, b = random.standard_normal((rows, 128)), random.standard_normal((128, 361))
        np.testing.assert_allclose(product(a, b), a @ b, rtol=1e-12, atol=1e-12)


def test_weights_prefer_small_losses_and_small_models() -> None:
    shares = weights(np.array([100.0, 100.0, 101.0, 200.0]), np.array([2.0, 4.0, 2.0, 2.0]))
    assert shares[0] / shares[1] == pytest.approx(np.exp(0.7))
    assert shares[0] / shares[2] == pytest.approx(math.e)
    assert shares[3] == 0.0
    assert shares.sum() == pytest.approx(1.0)


def test_a_table_is_its_function() -> None:
    def bent(p: Floats) -> Floats:
        return np.asarray(0.2 + 0.7 * p**2 - 0.1 * np.sin(9 * p))

    table = tabulate(bent)
    random = np.random.default_rng(0).random(10_000)
    assert np.abs(table(random) - bent(random)).max() < 5e-6
    np.testing.assert_allclose(tabulate(lambda p: p)(GRID), np.clip(GRID, 1e-16, 1 - 1e-16), rtol=1e-9)
    knots, p = table_knots()
    assert np.all(np.diff(knots) > 0)
    assert (p[0], p[-1]) == (0.0, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["pl", "pl3"])
def test_weighted_curves_of_a_family_are_near_the_chosen_ones(family: str) -> None:
    rows = _drawn(2000)
    chosen = calibrant.fit(family, rows.p, rows.y)
    weighted = calibrant.fit(family, rows.p, rows.y, final="weighted")
    assert weighted.curve.family == "averaged"
    assert np.abs(chosen.apply(GRID) - weighted.apply(GRID)).mean() < 0.03


def test_the_order_of_the_rows_cannot_matter_and_progress_rises() -> None:
    rows = _drawn(900)
    order = np.random.default_rng(7).permutation(900)
    steps: list[tuple[int, int, str]] = []
    first = calibrant.fit("averaged", rows.p, rows.y, progress=lambda *step: steps.append(step))
    other = calibrant.fit("averaged", rows.p[order], rows.y[order])
    np.testing.assert_array_equal(first.apply(GRID), other.apply(GRID))
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][0] == steps[-1][1]


ODD: dict[str, tuple[list[float], list[int]]] = {
    "nearly constant": ([0.3] * 50 + [0.7], [0, 1, 0, 0, 1] * 10 + [1]),
    "separable": ([i / 99 for i in range(100)], [int(i > 40) for i in range(100)]),
    "certain and right": ([0.0, 1.0] * 30, [0, 1] * 30),
    "tiny": ([i / 11 for i in range(12)], [0, 1] * 6),
    "one positive": ([i / 59 for i in range(60)], [0] * 59 + [1]),
    "upside down": ([i / 99 for i in range(100)], [int(i < 60) for i in range(100)]),
    "next to one": ([1 - 10.0**-k for k in range(1, 17)] * 5, [1, 1, 0, 1] * 20),
}


@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
@pytest.mark.parametrize("name", ODD)
def test_odd_data_give_finite_probabilities(name: str) -> None:
    calibrated = calibrant.fit("averaged", ODD[name][0], ODD[name][1]).apply(GRID)
    assert np.all(np.isfinite(calibrated))
    assert np.all((calibrated >= 0) & (calibrated <= 1))


@pytest.mark.parametrize("far", [1e3, 1e6, 1e10])
def test_logits_whose_probabilities_round_to_0_are_averaged_like_those_of_100(far: float) -> None:
    maps = [
        calibrant.fit("averaged", [end, -end, 1.0, 2.0, -1.0] * 30, [1, 0, 1, 0, 1] * 30, scale="logit")
        for end in (100.0, far)
    ]
    near_gain, far_gain = (of.diagnostics["held_out_gain"]["log_loss"] for of in maps)
    assert near_gain > 0.3
    assert far_gain == pytest.approx(near_gain, abs=1e-3)
    near_values, far_values = (of.apply([1.0, 2.0, -1.0]) for of in maps)
    np.testing.assert_allclose(far_values, near_values, atol=1e-3)
