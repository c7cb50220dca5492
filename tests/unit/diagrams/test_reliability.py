from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import calibrant
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.diagrams.reliability import LogitReliability, Reliability, end_slopes, on_logit_axes, wilson
from calibrant.maps.beta import Beta
from calibrant.maps.platt import fit_platt_event
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import PLAIN
from tests.known import known
from tests.refusals import refused_at

BINNINGS = ("equal-mass", "equal-width", "adaptive")


def _picture(name: str, event: Event, **options: Any) -> Any:
    (request,) = read_diagrams([{"name": name, **options}])
    return DIAGRAMS[name].draw(event, PLAIN, **request.options)


def _drawn(event: Event, **options: Any) -> Reliability:
    picture = _picture("reliability", event, **options)
    assert isinstance(picture, Reliability)
    return picture


def _logit(event: Event, **options: Any) -> LogitReliability:
    picture = _picture("logit-logit", event, **options)
    assert isinstance(picture, LogitReliability)
    return picture


def _roof(picture: Reliability, p: Floats) -> Floats:
    """The diagonal filling at p, by the corners that a program would draw."""
    place = np.clip(np.searchsorted(picture.start, p, side="right") - 1, 0, len(picture.start) - 1)
    width = picture.end[place] - picture.start[place]
    along = np.divide(p - picture.start[place], width, out=np.zeros_like(p), where=width > 0)
    roof: Floats = picture.roof_start[place] + along * (picture.roof_end - picture.roof_start)[place]
    return roof


@pytest.mark.parametrize("binning", BINNINGS)
@pytest.mark.parametrize("n_bins", [1, 7, 15, 60])
def test_the_mean_distance_of_the_roof_from_the_diagonal_is_the_ece(event: Event, binning: str, n_bins: int) -> None:
    picture = _drawn(event, binning=binning, n_bins=n_bins)
    measure = read_requests([{"name": "ece", "binning": binning, "n_bins": n_bins}])[0].compute(event)
    assert np.mean(np.abs(_roof(picture, event.p) - event.p)) == pytest.approx(measure.value, abs=1e-12)
    assert picture.ece == pytest.approx(measure.value, abs=1e-14)
    assert picture.ece_debiased == pytest.approx(measure.debiased, abs=1e-14)
    # The area of each bin, between roof and diagonal, at its mass for each unit of width.
    middle = (picture.start + picture.end) / 2
    area = np.abs((picture.roof_start + picture.roof_end) / 2 - middle) * (picture.end - picture.start)
    assert area @ (picture.share / (picture.end - picture.start)) == pytest.approx(measure.value, abs=1e-12)


def test_the_roof_is_the_best_of_slope_one_by_brier_score(event: Event) -> None:
    picture = _drawn(event, n_bins=8)
    best = np.mean((_roof(picture, event.p) - event.y) ** 2)
    random = np.random.default_rng(0)
    for _ in range(20):
        moved = random.normal(0, 0.02, len(picture.gap))
        other = replace(picture, roof_start=picture.roof_start + moved, roof_end=picture.roof_end + moved)
        assert np.mean((_roof(other, event.p) - event.y) ** 2) > best


def test_bins_and_roof_agree_with_the_paper_s_code(golden_event: Event, drawn: dict[str, Any]) -> None:
    wanted = drawn["ES"]
    picture = _drawn(golden_event, n_bins=15)
    np.testing.assert_allclose(picture.mean_prediction, wanted["mean_p"], atol=1e-12)
    np.testing.assert_allclose(picture.observed_frequency, wanted["mean_y"], atol=1e-12)
    np.testing.assert_array_equal(picture.count, wanted["n_per_bin"])
    assert picture.ece == pytest.approx(wanted["ECE1"], abs=1e-12)
    grid = np.linspace(0, 1, 1001)
    # At borders, and between a border there and the first prediction of a bin here, a place may be in either bin.
    inside = np.array([np.abs(grid[i] - picture.start).min() > 0.012 for i in range(len(grid))])
    assert inside.sum() > 600
    np.testing.assert_allclose(_roof(picture, grid)[inside], np.array(wanted["chat_grid1001"])[inside], atol=1e-12)


@pytest.mark.parametrize("binning", BINNINGS)
def test_bins_lie_side_by_side_and_hold_their_rows(event: Event, binning: str) -> None:
    picture = _drawn(event, binning=binning, n_bins=12)
    assert picture.count.sum() == picture.rows.sum() == len(event)
    assert picture.share.sum() == pytest.approx(1.0)
    assert np.all(picture.start < picture.end)
    assert np.all(picture.end[:-1] <= picture.start[1:])
    assert (picture.start[0], picture.end[-1]) == (0.0, 1.0)
    for k in range(len(picture.start)):
        last = picture.end[k] if k + 1 < len(picture.start) else 2.0
        own = (event.p >= picture.start[k]) & (event.p < last)
        assert own.sum() == picture.count[k]
        assert event.p[own].mean() == pytest.approx(picture.mean_prediction[k])
        assert event.y[own].mean() == pytest.approx(picture.observed_frequency[k])


