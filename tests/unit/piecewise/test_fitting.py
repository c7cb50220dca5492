from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calibrant.core.cells import sort_rows
from calibrant.core.errors import OneClass, OnePrediction, TooFewRows
from calibrant.core.progress import reporting
from calibrant.core.reductions import Event
from calibrant.maps.piecewise_linear import LogitPiecewiseLinear, PiecewiseLinear, Polyline
from calibrant.piecewise.families import Family, cell_losses
from calibrant.piecewise.fitting import fit_piecewise, guarded
from calibrant.piecewise.options import Loss, PiecewiseOptions, Starts
from tests.rows import draw_distorted

REFERENCE = json.loads((Path(__file__).parents[2] / "golden" / "pl_reference.json").read_text("utf-8"))
FAMILIES: tuple[Family, ...] = ("pl", "pl3")
GRID = np.concatenate([np.linspace(0, 1, 501), [1e-300, 1e-12, 1 - 2**-53]])


def _log_loss(c: npt.NDArray[np.float64], y: npt.NDArray[np.int8]) -> float:
    c = np.clip(c, 1e-16, 1 - 1e-16)
    return float(-np.mean(np.where(y == 1, np.log(c), np.log1p(-c))))


@pytest.mark.parametrize("away", [1e-5, 1e-9, 1e-12])
def test_the_squared_error_of_predictions_that_are_nearly_right_keeps_its_digits(away: float) -> None:
    c = np.array([[away, 1.0 - away]])
    w, wy = np.ones_like(c), np.array([[0.0, 1.0]])
    np.testing.assert_allclose(cell_losses("pl", "brier", c, w, wy), away * away, rtol=1e-3)


def _drawn(n: int, seed: int = 0) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]]:
    return draw_distorted(n, seed, dtype=np.int8)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "starts"), list(itertools.product(FAMILIES, ("quantiles", "several"))))
def test_the_loss_is_no_worse_than_that_of_the_neural_reference(
    family: Family, starts: Starts, golden_event: Event
) -> None:
    rows, reference = golden_event.sorted_rows, REFERENCE[family]
    options = PiecewiseOptions(candidates=(reference["bins"],), final="refit", starts=starts)
    curve, _ = fit_piecewise(family, rows, options)
    assert isinstance(curve, PiecewiseLinear | LogitPiecewiseLinear)
    assert len(curve.models) == 1
    assert _log_loss(curve(rows.p), rows.y) <= reference["final_loss"] + 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_held_out_scores_are_like_those_of_the_neural_reference(family: Family, golden_event: Event) -> None:
    _, details = fit_piecewise(family, golden_event.sorted_rows, PiecewiseOptions())
    assert details["candidates"] == [1, 2, 3, 4, 5, 6]
    # PL3 of one piece runs into the reference's cap of epochs, so its score there is no optimum.
    first = 1 if family == "pl3" else 0
    np.testing.assert_allclose(details["scores"][first:], REFERENCE[family]["scores"][first:], atol=1.2e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_map_comes_close_to_the_truth(family: Family) -> None:
    p, y = _drawn(20_000)
    curve, details = fit_piecewise(family, sort_rows(p, y), PiecewiseOptions())
    truth = np.linspace(0.001, 0.999, 999)
    assert np.abs(curve(truth**1.5) - truth).mean() < 0.012
    assert isinstance(curve, PiecewiseLinear | LogitPiecewiseLinear)
    assert len(curve.models) == 10
    assert details["pieces"] in details["candidates"]


ODD: dict[str, tuple[list[float], list[int]]] = {
    "ties": ([0.1, 0.5, 0.5, 0.9] * 25, [0, 1, 0, 1] * 25),
    "separable": ([i / 99 for i in range(100)], [int(i > 40) for i in range(100)]),
    "certain": ([0.0, 1.0] * 30, [0, 1, 1, 1] * 15),
    "certain and right": ([0.0, 1.0] * 30, [0, 1] * 30),
    "tiny": ([i / 11 for i in range(12)], [0, 1] * 6),
    "one positive": ([i / 59 for i in range(60)], [0] * 59 + [1]),
    "upside down": ([i / 99 for i in range(100)], [int(i < 60) for i in range(100)]),
    "next to one": ([1 - 10.0**-k for k in range(1, 17)] * 5, [1, 1, 0, 1] * 20),
}


@pytest.mark.parametrize(("family", "name", "monotone"), list(itertools.product(FAMILIES, ODD, (False, True))))
def test_odd_data_give_finite_probabilities(family: Family, name: str, monotone: bool) -> None:
    p, y = np.array(ODD[name][0]), np.array(ODD[name][1], np.int8)
    options = PiecewiseOptions(candidates=(1, 2, 5, 12), monotone=monotone)
    curve, _ = fit_piecewise(family, sort_rows(p, y), options)
    calibrated = curve(GRID)
    assert np.all(np.isfinite(calibrated))
    assert np.all((calibrated >= 0) & (calibrated <= 1))
    assert isinstance(curve, PiecewiseLinear | LogitPiecewiseLinear)
    for model in curve.models:
        assert np.all(np.diff(model.knots) > 0)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "loss"), list(itertools.product(FAMILIES, ("log-loss", "brier"))))
