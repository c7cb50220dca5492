"""Events with one outcome, such as that every predicted class is correct."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import OneClass

RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 3, 60)
#: The label always has the largest probability.
RIGHT = 0.4 * RANDOM.dirichlet(np.ones(3), 60) + 0.6 * np.eye(3)[LABELS]
FITTING = "use reduction classwise or class:0 or class:1 or class:2"


@pytest.mark.parametrize(
    ("reduction", "event"),
    [
        ("confidence", "in every row the label is the predicted class"),
        ("top:1", "in every row the label is the class at rank 1"),
        ("top:2", "in no row the label is the class at rank 2"),
        ("within-top:2", "in every row the label is among the first 2 classes"),
    ],
)
def test_an_event_with_one_outcome_names_the_reductions_with_both(reduction: str, event: str) -> None:
    report = calibrant.evaluate(RIGHT, LABELS, measures=["auroc", "brier", "ece", "accuracy"], reduction=reduction)
    assert report["auroc"].problem == f"no value: labels have one outcome under {reduction}: {event}; {FITTING}"
    assert all(report[key].value is not None for key in ("brier", "ece", "accuracy"))
    for method in ("platt", "isotonic", "pl"):
        with pytest.raises(OneClass, match=f"have one outcome under {reduction}"):
            calibrant.fit(method, RIGHT, LABELS, reduction=reduction)


def test_the_reductions_that_are_named_have_values() -> None:
    for reduction in ("classwise", "class:0", "class:1", "class:2"):
        report = calibrant.evaluate(RIGHT, LABELS, measures=["auroc"], reduction=reduction)
        assert report["auroc"].value is not None
        assert calibrant.fit("isotonic", RIGHT, LABELS, reduction=reduction).reduction == reduction


def test_classes_without_rows_of_weight_are_not_named() -> None:
    weights = (LABELS != 2).astype(float)
    report = calibrant.evaluate(RIGHT, LABELS, measures=["auroc"], reduction="confidence", weights=weights)
    assert (report["auroc"].problem or "").endswith("; use reduction class:0 or class:1")


def test_each_group_names_its_own_reductions() -> None:
    groups = np.where(LABELS == 0, "a", "b")
    report = calibrant.evaluate(RIGHT, LABELS, measures=["auroc"], reduction="confidence", groups=groups)
    assert report.groups is not None
    assert (report.groups["a"]["auroc"].problem or "").endswith(", and all labels are equal")
    assert (report.groups["b"]["auroc"].problem or "").endswith("; use reduction class:1 or class:2")


def test_diagrams_name_single_events() -> None:
    diagrams = calibrant.evaluate(RIGHT, LABELS, measures=["brier"], diagrams=["fit-on-test"]).diagrams
    assert diagrams["fit-on-test"]["problem"].endswith("; use reduction class:0 or class:1 or class:2")


def test_two_columns_name_the_binary_reduction() -> None:
    y = (LABELS > 0).astype(int)
    p = 0.4 * RANDOM.dirichlet(np.ones(2), 60) + 0.6 * np.eye(2)[y]
    report = calibrant.evaluate(p, y, measures=["auroc"])
    assert "use reduction binary or classwise" in (report["auroc"].problem or "")


def test_the_whole_vector_names_the_reductions_with_both_outcomes_of_its_confidence() -> None:
    problem = calibrant.evaluate(RIGHT, LABELS, measures=["auroc"], reduction="canonical")["auroc"].problem
    assert problem == (
        f"no value: labels have one outcome under confidence: in every row the label is the predicted class; {FITTING}"
    )


@pytest.mark.parametrize(("outcome", "every"), [(1, "every"), (0, "no")])
def test_confidences_of_one_outcome_say_that_every_predicted_class_is_right_or_wrong(outcome: int, every: str) -> None:
    p, y = RIGHT.max(axis=1), np.full(len(RIGHT), outcome)
    message = f"labels have one outcome under confidence: in {every} row the predicted class is right; use rows of both"
    report = calibrant.evaluate(p, y, measures=["auroc"], reduction="confidence")
    assert report["auroc"].problem == f"no value: {message}"
    for method in ("platt", "isotonic", "averaged"):
        with pytest.raises(OneClass) as refused:
            calibrant.fit(method, p, y, reduction="confidence")
        assert str(refused.value) == message