def test_bins_closed_on_the_right_are_marked() -> None:
    event = Event(np.array([0.1, 0.2, 0.2, 0.9]), np.array([0, 1, 0, 1], np.int8))
    left, right = (_drawn(event, binning="equal-width", n_bins=5, closed=c) for c in ("left", "right"))
    assert left.count.tolist() == [1, 2, 1]
    assert right.count.tolist() == [3, 1]


def test_wilson_s_interval_is_where_the_score_test_does_not_reject() -> None:
    for k, n in ((0, 5), (3, 11), (40, 40), (7, 1000)):
        low, high = (float(end[0]) for end in wilson(np.array([k / n]), np.array([float(n)]), 0.95))
        for end in (low, high):
            if 0 < end < 1:
                z = (k / n - end) / math.sqrt(end * (1 - end) / n)
                assert abs(z) == pytest.approx(1.959963984540054, abs=1e-9)
        assert (low == 0.0) == (k == 0)
        assert (high == 1.0) == (k == n)


def test_wilson_s_interval_covers_about_as_often_as_it_says() -> None:
    k = np.arange(51)
    for p in (0.1, 0.3, 0.5):
        low, high = wilson(k / 50, np.full(51, 50.0), 0.9)
        assert binom.pmf(k, 50, p)[(low <= p) & (p <= high)].sum() == pytest.approx(0.9, abs=0.05)


def test_counts_may_be_swept_or_cross_validated(event: Event) -> None:
    for binning in ("equal-mass", "equal-width"):
        for count, name in (("sweep", "ece-sweep"), ("cross-validated", "ece-cv")):
            picture = _drawn(event, binning=binning, count=count)
            measure = read_requests([{"name": name, "binning": binning}])[0].compute(event)
            assert picture.ece == pytest.approx(measure.value, abs=1e-14)
            assert len(picture.start) == measure.definition["bins_used"]


def test_a_sweep_without_an_end_is_cut(event: Event) -> None:
    apart = Event(np.linspace(0, 1, 3000), (np.linspace(0, 1, 3000) > 0.5).astype(np.int8))
    assert len(_drawn(apart, count="sweep").start) == 200
    refused = read_diagrams([{"name": "reliability", "binning": "adaptive", "count": "sweep"}])[0].drawn(event)
    assert refused["data"] is None
    assert "adaptive" in refused["problem"]


def test_the_histogram_counts_every_row(event: Event) -> None:
    histogram = _drawn(event, histogram=10).histogram
    np.testing.assert_array_equal(histogram.count, np.histogram(event.p, np.arange(11) / 10)[0])
    np.testing.assert_allclose(histogram.share, histogram.count / len(event))


@pytest.mark.parametrize("positives", [0, 4, 5, 100])
def test_the_axes_of_a_rare_event_are_logit_unless_they_are_stated(positives: int) -> None:
    y = (np.arange(100) < positives).astype(np.int8)
    event = Event(np.linspace(0.01, 0.99, 100), y)
    assert _drawn(event).axes == ("logit" if positives < 5 else "linear")
    assert [_drawn(event, axes=axes).axes for axes in ("linear", "logit")] == ["linear", "logit"]
    weighted = replace(event, w=np.where(y == 1, 100.0, 1.0), kind="importance")
    assert (_drawn(weighted).axes == "logit") == (positives == 0)
    with pytest.raises(InvalidOption):
        read_diagrams([{"name": "reliability", "axes": "log"}])


def test_predictions_of_one_make_a_last_bin_of_their_own() -> None:
    event = Event(np.array([0.2, 0.4, 1.0, 1.0]), np.array([0, 1, 1, 0], np.int8))
    picture = _drawn(event, n_bins=2)
    assert picture.count.tolist() == [2, 2]
    assert (picture.start[1], picture.end[1]) == (1.0, 1.0)


def test_the_logit_axes_are_those_by_hand() -> None:
    p = np.repeat([0.0, 0.3, 0.8, 1.0], 4)
    y = np.array([0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1], np.int8)
    picture = _logit(Event(p, y), n_bins=4)
    k = np.array([0, 2, 3, 4])
    np.testing.assert_allclose(picture.y, np.log((k + 0.5) / (4 - k + 0.5)))
    np.testing.assert_allclose(picture.x[1:3], np.log(np.array([0.3 / 0.7, 4.0])))
    assert picture.x[0] == pytest.approx(-52 * math.log(2))
    assert picture.clipped == 8
    assert picture.low is not None
    assert picture.high is not None
    np.testing.assert_allclose(
        (picture.high - picture.low) / 2, 1.96 * np.sqrt(1 / (k + 0.5) + 1 / (4.5 - k)), rtol=1e-4
    )
    assert np.all(np.isfinite(picture.low) & np.isfinite(picture.high))