def test_a_monotone_map_never_decreases(family: Family, loss: Loss) -> None:
    random = np.random.default_rng(1)
    p = random.random(1500)
    y = (random.random(1500) < 0.5 + 0.3 * np.sin(8 * p)).astype(np.int8)
    free, _ = fit_piecewise(family, sort_rows(p, y), PiecewiseOptions(loss=loss, final="refit", candidates=(6,)))
    bound, _ = fit_piecewise(
        family, sort_rows(p, y), PiecewiseOptions(loss=loss, final="refit", candidates=(6,), monotone=True)
    )
    assert np.any(np.diff(free(GRID[:501])) < -1e-3)
    assert np.all(np.diff(bound(GRID[:501])) >= -1e-12)
    assert _log_loss(free(p), y) <= _log_loss(bound(p), y) + 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_monotone_line_is_the_free_one_if_that_rises(family: Family) -> None:
    p, y = _drawn(2000)
    both = [
        fit_piecewise(family, sort_rows(p, y), PiecewiseOptions(candidates=(1,), final="refit", monotone=m))[0](GRID)
        for m in (False, True)
    ]
    np.testing.assert_allclose(both[0], both[1], atol=1e-4)


def test_beyond_the_rows_pl3_neither_falls_nor_runs_away() -> None:
    straight = Polyline(np.array([-36.0, 36.0]), np.array([-72.0, 72.0]))
    np.testing.assert_allclose(guarded(straight, -3.0, 2.0).heights, [-72.0, 72.0])
    falling = guarded(Polyline(np.array([-36.0, 0.0, 36.0]), np.array([30.0, -1.0, 300.0])), -3.0, 2.0)
    z = np.linspace(-36, 36, 721)
    before, inside, after = z < -3, (z >= -3) & (z <= 2), z > 2
    original = np.interp(z, [-36, 0, 36], [30, -1, 300])
    np.testing.assert_allclose(falling(z)[inside], original[inside], atol=1e-12)
    np.testing.assert_allclose(np.diff(falling(z)[before]), 0.0, atol=1e-12)
    chord = (falling(np.array([2.0]))[0] - falling(np.array([-3.0]))[0]) / 5.0
    assert np.allclose(np.diff(falling(z)[after]), 0.1 * max(1.0, chord))


def test_a_knot_on_the_first_or_last_row_stays_in_pl3() -> None:
    """There the slope beyond the rows is that of the outer piece, and the height is that of the knot."""
    curve = Polyline(np.array([-36.0, -3.0, 2.0, 36.0]), np.array([-14.0, 0.1, 0.2, 24.0]))
    guarded_curve = guarded(curve, -3.0, 2.0)
    z = np.linspace(-36.0, 36.0, 721)
    np.testing.assert_allclose(guarded_curve(z), curve(z), atol=1e-12)


