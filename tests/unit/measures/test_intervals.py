"""Intervals of measures, and the resamples that they are drawn from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_batch
from calibrant.core.errors import InvalidOption
from calibrant.core.reductions import Event, subject
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling, quantile
from calibrant.measures.repeated import repeated
from tests.rows import draw_event


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [0.0, 0.6])
def test_intervals_cover_the_truth_as_often_as_they_say(mixing: float) -> None:
    """Truth: p = (1 - a) c + a c^2, c uniform, so the calibration error is a / 6; mixing 0 is calibrated."""
    random = np.random.default_rng(0)
    requests = read_requests(["ece", "ks"])
    covered = dict.fromkeys(["ece", "ks"], 0)
    for seed in range(150):
        c = random.random(1000)
        event = Event((1 - mixing) * c + mixing * c**2, (random.random(1000) < c).astype(np.int8))
        for request in requests:
            low, high = request.compute(event, Resampling(0.9, 200, seed)).interval or (1.0, 0.0)
            covered[request.key] += low <= mixing / 6 <= high
    # Three binomial standard errors below 90 %.
    assert min(covered.values()) >= 150 * 0.9 - 3 * np.sqrt(150 * 0.9 * 0.1)


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_intervals_of_few_rows_per_bin_cover_calibration(alpha: float) -> None:
    """60 rows in 15 bins: where all four labels are equal, their variance is 0 and the gap is large."""
    (request,) = read_requests(["ece"])
    covered = 0
    for seed in range(150):
        random = np.random.default_rng([seed, 60])
        c = random.beta(alpha, alpha, 60)
        event = Event(c, (random.random(60) < c).astype(np.int8))
        low, _ = request.compute(event, Resampling(0.9, 200, seed)).interval or (1.0, 0.0)
        covered += low <= 0.0
    # Three binomial standard errors below 90 %.
    assert covered >= 150 * 0.9 - 3 * np.sqrt(150 * 0.9 * 0.1)


@pytest.mark.parametrize("p", [5e-324, 1e-300, 1.0 - 1e-16])
def test_predictions_close_to_0_or_1_have_an_interval_as_those_of_0_and_1(p: float) -> None:
    y = np.arange(300) % 2
    for binning in ("equal-mass", "equal-width"):
        measure = {"name": "ece", "binning": binning}
        near, certain = (
            calibrant.evaluate(np.full(300, q), y, measures=[measure], interval=0.95) for q in (p, round(p))
        )
        assert near["ece"].interval == pytest.approx(certain["ece"].interval, abs=0.01)


def test_miscalibrated_bins_do_not_widen_the_interval_of_others() -> None:
    """The variance of 5,000 labels is 1,900 times that of their predictions near 0; ten rows lie in another bin."""
    p = np.concatenate([np.full(5000, 0.0001), np.full(10, 0.5)])
    y = np.concatenate([np.arange(5000) % 4 == 0, np.arange(10) % 2]).astype(int)
    report = calibrant.evaluate(p, y, measures=[{"name": "mce", "binning": "equal-width"}], interval=0.95)
    interval = report["mce"].interval
    assert interval is not None
    # Four standard deviations of ten labels.
    assert interval[1] < (report["mce"].value or 0.0) + 4.0 * np.sqrt(0.25 / 10)


def test_the_same_seed_gives_the_same_interval(golden_event: Event) -> None:
    (request,) = read_requests(["ece"])
    assert request.compute(golden_event, Resampling(0.95, 200, 1)) == request.compute(
        golden_event, Resampling(0.95, 200, 1)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.0, 1.0, 1.0], [0, 1, 1]),  # certain and right
        ([0.9] * 200, [1] * 200),  # all alike
        ([0.3], [0]),
        *((np.linspace(0.05, 0.95, n), np.arange(n) % 2) for n in (2, 3, 8, 15, 16, 20)),
    ],
)
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_rows_without_variation_have_no_interval_but_the_reason(p: Any, y: Any, level: float) -> None:
    event = Event(np.array(p), np.array(y, np.int8))
    inline = [name for name, entry in calibrant.MEASURES.items() if entry.runs == "inline" and name != "sharpness"]
    for request in read_requests(inline):
        measure = request.compute(event, Resampling(level, 100, 0))
        if measure.interval is not None:
            assert measure.interval[1] - measure.interval[0] > 1e-12, request.key
        else:  # a test needs none
            assert measure.problem is not None or measure.p_value is not None
    assert read_requests(["ece"])[0].compute(event, Resampling(level, 100, 0)).interval is None


def test_bins_of_one_row_are_named_unless_they_are_few() -> None:
    p, y = np.linspace(0.05, 0.95, 400), np.arange(400) % 2
    (request,) = read_requests([{"name": "ece", "n_bins": 15}])
    assert request.compute(Event(p[:28], y[:28].astype(np.int8)), Resampling(0.95, 100, 0)).interval is not None
    few = request.compute(Event(p[:20], y[:20].astype(np.int8)), Resampling(0.95, 100, 0))
    assert few.problem == "no interval: 10 of 15 bins have a single row, whose noise is unknown; use fewer bins"


def test_an_in_sample_value_of_0_has_no_interval() -> None:
    p, y = np.linspace(0.05, 0.95, 400), (np.arange(400) % 3 == 0).astype(int)
    fitted = calibrant.fit("isotonic", p, y)
    report = calibrant.evaluate(p, y, map=fitted, interval=0.95, resamples=100)
    assert report.after is not None
    assert report.after["ece"].interval is None
    assert "by chance" in (report.after["ece"].problem or "")


def test_constant_predictions_have_a_known_sharpness() -> None:
    report = calibrant.evaluate([0.5] * 20, [0, 1] * 10, measures=["sharpness"], interval=0.95)
    assert report["sharpness"].interval == (0.0, 0.0)


def test_a_gap_between_groups_without_variation_has_no_interval() -> None:
    gap = calibrant.evaluate([0.1, 0.9], [0, 1], groups=["a", "b"], measures=["accuracy"], interval=0.95).gaps
    assert gap is not None
    assert gap["accuracy"].interval is None
    assert "vary too little" in (gap["accuracy"].problem or "")


def test_an_interval_that_needs_too_many_draws_is_left_out_with_its_problem() -> None:
    p = np.linspace(0, 1, 20_000)
    (request,) = read_requests([{"name": "ece", "n_bins": 20_000}])
    answer = request.compute(Event(p, (p > 0.5).astype(np.int8)), Resampling(0.95, 1000, 0))
    assert answer.value is not None
    assert answer.interval is None
    assert "bins" in (answer.problem or "")


@pytest.mark.parametrize(
    ("interval", "resamples", "seed"),
    [(0.0, 1000, 0), (1.0, 1000, 0), (True, 1000, 0), ("0.9", 1000, 0), (0.9, 10, 0), (0.9, 1000, -1), (0.9, 1e3, 0)],
)
def test_bad_options_are_refused(interval: Any, resamples: Any, seed: Any) -> None:
    with pytest.raises(InvalidOption):
        Resampling.read(interval, resamples, seed)


def test_counted_rows_are_resampled_as_the_rows_that_they_count() -> None:
    random = np.random.default_rng(5)
    p = np.repeat(np.linspace(0.1, 0.9, 9), 100)
    y = (random.random(len(p)) < p**2).astype(np.int8)
    (request,) = read_requests(["ece-by-chance"])
    cells = np.unique(np.column_stack([p, y]), axis=0, return_counts=True)
    counted = Event(cells[0][:, 0], cells[0][:, 1].astype(np.int8), cells[1].astype(np.float64))
    measures = [request.compute(event, Resampling(0.9, 400)) for event in (Event(p, y), counted)]
    by_row, by_count = (np.subtract(*ends[::-1]) for measure in measures if (ends := measure.interval) is not None)
    assert by_count == pytest.approx(by_row, rel=0.15)


def test_an_interval_that_bias_moves_away_from_the_value_is_none() -> None:
    """Resample 40 rows in 15 bins: fewer distinct rows have larger bins."""
    p, y = draw_event(40)
    for n_bins, reason in ((15, "resamples are biased by more than their spread"), (2, "")):
        (measure,) = calibrant.evaluate(
            p, y, measures=[{"name": "l2-bias", "n_bins": n_bins}], interval=0.9
        ).measures.values()
        assert reason in (measure.problem or "")
        assert (measure.interval is None) == bool(reason)


@pytest.mark.parametrize("measure", ["ece", "mce", "rmsce", "ece-sweep"])
@pytest.mark.parametrize(("positives", "predicted", "plausible"), [(2, 0.02, True), (1, 0.03, False)])
def test_an_interval_excludes_calibration_if_so_few_positives_of_a_rare_event_are_implausible(
    measure: str, positives: int, predicted: float, plausible: bool
) -> None:
    """At most 2 of 300 at 2 % have the probability .06, at most 1 at 3 % that of .001."""
    p, y = np.full(300, predicted), np.arange(300) < positives
    low, high = calibrant.evaluate(p, y, measures=[measure], interval=0.95)[measure].interval or (-1.0, -1.0)
    assert (low == 0.0) == plausible
    assert low <= abs(predicted - positives / 300) <= high


def test_the_variance_under_a_gap_is_that_of_each_class() -> None:
    p = np.tile([0.96, 0.02, 0.02], (300, 1))
    labels = np.repeat([0, 1, 2], [294, 3, 3])
    interval = calibrant.evaluate(p, labels, measures=["cwce"], reduction="classwise", interval=0.95)["cwce"].interval
    assert interval is not None
    assert interval[0] == 0.0


_WIDE = {"name": "ece", "binning": "equal-width", "closed": "right", "norm": 2, "as": "wide"}


@pytest.mark.parametrize("digits", [1, 2, 16])
@pytest.mark.parametrize("measure", ["ece", "ece-sweep", "ks", "ks-end", _WIDE])
def test_many_resamples_have_the_values_of_one_at_a_time(measure: object, digits: int) -> None:
    random = np.random.default_rng(digits)
    p = random.random(200).round(digits)
    y = (random.random(200) < p).astype(int)
    event = subject(read_batch(p, y), "binary")
    (request,) = read_requests([measure])  # type: ignore[list-item]
    rows = random.integers(0, 200, (20, 90))
    together, alone = repeated([request], event, {request.key: False})
    assert not alone
    expected = [request.compute(event.rows(own)).value for own in rows]
    assert together(rows)[request.key] == pytest.approx(expected, abs=1e-12)


def test_measures_share_resamples_of_each_class() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 150).round(2)
    p /= p.sum(axis=1, keepdims=True)
    classes = subject(read_batch(p, random.integers(0, 3, 150)), "classwise")
    requests = read_requests(["ece", "ece-sweep", "ks", "brier", _WIDE])
    rows = random.integers(0, 150, (10, 80))
    together, alone = repeated(requests, classes, {request.key: request.key == "ece" for request in requests})
    assert [request.key for request in alone] == ["brier"]
    distances = together(rows)
    assert list(distances) == ["ece", "ece-sweep", "ks", "wide"]
    for request in requests:
        if request.key in distances:
            measures = [request.compute(classes.rows(own)) for own in rows]
            expected = [measure.debiased if request.key == "ece" else measure.value for measure in measures]
            assert distances[request.key] == pytest.approx(expected, abs=1e-12)


def test_weights_need_one_resample_at_a_time() -> None:
    event = subject(read_batch([0.1, 0.6, 0.7], [0, 1, 1], weights=[1.0, 2.0, 1.5]), "binary")
    requests = read_requests(["ece", "ks"])
    assert repeated(requests, event, {"ece": False, "ks": False})[1] == list(requests)


@pytest.mark.parametrize("norm", [3, "median"])
def test_a_new_value_of_an_option_needs_one_resample_at_a_time(norm: object) -> None:
    event = subject(read_batch([0.1, 0.6, 0.7, 0.2], [0, 1, 1, 0]), "binary")
    (request,) = read_requests(["ece"])
    changed = replace(request, options={**request.options, "norm": norm})
    assert repeated([changed], event, {"ece": False})[1] == [changed]


@pytest.mark.parametrize("share", [0.0, 0.025, 0.5, 0.9, 0.975, 1.0])
@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (400,), (30, 257)])
def test_a_quantile_is_that_of_numpy(shape: tuple[int, ...], share: float) -> None:
    draws = np.random.default_rng(0).standard_normal(shape)
    assert np.array_equal(quantile(draws, share), np.quantile(draws, share, axis=-1))
