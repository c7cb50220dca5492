from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.binning import equal_mass, equal_width
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event
from calibrant.measures.binned import (
    chance_error,
    expected_calibration_error,
    folded_normal_mean,
    squared_bias,
    unbiased_square,
)


@pytest.mark.parametrize("family", ["ES", "EW"])
def test_every_bin_count_agrees_with_the_reference(golden: dict[str, Any], golden_event: Event, family: str) -> None:
    for count, expected in golden[family].items():
        bins = equal_mass(golden_event.cells, int(count)) if family == "ES" else equal_width(golden_event, int(count))
        l1, l1_debiased = expected_calibration_error(bins, 1)
        l2, l2_debiased = expected_calibration_error(bins, 2)
        assert l1 == pytest.approx(expected["ECE1"], abs=1e-9)
        assert l2 == pytest.approx(expected["ECE2"], abs=1e-9)
        # The reference sums a rectangle rule where we have the closed form.
        assert l1_debiased == pytest.approx(expected["ECE1_debiased"], abs=2e-5)
        assert l2_debiased == pytest.approx(expected["ECE2_debiased"], abs=1e-9)


def test_the_folded_normal_is_the_mean_of_absolute_normals() -> None:
    draws = np.random.default_rng(0).normal(0.3, 0.5, 400_000)
    closed = folded_normal_mean(np.array([0.3, -0.2]), np.array([0.5, 0.0]))
    assert closed[0] == pytest.approx(np.abs(draws).mean(), abs=3e-3)
    assert closed[1] == 0.2


def test_a_bin_of_one_row_gets_no_correction() -> None:
    event = Event(np.array([0.2, 0.9]), np.array([0, 1], np.int8))
    plain, debiased = expected_calibration_error(equal_mass(event.cells, 2), 2)
    assert plain == debiased == pytest.approx((0.2**2 + 0.1**2) / 2)


def test_debiased_values_of_calibrated_rows_centre_on_zero_and_are_not_truncated() -> None:
    random = np.random.default_rng(2)
    debiased = []
    for _ in range(200):
        p = random.random(500)
        event = Event(p, (random.random(500) < p).astype(np.int8))
        debiased.append(expected_calibration_error(equal_mass(event.cells, 10), 2)[1])
    assert min(debiased) < 0 < max(debiased)
    assert np.mean(debiased) == pytest.approx(0.0, abs=2e-4)


def test_chance_alone_gives_what_calibrated_labels_give_on_average() -> None:
    random = np.random.default_rng(4)
    p = random.random(1000) ** 2
    drawn = []
    for _ in range(300):
        event = Event(p, (random.random(1000) < p).astype(np.int8))
        drawn.append(expected_calibration_error(equal_mass(event.cells, 15), 1)[0])
    calibrated, plugged = chance_error(event, equal_mass(event.cells, 15))
    assert calibrated == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / np.sqrt(300))
    assert plugged > calibrated


def test_the_squared_bias_is_the_lemmas_and_that_of_repeated_samples() -> None:
    """Lemma 1 of Minderer et al. (2021) with (1 - 2 d), not the (1 - d) that it prints."""
    random = np.random.default_rng(5)
    c = random.random(200_000)
    p = np.clip(c + 0.1, 0, 1)
    truth = Event(p, (random.random(200_000) < c).astype(np.int8))
    bins = equal_width(truth, 4)
    expected, place = 0.0, bins.index(truth.p)
    for k in range(4):
        q, y = truth.p[place == k], truth.y[place == k]
        a, d = y.mean(), q[y == 1].mean() - q[y == 0].mean()
        expected += (a * (1 - a) * (1 - 2 * d) + q.var()) / len(truth)
    assert squared_bias(truth, bins) == pytest.approx(expected, rel=1e-9)
    population = expected_calibration_error(bins, 2)[0]
    small = []
    for start in range(0, 200_000, 500):
        part = Event(truth.p[start : start + 500], truth.y[start : start + 500])
        small.append(expected_calibration_error(equal_width(part, 4), 2)[0])
    assert np.mean(small) - population == pytest.approx(expected * 200_000 / 500, rel=0.15)


def test_the_unbiased_square_is_the_mean_of_the_products_of_two_different_rows_of_a_bin() -> None:
    p, y = np.array([0.1, 0.2, 0.3, 0.6, 0.9]), np.array([1, 0, 1, 0, 1], np.int8)
    event, off = Event(p, y), y - p
    pairs = [
        [off[i] * off[j] for i in rows for j in rows if i != j] for rows in (range(3), range(3, 5))
    ]  # of the bins below and above 0.5
    bins = equal_width(event, 2)
    assert unbiased_square(event, bins) == pytest.approx(0.6 * np.mean(pairs[0]) + 0.4 * np.mean(pairs[1]))
    repeated = Event(np.append(p, 0.3), np.append(y, 1).astype(np.int8))
    counted = Event(p, y, np.array([1.0, 1.0, 2.0, 1.0, 1.0]), "frequency")
    twice = unbiased_square(repeated, equal_width(repeated, 2))
    assert unbiased_square(counted, equal_width(counted, 2)) == pytest.approx(twice)


