"""Laws of online recalibration: bounds of the mixture's log loss, documents, and replay."""

from __future__ import annotations

import json
import math
from collections import deque

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.core.cells import Floats
from calibrant.maps.curves import PROBABILITY_CLIP
from calibrant.monitoring.online import OnlineMap, follow_stream, start_online
from tests.drawn import examples

probabilities = st.one_of(st.sampled_from([0.0, 1.0, 1e-300, 0.5, 1.0 - 2.0**-53]), st.floats(0.0, 1.0))
rows = st.lists(st.tuples(probabilities, st.integers(0, 1)), min_size=1, max_size=40)


def losses(predicted: Floats, labels: Floats) -> Floats:
    """The log loss of each prediction."""
    return np.asarray(-np.log(np.where(labels == 1, predicted, 1.0 - predicted)))


@settings(max_examples=examples(16, 800))
@given(rows=rows, delay=st.integers(0, 6))
def test_the_log_loss_is_at_most_the_best_experts_plus_the_bound(rows: list[tuple[float, int]], delay: int) -> None:
    p, y = (np.array(column) for column in zip(*rows, strict=True))
    followed = follow_stream(p, y, online=start_online(delay=delay, memories=(None, 10)))
    bound = followed.log_losses.min() + (delay + 1) * math.log(len(followed.experts))
    assert losses(followed.probabilities, y).sum() <= bound + 1e-9


@settings(max_examples=examples(10, 500))
@given(p=st.lists(probabilities, min_size=1, max_size=40), delay=st.integers(0, 4), turns=st.integers(1, 15))
def test_the_bound_holds_against_an_adversary(p: list[float], delay: int, turns: int) -> None:
    """The adversary sees each prediction first, and chooses the worse label, or the better one in every second turn."""
    state = start_online(delay=delay, memories=(None, 5))
    late: deque[tuple[float, int, OnlineMap]] = deque()
    mixture, identity, experts = 0.0, 0.0, np.zeros(len(state.experts))
    for t, prediction in enumerate(p):
        if len(late) > delay:
            then, label, state_then = late.popleft()
            state = state.update([then], [label], predicted_by=state_then)
        predicted = float(state.predict([prediction])[0])
        y = int(predicted < 0.5) ^ (t // turns % 2)
        late.append((prediction, y, state))
        clipped = min(max(prediction, PROBABILITY_CLIP), 1.0 - PROBABILITY_CLIP)
        mixture -= math.log(predicted if y else 1.0 - predicted)
        identity -= math.log(clipped if y else 1.0 - clipped)
        of_experts = state._predicted(np.array([prediction]))[:, 0]
        experts -= np.log(of_experts if y else 1.0 - of_experts)
    bound = (delay + 1) * math.log(len(state.experts))
    assert mixture <= min(identity, float(experts.min())) + bound + 1e-9


@settings(max_examples=examples(10, 500))
@given(rounds=st.lists(rows.map(lambda row: row[:8]), min_size=1, max_size=12))
def test_the_bound_of_rounds_of_several_rows_is_that_many_times_larger(
    rounds: list[list[tuple[float, int]]],
) -> None:
    most = 8
    state = start_online(rows_per_round=most, memories=(None, 20))
    mixture, experts = 0.0, np.zeros(len(state.experts))
    for batch in rounds:
        p, y = (np.array(column) for column in zip(*batch, strict=True))
        mixture += float(losses(state.predict(p), y).sum())
        experts += losses(state._predicted(p), y).sum(axis=1)
        state = state.update(p, y)
    assert mixture <= experts.min() + most * math.log(len(experts)) + 1e-9


@settings(max_examples=examples(8, 400))
@given(first=rows, second=rows, delay=st.integers(0, 3))
def test_a_state_survives_its_document_bit_for_bit(
    first: list[tuple[float, int]], second: list[tuple[float, int]], delay: int
) -> None:
    state = start_online(delay=delay, memories=(None, 10), window=20)
    for p, y in first:
        state = state.update([p], [y])
    text = json.dumps(state.to_document(), allow_nan=False)
    restored = OnlineMap.from_document(json.loads(text))
    assert json.dumps(restored.to_document()) == text
    for p, y in second:
        assert state.predict([p]) == restored.predict([p])
        state, restored = state.update([p], [y]), restored.update([p], [y])
    assert json.dumps(restored.to_document()) == json.dumps(state.to_document())


@settings(max_examples=examples(8, 400))
@given(rows=rows)
def test_the_exported_map_gives_the_predictions_of_the_state(rows: list[tuple[float, int]]) -> None:
    state = start_online(memories=(None, 10), window=20)
    p, y = (np.array(column) for column in zip(*rows, strict=True))
    state = state.update(p, y)
    grid = np.linspace(0.001, 0.999, 333)
    exported = calibrant.load(json.loads(json.dumps(state.to_map().to_document())))
    np.testing.assert_allclose(exported.apply(grid), state.predict(grid), rtol=0.01, atol=1e-4)
