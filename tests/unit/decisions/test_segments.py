"""Tests of the search for segments."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.core.features import Feature, Features, read_features
from calibrant.core.reductions import Event
from calibrant.decisions.segments import Condition, SegmentOptions, search
from tests.refusals import refused_at


def _rows(n: int = 4000, seed: int = 0) -> tuple[np.ndarray[Any, Any], dict[str, Any], np.random.Generator]:
    random = np.random.default_rng(seed)
    features = {
        "site": random.choice(list("abcd"), n),
        "age": random.uniform(20.0, 80.0, n),
        "visits": random.integers(0, 3, n),
    }
    return random.uniform(0.1, 0.6, n), features, random


def _names(searched: calibrant.SegmentSearch) -> list[str]:
    return [str(segment) for segment in searched.segments]


def test_a_category_with_a_gap_is_found_alone() -> None:
    p, features, random = _rows()
    inside = features["site"] == "b"
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.2 * inside, features)
    assert _names(segments) == ["site = b"]
    segment = segments.segments[0]
    assert (segment.n, segment.share) == (inside.sum(), inside.mean())
    assert segment.mean_prediction == pytest.approx(p[inside].mean())
    assert segment.gap == pytest.approx(segment.mean_label - segment.mean_prediction)
    assert segment.interval[0] < 0.2 < segment.interval[1]
    assert segment.p_value < 1e-6
    assert segments.significant > 1  # its parts too


def test_a_range_of_a_number_is_found_with_its_ends() -> None:
    p, features, random = _rows()
    inside = (features["age"] > 38.0) & (features["age"] <= 56.0)
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.2 * inside, features)
    (condition,) = segments.segments[0].conditions
    assert condition.feature == "age"
    assert [condition.above, condition.up_to] == pytest.approx([38.0, 56.0], abs=1.0)


def test_a_pair_is_found_if_neither_of_its_features_has_a_gap() -> None:
    p, features, random = _rows()
    gap = np.where((features["site"] == "a") == (features["visits"] == 1), 0.1, -0.1)
    segments = calibrant.find_segments(p, random.random(4000) < p + gap, features, max_order=2)
    assert "site = a and 0 < visits <= 1" in _names(segments)


def test_a_range_of_the_prediction_is_found() -> None:
    p, features, random = _rows()
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.3 * (p > 0.5), features)
    assert segments.segments[0].conditions[0].feature is None
    assert _names(segments)[0].startswith("prediction > 0.")


@pytest.mark.parametrize("many", [False, True])
def test_rare_low_values_are_found_as_rare_high_values_are(many: bool) -> None:
    p, _, random = _rows()
    rare = random.random(4000) < 0.05
    usual = np.where(random.random(4000) < 0.01, random.integers(2, 40, 4000), 1) if many else np.ones(4000)
    y = random.random(4000) < p + 0.3 * rare
    low = calibrant.find_segments(p, y, {"x": np.where(rare, 0.0, usual)}, max_order=1)
    high = calibrant.find_segments(p, y, {"x": np.where(rare, 0.0, -usual)}, max_order=1)
    assert (_names(low), _names(high)) == (["x <= 0"], ["x > -1"])
    assert low.segments[0].n == high.segments[0].n == rare.sum()


def test_missing_values_are_a_segment() -> None:
    p, features, random = _rows()
    unknown = random.random(4000) < 0.1
    features["age"][unknown] = np.nan
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.3 * unknown, features)
    assert segments.segments[0].conditions == (Condition("age"),)
    assert _names(segments)[0] == "age missing"


def test_the_known_rows_of_a_feature_with_one_value_are_not_called_missing() -> None:
    p, _, random = _rows()
    known = random.random(4000) < 0.5
    features = {"x": np.where(known, 1.0, np.nan)}
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.3 * known, features, max_order=1)
    assert _names(segments) == ["x <= 1"]
    assert segments.segments[0].conditions == (Condition("x", up_to=1.0),)
    assert segments.segments[0].n == known.sum()


def test_a_gap_of_all_rows_is_one_segment_and_does_not_hide_a_larger_one() -> None:
    p, features, random = _rows()
    y = random.random(4000) < p + 0.1 + 0.2 * (features["site"] == "c")
    names = _names(calibrant.find_segments(p, y, features))
    assert names[0] == "all rows" or names[0] == "site = c"
    assert set(names[:2]) == {"all rows", "site = c"}


def test_calibrated_predictions_have_no_segment() -> None:
    p, features, random = _rows()
    segments = calibrant.find_segments(p, random.random(4000) < p, features)
    assert (segments.segments, segments.significant) == ((), 0)
    assert segments.p_value > 0.05
    assert "No gap is significant" in repr(segments)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 20.0)])
def test_a_segment_is_found_in_at_most_5_percent_of_calibrated_samples(a: float, b: float) -> None:
    random = np.random.default_rng(3)
    errors = 0
    for run in range(60):
        p = random.beta(a, b, 400)
        features = read_features({"site": random.integers(0, 4, 400), "age": random.normal(size=400)})
        event = Event(p, (random.random(400) < p).astype(np.int8))
        errors += search(event, features, SegmentOptions.read(min_rows=20, seed=run)).significant > 0
    assert errors <= 8  # 3 are expected; more than 8 in 4 of 1,000 cases


def test_a_confidence_beyond_the_draws_is_that_of_bonferroni() -> None:
    p, features, random = _rows(1000)
    y = random.random(1000) < p
    segments = calibrant.find_segments(p, y, features, confidence=0.99999)
    assert segments.critical == pytest.approx(norm.isf(1e-5 / (2 * segments.tested)))


@pytest.mark.slow
def test_intervals_contain_the_gaps_of_all_segments_together() -> None:
    random = np.random.default_rng(4)
    lost = 0
    for _ in range(50):
        n = 2000
        p, site = random.uniform(0.02, 0.6, n), random.integers(0, 5, n)
        gap = np.array([0.3, 0.25, -0.02, 0.2, 0.35])[site]
        y = (random.random(n) < p + gap).astype(np.int8)
        features = Features((Feature("site", codes=site.astype(np.int32), categories=tuple("abcde")),))
        segments = search(Event(p, y), features, SegmentOptions.read(max_order=1))
        for segment in segments.segments:
            condition = segment.conditions[0] if segment.conditions else Condition("all")
            if condition.category is not None:
                true = float(gap[site == "abcde".index(condition.category)].mean())
                lost += not segment.interval[0] <= true <= segment.interval[1]
    assert lost <= 6


def test_segments_found_in_some_rows_are_tested_on_the_others() -> None:
    p, features, random = _rows()
    y = random.random(4000) < p + 0.3 * (features["site"] == "b")
    segments = calibrant.find_segments(p, y, features, held_out=0.5)
    assert _names(segments)[0] == "site = b"
    assert segments.held_out == 0.5
    assert segments.segments[0].n < 0.6 * (features["site"] == "b").sum()
    assert segments.segments[0].share == pytest.approx((features["site"] == "b").mean(), abs=0.03)
    assert _names(calibrant.find_segments(p, random.random(4000) < p, features, held_out=0.5)) == []


def test_a_segment_with_few_rows_held_out_is_not_tested() -> None:
    p, features, random = _rows()
    y = random.random(4000) < p + 0.3 * (features["site"] == "b")
    segments = calibrant.find_segments(p, y, features, held_out=0.5, min_rows=800, max_order=1)
    assert "site = b" not in _names(segments)
    assert all(segment.n >= 800 for segment in segments.segments)
    assert any(note.startswith("not tested: 1 segment with fewer than 800 rows") for note in segments.notes)


def test_a_frequency_weight_is_so_many_rows() -> None:
    p, features, random = _rows(1000)
    y = random.random(1000) < p + 0.3 * (features["site"] == "b")
    frame = pd.DataFrame(features)
    times = random.integers(1, 4, 1000)
    counted = calibrant.find_segments(p, y, frame, weights=times, weights_kind="frequency", max_order=1, min_rows=50)
    repeated = calibrant.find_segments(
        p.repeat(times),
        y.repeat(times),
        frame.loc[frame.index.repeat(times)].reset_index(drop=True),
        max_order=1,
        min_rows=50,
    )
    ours, theirs = counted.segments[0], repeated.segments[0]
    assert (str(ours), ours.n) == (str(theirs), theirs.n)
    assert ours.gap == pytest.approx(theirs.gap)


def test_a_table_of_counts_has_the_bins_and_categories_of_its_rows() -> None:
    random = np.random.default_rng(1)
    region, age = random.choice(["north", "south", "east"], 6000), np.floor(random.gamma(2.0, 10.0, 6000))
    p = random.choice([0.1, 0.3], 6000)
    y = random.random(6000) < np.where(region == "east", 1.6 * p, p)
    rows = pd.DataFrame({"region": region, "age": age, "p": p, "y": y})
    table = rows.value_counts().reset_index(name="n")
    single = calibrant.find_segments(p, y, rows[["region", "age"]], max_order=1)
    counted = calibrant.find_segments(
        table["p"], table["y"], table[["region", "age"]], weights=table["n"], weights_kind="frequency", max_order=1
    )
    assert (counted.tested, counted.notes) == (single.tested, single.notes)
    assert [segment.conditions for segment in counted.segments] == [segment.conditions for segment in single.segments]
    assert [c.category for c in counted.segments[0].conditions] == ["east"]


def test_rows_of_weight_0_do_not_count_and_equal_weights_change_nothing() -> None:
    p, features, random = _rows(2000)
    y = random.random(2000) < p + 0.3 * (features["site"] == "b")
    plain = calibrant.find_segments(p[:1000], y[:1000], {k: v[:1000] for k, v in features.items()})
    weights = np.repeat([1.0, 0.0], 1000)
    assert calibrant.find_segments(p, y, features, weights=weights).to_dict() == plain.to_dict()


def test_the_order_of_rows_does_not_matter() -> None:
    p, features, random = _rows(1500)
    y = random.random(1500) < p + 0.3 * (features["site"] == "b")
    order = random.permutation(1500)
    mixed = calibrant.find_segments(p[order], y[order], {k: v[order] for k, v in features.items()})
    plain = calibrant.find_segments(p, y, features)
    assert _names(mixed) == _names(plain)
    assert mixed.critical == pytest.approx(plain.critical, rel=1e-6)


def test_constant_features_and_rare_categories_are_left_out_with_a_note() -> None:
    p, features, random = _rows(1000)
    features |= {"same": ["x"] * 1000, "number": np.ones(1000), "none": [None] * 1000}
    features["id"] = [f"user {i}" for i in range(1000)]
    segments = calibrant.find_segments(p, random.random(1000) < p, features)
    for name in ("same", "number", "none"):
        assert f"{name} is left out: it is constant" in segments.notes
    assert any(note.startswith("id: 1,000 categories") for note in segments.notes)


def test_thousands_of_categories_are_searched_by_their_frequent_ones() -> None:
    random = np.random.default_rng(5)
    n = 20_000
    city = np.where(random.random(n) < 0.05, 0, random.integers(1, 5000, n)).astype(np.int32)
    p = random.uniform(0.1, 0.5, n)
    y = (random.random(n) < p + 0.2 * (city == 0)).astype(np.int8)
    features = Features((Feature("city", codes=city, categories=tuple(f"c{i}" for i in range(5000))),))
    assert _names(search(Event(p, y), features, SegmentOptions()))[0] == "city = c0"


@pytest.mark.slow
def test_the_memory_of_a_search_does_not_grow_with_segments_that_have_no_rows() -> None:
    random, n = np.random.default_rng(8), 4000
    p = random.random(n)
    codes = [random.permutation(np.arange(n) % 100).astype(np.int32) for _ in range(2)]
    names = tuple(f"c{i}" for i in range(100))
    features = Features(tuple(Feature(f"f{i}", codes=code, categories=names) for i, code in enumerate(codes)))
    event = Event(p, (random.random(n) < p).astype(np.int8))
    tracemalloc.start()
    try:
        search(event, features, SegmentOptions.read(max_order=3, n_bins=100, min_rows=40))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e8  # 100 x 100 x 5,049 spans have 8e8 bytes


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_searched_too(label: int) -> None:
    p, features, _ = _rows(500)
    segments = calibrant.find_segments(p, np.full(500, label), features)
    assert _names(segments)[0] == "all rows"
    segment = segments.segments[0]
    assert segment.mean_label == pytest.approx(label)
    assert -1.0 <= segment.interval[0] <= segment.gap <= segment.interval[1] <= 1.0


def test_certain_predictions_that_are_wrong_are_found() -> None:
    p = np.repeat([0.0, 0.5], 200)
    y = np.append(np.zeros(200), np.tile([0, 1], 100))
    y[0] = 1
    segments = calibrant.find_segments(p, y, {"site": ["a"] * 200 + ["b"] * 200})
    assert _names(segments) == ["site = a"]
    assert segments.segments[0].p_value == 0.0
    assert json.loads(json.dumps(segments.to_dict())) == segments.to_dict()


def test_few_rows_are_refused_with_the_number_that_is_needed() -> None:
    p, features, random = _rows(49)
    with pytest.raises(CalibrationError, match="50") as caught:
        calibrant.find_segments(p, random.random(49) < p, features)
    assert caught.value.code == "too-few-rows"
    assert calibrant.find_segments(p, random.random(49) < p, features, min_rows=10).tested > 1


def test_multiclass_predictions_need_one_event() -> None:
    random = np.random.default_rng(6)
    p = random.dirichlet(np.ones(3), 300)
    y = np.array([random.choice(3, p=row) for row in p])
    site = {"site": random.choice(list("ab"), 300)}
    assert calibrant.find_segments(p, y, site).n == 300
    assert calibrant.find_segments(p, y, site, reduction="class:1").n == 300
    with pytest.raises(CalibrationError) as caught:
        calibrant.find_segments(p, y, site, reduction="canonical")
    assert caught.value.code == "unknown-reduction"


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"max_order": 4}, "invalid-option", "/max_order"),
        ({"max_order": True}, "invalid-option", "/max_order"),
        ({"n_bins": 1}, "invalid-option", "/n_bins"),
        ({"min_rows": 9}, "invalid-option", "/min_rows"),
        ({"min_rows": "many"}, "invalid-option", "/min_rows"),
        ({"n_segments": 0}, "invalid-option", "/n_segments"),
        ({"confidence": 1.0}, "invalid-option", "/confidence"),
        ({"held_out": 0.0}, "invalid-option", "/held_out"),
        ({"seed": 1.5}, "invalid-option", "/seed"),
        ({"features": {"site": [1, 2]}}, "length-mismatch", "/features/site"),
        ({"features": {"site": ["a", 1] * 50}}, "not-a-number", "/features/site/1"),
        ({"features": {"when": np.zeros(100, "M8[D]")}}, "not-a-number", "/features/when"),
        ({"features": {}}, "invalid-option", "/features"),
        ({"features": [1, 2]}, "wrong-shape", "/features"),
    ],
)
def test_bad_arguments_are_refused_with_their_place(changes: dict[str, Any], code: str, pointer: str) -> None:
    p, _, random = _rows(100)
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.find_segments(p, random.random(100) < p, **{"features": {"site": ["a"] * 100}} | changes)


def test_too_many_segments_are_refused() -> None:
    random = np.random.default_rng(7)
    p = random.random(3000)
    features = {f"f{i}": random.normal(size=3000) for i in range(40)}
    with refused_at("/min_rows", CalibrationError, code="invalid-option"):
        calibrant.find_segments(p, random.random(3000) < p, features, max_order=3, n_bins=5, min_rows=10)


def test_the_result_is_a_table_a_frame_and_a_picture() -> None:
    p, features, random = _rows()
    segments = calibrant.find_segments(p, random.random(4000) < p + 0.2 * (features["site"] == "b"), features)
    assert "site = b" in repr(segments)
    frame = segments.to_frame()
    assert list(frame["segment"]) == ["site = b"]
    axes = segments.plot()
    assert axes.get_yticklabels()[0].get_text().startswith("site = b")
    assert segments._repr_html_().startswith("<table>")


@pytest.mark.slow
def test_sums_of_many_combinations_are_not_in_memory_at_once() -> None:
    random = np.random.default_rng(0)
    p = random.uniform(0.05, 0.95, 60_000)
    features = {"c": (np.arange(60_000) % 256).astype(str), "x": random.random(60_000)}
    tracemalloc.start()
    try:
        segments = calibrant.find_segments(p, random.random(60_000) < p, features, n_bins=100, min_rows=232)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert segments.tested > 256
    assert peak < 250e6  # all cells of the pair by 1,024 groups of rows would be 210 MB, in several copies