def test_bins_of_one_row_are_left_out_of_the_unbiased_square() -> None:
    event = Event(np.array([0.1, 0.2, 0.9]), np.array([1, 1, 0], np.int8))
    assert unbiased_square(event, equal_width(event, 2)) == pytest.approx(0.9 * 0.8)
    with pytest.raises(TooFewRows):
        unbiased_square(event, equal_width(event, 10))


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_the_unbiased_square_of_calibrated_rows_is_0_on_average(weighted: bool) -> None:
    random = np.random.default_rng(11)
    estimates = np.empty((1500, 2))
    for i in range(len(estimates)):
        p = random.random(200)
        y = (random.random(200) < p).astype(np.int8)
        event = Event(p, y, random.integers(1, 3, 200).astype(float) if weighted else None, "importance")
        bins = equal_mass(event.cells, 3)  # predictions that differ within a bin
        estimates[i] = unbiased_square(event, bins), expected_calibration_error(bins, 2)[1]
    mean, error = estimates.mean(axis=0), estimates.std(axis=0) / len(estimates) ** 0.5
    assert abs(mean[0]) < 2.0 * error[0]
    assert mean[1] < -3.0 * error[1]
    assert (estimates[:, 0] < 0.0).any()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("squared-ece", {"n_bins": 2}, (0.2**2 + 0.4**2) / 2),
        ("mce", {"n_bins": 2}, 0.4),
        ("rmsce", {"n_bins": 2}, ((0.2**2 + 0.4**2) / 2) ** 0.5),
        ("tce", {"n_bins": 2, "p": 3}, ((0.2**3 + 0.4**3) / 2) ** (1 / 3)),
        ("tce", {"n_bins": 2, "p": 1.0}, 0.3),
        ("cwce", {"n_bins": 2}, (0.2**2 + 0.4**2) / 2),
        ("ece", {"n_bins": 2, "norm": "max"}, 0.4),
        ("tace", {"n_bins": 2, "threshold": 0.5}, 0.4),
        ("ace", {"n_bins": 2}, 0.3),
        ("sce", {"n_bins": 2}, 0.3),
    ],
)
def test_norms_and_roots_are_those_of_their_papers(name: str, options: dict[str, Any], expected: float) -> None:
    p, y = np.array([0.2, 0.2, 0.6, 0.6]), np.array([0, 0, 1, 1])
    report = calibrant.evaluate(p, y, measures=[{"name": name, **options}])
    assert report.measures[name].value == pytest.approx(expected)


def test_class_wise_errors_sum_or_average_before_the_root() -> None:
    P, y = np.array([[0.8, 0.2], [0.8, 0.2], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 0, 1, 1])
    mean = (0.2**2 + 0.4**2) / 2
    requests = [{"name": "cwce", "n_bins": 2}, {"name": "cwce", "n_bins": 2, "form": "mean", "as": "mean"}]
    report = calibrant.evaluate(P, y, measures=requests, reduction="classwise").measures
    assert report["cwce"].value == pytest.approx((2 * mean) ** 0.5)
    assert report["mean"].value == pytest.approx(mean**0.5)
    assert report["cwce"].parts["classes"] == pytest.approx([mean, mean])


def test_a_threshold_that_no_row_passes_leaves_the_class_out() -> None:
    P, y = np.array([[0.0, 0.4, 0.6], [0.0, 0.7, 0.3]]), np.array([2, 1])
    measure = calibrant.evaluate(P, y, measures=["tace"], reduction="classwise").measures["tace"]
    assert measure.parts["classes"][0] is None
    assert measure.value == pytest.approx(np.mean(measure.parts["classes"][1:]))
    assert "class" in (measure.problem or "")


def test_theorem_2_the_error_is_the_distance_to_the_unit_slope_fit() -> None:
    """Kangsepp et al. (2022), Theorem 2: the ECE is the mean |c(p) - p| of the roof c(p) = p + ybar - pbar."""
    random = np.random.default_rng(6)
    event = Event(random.random(500), random.integers(0, 2, 500).astype(np.int8))
    bins = equal_mass(event.cells, 12)
    roof = event.p + (bins.mean_y - bins.mean_p)[bins.index(event.p)]
    assert np.abs(roof - event.p).mean() == pytest.approx(expected_calibration_error(bins, 1)[0])


def test_a_deviation_too_small_to_divide_by_overflows_nothing() -> None:
    mean, deviation = np.array([0.5, -0.5, 1e-300]), np.array([1e-300, 1e-160, 1e-308])
    np.testing.assert_allclose(folded_normal_mean(mean, deviation), np.abs(mean))
    np.testing.assert_allclose(folded_normal_mean(np.array([0.39]), np.array([0.01])), 0.39, rtol=1e-12)


def test_rows_above_the_threshold_that_have_no_weight_are_no_rows() -> None:
    request = [{"name": "tace", "threshold": 0.5}]
    measure = calibrant.evaluate([0.9, 0.8, 0.1], [1, 0, 0], weights=[0, 0, 1], measures=request).measures["tace"]
    assert measure.value is None
    assert measure.problem is not None
    assert "above the threshold" in measure.problem
    probs, labels = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]], [0, 1, 2]
    weighted = calibrant.evaluate(probs, labels, weights=[1, 1, 0], measures=request, reduction="classwise")
    assert weighted.measures["tace"].value == pytest.approx(0.15)
