"""Online recalibration: its experts, its options, and invalid input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import calibrant
from calibrant.core.errors import InvalidDocument, InvalidOption, WrongShape
from calibrant.monitoring.online import OnlineMap, follow_stream, start_online
from tests.refusals import refused_at


def stream(n: int, shift: float, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    p = expit(random.normal(-0.5, 1.2, n))
    return p, (random.random(n) < expit(logit(p) + shift)).astype(np.int64)


def test_online_platt_scaling_is_an_online_newton_step_with_forgetting() -> None:
    p, y = stream(60, 0.8, 1)
    state = start_online(memories=(None, 30))
    theta, information = np.array([1.0, 0.0]), np.zeros((2, 2))
    precision = np.diag([1.0 / 0.09, 1.0])
    for prediction, label in zip(p, y, strict=True):
        state = state.update([prediction], [label])
        x = np.array([logit(prediction), 1.0])
        f = expit(theta @ x)
        gradient = (f - label) * x
        keep = 2.0 ** (-1.0 / 30.0)
        information = keep * information + (np.outer(gradient, gradient) + f * (1.0 - f) * np.outer(x, x)) / 2.0
        pull = (1.0 - keep) * precision @ (theta - [1.0, 0.0])
        theta = theta - np.linalg.solve(information + precision, gradient + pull)
    np.testing.assert_allclose(state.theta[1, [0, 2]], theta, rtol=1e-9)


def test_a_shift_is_an_online_newton_step_of_the_intercept() -> None:
    p, y = stream(200, 0.8, 4)
    static = calibrant.fit("platt", p, y)
    state = start_online(static, memories=(None, 30, 7))
    assert [name for name in state.experts if name.startswith("shift")] == ["shift-30", "shift-7"]
    shift, information, keep = 0.0, 0.0, 2.0 ** (-4.0 / 30.0)
    for start in range(0, 200, 4):
        rows = slice(start, start + 4)
        state = state.update(p[rows], y[rows])
        f = expit(logit(static.apply(p[rows])) + shift)
        information = keep * information + ((f - y[rows]) ** 2 + f * (1.0 - f)).sum() / 2.0
        shift -= ((f - y[rows]).sum() + (1.0 - keep) * shift) / (information + 1.0)
    np.testing.assert_allclose(state.shifts[0], [shift, information], rtol=1e-9)


@pytest.mark.slow
def test_a_shift_follows_a_new_event_rate_better_than_more_parameters() -> None:
    static = calibrant.fit("platt", *stream(4000, 0.0, 5))
    followed = follow_stream(*stream(4000, 0.8, 6), online=start_online(static))
    loss = dict(zip(followed.experts, followed.log_losses.tolist(), strict=True))
    assert loss["shift-500"] < min(loss["platt-500"], loss["beta-500"], loss["static"]) - 1.0


def test_a_state_of_the_first_format_goes_on_without_shifts() -> None:
    stored = json.loads((Path(__file__).parents[2] / "contract" / "stored" / "online-v1.json").read_text("utf-8"))
    state = OnlineMap.from_document(stored["state"])
    assert len(state.experts) == 20
    np.testing.assert_array_equal(state.predict(stored["predictions"]), stored["expected"])
    later = state.update([0.2, 0.9], [1, 1], predicted_by=state)
    again = OnlineMap.from_document(json.loads(json.dumps(later.to_document())))
    assert again.to_document() == later.to_document()
    assert again.experts == state.experts
    with pytest.raises(InvalidOption, match="must be an earlier state of the same stream"):
        start_online(delay=1).update([0.5], [1], predicted_by=state)


@pytest.mark.slow
def test_calibeating_corrects_what_a_line_of_logits_cannot() -> None:
    random = np.random.default_rng(2)
    p = random.random(3000)
    y = (random.random(3000) < p + 0.25 * np.sin(4.0 * np.pi * p) * p * (1.0 - p) * 4.0).astype(np.int64)
    followed = follow_stream(p, y)
    loss = dict(zip(followed.experts, followed.log_losses.tolist(), strict=True))
    assert loss["platt-all-calibeaten"] < loss["platt-all"] - 20.0
    assert loss["beta-all-calibeaten"] < loss["beta-all"] - 20.0


@pytest.mark.slow
def test_the_mixture_follows_a_drift_that_the_static_map_misses() -> None:
    before, after = stream(2000, 0.0, 3), stream(2000, 1.0, 4)
    static = calibrant.fit("platt", *before)
    p, y = (np.concatenate(both) for both in zip(before, after, strict=True))
    followed = follow_stream(p, y, online=start_online(static))
    loss = dict(zip(followed.experts, followed.log_losses.tolist(), strict=True))
    mixture = -np.log(np.where(y == 1, followed.probabilities, 1.0 - followed.probabilities)).sum()
    assert mixture < min(loss["static"], loss["window"], loss["identity"])


def test_counts_of_rows_are_repeated_rows() -> None:
    p, y, count = np.array([0.2, 0.7, 0.9]), np.array([0, 1, 0]), np.array([3, 1, 2])
    counted = start_online().update(p, y, weights=count)
    repeated = start_online().update(np.repeat(p, count), np.repeat(y, count))
    np.testing.assert_allclose(counted.theta, repeated.theta, rtol=1e-12)
    np.testing.assert_allclose(counted.log_weights, repeated.log_weights, rtol=1e-12)
    np.testing.assert_allclose(counted.residuals, repeated.residuals, rtol=1e-12, atol=1e-15)


def test_a_tally_of_a_million_rows_is_one_update() -> None:
    p = np.linspace(0.01, 0.99, 99)
    ones = np.round(10_000 * expit(logit(p) + 0.5))
    state = start_online(rows_per_round=990_000)
    for _ in range(5):
        labels = np.repeat([1, 0], 99)
        state = state.update(np.tile(p, 2), labels, weights=np.concatenate([ones, 10_000 - ones]))
    np.testing.assert_allclose(state.refit(np.array([0.5])), expit(0.5), atol=0.002)
    assert np.isfinite(state.log_weights).all()
    assert np.isfinite(state.tracking).all()


def test_the_window_forgets_all_older_rows() -> None:
    state = start_online(window=100)
    for shift, seed in ((-3.0, 5), (3.0, 6)):
        p, y = stream(120, shift, seed)
        state = follow_stream(p, y, online=state).state
    p, y = stream(120, 3.0, 6)
    assert sum(sums[0] for block in state.blocks for sums in block.values()) < 120
    assert state.refit(np.array([0.5]))[0] > 0.8


def test_online_maps_never_decrease() -> None:
    random = np.random.default_rng(7)
    p = random.random(400)
    state = start_online().update(p, (random.random(400) < 1.0 - p).astype(np.int64))
    for _ in range(5):
        state = state.update(p, (random.random(400) < 1.0 - p).astype(np.int64))
    curves = state._maps(np.linspace(0.0, 1.0, 50)).online
    assert (np.diff(curves, axis=1) >= -1e-15).all()


@pytest.mark.parametrize(("reduction", "n_classes"), [("binary", None), ("confidence", 3), ("class:1", 3)])
def test_the_map_of_an_event_applies_to_its_predictions(reduction: str, n_classes: int | None) -> None:
    fitted = start_online().update([0.2, 0.8], [0, 1]).to_map(reduction=reduction, n_classes=n_classes)
    assert calibrant.load(fitted.to_document()) == fitted
    assert fitted.apply([0.3]).shape == (1,)


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"memories": ()}, "/memories"),
        ({"memories": (0,)}, "/memories"),
        ({"memories": (5, 5)}, "/memories"),
        ({"memories": (True,)}, "/memories"),
        ({"memories": 7}, "/memories"),
        ({"window": 9}, "/window"),
        ({"window": 100.0}, "/window"),
        ({"delay": -1}, "/delay"),
        ({"delay": 10_001}, "/delay"),
        ({"rows_per_round": 0}, "/rows_per_round"),
        ({"static": "platt"}, "/static"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, InvalidOption):
        start_online(**options)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 3},
        {"format": True},
        {"format": 1},
        {"shifts": [[0.0]]},
        {"shifts": None},
        {"shifts": [[0.0, 0.0]] * 4},
        {"memories": None},
        {"window": True},
        {"rounds": -1},
        {"theta": [[1.0]]},
        {"theta": "x"},
        {"log_weights": [[float("nan")] * 23]},
        {"residuals": [[[0.0, 0.0]]]},
        {"curves": []},
        {"curves": [{"family": "platt", "parameters": {}}] * 2},
        {"blocks": []},
        {"blocks": [[[64, 1.0, 1.0, 1.0]]]},
        {"blocks": [[[3, 1.0, 2.0, 1.0]]]},
        {"blocks": [7]},
    ],
)
def test_invalid_documents_are_refused(change: dict[str, Any]) -> None:
    document = {**start_online().to_document(), **change}
    with pytest.raises(InvalidDocument):
        OnlineMap.from_document(document)


@pytest.mark.parametrize(
    ("p", "y"),
    [([0.1, np.nan], [0, 1]), ([0.1, 1.5], [0, 1]), ([0.1], [0, 1]), ([0.1], [2]), ([], []), ([[0.1, 0.9]], [1])],
)
def test_invalid_rows_are_refused(p: Any, y: Any) -> None:
    with pytest.raises(calibrant.CalibrationError):
        start_online().update(p, y)
    with pytest.raises(calibrant.CalibrationError):
        follow_stream(p, y)


def test_predictions_of_several_classes_are_refused() -> None:
    with pytest.raises(WrongShape, match="one event"):
        start_online().predict([[0.5, 0.5]])


def test_a_state_of_another_stream_made_no_prediction_of_this_one() -> None:
    with pytest.raises(InvalidOption, match="predicted_by"):
        start_online().update([0.5], [1], predicted_by=start_online(memories=(7,)))


def test_a_late_stream_starts_without_updates() -> None:
    started = start_online(delay=1).update([0.5], [1])
    with pytest.raises(InvalidOption, match="online"):
        follow_stream([0.5], [1], online=started)


def test_a_stream_goes_on_from_its_state_as_if_it_were_whole() -> None:
    random = np.random.default_rng(0)
    p = random.random(40)
    y = (random.random(40) < p**2).astype(int)
    first = calibrant.follow_stream(p[:20], y[:20])
    rest = calibrant.follow_stream(p[20:], y[20:], online=first.state)
    whole = calibrant.follow_stream(p, y)
    assert rest.probabilities == pytest.approx(whole.probabilities[20:], abs=1e-12)
    assert (rest.state.rounds, whole.state.rounds) == (40, 40)


def test_a_map_is_not_the_state_of_a_stream() -> None:
    with pytest.raises(InvalidOption, match=r"online must be a state; of a map, pass start_online\(map\)"):
        follow_stream([0.5], [1], online=calibrant.fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]))  # type: ignore[arg-type]


def test_certain_predictions_that_are_wrong_cost_a_finite_loss() -> None:
    followed = follow_stream([0.0, 1.0] * 20, [1, 0] * 20)
    assert np.isfinite(followed.log_losses).all()
    assert np.isfinite(followed.probabilities).all()
    json.dumps(followed.state.to_document(), allow_nan=False)
