"""Coverage of prediction sets against numbers computed by hand, and input that has no one reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, binomtest

import calibrant
from calibrant import PredictionSets, evaluate_sets
from calibrant.core.errors import CalibrationError
from tests.refusals import refused_at

#: Five rows of four classes. Sizes are 1, 2, 3, 2, 0; the rows 0, 2 and 3 are covered.
MEMBERS = np.array(
    [
        [True, False, False, False],
        [True, True, False, False],
        [True, True, True, False],
        [False, False, True, True],
        [False, False, False, False],
    ]
)
LABELS = [0, 2, 2, 3, 0]
NAMES = ["ant", "bee", "cat", "dog"]
LISTS = [["ant"], ["ant", "bee"], ["ant", "bee", "cat"], ["cat", "dog"], []]


def test_coverage_by_class_and_size_is_that_of_counting() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, alpha=0.2, groups=["x", "y", "x", "y", "y"])
    assert (evaluation.n, evaluation.coverage, evaluation.mean_size) == (5, 0.6, 1.6)
    assert (evaluation.singletons, evaluation.empty) == (0.2, 0.2)
    assert [(row.name, row.n, row.coverage) for row in evaluation.by_class] == [
        ("0", 2, 0.5),
        ("2", 2, 0.5),
        ("3", 1, 1.0),
    ]
    of_size = [(row.name, row.n, row.coverage) for row in evaluation.by_size]
    assert of_size == [("0", 1, 0.0), ("1", 1, 1.0), ("2", 2, 0.5), ("3", 1, 1.0)]
    assert [(row.name, row.n, row.coverage) for row in evaluation.by_group] == [
        ("x", 2, 1.0),
        ("y", 3, pytest.approx(1 / 3)),
    ]
    assert [row.mean_size for row in evaluation.by_group] == [2.0, pytest.approx(4 / 3)]


def test_the_size_stratified_violation_is_the_largest_distance_of_a_stratum() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, alpha=0.2)
    # Sizes 0 and 1: 1 of 2 covered; sizes 2 and 3: 2 of 3.
    assert evaluation.size_violation == pytest.approx(0.3)
    assert evaluation.violating_sizes == "0-1"
    wide = np.ones((3, 150), bool)
    wide[0, 5:] = False
    wide[1, 20:] = False
    evaluation = evaluate_sets(wide, [4, 30, 149], alpha=0.1)  # strata 4-10, 11-100, 101+
    assert evaluation.size_violation == pytest.approx(0.9)
    assert evaluation.violating_sizes == "11-100"
    assert evaluate_sets(wide, [120, 3, 149], alpha=0.9).violating_sizes == "11-100"
    assert evaluate_sets(wide[2:], [0], alpha=0.1).violating_sizes == "101+"


def test_the_class_gap_is_the_mean_distance_over_the_classes_with_rows() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, alpha=0.2)
    assert evaluation.class_gap == pytest.approx((0.3 + 0.3 + 0.2) / 3)
    expected = [sum(binom.pmf(k, n, 0.8) * abs(k / n - 0.8) for k in range(n + 1)) for n in (2, 2, 1)]
    assert evaluation.class_gap_by_chance == pytest.approx(np.mean(expected), rel=1e-11)


def test_the_class_gap_of_calibrated_sets_is_that_by_chance() -> None:
    rng = np.random.default_rng(5)
    gaps = []
    for _ in range(300):
        labels = np.repeat(np.arange(20), 15)
        members = np.zeros((300, 20), bool)
        members[np.arange(300), labels] = rng.random(300) < 0.9
        evaluation = evaluate_sets(members, labels, alpha=0.1)
        assert evaluation.class_gap is not None
        gaps.append(evaluation.class_gap)
    assert np.mean(gaps) == pytest.approx(evaluation.class_gap_by_chance, abs=4 * np.std(gaps) / np.sqrt(300))


def test_coverage_by_size_is_that_of_mapie() -> None:
    known = json.loads((Path(__file__).parents[2] / "golden" / "set_coverage.json").read_text())
    members = np.array([[cell == "1" for cell in row] for row in known["members"]])
    evaluation = evaluate_sets(members, known["labels"])
    assert evaluation.coverage == pytest.approx(known["classification_coverage_score"], abs=1e-15)
    assert evaluation.mean_size == pytest.approx(known["classification_mean_width_score"], abs=1e-15)
    of_size = {int(row.name): row.coverage for row in evaluation.by_size}
    assert [of_size.get(size) for size in range(7)] == pytest.approx(known["classification_ssc"], abs=1e-15)
    assert min(of_size.values()) == pytest.approx(known["classification_ssc_score"], abs=1e-15)


def test_intervals_are_those_of_clopper_and_pearson() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, interval=0.9)
    rows: list[Any] = [evaluation, *evaluation.by_class, *evaluation.by_size]
    for row in rows:
        exact = binomtest(round(row.coverage * row.n), row.n).proportion_ci(0.9, method="exact")
        assert (row.low, row.high) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_an_interval_contains_the_true_coverage_as_often_as_its_level() -> None:
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(400):
        members = np.zeros((60, 2), bool)
        members[:, 0] = rng.random(60) < 0.85
        evaluation = evaluate_sets(members, np.zeros(60, int))
        inside += evaluation.low <= 0.85 <= evaluation.high
    assert inside / 400 >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


@pytest.mark.parametrize(
    ("sets", "labels", "class_names"),
    [
        (MEMBERS.astype(int), LABELS, None),
        (MEMBERS.astype(np.float32), np.array(LABELS, dtype=np.float64), None),
        (MEMBERS.tolist(), LABELS, None),
        ([[0], [0, 1], [0, 1, 2], [2, 3], []], LABELS, None),
        ([(0,), {0, 1}, frozenset((0, 1, 2)), np.array([3, 2]), ()], LABELS, None),
        (LISTS, [NAMES[k] for k in LABELS], NAMES),
        (LISTS, LABELS, NAMES),
        (LISTS, LABELS, dict(enumerate(NAMES))),
        ([[0], [0, 1], [0, 1, 2], [2, 3], []], [NAMES[k] for k in LABELS], NAMES),
        (pd.DataFrame(MEMBERS, columns=NAMES), [NAMES[k] for k in LABELS], None),
        (pl.DataFrame(MEMBERS.astype(int), schema=NAMES), pl.Series([NAMES[k] for k in LABELS]), None),
        (PredictionSets(MEMBERS, tuple(NAMES), 0.2), [NAMES[k] for k in LABELS], None),
        (PredictionSets(MEMBERS, (0, 1, 2, 3), 0.2), LABELS, None),
    ],
)
def test_sets_of_every_type_have_the_same_evaluation(sets: Any, labels: Any, class_names: Any) -> None:
    alpha = None if isinstance(sets, PredictionSets) else 0.2
    evaluation = evaluate_sets(sets, labels, class_names=class_names, alpha=alpha).to_dict()
    expected = evaluate_sets(MEMBERS, LABELS, alpha=0.2).to_dict()
    own = [row.pop("name") for row in evaluation["by_class"]]
    assert own in (["0", "2", "3"], ["ant", "cat", "dog"])
    for row in expected["by_class"]:
        row.pop("name")
    assert evaluation == expected


def test_frequency_weights_count_rows_and_importance_weights_only_their_ratios() -> None:
    repeated = evaluate_sets(np.repeat(MEMBERS, [3, 1, 2, 1, 4], axis=0), np.repeat(LABELS, [3, 1, 2, 1, 4]), alpha=0.2)
    weighted = evaluate_sets(MEMBERS, LABELS, alpha=0.2, weights=[3, 1, 2, 1, 4], weights_kind="frequency")
    assert weighted == repeated
    first, second = (evaluate_sets(MEMBERS, LABELS, alpha=0.2, weights=w) for w in ([2, 1, 1, 1, 1], [6, 3, 3, 3, 3]))
    assert first == second
    assert first.coverage == pytest.approx(4 / 6)
    assert first.class_gap_by_chance is None
    equal, plain = evaluate_sets(MEMBERS, LABELS, weights=[7.0] * 5), evaluate_sets(MEMBERS, LABELS)
    assert (equal.low, equal.high) == pytest.approx((plain.low, plain.high))


def test_rows_of_weight_0_and_their_groups_are_left_out() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, weights=[1, 0, 1, 1, 0], groups=["a", "b", "a", "a", "a"])
    assert (evaluation.n, evaluation.coverage) == (3, 1.0)
    assert [row.name for row in evaluation.by_group] == ["a"]


def test_there_is_no_distance_from_a_nominal_coverage_without_alpha() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS)
    assert {
        evaluation.alpha,
        evaluation.size_violation,
        evaluation.violating_sizes,
        evaluation.class_gap,
        evaluation.class_gap_by_chance,
    } == {None}
    assert "violation" not in repr(evaluation)


def test_sets_of_risk_control_have_no_nominal_coverage() -> None:
    p, y = np.linspace(0.0, 1.0, 200), np.arange(200) // 100
    fitted = calibrant.fit_sets(p, y, method="crc", alpha=0.2)
    sets = fitted.apply(p)
    assert (fitted.alpha, sets.alpha, evaluate_sets(sets, y).class_gap) == (0.2, None, None)
    assert str(sets).startswith("Prediction sets of 200 rows\n")
    labels = np.column_stack([y, 1 - y])
    both = calibrant.fit_sets(np.column_stack([p, 1 - p]), labels, method="crc", alpha=0.2)
    assert both.apply(np.column_stack([p, 1 - p])).alpha is None


def test_the_result_is_json_a_frame_and_a_table() -> None:
    evaluation = evaluate_sets(MEMBERS, LABELS, alpha=0.2, groups=list("xyxyy"))
    assert json.loads(json.dumps(evaluation.to_dict())) == evaluation.to_dict()
    frame = evaluation.to_frame()
    assert frame["by"].tolist() == ["all", *["class"] * 3, *["size"] * 4, *["group"] * 2]
    assert frame["coverage"].iloc[0] == 0.6
    assert "class-conditional gap: 0.2667" in repr(evaluation)
    assert "nominal coverage 0.8" in evaluation._repr_html_()


def test_the_table_of_many_classes_has_those_with_the_lowest_coverage() -> None:
    labels = np.arange(30)
    members = np.eye(30, dtype=bool)
    members[[4, 9], [4, 9]] = False
    text = repr(evaluate_sets(members, labels, class_names=[f"c{k}" for k in range(30)]))
    assert "class c4 " in text
    assert "class c9 " in text
    assert text.count("\nclass ") == 10
    assert "of 30 classes, the 10 with the lowest coverage are shown" in text


@pytest.mark.parametrize(
    ("arguments", "pointer", "code"),
    [
        (([], []), "/sets", "empty-batch"),
        ((np.zeros((0, 3), bool), []), "/sets", "empty-batch"),
        ((None, [0]), "/sets", "wrong-shape"),
        (("cat", ["cat"]), "/sets", "wrong-shape"),
        ((np.array([True, False]), [0, 1]), "/sets", "wrong-shape"),
        ((np.ones((2, 1), bool), [0, 0]), "/sets", "wrong-shape"),
        ((np.ones((2, 2, 2), bool), [0, 0]), "/sets", "wrong-shape"),
        ((np.array([[0.0, 0.5], [1.0, 1.0]]), [0, 1]), "/sets/0", "invalid-option"),
        ((np.array([[0.0, 1.0], [1.0, np.nan]]), [0, 1]), "/sets/1", "invalid-option"),
        ((np.array([["a", "b"]]), [0]), "/sets", "not-a-number"),
        ((["ab", "b"], [0, 1]), "/sets/0", "wrong-shape"),
        (([[0], 3], [0, 1]), "/sets/1", "wrong-shape"),
        (([[0], [0, 0]], [0, 1]), "/sets/1", "invalid-option"),
        (([[1, 0, 1], [0, 1, 1]], [0, 1]), "/sets/0", "invalid-option"),
        (([[0, 1], [1, 0]], [0, 1]), "/sets", "invalid-option"),
        (([[0], [-1]], [0, 1]), "/sets/1", "invalid-label"),
        (([[0], [2**40]], [0, 1]), "/sets/1", "invalid-label"),
        (([[0], [0.5]], [0, 1]), "/sets/1", "invalid-label"),
        (([[0], [None]], [0, 1]), "/sets/1", "invalid-label"),
        (([[0], [True, 1]], [0, 1]), "/sets/1", "invalid-label"),
        (([["a"], ["b"]], ["a", "b"]), "/class_names", "invalid-option"),
        ((MEMBERS, [0, 2, 2, 3]), "/labels", "length-mismatch"),
        ((MEMBERS, [0, 2, 2, 4, 0]), "/labels/3", "invalid-label"),
        ((MEMBERS, [0, 2, 2, 1.5, 0]), "/labels/3", "invalid-label"),
        ((MEMBERS, [*NAMES, "ant"]), "/labels", "invalid-label"),
        (([[0], [1]], [0, -1]), "/labels/1", "invalid-label"),
    ],
)
def test_input_that_is_no_sets_or_labels_is_refused_at_its_place(arguments: Any, pointer: str, code: str) -> None:
    with refused_at(pointer, CalibrationError, code=code):
        evaluate_sets(*arguments)


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"alpha": 0.0}, "/alpha"),
        ({"alpha": 1}, "/alpha"),
        ({"alpha": True}, "/alpha"),
        ({"alpha": "0.1"}, "/alpha"),
        ({"interval": 95}, "/interval"),
        ({"groups": ["a"] * 4}, "/groups"),
        ({"weights": [1, 1, 1, 1, -1]}, "/weights/4"),
        ({"weights": [1, 1, 1, 1, np.nan]}, "/weights/4"),
        ({"weights": [0, 0, 0, 0, 0]}, "/weights"),
        ({"weights": [1, 2, 3, 4, 1.5], "weights_kind": "frequency"}, "/weights/4"),
        ({"weights_kind": "counts", "weights": [1] * 5}, "/weights_kind"),
        ({"class_names": ["a", "b"]}, "/class_names"),
        ({"class_names": ["a", "a", "b", "c"]}, "/class_names"),
        ({"class_names": "abcd"}, "/class_names"),
    ],
)
def test_an_invalid_option_is_refused_by_name(options: dict[str, Any], pointer: str) -> None:
    with refused_at(pointer, CalibrationError):
        evaluate_sets(MEMBERS, LABELS, **options)


def test_names_of_classes_that_do_not_exist_are_refused_without_echoing_them() -> None:
    with pytest.raises(CalibrationError) as error:
        evaluate_sets([["ant"], ["secret"]], ["ant", "bee"], class_names=NAMES)
    assert error.value.offences[0].pointer == "/sets/1"
    assert "secret" not in str(error.value)
    with pytest.raises(CalibrationError) as error:
        evaluate_sets(LISTS, [*NAMES, "secret"], class_names=NAMES)
    assert error.value.offences[0].pointer == "/labels/4"
    assert "secret" not in str(error.value)


def test_an_alpha_that_contradicts_that_of_the_sets_is_refused() -> None:
    sets = PredictionSets(MEMBERS, (0, 1, 2, 3), 0.1)
    with refused_at("/alpha", CalibrationError):
        evaluate_sets(sets, LABELS, alpha=0.2)
    assert evaluate_sets(sets, LABELS, alpha=0.1).alpha == 0.1


def test_frames_whose_rows_do_not_match_are_refused() -> None:
    frame = pd.DataFrame(MEMBERS, columns=NAMES)
    with pytest.raises(CalibrationError, match="different indexes"):
        evaluate_sets(frame, pd.Series(LABELS, index=[1, 2, 3, 4, 5]))


def test_arguments_of_other_libraries_are_explained() -> None:
    with pytest.raises(TypeError, match="pass labels"):
        evaluate_sets(MEMBERS, y_true=LABELS)  # type: ignore[call-arg]
    assert "evaluate_sets" in dir(calibrant)
