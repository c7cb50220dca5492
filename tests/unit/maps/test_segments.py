"""Tests of maps that are calibrated within segments of features."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.core.errors import CalibrationError, InvalidDocument
from calibrant.core.features import Feature
from calibrant.maps.segment_search import read_feature as read_segment_feature
from tests.refusals import refused_at

N = 4000


def _rows(n: int = N, seed: int = 0) -> tuple[Any, Any, dict[str, Any], Any]:
    """Predictions, labels, features, and true probabilities: countries, a pair, an age and a slope are ignored."""
    random = np.random.default_rng(seed)
    country, size = random.choice(["DE", "FR", "US"], n), random.choice(["S", "L"], n)
    age, z = random.gamma(4.0, 10.0, n), random.normal(-0.5, 1.2, n)
    f = z * (1.0 - 0.5 * (country == "US")) + (country == "FR") * (size == "S") + 0.7 * np.tanh((age - 40.0) / 15.0)
    return expit(z), (random.random(n) < expit(f)).astype(int), {"country": country, "size": size, "age": age}, expit(f)


def _excess(truth: Any, q: Any) -> Any:
    return truth * np.log(truth / q) + (1.0 - truth) * np.log((1.0 - truth) / (1.0 - q))


@pytest.fixture(scope="module")
def fitted() -> calibrant.CalibrationMap:
    p, y, features, _ = _rows()
    return calibrant.fit("segments", p, y, features=features)


def test_predictions_are_calibrated_within_every_segment(fitted: calibrant.CalibrationMap) -> None:
    p, _, features, truth = _rows(20_000, seed=1)
    excess = _excess(truth, fitted.apply(p, features=features))
    assert excess.mean() < 0.004 < 0.04 < _excess(truth, p).mean()
    for country in ("DE", "FR", "US"):
        for size in ("S", "L"):
            rows = (features["country"] == country) & (features["size"] == size)
            assert excess[rows].mean() < 0.008


def test_terms_and_the_gain_are_in_the_diagnostics(fitted: calibrant.CalibrationMap) -> None:
    named = [set(term["features"]) for term in fitted.diagnostics["terms"]]
    assert {"country", "size"} in named
    assert fitted.diagnostics["held_out_gain"]["log_loss"] > 0.03


def test_the_definition_names_the_number_of_rows_from_which_no_fold_refuses_the_terms() -> None:
    assert "at most 30,000 rows" in calibrant.METHODS["segments"].definition


@pytest.mark.parametrize("n", [60, 500])
def test_calibrated_predictions_stay_as_they_are(n: int) -> None:
    random = np.random.default_rng(0)
    z = random.normal(-1.0, 1.2, n)
    features = {"a": random.integers(0, 60, n).astype(str), "b": random.integers(0, 9, n).astype(str), "x": z**2}
    p = expit(z)
    fit = calibrant.fit("segments", p, (random.random(n) < p).astype(int), features=features)
    np.testing.assert_allclose(fit.apply(p, features=features), p, atol=1e-12)
    assert fit.diagnostics["terms"] == []


def test_a_map_without_terms_checks_and_counts_its_features_and_keeps_predictions_of_0_and_1() -> None:
    random = np.random.default_rng(0)
    p, features = random.uniform(0.0, 1.0, 300), {"a": ["x", "y", "z"] * 100, "b": random.normal(size=300)}
    p[:2] = 0.0, 1.0
    fit = calibrant.fit("segments", p, (random.random(300) < p).astype(int), features=features)
    assert fit.diagnostics["terms"] == []
    assert "leaves the predictions as they are" in fit.diagnostics["warning"]
    assert calibrant.load(json.loads(json.dumps(fit.to_document()))) == fit
    applied = fit.apply([0.0, 0.3, 1.0], features={"a": list("xyz"), "b": [0.0] * 3})
    np.testing.assert_allclose(applied, [0.0, 0.3, 1.0], rtol=0, atol=1e-12)
    assert fit.fallbacks({"a": ["w", None], "b": [0.0, 0.0]})["rows"] == 2
    for other in (None, {"a": ["x"]}, {"a": ["x"], "b": [0.0], "c": ["x"]}):
        with refused_at("/features", CalibrationError, below=True):
            fit.apply([0.3], features=other)


def test_logits_and_probabilities_give_the_same_map() -> None:
    p, y, features, _ = _rows(1000)
    first = calibrant.fit("segments", p, y, features=features).apply(p, features=features)
    other = calibrant.fit("segments", logit(p), y, features=features, scale="logit")
    np.testing.assert_allclose(other.apply(logit(p), features=features), first, atol=1e-9)


def test_rows_of_weight_0_do_not_matter() -> None:
    p, y, features, _ = _rows(1500)
    weighted = np.arange(1500) < 1200
    few = {name: column[weighted] for name, column in features.items()}
    first = calibrant.fit("segments", p, y, features=features, weights=weighted.astype(float))
    other = calibrant.fit("segments", p[weighted], y[weighted], features=few)
    np.testing.assert_allclose(first.apply(p, features=features), other.apply(p, features=features), atol=1e-12)


def test_an_event_of_several_classes_has_segments() -> None:
    p, y, features, _ = _rows(1000)
    P = np.column_stack([0.5 * (1.0 - p), p, 0.5 * (1.0 - p)])
    labels = np.where(y == 1, 1, np.arange(len(y)) % 2 * 2)
    fit = calibrant.fit("segments", P, labels, features=features, reduction="class:1")
    assert fit.apply(P, features=features).shape == (1000,)
    for reduction in ("canonical", "classwise", "top-label"):
        with pytest.raises(CalibrationError, match="one event") as caught:
            calibrant.fit("segments", P, labels, features=features, reduction=reduction)
        assert caught.value.code == "unknown-reduction"


def test_missing_values_are_a_segment_of_their_own() -> None:
    p, y, features, _ = _rows()
    gone = np.random.default_rng(2).random(N) < 0.2
    y = np.where(gone, 1, y)
    features = {**features, "age": np.where(gone, np.nan, features["age"])}
    q = calibrant.fit("segments", p, y, features=features).apply(p, features=features)
    assert q[gone].mean() > 0.9


def test_fallbacks_are_counted(fitted: calibrant.CalibrationMap) -> None:
    features = {"country": ["XX", "DE", None, "US"], "size": ["S", "S", "L", "L"], "age": [30.0, None, 40.0, 1e9]}
    assert fitted.fallbacks(features) == {
        "rows": 4,
        "features": {
            "country": {"missing": 1, "unseen": 1},
            "size": {"missing": 0, "unseen": 0},
            "age": {"missing": 1, "outside": 1},
        },
    }
    q = fitted.apply([0.3] * 4, features=features)
    assert np.isfinite(q).all()
    far = fitted.apply([0.3, 0.3], features={"country": ["US"] * 2, "size": ["L"] * 2, "age": [1e9, 1e5]})
    assert far[0] == far[1]


def test_numbers_are_outside_beyond_the_quantiles_at_1_and_99_percent_as_the_guide_says() -> None:
    p, y, features, _ = _rows(1000)
    fit = calibrant.fit("segments", p, y, features={"age": features["age"]})
    assert fit.fallbacks({"age": features["age"]})["features"]["age"] == {"missing": 0, "outside": 20}
    assert "quantiles at 1 % and 99 %" in str(calibrant.CalibrationMap.fallbacks.__doc__)


def test_numbers_that_most_rows_share_leave_bins_and_knots_for_the_others() -> None:
    random = np.random.default_rng(0)
    rare = random.lognormal(8.0, 1.0, 100)
    for common in ([0.0] * 1900, [0.0] * 1000 + [1.0] * 900, [1e6] * 1900):
        feature = read_segment_feature(Feature("money", numbers=np.array([*common, *rare])))
        assert feature.cuts is not None
        assert feature.knots is not None
        assert np.count_nonzero((feature.cuts > 1.0) & (feature.cuts < 1e6)) >= 5
        assert np.count_nonzero((feature.knots > 1.0) & (feature.knots < 1e6)) >= 5
        codes = np.searchsorted(feature.cuts, rare, side="right")
        assert np.bincount(codes).max() <= 25
    numbers = random.normal(size=2000)
    plain = read_segment_feature(Feature("x", numbers=numbers))
    np.testing.assert_array_equal(plain.cuts, np.quantile(numbers, np.arange(1, 8) / 8))


@pytest.mark.parametrize("shift", [0.0, -8.0, 8.0])
def test_predictions_that_are_wrong_by_orders_of_magnitude_are_calibrated(shift: float) -> None:
    random = np.random.default_rng(2)
    z, site = random.normal(-1.0, 1.0, 6000), random.choice(["a", "b"], 6000)
    truth = expit(z + 0.8 * (site == "a"))
    y = (random.random(6000) < truth).astype(int)
    wrong = expit(4.0 * z + shift)
    fitted = calibrant.fit("segments", wrong[:3000], y[:3000], features={"site": site[:3000]})
    excess = _excess(truth[3000:], fitted.apply(wrong[3000:], features={"site": site[3000:]}))
    assert excess.mean() < 0.01


def test_features_of_every_type_give_the_same_probabilities(fitted: calibrant.CalibrationMap) -> None:
    p, _, features, _ = _rows(50, seed=3)
    frame = pd.DataFrame({**features, "country": pd.Categorical(features["country"])})
    expected = fitted.apply(p, features=features)
    np.testing.assert_array_equal(fitted.apply(p, features=frame), expected)
    np.testing.assert_array_equal(fitted.apply(p, features=frame.to_dict("records")), expected)
    shuffled = {name: features[name] for name in ("age", "size", "country")}
    np.testing.assert_array_equal(fitted.apply(p, features=shuffled), expected)


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"features": None}, "invalid-option", "/features"),
        ({"features": {"a": ["x"] * 60}}, "invalid-option", "/features/a"),
        ({"features": {"a": [None] * 60}}, "invalid-option", "/features/a"),
        ({"features": {"a": ["x", "y"]}}, "length-mismatch", "/features/a"),
        ({"features": {"a": [object()] * 60}}, "not-a-number", "/features/a/0"),
        ({"features": {"a": [0.0, 1e299, -1.1e299] * 20}}, "out-of-range", "/features/a/2"),
        ({"labels": [0] * 60}, "one-class", "/labels"),
        ({"order": 4}, "invalid-option", "/order"),
        ({"method": "platt"}, "invalid-option", "/features"),
    ],
)
def test_bad_fits_are_refused_with_their_place(change: dict[str, Any], code: str, pointer: str) -> None:
    arguments: dict[str, Any] = {
        "method": "segments",
        "predictions": np.linspace(0.1, 0.9, 60),
        "labels": [0, 1] * 30,
        "features": {"a": ["x", "y", "z"] * 20},
        **change,
    }
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.fit(**arguments)


@pytest.mark.parametrize(
    ("used", "code", "pointer"),
    [(slice(0, 12), "too-few-rows", "/predictions"), (slice(30, None), "invalid-option", "/features/x")],
)
def test_rows_of_weight_0_do_not_count_in_the_checks_of_a_fit(used: slice, code: str, pointer: str) -> None:
    weights, x = np.zeros(90), np.arange(90.0)
    weights[used], x[30:] = 1.0, np.nan
    with refused_at(pointer, CalibrationError, code=code):
        calibrant.fit("segments", np.linspace(0.1, 0.9, 90), [0, 1] * 45, features={"x": x}, weights=weights)


def test_the_largest_numbers_of_a_fit_give_a_document_that_can_be_read() -> None:
    y, x = np.arange(400) % 2, np.where(np.arange(400) % 4 < 2, 1e299, np.nan)
    for numbers in (x, np.where(np.isnan(x), -1e299, x)):
        fit = calibrant.fit("segments", np.where(np.isnan(x), 0.2, 0.8), y, features={"x": numbers})
        assert calibrant.load(json.loads(json.dumps(fit.to_document()))) == fit


def test_a_feature_that_no_row_of_a_part_knows_is_read() -> None:
    read = read_segment_feature(Feature("x", numbers=np.full(3, np.nan)))
    assert read.codes(Feature("x", numbers=np.array([np.nan, -1.0, 7.0]))).tolist() == [1, 0, 0]


def test_fits_to_fewer_than_50_rows_are_refused() -> None:
    with pytest.raises(CalibrationError, match="at least 50") as caught:
        calibrant.fit("segments", [0.1, 0.6] * 20, [0, 1] * 20, features={"a": ["x", "y", "y", "x"] * 10})
    assert caught.value.code == "too-few-rows"


@pytest.mark.parametrize(
    ("features", "pointer"),
    [
        (None, "/features"),
        ({"country": ["DE"]}, "/features"),
        ({"country": ["DE"], "size": ["S"], "age": [1], "zip": ["1"]}, "/features/zip"),
        ({"country": ["DE"], "size": ["S"], "age": ["old"]}, "/features/age/0"),
        ({"country": ["DE"] * 2, "size": ["S"] * 2, "age": [1, 2]}, "/features/country"),
    ],
)
def test_features_that_do_not_fit_the_map_are_refused(
    fitted: calibrant.CalibrationMap, features: Any, pointer: str
) -> None:
    with refused_at(pointer, CalibrationError):
        fitted.apply([0.5], features=features)


def test_the_document_gives_the_same_map(fitted: calibrant.CalibrationMap) -> None:
    p, _, features, _ = _rows(100, seed=4)
    again = calibrant.load(json.loads(json.dumps(fitted.to_document())))
    assert again == fitted
    np.testing.assert_array_equal(again.apply(p, features=features), fitted.apply(p, features=features))


@pytest.mark.parametrize(
    ("path", "damage"),
    [
        (("clip",), 0.0),
        (("knots",), [1.0]),
        (("knots",), [1.0, 1.0]),
        (("features",), []),
        (("features",), [{"name": "a", "categories": ["x", "x"]}]),
        (("features", 0, "name"), ""),
        (("features", 0, "categories"), ["x", 3]),
        (("features", 0, "name"), "size"),
        (("features", 2, "cuts"), [3.0, 2.0]),
        (("features", 2, "knots"), [1.0, None]),
        (("terms",), None),
        (("terms", 0, "shape"), "spline"),
        (("terms", 0, "features"), [0, 0]),
        (("terms", 0, "features"), [9]),
        (("terms", 0, "along"), 0),
        (("terms", 0, "along"), True),
        (("terms", 0, "cells"), [[99]]),
        (("terms", 0, "cells"), [[-1]]),
        (("terms", 0, "values"), [1e9]),
        (("terms", 0, "values"), [float("nan")]),
        (("terms", 0, "values"), []),
    ],
)
def test_a_damaged_document_is_refused(fitted: calibrant.CalibrationMap, path: tuple[Any, ...], damage: Any) -> None:
    document = copy.deepcopy(fitted.to_document())
    part: Any = document["parameters"]
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = damage
    with refused_at("/parameters/", InvalidDocument, below=True):
        calibrant.load(document)


def test_predictions_of_0_and_1_that_were_wrong_become_probabilities_in_between() -> None:
    p, y, features, _ = _rows()
    p = np.where(np.arange(N) % 40 == 0, 0.0, np.where(np.arange(N) % 40 == 1, 1.0, p))
    q = calibrant.fit("segments", p, y, features=features).apply(p, features=features)
    assert 0.0 < q.min() < q.max() < 1.0
