"""Shifts of features, of classes and of one event."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import EventTally
from calibrant.core.errors import CalibrationError
from calibrant.monitoring.drift import counts_by_range, drift_of_counts
from calibrant.monitoring.label_shift import class_frequencies
from calibrant.monitoring.tally import CELLS
from tests.drawn import examples
from tests.known import known


def test_density_ratios_of_independent_levels_are_ratios_of_frequencies() -> None:
    random = np.random.default_rng(0)
    before, after = random.choice(3, 20_000, p=[0.5, 0.3, 0.2]), random.choice(3, 20_000, p=[0.2, 0.3, 0.5])
    ratios = calibrant.density_ratios(before[:, None], after[:, None])
    frequencies = [ratios[before == k][0] for k in range(3)]
    wanted = np.bincount(after) / np.bincount(before)
    assert frequencies == pytest.approx(wanted, rel=2e-3)


def test_density_ratios_take_missing_values_strings_and_unseen_levels() -> None:
    import pandas as pd

    before = pd.DataFrame({"a": [1.0, np.nan, 2.0, 2.0], "b": ["x", None, "y", "x"]})
    after = pd.DataFrame({"a": [np.nan, 1e308, 2.0], "b": ["new", "x", "x"]})
    ratios = calibrant.density_ratios(before, after)
    assert ratios.shape == (4,)
    assert np.isfinite(ratios).all()
    assert ratios.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ([[1.0]], [[1.0, 2.0]], "wrong-shape"),
        ([1.0, 2.0], [[1.0]], "wrong-shape"),
        (np.zeros((0, 1)), [[1.0]], "empty-batch"),
        ([[np.inf]], [[1.0]], "not-finite"),
    ],
)
def test_invalid_features_are_named(before: Any, after: Any, code: str) -> None:
    with pytest.raises(CalibrationError) as caught:
        calibrant.density_ratios(before, after)
    assert caught.value.code == code


def shifted(seed: int, q: Any, *, n: int = 3000) -> tuple[Any, Any, Any, Any]:
    """Reference logits and labels, and a window in which only class frequencies differ."""
    logits, labels, _ = calibrant.logistic_normal(6 * n, n_classes=3, temperature=1.7, seed=seed)
    random = np.random.default_rng(seed)
    pools = [n + np.flatnonzero(labels[n:] == k) for k in range(3)]
    rows = np.concatenate(
        [random.choice(pool, count) for pool, count in zip(pools, random.multinomial(n, q), strict=True)]
    )
    return logits[:n], labels[:n], logits[rows], labels[rows]


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3), st.integers(0, 1000))
@settings(max_examples=examples(8, 400))
def test_em_never_ends_below_the_likelihood_of_the_truth(q: list[float], seed: int) -> None:
    random = np.random.default_rng(seed)
    c, p = random.dirichlet(np.ones(3), 200), np.array([0.2, 0.3, 0.5])
    frequencies, truth = class_frequencies(c, p), np.array(q) / sum(q)
    assert frequencies.sum() == pytest.approx(1.0)
    assert np.log(c / p @ frequencies).sum() >= np.log(c / p @ truth).sum() - 1e-4


@pytest.mark.slow
def test_intervals_of_class_frequencies_contain_those_of_the_window() -> None:
    covered = []
    for seed in range(12):
        reference, labels, window, truth = shifted(seed, [0.7, 0.25, 0.05])
        estimate = calibrant.estimate_label_shift(reference, labels, window, scale="logit")
        q = np.array([0.7, 0.25, 0.05])
        covered.extend(((known(estimate.low) <= q) & (q <= known(estimate.high))).tolist())
        assert estimate.bbse == pytest.approx(np.bincount(truth, minlength=3) / len(truth), abs=0.08)
    assert sum(covered) >= 31


def test_the_corrected_map_is_calibrated_for_the_window() -> None:
    reference, labels, window, truth = shifted(3, [0.85, 0.1, 0.05])
    estimate = calibrant.estimate_label_shift(reference, labels, window, scale="logit")
    rows = np.arange(len(truth))
    before = calibrant.fit("sms", reference, labels, scale="logit").apply(window)
    loaded = calibrant.load(json.loads(json.dumps(known(estimate.map).to_document())))
    after = loaded.apply(window)
    assert -np.log(after[rows, truth]).mean() < -np.log(before[rows, truth]).mean() - 0.02
    assert after.mean(axis=0) == pytest.approx(estimate.estimated, abs=1e-3)


def test_an_absent_class_has_an_upper_limit_above_0() -> None:
    reference, labels, window, _ = shifted(4, [0.6, 0.4, 0.0])
    estimate = calibrant.estimate_label_shift(reference, labels, window, scale="logit")
    assert known(estimate.low)[2] == 0.0
    assert 0.0 < known(estimate.high)[2] < 0.05


def test_a_window_of_one_class_has_an_interval_with_a_width() -> None:
    logits, labels, window, _ = shifted(0, [0.3, 0.3, 0.4])
    estimate = calibrant.estimate_label_shift(logits, labels, window[:1], scale="logit")
    assert estimate.estimated is not None
    assert estimate.high is not None
    assert estimate.estimated.max() == 1.0
    k = int(np.argmax(estimate.estimated))
    assert 0.0 < known(estimate.low)[k] == 1.0 - np.delete(estimate.high, k).max() < 0.9
    assert estimate.high[k] == 1.0


def test_a_window_that_is_no_mixture_of_the_classes_is_withheld() -> None:
    reference, labels, window, _ = shifted(5, [0.4, 0.3, 0.3])
    estimate = calibrant.estimate_label_shift(reference, labels, window * 0.3, scale="logit")
    assert estimate.withheld is not None
    assert (estimate.estimated, estimate.map, estimate.weights) == (None, None, None)
    assert "withheld" in repr(estimate)
    assert json.dumps(estimate.to_dict())


@pytest.mark.parametrize(
    ("method", "largest", "columns", "code"),
    [("temperature", 2, 3, "unknown-method"), ("sms", 1, 3, "too-few-rows"), ("sms", 2, 2, "wrong-shape")],
)
def test_invalid_arguments_of_label_shift_are_refused(method: str, largest: int, columns: int, code: str) -> None:
    logits, labels, window, _ = shifted(6, [0.4, 0.3, 0.3], n=300)
    truth, rows = np.minimum(labels, largest), window[:, :columns]
    with pytest.raises(CalibrationError) as caught:
        calibrant.estimate_label_shift(logits, truth, rows, method=method, scale="logit")
    assert caught.value.code == code


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:predictions are clearly lower")
def test_the_drift_test_rarely_alarms_without_drift_and_always_with_it() -> None:
    share, alarms = np.random.default_rng(0).dirichlet(np.ones(CELLS)), 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        reference = counts_by_range(random.multinomial(2000, share))
        stream = np.array([counts_by_range(random.multinomial(1000, share)) for _ in range(20)])
        alarms += any(drift_of_counts(reference, stream[: last + 1]).level <= 0.05 for last in range(20))
    assert alarms <= 16
    random = np.random.default_rng(9)
    p = random.beta(2, 2, (20, 1000))
    parts = [calibrant.tally(row if t < 12 else row**1.3, row < 0.5) for t, row in enumerate(p)]
    drift = calibrant.prediction_drift(parts[0], parts[1:])
    assert drift.level < 1e-3
    assert abs(drift.start - 11) <= 1
    assert drift.low <= 0.5
    assert drift.since > drift.before


@given(st.lists(st.integers(0, 1), min_size=1, max_size=9))
@settings(max_examples=examples(12, 600))
def test_the_bet_is_at_most_the_likelihood_ratio(inside: list[int]) -> None:
    """Summed over all sequences of one row per bucket, E times the likelihood is at most 1 for every theta."""
    theta, total, n = 0.1 + 0.8 * (sum(inside) / len(inside)), 0.0, 6
    for code in range(2**n):
        bits = [(code >> j) & 1 for j in range(n)]
        rows = [np.array([1.0 - b, b]) for b in bits]
        counts = np.array([counts_by_range(np.bincount([0 if b else CELLS - 1], minlength=CELLS)) for b in bits])
        likelihood = np.prod([row @ [1.0 - theta, theta] for row in rows])
        total += likelihood * np.exp(drift_of_counts(counts[0], counts[1:]).log_e)
    assert total <= 1.0 + 1e-9


def test_tallies_of_other_events_and_empty_references_are_refused() -> None:
    first, other = calibrant.tally([0.2, 0.7], [0, 1]), calibrant.tally([0.2, 0.7], [0, 1], reduction="confidence")
    with pytest.raises(CalibrationError, match="event"):
        calibrant.prediction_drift(first, [other])
    with pytest.raises(CalibrationError, match="no rows"):
        calibrant.prediction_drift(first.of_folds([4]), [first])
    assert calibrant.prediction_drift(first, []).level == 1.0


def drawn(seed: int, share: float, *, n: int = 5000, warp: float = 1.0) -> tuple[EventTally, EventTally, float]:
    """A reference, a window in which this share of the events is kept, and the window's event rate."""
    random = np.random.default_rng(seed)
    p = random.beta(1.0, 1.5, 9 * n)
    y = random.random(9 * n) < p**1.3 / (p**1.3 + (1.0 - p) ** 0.8)
    there = np.flatnonzero(~y | (random.random(9 * n) < share))
    there = there[there >= n][:n]
    window = calibrant.tally(p[there] ** warp, y[there])
    return calibrant.tally(p[:n], y[:n]), window, float(y[there].mean())


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_the_interval_contains_the_rate_of_most_windows(share: float) -> None:
    inside, errors, plain = 0, [], []
    for seed in range(20):
        reference, window, rate = drawn(seed, share)
        estimate = calibrant.estimate_event_shift(reference, window, alpha=1e-6)
        assert estimate.estimated is not None
        inside += bool(known(estimate.low)[1] <= rate <= known(estimate.high)[1])
        errors.append(abs(estimate.estimated[1] - rate))
        plain.append(abs(estimate.reference[1] - rate))
        assert estimate.estimated.sum() == pytest.approx(1.0)
        assert abs(known(estimate.bbse)[1] - estimate.estimated[1]) < 0.1
    assert inside >= 17
    assert share == 1.0 or np.mean(errors) < np.mean(plain) / 5.0


