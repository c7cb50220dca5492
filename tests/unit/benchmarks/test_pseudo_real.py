from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from benchmarks.pseudo_real.calibrators import BINARY, CALIBRATORS, Rows, calibrated, fit_vector_scaling
from benchmarks.pseudo_real.experiment import CALIBRATION_ROWS, HELD_OUT, SEEDS, SIZES, TRUTH_ROWS, evaluated_rows
from benchmarks.pseudo_real.page import bias, error, rank_correlation
from benchmarks.pseudo_real.truth import BinnedMap, TrueMaps
from calibrant.reductions import Event


def draw(n: int) -> tuple[Event, Any]:
    random = np.random.default_rng(0)
    p = random.random(n)
    c = p**1.5
    return Event(p, (random.random(n) < c).astype(np.int8)), c


def draw_classes(n: int, scales: Any, shifts: Any) -> Rows:
    random = np.random.default_rng(0)
    logits = 2.0 * random.standard_normal((n, len(scales)))
    cumulative = softmax(logits * scales + shifts, axis=1).cumsum(axis=1)
    return Rows(logits, (random.random((n, 1)) > cumulative).sum(axis=1))


def test_a_binned_map_is_flat_or_has_slope_one_around_the_bins_means() -> None:
    event = Event(np.array([0.1, 0.2, 0.6, 0.8]), np.array([0, 1, 1, 1], dtype=np.int8))
    bins = BinnedMap.fit(event, 2)
    queries = np.array([0.0, 0.2, 0.59, 0.6, 1.0])
    assert bins.flat(queries) == pytest.approx([0.5, 0.5, 0.5, 1.0, 1.0])
    assert bins.tilted(queries) == pytest.approx([0.35, 0.55, 0.94, 0.9, 1.3])
    assert bins.levels(queries) == pytest.approx([0.15, 0.15, 0.15, 0.7, 0.7])


def test_tied_predictions_share_a_bin() -> None:
    event = Event(np.array([0.2] * 6 + [0.9] * 2), np.array([0, 0, 0, 1, 1, 1, 1, 1], dtype=np.int8))
    bins = BinnedMap.fit(event, 4)
    assert bins.flat(np.array([0.2, 0.9])) == pytest.approx([0.5, 1.0])


def test_the_three_true_maps_are_close_to_the_truth() -> None:
    event, c = draw(200_000)
    for estimate in TrueMaps.fit(event)(event.p).values():
        assert float(np.abs(estimate - c).mean()) < 0.01


def test_the_isotonic_true_map_is_the_one_of_scikit_learn() -> None:
    event, _ = draw(5_000)
    reference = IsotonicRegression(out_of_bounds="clip").fit(event.p, event.y).predict(event.p)
    assert TrueMaps.fit(event)(event.p)["isotonic"] == pytest.approx(reference, abs=1e-12)


def test_vector_scaling_recovers_a_known_scaling() -> None:
    scales, shifts = np.array([0.5, 0.8, 1.2]), np.array([0.3, -0.5, 0.2])
    rows = draw_classes(100_000, scales, shifts)
    found_scales, found_shifts = fit_vector_scaling(rows.logits, rows.labels)
    assert found_scales == pytest.approx(scales, abs=0.03)
    assert found_shifts - found_shifts.mean() == pytest.approx(shifts - shifts.mean(), abs=0.03)


def test_beta_calibration_recovers_a_beta_map() -> None:
    random = np.random.default_rng(0)
    p = random.random(100_000)
    c = expit(0.5 * np.log(p) - 1.5 * np.log1p(-p) + 0.2)
    fitted = BINARY["beta"](p, (random.random(len(p)) < c).astype(np.int8))
    assert float(np.abs(fitted(p) - c).max()) < 0.02


def test_beta_calibration_has_no_decreasing_side() -> None:
    random = np.random.default_rng(0)
    p = random.random(2_000)
    fitted = BINARY["beta"](p, (random.random(len(p)) < np.abs(p - 0.5)).astype(np.int8))
    assert np.all(np.diff(fitted(np.linspace(0.0, 1.0, 101))) >= 0)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("event", ["class:1", "confidence"])
def test_every_calibrator_brings_a_wrong_scale_closer_to_the_truth(name: str, event: str) -> None:
    rows = draw_classes(6_000, np.full(3, 0.4), np.zeros(3))
    training = Rows(rows.logits[:3_000], rows.labels[:3_000])
    true = Rows(0.4 * rows.logits, rows.labels).event(event).p
    after = calibrated(name, training, rows, event)
    before = rows.event(event)
    assert np.abs(after.p - true)[3_000:].mean() < 0.5 * np.abs(before.p - true)[3_000:].mean()


def test_scaling_binning_gives_one_value_a_bin() -> None:
    rows = draw_classes(3_000, np.ones(3), np.zeros(3))
    assert len(np.unique(calibrated("scaling-binning", rows, rows, "class:0").p)) == 15


def test_no_two_runs_evaluate_the_same_row() -> None:
    taken = np.zeros(HELD_OUT, dtype=int)
    taken[:CALIBRATION_ROWS] += 1
    taken[-TRUTH_ROWS:] += 1
    for n in SIZES:
        for seed in range(SEEDS):
            taken[evaluated_rows(n, seed)] += 1
    assert np.all(taken == 1)


def record(ece: float, ce: float, seed: int = 0) -> dict[str, Any]:
    return {"model": "m", "event": "e", "n": 1, "seed": seed, "ece": ece, "ce": {"isotonic": ce}}


def test_errors_are_in_thousandths_and_ranks_are_taken_within_a_seed() -> None:
    records = [record(0.01, 0.02), record(0.03, 0.04), record(0.2, 0.1, seed=1), record(0.1, 0.2, seed=1)]
    assert bias(records) == pytest.approx(-5.0)
    assert error(records) == pytest.approx(55.0)
    assert rank_correlation(records) == pytest.approx(0.0)
    assert rank_correlation([record(0.0, 0.1), record(0.0, 0.2)]) is None
