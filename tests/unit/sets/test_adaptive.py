"""Adaptive conformal inference: its steps, its input, and its bound for streams of every kind."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import AdaptiveAlpha, start_adaptive
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at


def test_a_step_moves_alpha_by_gamma_times_the_difference() -> None:
    state = start_adaptive(0.1, gamma=0.5)
    assert state.update(True).value == pytest.approx(0.15)
    assert state.update(False).value == pytest.approx(-0.35)
    assert (state.value, state.error, state.bound()) == (0.1, None, math.inf)


def test_labels_in_any_order_and_at_once_give_the_same_state() -> None:
    covered = np.random.default_rng(2).random(50) < 0.8
    once = start_adaptive(0.2).update(covered)
    one_by_one = start_adaptive(0.2)
    for label in covered[::-1]:
        one_by_one = one_by_one.update(label)
    assert once == one_by_one
    assert start_adaptive(0.2).update([]) == start_adaptive(0.2)
    assert once == start_adaptive(0.2).update(covered.astype(float))


@given(
    target=st.floats(0.01, 0.99),
    gamma=st.floats(0.001, 1.0),
    first=st.floats(0.0, 1.0),
    delay=st.integers(0, 5),
    hostile=st.sampled_from(["covers", "misses", "against", "random"]),
    choices=st.lists(st.booleans(), min_size=1, max_size=300),
)
def test_the_mean_error_of_every_stream_is_within_the_bound(
    target: float, gamma: float, first: float, delay: int, hostile: str, choices: list[bool]
) -> None:
    state, waiting = start_adaptive(target, gamma=gamma, first=first), list[bool]()
    for choice in choices:
        if len(waiting) > delay:
            state = state.update(waiting.pop(0))
        alpha = state.value
        free = {"covers": True, "misses": False, "against": alpha < target, "random": choice}[hostile]
        waiting.append(True if alpha <= 0.0 else False if alpha >= 1.0 else free)
        if state.error is not None:
            assert abs(state.error - target) <= state.bound(delay) + 1e-9
    if not delay:
        state = state.update(waiting)
        assert state.labels == len(choices)
        exact = (max(first, 1.0 - first) + gamma) / (len(choices) * gamma)
        assert state.bound() == pytest.approx(exact)
        assert state.error is not None
        assert abs(state.error - target) <= exact + 1e-9


def test_the_coverage_of_a_stream_that_shifts_returns_to_its_level() -> None:
    rng = np.random.default_rng(7)
    scores = np.concatenate([rng.random(4000), 1.0 + rng.random(4000)])  # a fixed threshold would miss all later ones
    state, covered = start_adaptive(0.1, gamma=0.02), []
    for score in scores:
        alpha = state.value
        threshold = math.inf if alpha <= 0.0 else -math.inf if alpha >= 1.0 else 1.0 - alpha
        covered.append(bool(score <= threshold))
        state = state.update(covered[-1])
    assert np.mean(covered[:4000]) == pytest.approx(0.9, abs=0.02)
    assert np.mean(covered[4000:]) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("arguments", "pointer"),
    [
        ({"alpha": 0}, "/alpha"),
        ({"alpha": 1.5}, "/alpha"),
        ({"alpha": True}, "/alpha"),
        ({"alpha": math.nan}, "/alpha"),
        ({"alpha": 0.1, "gamma": 0}, "/gamma"),
        ({"alpha": 0.1, "gamma": math.inf}, "/gamma"),
        ({"alpha": 0.1, "gamma": "0.1"}, "/gamma"),
        ({"alpha": 0.1, "first": -0.1}, "/first"),
        ({"alpha": 0.1, "first": math.nan}, "/first"),
    ],
)
def test_an_invalid_start_is_refused_by_name(arguments: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        start_adaptive(**arguments)


@pytest.mark.parametrize("covered", [[2], ["yes"], [0.5], [[True]], [math.nan], None, "yes", [None], 3])
def test_what_is_no_coverage_is_refused(covered: Any) -> None:
    with pytest.raises(CalibrationError):
        start_adaptive(0.1).update(covered)


@pytest.mark.parametrize("delay", [-1, 1.5, True, "1"])
def test_an_invalid_delay_is_refused(delay: Any) -> None:
    with pytest.raises(CalibrationError, match="delay"):
        AdaptiveAlpha(0.1, 0.1, 0.1).bound(delay)