def test_the_corrected_map_predicts_the_rate_of_the_window() -> None:
    reference, window, rate = drawn(1, 0.2, n=20_000)
    estimate = calibrant.estimate_event_shift(reference, window)
    assert estimate.map is not None
    event = window.event()
    mean = np.average(estimate.map.curve(event.p), weights=known(event.w))
    assert mean == pytest.approx(known(estimate.estimated)[1], abs=1e-3)
    assert mean == pytest.approx(rate, abs=0.03)
    again = calibrant.load(estimate.map.to_document())
    assert np.array_equal(again.curve(event.p), estimate.map.curve(event.p))


def test_a_window_that_is_no_mixture_is_withheld() -> None:
    reference, window, _ = drawn(2, 0.5, warp=1.5)
    estimate = calibrant.estimate_event_shift(reference, window)
    assert (estimate.estimated, estimate.map, estimate.weights) == (None, None, None)
    assert "not a mixture" in known(estimate.withheld)


def test_labels_of_the_window_are_not_used() -> None:
    reference, window, _ = drawn(3, 0.5)
    rows = window.tally
    blind = EventTally(type(rows)(rows.keys | np.uint32(1), rows.rows, rows.p_sum), "binary")
    first, other = (calibrant.estimate_event_shift(reference, counted) for counted in (window, blind))
    assert first.p_value == pytest.approx(other.p_value, rel=1e-9)


