"""Laws of predictions that are given as logits, at every size: probabilities would round them to 0 or 1."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

import calibrant
from calibrant.core.batch import log_odds, log_odds_within, read_batch
from calibrant.core.errors import CalibrationError
from calibrant.core.reductions import reduce
from calibrant.maps.curves import interpolate, interpolate_logits
from tests.drawn import examples

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

Array = npt.NDArray[np.float64]
Rows = tuple[Array, npt.NDArray[np.int64]]

#: Maps of an event that are monotone, and those of them that treat both signs alike.
MONOTONE = ["platt", "temperature", "beta", "affine", "isotonic", "centered-isotonic", "venn-abers", "scaling-binning"]
MIRRORED = ["platt", "temperature", "beta", "affine", "quadratic", "isotonic", "centered-isotonic", "venn-abers"]
#: Maps whose values at the rows of the fit depend only on the order of the predictions.
BY_RANK = [
    ("isotonic", {}),
    ("venn-abers", {}),
    ("histogram", {"n_bins": 4, "slope": "flat"}),
    ("es-sweep", {"slope": "flat"}),
]
REDUCTIONS = ["confidence", "class:1", "top:2", "within-top:2", "pooled"]
SIZES = [1.0, 30.0, 100.0, 700.0, 1e4]


@st.composite
def events(draw: st.DrawFn) -> Rows:
    """Logits of different sizes, all far from 0, and labels of both classes."""
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    n, size = draw(st.integers(8, 60)), draw(st.sampled_from(SIZES))
    z = size * random.choice([-2.0, -1.5, -1.0, -0.6, 0.6, 1.0, 1.5, 2.0], n)
    if draw(st.booleans()):
        z += size * 0.1 * random.random(n)
    y = (random.random(n) < expit(z / size)).astype(np.int64)
    y[:4] = [0, 1, 0, 1]
    z[:4] = size * np.array([-1.0, 1.0, 1.0, -1.0])
    return z, y


@st.composite
def vectors(draw: st.DrawFn) -> Rows:
    """Logits of four classes, and labels."""
    random = np.random.default_rng(draw(st.integers(0, 9999)))
    n, size = draw(st.integers(20, 60)), draw(st.sampled_from(SIZES))
    z = size * random.standard_normal((n, 4)).round(1)
    return z, np.append(np.arange(4), [random.choice(4, p=row) for row in softmax(z[4:] / size, axis=1)])


def _grid(z: Array) -> Array:
    ends = np.linspace(-2.5, 2.5, 41) * np.abs(z).max()
    return np.unique(np.concatenate([z, -z, ends, [-40.0, -37.5, 37.5, 40.0, 41.0]]))


def _fit(method: str, z: Array, y: Any, **options: Any) -> calibrant.CalibrationMap:
    try:
        return calibrant.fit(method, z, y, scale="logit", **options)
    except CalibrationError:
        assume(False)
        raise


@pytest.mark.slow
@pytest.mark.parametrize("method", MONOTONE)
@settings(max_examples=examples(8, 400))
@given(events())
def test_calibrated_probabilities_follow_the_order_of_the_logits(method: str, rows: Rows) -> None:
    z, y = rows
    fitted = _fit(method, z, y)
    q = fitted.apply(_grid(z))
    slope = fitted.to_document()["parameters"].get("slope", 1.0)
    assert (np.sign(slope) * np.diff(q) >= -1e-15).all()
    assert calibrant.load(json.loads(json.dumps(fitted.to_document()))).apply(_grid(z)).tolist() == q.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("method", MIRRORED)
@settings(max_examples=examples(8, 400))
@given(events())
def test_logits_of_both_signs_are_calibrated_alike(method: str, rows: Rows) -> None:
    z, y = rows
    grid = _grid(z)
    q, mirrored = _fit(method, z, y).apply(grid), _fit(method, -z, 1 - y).apply(-grid)
    np.testing.assert_allclose(q, 1.0 - mirrored, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize(("method", "options"), BY_RANK, ids=[method for method, _ in BY_RANK])
@settings(max_examples=examples(8, 400))
@given(events())
def test_a_map_of_ranks_depends_on_the_order_of_logits_alone(method: str, options: dict[str, Any], rows: Rows) -> None:
    z, y = rows
    small = z / np.abs(z).max()
    q, same = (_fit(method, x, y, **options).apply(x) for x in (z, small))
    np.testing.assert_allclose(q, same, rtol=0.0, atol=1e-12)


@settings(max_examples=examples(8, 400))
@given(events(), st.sampled_from([0.25, 8.0, 64.0]))
def test_the_temperature_is_proportional_to_the_logits(rows: Rows, factor: float) -> None:
    z, y = rows
    fits = [_fit("temperature", x, y) for x in (z, factor * z)]
    low, high = (fitted.to_document()["parameters"]["temperature"] for fitted in fits)
    assert high == pytest.approx(factor * low, rel=1e-6)
    np.testing.assert_allclose(fits[0].apply(z), expit(z / low), rtol=1e-9)


@settings(max_examples=examples(12, 600))
@given(events())
def test_measures_of_ranks_depend_on_the_order_of_logits_alone(rows: Rows) -> None:
    z, y = rows
    small = z / np.abs(z).max()
    measures = ["auroc", "accuracy"]
    reports = [calibrant.evaluate(x, y, scale="logit", measures=measures).measures for x in (z, small)]
    assert [reports[0][name].value for name in measures] == pytest.approx([reports[1][name].value for name in measures])
    costs = [
        calibrant.evaluate(x, labels, scale="logit", measures=["selective-cost"]).measures["selective-cost"].value
        for x, labels in ((z, y), (small, y), (-z, 1 - y))
    ]
    assert costs == pytest.approx([costs[0]] * 3)


@settings(max_examples=examples(12, 600))
@given(events())
def test_measures_treat_logits_of_both_signs_alike(rows: Rows) -> None:
    z, y = rows
    names = ["auroc", "log-loss", "brier"]
    given_, flipped = (
        calibrant.evaluate(x, labels, scale="logit", measures=names).measures for x, labels in ((z, y), (-z, 1 - y))
    )
    for name in names:
        assert given_[name].value == pytest.approx(flipped[name].value, rel=1e-6, abs=1e-12), name
    exact = np.mean(np.logaddexp(0.0, np.where(y == 1, -z, z)))
    assert given_["log-loss"].value == pytest.approx(exact, rel=1e-12)


@settings(max_examples=examples(12, 600))
@given(vectors())
def test_events_of_vectors_keep_the_order_of_their_logits(rows: Rows) -> None:
    z, y = rows
    odds = log_odds(z)
    others = [np.delete(z, k, axis=1) for k in range(4)]
    exact = z - np.column_stack([np.logaddexp.reduce(rest, axis=1) for rest in others])
    np.testing.assert_allclose(odds, exact, rtol=1e-12, atol=1e-12)
    within = log_odds_within(z)
    np.testing.assert_allclose(within[:, 0], odds.max(axis=1), rtol=1e-12, atol=1e-12)
    batch = read_batch(z, y, scale="logit")
    for reduction in REDUCTIONS:
        event = reduce(batch, reduction)
        assert event.logit is not None
        np.testing.assert_allclose(event.p, expit(event.logit))
        assert len(event.cells) == len(np.unique(event.logit[event.logit != 0.0])) + bool((event.logit == 0.0).any())


@pytest.mark.parametrize("reduction", ["classwise", "top-label", "ranks", "within-ranks"])
@settings(max_examples=examples(6, 300))
@given(vectors())
def test_curves_of_classes_take_logits_of_any_size(reduction: str, rows: Rows) -> None:
    """At a hundredth of the size, a temperature is a hundredth, and the result is the same."""
    z, y = rows
    fits = [_fit("temperature", x, y, reduction=reduction) for x in (z, 100.0 * z)]
    curves = [fitted.to_document()["parameters"]["curves"] for fitted in fits]
    assert len(curves[0]) == len(curves[1])
    predicted = fits[1].apply(100.0 * z)
    assert np.isfinite(predicted).all()
    if reduction == "top-label" and curves[1][0]["family"] == "event-temperature":
        T = curves[1][0]["parameters"]["temperature"]
        top = expit(log_odds(100.0 * z).max(axis=1) / T)
        np.testing.assert_allclose(predicted[np.arange(len(z)), z.argmax(axis=1)], top, rtol=1e-9)


def test_the_temperature_of_large_logits_is_applied_to_the_logits_themselves() -> None:
    z = np.array([-100.0, -50.0, 50.0, 100.0])
    random = np.random.default_rng(0)
    rows = random.choice(z, 4000)
    y = (random.random(4000) < expit(rows / 100.0)).astype(int)
    fitted = calibrant.fit("temperature", rows, y, scale="logit")
    T = fitted.to_document()["parameters"]["temperature"]
    np.testing.assert_allclose(fitted.apply(z), expit(z / T), rtol=1e-12)
    assert pytest.approx(100.0, rel=0.1) == T


def test_logits_above_37_are_not_tied() -> None:
    for z in (np.array([40.0, 50.0, 60.0, 70.0]), np.array([800.0, 900.0, 1e10, 1e300])):
        for sign in (1, -1):
            labels = [0, 0, 1, 1] if sign == 1 else [1, 1, 0, 0]
            report = calibrant.evaluate(sign * z, labels, scale="logit", measures=["auroc"])
            assert report.measures["auroc"].value == 1.0


#: Maps that fit the frequencies of a few logits, and the largest distance between both signs: their folds differ.
SMOOTH = [("pl", 0.06), ("pl3", 0.02), ("averaged", 0.02), ("mli-spline", 0.02)]
#: Frequencies of the event at four logits.
FREQUENCIES = np.array([0.1, 0.35, 0.65, 0.9])


def _at_four_logits(z: Array) -> Rows:
    random = np.random.default_rng(0)
    drawn = random.integers(0, 4, 1000)
    return z[drawn], (random.random(1000) < FREQUENCIES[drawn]).astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "apart"), SMOOTH, ids=[method for method, _ in SMOOTH])
@pytest.mark.parametrize("z", [[4.0, 5.0, 6.0, 7.0], [40.0, 50.0, 60.0, 70.0], [400.0, 500.0, 600.0, 700.0]], ids=str)
def test_rows_whose_probabilities_round_to_one_are_separated_by_their_logits(
    method: str, apart: float, z: list[float]
) -> None:
    points = np.array(z)
    rows, y = _at_four_logits(points)
    q, mirrored = _fit(method, rows, y).apply(points), _fit(method, -rows, 1 - y).apply(-points)
    np.testing.assert_allclose(q, FREQUENCIES, atol=0.09)
    np.testing.assert_allclose(q, 1.0 - mirrored, atol=apart)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pl", "pl3", "averaged"])
@pytest.mark.parametrize("both", [False, True], ids=["one sign", "both signs"])
def test_the_error_of_a_fitted_map_is_that_of_rows_whose_probabilities_round_to_one(method: str, both: bool) -> None:
    points = np.array([-70.0, -40.0, 40.0, 70.0] if both else [40.0, 50.0, 60.0, 70.0])
    exact = float(np.abs(FREQUENCIES - expit(points)).mean())
    rows, y = _at_four_logits(points)
    for x, labels in ((rows, y), (-rows, 1 - y)):
        report = calibrant.evaluate(x, labels, scale="logit", measures=[f"ece-{method}"]).measures[f"ece-{method}"]
        assert report.value == pytest.approx(exact, abs=0.03)
        assert np.ptp(report.parts["map"]["calibrated"]) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pl3", "averaged"])
@pytest.mark.parametrize("size", [1.0, 10.0, 100.0])
def test_maps_continue_beyond_the_logits_of_the_fit(method: str, size: float) -> None:
    """The event has the logit z / (10 size), so that values at logits of any size are far from 0 and 1."""
    random = np.random.default_rng(3)
    z = size * random.uniform(-8.0, 8.0, 3000)
    y = (random.random(3000) < expit(z / (10.0 * size))).astype(np.int64)
    fitted = _fit(method, z, y)
    beyond = size * np.array([-60.0, -50.0, -40.0, 40.0, 50.0, 60.0])
    assert (np.diff(fitted.apply(beyond)) > 0.0).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pl", "pl3", "averaged", "mli-spline"])
def test_logits_of_ordinary_size_are_fitted_like_their_probabilities(method: str) -> None:
    random = np.random.default_rng(4)
    z = 2.0 * random.standard_normal(1500)
    y = (random.random(1500) < expit(0.7 * z + 0.3)).astype(np.int64)
    q, same = _fit(method, z, y).apply(z), calibrant.fit(method, expit(z), y).apply(expit(z))
    np.testing.assert_allclose(q, same, atol=2e-4)


# --- Interpolation between logits, and between probabilities that are very close

knots = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8, unique=True).map(sorted)


@given(knots, st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_interpolation_between_logits_stays_between_the_neighbours(points: list[float], drawn: list[float]) -> None:
    k, z = np.array(points), np.sort(np.array(drawn + points))
    heights = np.linspace(0.0, 1.0, len(k))
    q = interpolate_logits(z, k, heights)
    assert (np.diff(q) >= -1e-15).all()
    np.testing.assert_allclose(interpolate_logits(k, k, heights), heights, rtol=0.0, atol=0.0)
    np.testing.assert_allclose(interpolate_logits(-z, -k[::-1], 1.0 - heights[::-1]), 1.0 - q, rtol=0.0, atol=1e-12)


@given(st.lists(st.floats(-30.0, 30.0), min_size=2, max_size=8, unique=True), st.integers(0, 9999))
def test_interpolation_between_logits_is_linear_in_the_probability(points: list[float], seed: int) -> None:
    k = np.sort(points)
    assume(np.diff(k).min() > 1e-3)
    z = np.random.default_rng(seed).uniform(-30.0, 0.0, 50)
    heights = np.random.default_rng(seed).random(len(k))
    np.testing.assert_allclose(interpolate_logits(z, k, heights), np.interp(expit(z), expit(k), heights), atol=1e-9)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True), st.integers(1, 3))
def test_interpolation_between_subnormal_knots_stays_between_the_neighbours(steps: list[int], scale: int) -> None:
    k = np.sort(steps) * 5e-324
    heights = np.sort(np.random.default_rng(scale).random(len(k)))
    x = np.append(np.arange(45) * 5e-324, [0.3, 1.0])
    for many in (x, np.tile(x, 1000)):
        q = interpolate(many, k, heights)[: len(x)]
        assert (np.diff(q) >= 0.0).all()
        right = np.clip(np.searchsorted(k, x), 0, len(k) - 1)
        assert (q <= heights[right]).all()
        assert (q >= heights[np.maximum(right - 1, 0)] - (x >= k[-1])).all()


# --- Small probabilities


def test_a_temperature_keeps_the_ratios_of_small_probabilities() -> None:
    tiny = np.array([1e-43, 1e-60, 1e-80, 1e-100, 1e-150, 1e-200, 1e-300, 5e-324, 0.0])
    rows = np.tile(np.append(1.0, tiny), (20, 1))
    rows[10:] = np.append([0.6, 0.4], np.zeros(8))
    labels = np.append(np.zeros(10, int), [0, 1] * 5)
    labels[0] = 1
    fitted = calibrant.fit("temperature", rows, labels)
    q = fitted.apply(rows[:1])[0]
    assert (np.diff(q[:9]) < 0.0).all()
    assert q[9] <= q[8]
    document = fitted.to_document()
    if document["family"] == "temperature":
        T = document["parameters"]["temperature"]
        np.testing.assert_allclose(np.log(q[1:8] / q[0]), np.log(tiny[:7]) / T, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "ets", "dirichlet-l2", "iop-diagonal"])
def test_small_probabilities_are_fitted_like_their_logits(method: str) -> None:
    random = np.random.default_rng(1)
    z = 60.0 * random.standard_normal((300, 4))
    y = np.array([random.choice(4, p=row) for row in softmax(z / 60.0, axis=1)])
    p = softmax(z, axis=1)
    assert 0.0 < p.min() < 1e-60
    q, same = calibrant.fit(method, p, y).apply(p), calibrant.fit(method, z, y, scale="logit").apply(z)
    np.testing.assert_allclose(q, same, atol=1e-6)
    assert "smoothing" not in calibrant.fit(method, p, y).diagnostics