def test_the_line_on_logit_axes_is_platt_s(event: Event) -> None:
    picture = _logit(event)
    fitted, _ = fit_platt_event(event)
    assert (picture.slope, picture.intercept) == (fitted.slope, fitted.intercept)
    inside = (picture.x > -2) & (picture.x < 2)
    line = (picture.slope or 0) * picture.x + (picture.intercept or 0)
    assert np.abs(picture.y - line)[inside].max() < 0.6


def test_the_slopes_of_beta_calibration_at_the_ends_are_its_parameters() -> None:
    x, y = on_logit_axes(Beta(0.3, 1.4, 0.0), 1e-7, 1.0 - 1e-7)
    assert end_slopes(x, y) == pytest.approx((0.3, 1.4), abs=1e-5)
    assert y[100] == pytest.approx(1.1 * math.log(2.0))  # at p = 1/2
    p = expit(np.random.default_rng(0).normal(0.0, 4.0, 40_000))
    labels = (np.random.default_rng(1).random(len(p)) < Beta(0.3, 1.4, 0.0)(p)).astype(np.int8)
    picture = _logit(Event(p, labels), method="beta")
    assert (picture.start_slope, picture.end_slope) == pytest.approx((0.3, 1.4), abs=0.1)
    assert (picture.slope, picture.intercept) == (None, None)


@pytest.mark.parametrize("method", ["isotonic", "beta", "histogram", "spline", "kde"])
def test_any_map_of_an_event_is_drawn_on_logit_axes(event: Event, method: str) -> None:
    picture = _logit(event, method=method)
    fitted = calibrant.fit(method, event.p, event.y)
    np.testing.assert_allclose(expit(known(picture.curve_y)), fitted.apply(expit(known(picture.curve_x))), atol=1e-9)


def test_maps_on_logit_axes_have_the_options_of_their_fit(event: Event) -> None:
    default, chosen = (_logit(event, method="histogram", **options) for options in ({}, {"options": {"n_bins": 3}}))
    fitted = calibrant.fit("histogram", event.p, event.y, n_bins=3)
    assert chosen.curve_y is not None
    np.testing.assert_allclose(expit(chosen.curve_y), fitted.apply(expit(known(chosen.curve_x))), atol=1e-9)
    assert not np.array_equal(known(default.curve_y), chosen.curve_y)
    lines = [_logit(event, options={"target_smoothing": smoothed}).slope for smoothed in (True, False)]
    assert lines[0] == _logit(event).slope != lines[1]
    with refused_at("/diagrams/0/options", InvalidOption):
        _logit(event, method="histogram", options={"degree": 3})


@pytest.mark.slow
@pytest.mark.parametrize("method", ["iop-oi", "iop-op"])
def test_order_preserving_maps_of_two_classes_are_drawn_on_logit_axes(event: Event, method: str) -> None:
    picture = _logit(event, method=method)
    assert picture.curve_y is not None
    assert np.all(np.diff(picture.curve_y) >= 0.0)
    fitted = calibrant.fit(method, np.column_stack([1.0 - event.p, event.p]), event.y)
    assert picture.curve_x is not None
    both = np.column_stack([expit(-picture.curve_x), expit(picture.curve_x)])
    np.testing.assert_allclose(expit(picture.curve_y), fitted.apply(both)[:, 1], atol=1e-6)


def test_labels_of_one_class_have_bins_but_no_line() -> None:
    drawn = read_diagrams(["logit-logit"])[0].drawn(Event(np.array([0.2, 0.4]), np.array([1, 1], np.int8)))
    assert drawn["data"]["slope"] is None
    assert len(drawn["data"]["y"]) == 2
    assert "no line" in drawn["problem"]


def test_importance_weights_count_by_their_ratios_alone(event: Event) -> None:
    w = np.random.default_rng(1).random(len(event)) + 0.5
    first, other = (_logit(replace(event, w=scale * w, kind="importance")) for scale in (1.0, 30.0))
    assert first.slope == pytest.approx(other.slope, abs=1e-9)
    np.testing.assert_allclose(known(first.low), known(other.low), atol=1e-9)
    picture = _drawn(replace(event, w=w, kind="importance"))
    assert np.all(picture.rows < picture.count)