def test_predictions_without_information_leave_the_rate_open() -> None:
    reference = calibrant.tally([0.5] * 100, [0, 1] * 50)
    estimate = calibrant.estimate_event_shift(reference, calibrant.tally([0.5] * 300, [0] * 300))
    assert (known(estimate.low).tolist(), known(estimate.high).tolist(), estimate.bbse) == (
        [0.0, 0.0],
        [1.0, 1.0],
        None,
    )


def test_unsuitable_tallies_are_refused() -> None:
    good = calibrant.tally([0.2, 0.7] * 50, [0, 1, 1, 0] * 25)
    few = calibrant.tally([0.2, 0.7] * 50, [0] * 95 + [1] * 5)
    apart = calibrant.tally([0.2] * 50 + [0.8] * 50, [0] * 50 + [1] * 50)
    confident = calibrant.tally([0.6, 0.7] * 50, [0, 1, 1, 0] * 25, reduction="confidence")
    empty = EventTally(good.tally.of_folds([4]), "binary")
    for reference, window, code in (
        (few, good, "too-few-rows"),
        (apart, good, "not-converged"),
        (confident, confident, "unknown-reduction"),
        (good, confident, "invalid-option"),
        (good, empty, "empty-batch"),
        (empty, good, "empty-batch"),
    ):
        with pytest.raises(CalibrationError) as caught:
            calibrant.estimate_event_shift(reference, window)
        assert caught.value.code == code
