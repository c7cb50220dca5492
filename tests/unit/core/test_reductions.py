from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.batch import read_batch
from calibrant.core.errors import UnknownReduction
from calibrant.core.reductions import Classes, Event, Vector, reduce, resolve, resolve_event, subject
from tests.known import known

PROBS = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2]])
LABELS = [1, 2, 1]


@pytest.mark.parametrize(
    ("reduction", "p", "y"),
    [
        ("confidence", [0.5, 0.6, 0.4], [1, 0, 0]),
        ("class:0", [0.2, 0.6, 0.4], [0, 0, 0]),
        ("class:1", [0.5, 0.3, 0.4], [1, 0, 1]),
    ],
)
def test_many_classes_become_one_event(reduction: str, p: list[float], y: list[int]) -> None:
    event = reduce(read_batch(PROBS, LABELS), reduction)
    np.testing.assert_allclose(event.p, p)
    assert event.y.tolist() == y


def test_two_columns_under_binary_mean_the_second_one() -> None:
    event = reduce(read_batch([[0.9, 0.1], [0.3, 0.7]], [0, 1]), "binary")
    np.testing.assert_allclose(event.p, [0.1, 0.7])
    assert event.y.tolist() == [0, 1]


def test_defaults_are_binary_for_one_column_and_confidence_for_many() -> None:
    assert resolve(None, None) == "binary"
    assert resolve(None, 2) == "confidence"


@pytest.mark.parametrize(
    ("reduction", "n_classes"),
    [("binary", 3), ("class:3", 3), ("class:-1", 3), ("class:01", 3), ("Class:1", 3), ("", 2)],
)
def test_a_reduction_that_does_not_fit_is_refused(reduction: str, n_classes: int) -> None:
    with pytest.raises(UnknownReduction):
        resolve(reduction, n_classes)


@pytest.mark.parametrize(
    ("reduction", "meant"),
    [
        ("class-wise", "classwise"),
        ("ClassWise", "classwise"),
        ("macro", "classwise"),
        ("top-label", "confidence"),
        ("ranks", "top:r"),
        ("canonicl", "canonical"),
    ],
)
def test_an_unknown_reduction_names_the_nearest_one(reduction: str, meant: str) -> None:
    with pytest.raises(UnknownReduction, match=rf"did you mean {meant}\?"):
        resolve(reduction, 3)


def test_an_unknown_class_and_an_unlike_name_name_what_is_accepted() -> None:
    with pytest.raises(UnknownReduction, match="the number of a class or one of the class names"):
        resolve("class:cta", 3)
    with pytest.raises(UnknownReduction, match=r"must be binary, confidence, .* or canonical"):
        resolve("xyz", 3)


@pytest.mark.parametrize(
    ("reduction", "p", "y"),
    [
        ("top:1", [0.5, 0.6, 0.4], [1, 0, 0]),
        ("top:2", [0.3, 0.3, 0.4], [0, 0, 1]),
        ("top:3", [0.2, 0.1, 0.2], [0, 1, 0]),
        ("within-top:1", [0.5, 0.6, 0.4], [1, 0, 0]),
        ("within-top:2", [0.8, 0.9, 0.8], [1, 0, 1]),
        ("within-top:3", [1.0, 1.0, 1.0], [1, 1, 1]),
    ],
)
def test_ranks_count_from_the_largest_and_the_first_of_equal_classes_ranks_first(
    reduction: str, p: list[float], y: list[int]
) -> None:
    event = reduce(read_batch(PROBS, LABELS), reduction)
    np.testing.assert_allclose(event.p, p)
    assert event.y.tolist() == y
    assert event.decided


def test_ranks_agree_with_a_stable_sort_of_each_row() -> None:
    random = np.random.default_rng(0)
    probs = np.round(random.dirichlet(np.ones(6), 200), 1) + 1e-12
    probs /= probs.sum(axis=1, keepdims=True)
    probs[:, 3] = probs[:, 2]
    probs /= probs.sum(axis=1, keepdims=True)
    labels = random.integers(0, 6, 200)
    order = np.argsort(-probs, axis=1, kind="stable")
    for rank in range(1, 7):
        event = reduce(read_batch(probs, labels), f"top:{rank}")
        np.testing.assert_array_equal(event.y, order[:, rank - 1] == labels)
        np.testing.assert_allclose(event.p, np.take_along_axis(probs, order, 1)[:, rank - 1])


def test_pooled_has_every_probability_of_every_row() -> None:
    event = reduce(read_batch(PROBS, LABELS, [1.0, 2.0, 3.0], kind="frequency"), "pooled")
    np.testing.assert_allclose(event.p, PROBS.ravel())
    assert event.y.tolist() == [0, 1, 0, 0, 0, 1, 0, 1, 0]
    assert known(event.w).tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert event.rows(np.array([2, 0])).p.tolist() == [*PROBS[2], *PROBS[0]]


def test_class_wise_is_the_event_of_each_class_also_where_a_class_is_missing() -> None:
    classes = subject(read_batch(PROBS.astype(np.float32), LABELS), "classwise")
    assert isinstance(classes, Classes)
    events = list(classes.events())
    assert [e.p.dtype for e in events] == [np.float64] * 3
    assert [e.y.tolist() for e in events] == [[0, 0, 0], [1, 0, 1], [0, 1, 0]]
    np.testing.assert_allclose([e.p for e in events], PROBS.T, atol=1e-7)


def test_one_column_as_a_vector_has_two() -> None:
    vector = subject(read_batch([0.3, -2.0], [1, 0], scale="logit"), "canonical")
    assert isinstance(vector, Vector)
    np.testing.assert_allclose(vector.p.sum(axis=1), 1.0)
    np.testing.assert_allclose(known(vector.logits), [[0.0, 0.3], [0.0, -2.0]])


def test_two_columns_of_logits_keep_the_logit_of_the_event() -> None:
    event = reduce(read_batch([[100.0, -100.0], [0.0, 1.0]], [0, 1], scale="logit"), "binary")
    assert known(event.logit).tolist() == [-200.0, 1.0]


def test_an_undecided_event_decides_at_one_half() -> None:
    event = Event(np.array([0.2, 0.5, 0.9]), np.array([0, 0, 1], np.int8), logit=np.array([-1.4, 0.0, 2.2]))
    claim = event.confidence()
    np.testing.assert_allclose(claim.p, [0.8, 0.5, 0.9])
    assert claim.y.tolist() == [1, 0, 1]
    np.testing.assert_allclose(known(claim.logit), [1.4, 0.0, 2.2])
    assert claim.confidence() is claim


@pytest.mark.parametrize("name", ["top:0", "top:4", "within-top:4", "top:x", "within-top:", "top:01"])
def test_a_rank_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(UnknownReduction):
        resolve(name, 3)


@pytest.mark.parametrize("name", ["pooled", "classwise", "canonical"])
def test_a_map_of_one_event_takes_no_question_about_several(name: str) -> None:
    assert resolve(name, 3) == name
    with pytest.raises(UnknownReduction):
        resolve_event(name, 3)