def test_the_monotone_map_of_increasing_data_is_as_good_as_the_free_one() -> None:
    p, y = _drawn(3000)
    rows = sort_rows(p, y)
    losses = [
        _log_loss(fit_piecewise("pl", rows, PiecewiseOptions(candidates=(3,), final="refit", monotone=m))[0](p), y)
        for m in (False, True)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_order_of_the_rows_cannot_matter_and_the_seed_decides(family: Family) -> None:
    p, y = _drawn(900)
    order = np.random.default_rng(7).permutation(900)
    first, details = fit_piecewise(family, sort_rows(p, y), PiecewiseOptions(), seed=4)
    other, other_details = fit_piecewise(family, sort_rows(p[order], y[order]), PiecewiseOptions(), seed=4)
    assert details == other_details
    np.testing.assert_array_equal(first(GRID), other(GRID))
    _, different = fit_piecewise(family, sort_rows(p, y), PiecewiseOptions(), seed=5)
    assert different["scores"] != details["scores"]


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_scale_like_repeated_rows(family: Family) -> None:
    p, y = _drawn(600)
    options = PiecewiseOptions(candidates=(2,), final="refit")
    weighted, _ = fit_piecewise(family, sort_rows(p, y, np.full(600, 2.0)), options)
    plain, _ = fit_piecewise(family, sort_rows(p, y), options)
    repeated, _ = fit_piecewise(family, sort_rows(np.repeat(p, 2), np.repeat(y, 2)), options)
    np.testing.assert_allclose(repeated(GRID), weighted(GRID), atol=1e-9)
    np.testing.assert_allclose(weighted(GRID), plain(GRID), atol=2e-3)  # twice the mass is solved more closely


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "loss", "monotone", "starts"),
    list(itertools.product(FAMILIES, ("log-loss", "brier"), (False, True), ("quantiles", "several"))),
)
def test_a_fit_on_torch_is_that_on_numpy(family: Family, loss: Loss, monotone: bool, starts: Starts) -> None:
    # With so many rows for each piece, no piece is so narrow that the rounding of its knots matters.
    p, y = _drawn(3000)
    options = PiecewiseOptions(folds=4, loss=loss, monotone=monotone, starts=starts, candidates=(1, 2, 4))
    on_numpy, diagnostics = fit_piecewise(family, sort_rows(p, y), options)
    on_torch, others = fit_piecewise(family, sort_rows(p, y), options, device="cpu:0")
    assert diagnostics["pieces"] == others["pieces"]
    np.testing.assert_allclose(on_torch(GRID), on_numpy(GRID), atol=1e-6)


@pytest.mark.parametrize("select", ["brier", "log-loss"])
def test_selection_takes_either_loss(select: Loss) -> None:
    p, y = _drawn(600)
    _, details = fit_piecewise("pl", sort_rows(p, y), PiecewiseOptions(select=select, folds=3, candidates=(4, 1)))
    assert details["candidates"] == [1, 4]
    assert details["select"] == select
    assert 0.1 < details["scores"][0] < (0.25 if select == "brier" else 0.69)


def test_progress_is_reported_and_its_exception_ends_the_fit() -> None:
    p, y = _drawn(600)
    steps: list[tuple[int, int, str]] = []
    with reporting(lambda *step: steps.append(step)):
        fit_piecewise("pl", sort_rows(p, y), PiecewiseOptions())
    assert {stage for _, _, stage in steps} == {"fine fits", "done"}
    assert all(0 <= done <= total for done, total, _ in steps)
    assert [done for done, _, _ in steps] == sorted(done for done, _, _ in steps)
    assert steps[-1][0] == steps[-1][1]

    class Cancelled(Exception):
        pass

    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled), reporting(cancel):
        fit_piecewise("pl", sort_rows(p, y), PiecewiseOptions())


def test_unfittable_rows_are_refused() -> None:
    rows = sort_rows(np.linspace(0, 1, 9), np.array([0, 1, 0, 1, 0, 1, 0, 1, 0], np.int8))
    with pytest.raises(TooFewRows):
        fit_piecewise("pl", rows, PiecewiseOptions())
    with pytest.raises(OneClass):
        fit_piecewise("pl", sort_rows(np.linspace(0, 1, 20), np.ones(20, np.int8)), PiecewiseOptions())
    with pytest.raises(OnePrediction):
        fit_piecewise("pl", sort_rows(np.full(20, 0.3), np.arange(20, dtype=np.int8) % 2), PiecewiseOptions())


@pytest.mark.parametrize("family", FAMILIES)
def test_folds_that_see_one_prediction_alone_are_fitted_nevertheless(family: Family) -> None:
    p, y = np.append(np.full(60, 0.3), 0.8), np.append(np.arange(60) % 3 == 0, True).astype(np.int8)
    curve, _ = fit_piecewise(family, sort_rows(p, y), PiecewiseOptions(candidates=(1, 2, 4)))
    assert curve(np.array([0.3]))[0] == pytest.approx(1 / 3, abs=0.02)
