"""Tests of the multicalibration error against MCGrad, and of its p-value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.core.features import read_features
from calibrant.core.reductions import Event
from calibrant.measures.intervals import Resampling
from calibrant.measures.multicalibration import error_of
from tests.known import known
from tests.refusals import refused_at
from tests.rows import draw_event

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[2] / "golden" / "multicalibration.json").read_text())
#: Options of MCGrad by their names here.
OPTIONS = {
    "max_depth": "max_depth",
    "max_values_per_segment_feature": "max_values",
    "min_samples_per_segment": "min_rows",
    "max_n_segments": "n_segments",
}


def _of_golden(case: dict[str, Any], **options: Any) -> calibrant.Multicalibration:
    options_of_case = {OPTIONS[name]: choice for name, choice in case["options"].items()} | options
    weights = GOLDEN["weights"] if case["weighted"] else None
    rows = GOLDEN["predictions"], GOLDEN["labels"], GOLDEN["features"]
    return calibrant.multicalibration_error(*rows, weights=weights, **{"resamples": None} | options_of_case)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: str(case["options"]))
@pytest.mark.parametrize("ties", ["rows", "merged"])
def test_every_value_agrees_with_mcgrad(case: dict[str, Any], ties: str) -> None:
    error = _of_golden(case, ties=ties)
    assert error.value == pytest.approx(case["mce_sigma"], rel=1e-12)
    assert error.absolute == pytest.approx(case["mce"], rel=1e-12)
    assert error.relative == pytest.approx(case["mce_relative"], rel=1e-12)
    assert error.uncorrected_p_value == pytest.approx(case["mce_pvalue"], abs=1e-12)
    assert error.all_rows == pytest.approx(case["global_ecce_sigma"], rel=1e-12)
    assert error.detectable == pytest.approx(case["mde"], rel=1e-12)
    assert error.n_segments == case["n_segments"]


def test_the_uncorrected_p_value_ignores_that_the_segment_is_the_worst_of_many() -> None:
    error = _of_golden(GOLDEN["cases"][0], resamples=200)
    assert error.uncorrected_p_value < 0.06 < 0.5 < known(error.p_value)


@pytest.mark.slow
def test_the_p_value_is_at_most_5_percent_in_5_percent_of_calibrated_samples() -> None:
    random = np.random.default_rng(0)
    rejected = uncorrected = 0
    for run in range(120):
        p, y = draw_event(120, random, dtype=np.int8)
        features = read_features({"site": random.integers(0, 4, 120), "age": random.normal(size=120)})
        error = error_of(Event(p, y), features, resampling=Resampling(resamples=100, seed=run))
        rejected += known(error.p_value) <= 0.05
        uncorrected += error.uncorrected_p_value <= 0.05
    assert rejected <= 13  # 6 are expected; more than 13 in 4 of 1,000 cases
    assert uncorrected >= 24


def test_the_order_of_rows_does_not_matter_if_ties_are_merged() -> None:
    random = np.random.default_rng(1)
    p, y = draw_event(400, random)
    p, site = np.round(p, 1), random.choice(list("ab"), 400)
    order = random.permutation(400)
    first, other = (
        calibrant.multicalibration_error(p[i], y[i], {"site": site[i]}, resamples=None) for i in (np.arange(400), order)
    )
    assert first.value == pytest.approx(other.value)
    by_rows = calibrant.multicalibration_error(p, y, {"site": site}, resamples=None, ties="rows")
    assert (by_rows.value or 0.0) > (first.value or 0.0) > 0.0


def test_a_frequency_weight_is_so_many_rows() -> None:
    random = np.random.default_rng(2)
    p, y = draw_event(100, random)
    site, times = random.choice(list("ab"), 100), random.integers(1, 4, 100)
    counted = calibrant.multicalibration_error(
        p, y, {"site": site}, weights=times, weights_kind="frequency", resamples=100
    )
    repeated = calibrant.multicalibration_error(
        p.repeat(times), y.repeat(times), {"site": site.repeat(times)}, resamples=None
    )
    assert counted.value == pytest.approx(repeated.value)


def test_a_table_of_counts_has_the_bins_and_categories_of_its_rows() -> None:
    random = np.random.default_rng(1)
    site, age = (
        random.choice(list("abcdefgh"), 500, p=[0.02, 0.03, 0.05, 0.1, 0.1, 0.2, 0.2, 0.3]),
        random.gamma(2.0, size=500),
    )
    p, y, times = random.integers(1, 10, 500) / 10, random.integers(0, 2, 500), random.integers(0, 9, 500)
    copies = np.repeat(np.arange(500), times)
    rows = {"site": site[copies], "age": age[copies]}
    counted = calibrant.multicalibration_error(
        p, y, {"site": site, "age": age}, weights=times, weights_kind="frequency", resamples=None
    )
    repeated = calibrant.multicalibration_error(p[copies], y[copies], rows, resamples=None)
    assert counted.segment == repeated.segment
    assert counted.n_segments == repeated.n_segments
    assert counted.value == pytest.approx(repeated.value, rel=1e-12)


def test_missing_values_are_a_value_and_rare_categories_are_merged() -> None:
    site = ["a"] * 40 + ["b"] * 30 + ["c"] * 20 + ["d"] * 10
    y = [0, 1] * 45 + [1] * 10
    error = calibrant.multicalibration_error([0.5] * 100, y, {"site": site}, resamples=None)
    assert (error.segment, error.n_segments) == ({"site": "(other)"}, 4)
    age = [1.0] * 50 + [None] * 50
    error = calibrant.multicalibration_error([0.5] * 100, y, {"age": age}, resamples=None)
    assert (error.segment, error.n_segments) == ({"age": "(missing)"}, 3)


def test_features_with_more_combinations_of_values_than_any_array_has_cells_are_measured() -> None:
    pair = np.arange(1000) // 2
    features = {f"f{i}": pair + i for i in range(7)}
    y = np.where(pair == 321, 1, np.arange(1000) % 2)
    event = Event(np.full(1000, 0.5), y.astype(np.int8))
    error = error_of(event, read_features(features), max_depth=7, max_values=1000, min_rows=2, n_segments=100_000)
    assert error.n_segments == 1 + (2**7 - 1) * 500
    assert error.segment == {"f0": "321"}


def test_certain_predictions_that_are_wrong_have_no_value_but_a_small_p_value() -> None:
    p, y = [1.0] * 20 + [0.5] * 20, [1] * 19 + [0] + [0, 1] * 10
    error = calibrant.multicalibration_error(p, y, {"site": ["a"] * 20 + ["b"] * 20}, resamples=100)
    assert (error.value, error.absolute, error.uncorrected_p_value) == (None, None, 0.0)
    assert error.p_value == pytest.approx(1 / 101)
    assert json.loads(json.dumps(error.to_dict())) == error.to_dict()


def test_one_class_has_no_relative_error() -> None:
    error = calibrant.multicalibration_error([0.2] * 20, [0] * 20, {"site": ["a"] * 20}, resamples=None)
    assert error.relative is None
    assert error.value == pytest.approx(20 * 0.2 / np.sqrt(20 * 0.16))


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"max_depth": -1}, "invalid-option", "/max_depth"),
        ({"max_values": 0}, "invalid-option", "/max_values"),
        ({"min_rows": 101}, "invalid-option", "/min_rows"),
        ({"min_rows": 0}, "invalid-option", "/min_rows"),
        ({"n_segments": 2.5}, "invalid-option", "/n_segments"),
        ({"ties": "random"}, "invalid-option", "/ties"),
        ({"resamples": 10}, "invalid-option", "/resamples"),
        ({"seed": -1}, "invalid-option", "/seed"),
        ({"features": {"site": [1, 2]}}, "length-mismatch", "/features/site"),
        ({"features": {"site": [object()] * 100}}, "not-a-number", "/features/site/0"),
        ({"features": None}, "wrong-shape", "/features"),
    ],
)
def test_bad_arguments_are_refused_with_their_place(changes: dict[str, Any], code: str, pointer: str) -> None:
    p, y = draw_event(100)
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.multicalibration_error(p, y, **{"features": {"site": ["a"] * 100}} | changes)


def test_the_result_is_a_table_and_a_frame() -> None:
    error = _of_golden(GOLDEN["cases"][2])
    assert "Multicalibration error over 17 segments\nsegment" in repr(error)
    assert list(error.to_frame()["segment"]) == ["country: US"]
