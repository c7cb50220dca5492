from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import Batch, read_batch
from calibrant.core.errors import (
    CalibrationError,
    InvalidLabel,
    InvalidWeight,
    LengthMismatch,
    UnknownReduction,
    WrongShape,
)
from calibrant.decisions.costs import Costs, SharedRows
from tests.refusals import refused_at

RANDOM = np.random.default_rng(4)
P = RANDOM.random(60)
Y = (RANDOM.random(60) < P).astype(int)
PROBS = RANDOM.dirichlet([0.5] * 3, 60)
CLASSES = RANDOM.integers(0, 3, 60)
#: The same numbers as importance weights, which are divided by the largest.
W = np.linspace(0.5, 1.0, 60)


def test_two_batches_one_after_the_other_make_the_plane_of_both() -> None:
    costs = Costs([0.0, 0.3], [2.0, 9.0])
    added = costs.run(costs.event(costs.check(read_batch(P, Y))), costs.event(costs.check(read_batch(P**2, Y))))
    whole = calibrant.cost_plane(P, P**2, Y, abstention=[0.0, 0.3], cost_ratios=[2.0, 9.0])
    assert np.array_equal(added.relative, whole.relative)
    events = [
        costs.event(costs.check(read_batch(predictions, CLASSES))) for predictions in (PROBS, np.roll(PROBS, 1, axis=1))
    ]
    plane = calibrant.cost_plane(PROBS, np.roll(PROBS, 1, axis=1), CLASSES, abstention=[0.0, 0.3], cost_ratios=[2, 9])
    assert np.array_equal(costs.run(*events).relative, plane.relative)
    assert all(event.whole is None for event in events)


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (lambda: read_batch(P[:50], Y[:50]), LengthMismatch),
        (lambda: read_batch(np.stack([1 - P, P], axis=1), Y), WrongShape),
        (lambda: read_batch(P, 1 - Y), InvalidLabel),
        (lambda: read_batch(P, Y), InvalidWeight),
        (lambda: read_batch(P, Y, np.arange(60.0)), InvalidWeight),
        (lambda: read_batch(P, Y, np.round(W), kind="frequency"), InvalidWeight),
    ],
)
def test_models_of_other_rows_are_refused_with_the_difference(
    other: Callable[[], Batch], error: type[CalibrationError]
) -> None:
    first = SharedRows.of(read_batch(P, Y, W))
    SharedRows.of(read_batch(P**2, Y, W)).match(first, "/batches/1")
    with refused_at("/batches/1", error):
        SharedRows.of(other()).match(first, "/batches/1")


@pytest.mark.parametrize(
    ("first", "second", "model", "pointer"),
    [
        (P + 1, P, "first", "/first/0"),
        (P, np.where(np.arange(60) == 3, np.nan, P), "second", "/second/3"),
        (P, P[:50], "second", "/labels"),
    ],
)
def test_errors_name_the_model(first: object, second: object, model: str, pointer: str) -> None:
    with pytest.raises(CalibrationError) as raised:
        calibrant.cost_plane(first, second, Y)
    assert raised.value.offences[0].pointer == pointer
    assert raised.value.detail.startswith(f"{model}: ")
    assert "/predictions" not in raised.value.detail


@pytest.mark.parametrize("reduction", ["canonical", "classwise", "pooled"])
def test_rows_with_several_events_have_no_cost_plane(reduction: str) -> None:
    with pytest.raises(UnknownReduction):
        Costs(reduction=reduction).check(read_batch(PROBS, CLASSES))


def test_the_estimate_grows_with_rows_and_classes() -> None:
    of_event, of_classes = read_batch(P, Y), read_batch(PROBS, CLASSES)
    few, many = (Costs().seconds(Costs().check(batch)) for batch in (of_event, of_classes))
    assert 0.0 < few < many
