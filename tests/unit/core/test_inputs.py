"""Rows in the types that callers have."""

from __future__ import annotations

from io import BytesIO
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import calibrant
from calibrant.core.arrays import GroupNames, cluster_names, distinct_names, group_names, numbered_names
from calibrant.core.errors import CalibrationError, InvalidLabel, InvalidOption, OutOfRange, UnusableRows, WrongShape
from calibrant.core.inputs import read_rows
from calibrant.evaluation import Evaluation
from calibrant.io.files import read_sheet
from calibrant.reports.panel import group_diagrams
from tests.known import known
from tests.rows import draw_classes, draw_event

P, Y = [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]
MATRIX = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
NAMES = ("bird", "cat", "dog")


@pytest.mark.parametrize(
    "convert",
    [
        list,
        tuple,
        np.array,
        lambda x: np.array(x, dtype=np.float32),
        pd.Series,
        lambda x: pd.Series(x, dtype="Float64" if isinstance(x[0], float) else "Int64"),
        pl.Series,
        torch.tensor,
        lambda x: torch.tensor(np.array(x, dtype=float), requires_grad=True),
        lambda x: np.array(x)[:, None],
        lambda x: pd.DataFrame({"x": x}),
        lambda x: pl.DataFrame({"x": x}),
        lambda x: np.ma.masked_array(x, mask=[False] * len(x)),
    ],
)
def test_rows_of_every_type_give_the_same_batch(convert: Any) -> None:
    rows = read_rows(convert(P), convert(Y), weights=convert([1.0, 2.0, 1.0, 1.0]), weights_kind="frequency")
    np.testing.assert_allclose(rows.batch.predictions.given, P, atol=1e-7)
    assert rows.batch.labels.tolist() == Y
    assert known(rows.batch.weights).tolist() == [1, 2, 1, 1]


@pytest.mark.parametrize(
    "labels",
    [
        [False, True, False, True],
        pd.Series([False, True, False, True]),
        pd.Series([False, True, False, True], dtype="boolean"),
        pd.Series(["0", "1", "0", "1"], dtype="category"),
        ["False", "True", "False", "True"],
        ["0", "1", "0", "1"],
        ["0.0", "1.0", "0.0", "1.0"],
        [0.0, 1.0, 0.0, 1.0],
        pl.Series([False, True, False, True]),
    ],
)
def test_labels_that_can_only_mean_0_and_1_need_no_names(labels: Any) -> None:
    assert read_rows(P, labels).batch.labels.tolist() == Y


@pytest.mark.parametrize("convert", [list, np.array, pd.Series, lambda x: pd.Series(x, dtype="category"), pl.Series])
def test_string_labels_of_two_classes_are_read(convert: Any) -> None:
    labels = convert(["no", "yes", "no", "yes"])
    for names in ({"pos_label": "yes"}, {"class_names": ["no", "yes"]}, {"class_names": np.array(["no", "yes"])}):
        rows = read_rows(P, labels, **names)
        assert (rows.batch.labels.tolist(), rows.class_names) == (Y, ("no", "yes"))
    assert read_rows(P, labels, pos_label="no").batch.labels.tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidLabel, match="pos_label"):
        read_rows(P, labels)


_PAIR = [[0.25, 0.75], [0.5, 0.5], [1.0, 0.0], [0.125, 0.875]]


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "no", "yes"],
        [b"no", b"yes", b"no", b"yes"],
        [0, 1, 0, 1],
        [False, True, False, True],
        [-1, 1, -1, 1],
        [9, 10, 9, 10],
    ],
)
@pytest.mark.parametrize("convert", [np.array, pd.DataFrame])
def test_unnamed_columns_are_in_the_order_of_the_sorted_labels_whichever_is_positive(labels: Any, convert: Any) -> None:
    first, second = (label.decode() if isinstance(label, bytes) else label for label in labels[:2])
    rows = read_rows(convert(_PAIR), np.array(labels), pos_label=second).batch
    assert (rows.predictions.given.tolist(), rows.labels.tolist()) == (_PAIR, Y)
    rows = read_rows(convert(_PAIR), np.array(labels), pos_label=first).batch
    assert (rows.predictions.given[:, ::-1].tolist(), rows.labels.tolist()) == (_PAIR, [1, 0, 1, 0])


@pytest.mark.parametrize("pos_label", ["ham", "spam"])
@pytest.mark.parametrize("columns", [["ham", "spam"], ["spam", "ham"], ["p_spam", "p_rest"]])
def test_named_columns_are_those_of_their_labels_whichever_is_positive(columns: list[str], pos_label: str) -> None:
    frame = pd.DataFrame(_PAIR, columns=columns)
    labels = ["spam", "ham", "ham", "spam"]
    predictions = read_rows(frame, labels, pos_label=pos_label).batch.predictions.given
    spam = frame[next(name for name in columns if name.endswith("spam"))]
    assert predictions[:, int(pos_label == "spam")].tolist() == spam.tolist()


def test_columns_of_a_single_label_have_no_order() -> None:
    with pytest.raises(InvalidOption, match="only label"):
        read_rows(_PAIR, ["no"] * 4, pos_label="no")
    with pytest.raises(InvalidOption, match="one type"):
        read_rows(_PAIR, np.array(["no", 1, "no", 1], dtype=object), pos_label="no")
    assert read_rows(_PAIR, [0] * 4, pos_label=0).batch.predictions.given[:, ::-1].tolist() == _PAIR
    assert read_rows(_PAIR, [1] * 4, pos_label=1).batch.predictions.given.tolist() == _PAIR


def test_integer_labels_of_other_values_have_a_positive_one() -> None:
    rows = read_rows(P, [1, 2, 1, 2], pos_label=2)
    assert (rows.batch.labels.tolist(), rows.class_names) == (Y, ("1", "2"))
    rows = read_rows(MATRIX, [10, 20, 30, 10], class_names=np.array([10, 20, 30]))
    assert (rows.batch.labels.tolist(), rows.class_names) == ([0, 1, 2, 0], ("10", "20", "30"))


@pytest.mark.parametrize("prefix", ["", "prob_", "p_", "y_pred_proba_", "score."])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_class_names_are_read_from_columns(prefix: str, frame: Any) -> None:
    predictions = frame({prefix + name: MATRIX[:, k] for k, name in enumerate(NAMES)})
    rows = read_rows(predictions, ["cat", "dog", "bird", "cat"])
    assert (rows.batch.labels.tolist(), rows.class_names) == ([1, 2, 0, 1], NAMES)
    assert read_rows(predictions, [1, 2, 0, 1]).class_names == NAMES


@pytest.mark.parametrize("columns", [["0", "1", "2"], ["p0", "p1", "p2"], ["prob_0", "prob_1", "prob_2"], [0, 1, 2]])
def test_numbered_columns_are_no_names(columns: list[Any]) -> None:
    assert read_rows(pd.DataFrame(MATRIX, columns=columns), [1, 2, 0, 1]).class_names is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    ("columns", "names"),
    [
        (["prob_pos", "prob_neg"], ("neg", "pos")),
        (["Yes", "No"], ("No", "Yes")),
        (["p_true", "p_false"], ("false", "true")),
        (["p1", "p0"], None),
        (["cat", "dog"], ("cat", "dog")),
        (["prob_neg", "prob_pos"], ("neg", "pos")),
    ],
)
def test_the_positive_class_is_class_1_in_any_order(
    columns: list[str], names: tuple[str, ...] | None, frame: Any
) -> None:
    predictions = frame({columns[0]: [0.75, 0.5], columns[1]: [0.25, 0.5]})
    rows = read_rows(predictions, [1, 0])
    assert rows.class_names == names
    swapped = columns[0] in ("prob_pos", "Yes", "p_true", "p1")
    assert rows.batch.predictions.given[0].tolist() == ([0.25, 0.75] if swapped else [0.75, 0.25])
    if names is not None:
        assert read_rows(predictions, [names[1], names[0]]).batch.labels.tolist() == [1, 0]
        assert read_rows(predictions, [1, 0], class_names=names[::-1]).class_names == names[::-1]


@pytest.mark.parametrize(
    "pattern",
    [
        *("{}_prob", "P({})", "prob[{}]", "prob_{}_score", "score {}", "{} Score"),
        *("p{}", "class{}", "P_pet{}", "{}_logprob", "prob[x {}]", "pet_{}_prob"),
    ],
)
def test_class_names_are_read_from_columns_with_words_around_them(pattern: str) -> None:
    predictions = pd.DataFrame({pattern.format(name): MATRIX[:, k] for k, name in enumerate(NAMES)})
    rows = read_rows(predictions, ["cat", "dog", "bird", "cat"])
    assert (rows.batch.labels.tolist(), rows.class_names) == ([1, 2, 0, 1], NAMES)
    turned = read_rows(predictions.iloc[:, [2, 0, 1]], [1, 2, 0, 1], class_names=NAMES)
    np.testing.assert_allclose(turned.batch.predictions.given, MATRIX)


@pytest.mark.parametrize("pattern", ["pred_{}", "P({})", "{}_logit", "calibrated_{}"])
def test_classes_whose_names_begin_alike_are_found_in_columns(pattern: str) -> None:
    predictions = pd.DataFrame({pattern.format("model_b"): [0.75, 0.5], pattern.format("model_a"): [0.25, 0.5]})
    for names in ({"class_names": ["model_a", "model_b"]}, {"pos_label": "model_b"}):
        rows = read_rows(predictions, ["model_a", "model_b"], **names)
        assert rows.batch.predictions.given[0].tolist() == [0.25, 0.75]
        assert rows.batch.labels.tolist() == [0, 1]


def test_class_names_that_are_numbers_are_in_their_order() -> None:
    predictions = pd.DataFrame({"prob_1": [0.75, 0.5], "prob_0": [0.25, 0.5]})
    rows = read_rows(predictions, ["1", "0"], class_names=["1", "0"])
    assert (rows.batch.predictions.given[0].tolist(), rows.batch.labels.tolist()) == ([0.75, 0.25], [0, 1])


def test_columns_of_a_positive_class_before_its_negative_are_found_by_their_beginnings() -> None:
    predictions = pd.DataFrame({"yes_prob": [0.75, 0.5], "no_prob": [0.25, 0.5]})
    assert read_rows(predictions, [1, 0]).batch.predictions.given.tolist() == [[0.25, 0.75], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("columns", "labels", "message"),
    [
        (NAMES, ["cat", "fish", "bird", "fish"], r"labels/1 is none of the columns 'bird', 'cat', 'dog'; of 4, 2 are"),
        (NAMES, ["cat", "dog", "Bird", "cat"], "labels/2 .*'bird' differs only in case or spaces; of 4, 1 are"),
        (NAMES, ["cat ", "dog ", "bird ", "cat "], "labels/0 .*'cat' differs only in case or spaces; of 4, 4 are"),
        (["p0", "p1", "p2"], ["cat", "dog", "bird", "cat"], "pass class_names"),
    ],
)
def test_a_label_that_is_no_column_is_named_by_its_row_with_the_nearest_column(
    columns: Any, labels: list[str], message: str
) -> None:
    with pytest.raises(InvalidLabel, match=message) as caught:
        read_rows(pd.DataFrame(MATRIX, columns=list(columns)), labels)
    assert "fish" not in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"id": [0, 1, 2, 3], "p": P}, r"column 'id' has values outside \[0, 1\]"),
        ({"id": [0, 1, 2, 3], "age": [30, 40, 50, 60], "p": P}, "columns 'id', 'age' have values outside"),
        ({"p": P, "y": Y}, "column 'y' has only 0 and 1, like labels"),
        ({"p": P, "q": P}, "do not sum to 1"),
        ({"p": [10.0, 20.0, 30.0, 40.0], "q": [90.0, 80.0, 70.0, 60.0]}, "percentages"),
    ],
)
def test_a_column_that_is_no_probability_is_named(frame: Any, message: str) -> None:
    with pytest.raises(OutOfRange, match=message):
        read_rows(pd.DataFrame(frame), Y)


@pytest.mark.parametrize("convert", [np.array, list, pd.Series])
def test_rows_without_predictions_should_be_filled_in_or_removed(convert: Any) -> None:
    with pytest.raises(CalibrationError, match="fill them in or remove the rows"):
        read_rows(convert([0.5, float("nan"), 0.25, 0.75]), Y)


def test_string_labels_without_names_are_refused_with_a_remedy() -> None:
    with pytest.raises(InvalidLabel, match=r"class_names .*classes_"):
        read_rows(MATRIX, ["cat", "dog", "bird", "cat"])


@pytest.mark.parametrize(
    "options",
    [
        {"class_names": ["a", "b"]},
        {"class_names": "abc"},
        {"class_names": ["a", "a", "b"]},
        {"class_names": 3},
        {"class_names": [None, "b", "c"]},
        {"pos_label": "cat"},
        {"pos_label": "cat", "class_names": NAMES},
    ],
)
def test_wrong_names_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CalibrationError):
        read_rows(MATRIX, ["cat", "dog", "bird", "cat"], **options)


def test_a_label_that_is_no_class_is_named_by_its_row_alone() -> None:
    with pytest.raises(InvalidLabel) as caught:
        read_rows(MATRIX, ["cat", "secret", "bird", "cat"], class_names=NAMES)
    assert caught.value.offences[0].pointer == "/labels/1"
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("pos_label", ["none", 7, None, [1], {"a": 1}])
def test_a_positive_label_that_is_none_is_refused(pos_label: Any) -> None:
    with pytest.raises((CalibrationError, TypeError)):
        read_rows(P, ["no", "yes", "no", "yes"], pos_label=pos_label)


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        (["a", "b", "a", "b"], ["a", "b", "a", "b"]),
        ([1, 2, 1, 2], ["1", "2", "1", "2"]),
        (np.array([1, 2, 1, 2]), ["1", "2", "1", "2"]),
        (pd.Series([1.0, None, 1.0, 2.0]), ["1", "(missing)", "1", "2"]),
        (pd.Series(["a", "b", "a", "b"], dtype="category"), ["a", "b", "a", "b"]),
        (pd.Series([True, False, True, True]), ["True", "False", "True", "True"]),
        (pl.Series(["a", None, "a", "b"]), ["a", "(missing)", "a", "b"]),
        (pd.DataFrame({"s": ["f", "m", "f", "m"], "a": [1, 2, 1, 2]}), ["f, 1", "m, 2", "f, 1", "m, 2"]),
        (pl.DataFrame({"s": ["f", "m", "f", "m"], "a": [1, 2, 1, 2]}), ["f, 1", "m, 2", "f, 1", "m, 2"]),
        (pd.DataFrame([["f", 1], ["m", 2]] * 2, columns=["s", "s"]), ["f, 1", "m, 2", "f, 1", "m, 2"]),
        ({"s": ["f", "m", "f", "m"], "a": np.array([1, 2, 1, 2])}, ["f, 1", "m, 2", "f, 1", "m, 2"]),
        ([("f", 1), ("m", 2), ("f", 1), ("m", 2)], ["f, 1", "m, 2", "f, 1", "m, 2"]),
        ([np.array(["f", "m", "f", "m"]), pd.Series([1, 2, 1, 2])], ["f, 1", "m, 2", "f, 1", "m, 2"]),
        ((pl.Series(["f", "m", "f", "m"]), pl.Series([1, 2, 1, 2])), ["f, 1", "m, 2", "f, 1", "m, 2"]),
        ([np.array(["f", "m", "f", "m"])], ["f", "m", "f", "m"]),
        (np.array([["f", "1"], ["m", "2"]] * 2), ["f, 1", "m, 2", "f, 1", "m, 2"]),
    ],
)
def test_groups_of_every_type_are_read(groups: Any, names: list[str]) -> None:
    assert read_rows(P, Y, groups=groups).groups == names


_BINS = pd.cut([0.5, 3.0, 15.0, 0.5], [0, 1, 2, 10, 20])
_LEVELS = ["low", "mid", "high"]


@pytest.mark.parametrize(
    ("groups", "order"),
    [
        ([10, 9, 11, 8], ["8", "9", "10", "11"]),
        (["10", "9", "11", "8"], ["8", "9", "10", "11"]),
        ([0.5, -1.0, 10.0, 2.5], ["-1", "0.5", "2.5", "10"]),
        (pd.Series([10.0, None, 9.0, 9.0]), ["(missing)", "9", "10"]),
        (["b", "a10", "a9", "B"], ["B", "a10", "a9", "b"]),
        (["b, 10", "b, 9", "a, 10", "a, 9"], ["a, 9", "a, 10", "b, 9", "b, 10"]),
        (["Smith, J", "Ng, A", "Ng", "Ng"], ["Ng", "Ng, A", "Smith, J"]),
        (pd.Categorical(["high", "low", "mid", None], _LEVELS, ordered=True), ["(missing)", "low", "mid", "high"]),
        (pd.Series(["high", "low", "low", "low"], dtype=pd.CategoricalDtype(_LEVELS)), ["low", "high"]),
        (pl.Series(["high", "low", "mid", "low"], dtype=pl.Enum(_LEVELS)), ["low", "mid", "high"]),
        (_BINS, ["(0, 1]", "(2, 10]", "(10, 20]"]),
        (_BINS.astype(str), ["(0, 1]", "(2, 10]", "(10, 20]"]),
        (
            pd.DataFrame({"a": [10, 9, 10, 9], "b": pd.Categorical(["mid", "low", "low", "mid"], _LEVELS)}),
            ["9, low", "9, mid", "10, low", "10, mid"],
        ),
    ],
)
def test_groups_are_in_the_order_of_their_numbers_or_categories(groups: Any, order: list[str]) -> None:
    assert distinct_names(group_names(groups)) == order
    report = calibrant.evaluate(P, Y, groups=groups, measures=["brier"])
    assert list(report.groups or ()) == order
    assert list(dict.fromkeys(report.to_frame(groups=True)["group"])) == order
    forecasts = calibrant.evaluate_distribution(Y, mean=P, std=np.ones(4), groups=groups, measures=["crps"])
    assert list(forecasts.groups or ()) == order
    weighted = {"weights": [1, 1, 1, 0], "groups": groups, "measures": ["crps"]}
    without_the_last = calibrant.evaluate_distribution(Y, mean=P, std=np.ones(4), **weighted)
    assert list(without_the_last.groups or ()) == distinct_names(_without_the_last(group_names(groups)))


def _without_the_last(names: GroupNames) -> GroupNames:
    return GroupNames(names[:-1]).ordered(names.order)


def test_the_order_of_groups_is_kept_for_some_classes_in_tallies_and_in_pictures() -> None:
    levels = pd.Series(["mid", "high", "low", "mid"] * 50, dtype=pd.CategoricalDtype(_LEVELS))
    p, y = np.tile(MATRIX, (50, 1)), [0, 1, 2, 0] * 50
    report = calibrant.evaluate(p, y, groups=levels, classes=[0, 1], measures=["accuracy"])
    assert {name: group.n for name, group in (report.groups or {}).items()} == {"mid": 100, "high": 50}
    batch = read_rows(p, y, groups=levels)
    assert list(group_diagrams(Evaluation(()).check(batch.batch, batch.groups)) or ()) == _LEVELS
    counted = calibrant.tally(p, y, groups=[9, 10, 11, 9] * 50)
    assert list(calibrant.evaluate_tally(counted, measures=["brier"]).groups or ()) == ["9", "10", "11"]


@pytest.mark.parametrize("groups", ["abcd", b"abcd", 3, {}, {"a": [1], "b": [1, 2]}, [np.arange(4)] * 4])
def test_invalid_groups_are_refused(groups: Any) -> None:
    with pytest.raises(CalibrationError):
        read_rows(P, Y, groups=groups)


def test_a_shuffled_series_is_refused() -> None:
    p, y = pd.Series(P), pd.Series(Y)
    with pytest.raises(UnusableRows, match="different index"):
        calibrant.evaluate(p.sample(frac=1, random_state=1), y)
    with pytest.raises(UnusableRows, match="weights"):
        calibrant.evaluate(p, y, weights=pd.Series([1, 1, 1, 1], index=[1, 2, 3, 4]))
    with pytest.raises(UnusableRows, match="groups"):
        calibrant.fit("platt", p, y) and calibrant.evaluate(p, y, groups=y.iloc[::-1])


@pytest.mark.parametrize(
    "missing", [[0.1, None, 0.6, 0.9], pd.Series([0.1, None, 0.6, 0.9]), pl.Series([0.1, None, 1, 1])]
)
def test_missing_predictions_are_refused(missing: Any) -> None:
    with pytest.raises(UnusableRows, match="missing"):
        calibrant.evaluate(missing, Y)


def test_percentages_are_recognised() -> None:
    with pytest.raises(CalibrationError, match="percentages"):
        calibrant.evaluate([10.0, 40.0, 60.0, 95.0], Y)
    with pytest.raises(CalibrationError, match="logit"):
        calibrant.evaluate([-1.0, 4.0, 6.0, 9.5], Y)


def test_sample_weight_is_another_name_of_weights() -> None:
    first, second = calibrant.evaluate(P, Y, weights=[1, 2, 3, 4]), calibrant.evaluate(P, Y, sample_weight=[1, 2, 3, 4])
    assert first.measures == second.measures
    with pytest.raises(InvalidOption):
        calibrant.evaluate(P, Y, weights=[1, 2, 3, 4], sample_weight=[1, 2, 3, 4])


def test_class_names_travel_with_the_map() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet(np.ones(3), 300)
    y = np.array(NAMES)[(random.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)]
    frame = pd.DataFrame(p, columns=[f"prob_{name}" for name in NAMES])
    fitted = calibrant.fit("temperature", frame, y)
    assert fitted.class_names == NAMES
    turned = frame[["prob_dog", "prob_bird", "prob_cat"]]
    np.testing.assert_array_equal(fitted.apply(turned), fitted.apply(frame))
    report = calibrant.evaluate(p, y, map=fitted, measures="ece")
    assert (report.class_names, report.in_sample) == (NAMES, True)
    by_name = calibrant.evaluate(p, y, class_names=NAMES, reduction="class:dog", measures="ks")
    assert by_name.reduction == "class:2"
    restricted = calibrant.evaluate(p, y, class_names=NAMES, classes=["bird", "dog"], measures="ks")
    assert restricted.left_out > 0


def test_an_evaluation_on_the_rows_of_the_fit_says_so_and_is_cross_fitted() -> None:
    p, y = draw_event(500, 1, 2)
    fitted = calibrant.load(calibrant.fit("isotonic", p, y).to_document())
    report = calibrant.evaluate(p, y, map=fitted, measures=["brier"], interval=0.95)
    assert report.in_sample
    assert known(report.improvement)["brier"].definition["cross_fitted"]
    compared = calibrant.compare(p, y, [fitted, fitted], measures="brier", resamples=100)
    assert [contestant.name for contestant in compared.contestants] == ["uncalibrated", "isotonic", "isotonic-2"]
    assert compared.measures["brier"].ranking == ("uncalibrated",)
    assert calibrant.evaluate(p[:250], y[:250], map=fitted).in_sample
    assert not calibrant.evaluate(1.0 - p, 1 - y, map=fitted).in_sample


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrant.fit("isotonc", P, Y), "did you mean isotonic"),
        (lambda: calibrant.fit("dirichlet", P, Y), "dirichlet-l2 or dirichlet-odir"),
        (lambda: calibrant.fit("pl-de", P, Y, max_segment=3), "did you mean max_segments"),
        (lambda: calibrant.evaluate(P, Y, measures="ecee"), "did you mean ece"),
        (lambda: calibrant.evaluate(P, Y, measures=[{"name": "ece", "nbins": 10}]), "did you mean n_bins"),
        (lambda: calibrant.evaluate(P, Y, measures=["ece", "log_los"]), "did you mean log-loss"),
        (lambda: calibrant.evaluate(P, Y, diagrams="reliabilty"), "did you mean reliability"),
        (lambda: calibrant.fit(cast(Any, P), Y), "fit\\(.platt., predictions, labels\\)"),
        (lambda: calibrant.fit(cast(Any, P), Y, "platt"), "fit\\(.platt., predictions, labels\\)"),
    ],
)
def test_a_mistyped_name_is_answered_with_the_nearest(call: Any, message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        call()


def test_probabilities_in_place_of_logits_are_warned_of() -> None:
    p = np.tile([[0.2, 0.3, 0.5], [0.25, 0.5, 0.25]], (20, 1))
    labels = np.arange(40) % 3
    fitted = calibrant.fit("temperature", np.log(p), labels, scale="logit")
    with pytest.warns(UserWarning, match="each row sums to 1, like probabilities") as warned:
        fitted.apply(p)
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="each row sums to 1, like probabilities") as warned:
        calibrant.evaluate(p, labels, scale="logit")
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="each row sums to 1, like probabilities") as warned:
        calibrant.fit("temperature", p, labels, scale="logit")
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="each row sums to 1, like probabilities") as warned:
        calibrant.compare(p, labels, [fitted], scale="logit")
    assert warned[0].filename == __file__
    fitted.apply(p[:5])
    fitted.apply(np.log(p))


def test_numbers_of_named_columns_that_are_not_sorted_are_warned_of() -> None:
    p = np.array([[0.25, 0.75], [0.75, 0.25]] * 5)
    y = np.array([0, 1] * 5)
    with pytest.warns(UserWarning, match="columns 'spam', 'ham', in this order"):
        calibrant.evaluate(pd.DataFrame(p, columns=["spam", "ham"]), y)
    calibrant.evaluate(pd.DataFrame(p, columns=["ham", "spam"]), y)
    calibrant.evaluate(pd.DataFrame(p, columns=["spam", "ham"]), np.array(["spam", "ham"] * 5))
    calibrant.evaluate(pd.DataFrame(p, columns=["spam", "ham"]), y, class_names=["spam", "ham"])


def test_a_map_takes_its_columns_and_refuses_those_of_other_classes() -> None:
    p = np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]] * 4)
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    fitted = calibrant.fit("temperature", frame, ["a", "b", "b"] * 4)
    expected = fitted.apply(frame)
    wider = frame[["c", "a", "b"]].assign(label="a")
    pd.testing.assert_frame_equal(fitted.apply(wider), expected)
    with pytest.raises(WrongShape, match="columns of 'a', 'b', 'd', but the classes are 'a', 'b', 'c'"):
        fitted.apply(frame.rename(columns={"c": "d"}))
    np.testing.assert_array_equal(fitted.apply(frame.set_axis(["u", "v", "w"], axis=1)), expected)


def test_logits_of_one_event_that_are_probabilities_are_warned_of() -> None:
    p, y = np.linspace(0.05, 0.95, 40), np.arange(40) % 2
    fitted = calibrant.fit("platt", np.log(p / (1 - p)), y, scale="logit")
    with pytest.warns(UserWarning, match=r"the logits are in \[0, 1\], like probabilities"):
        fitted.apply(p)


@pytest.mark.parametrize("digits", [2, 3, 4, 6])
def test_rounded_rows_are_divided_by_their_sum_in_every_call(digits: int) -> None:
    exact, y = draw_classes(200, 12)
    p = exact.round(digits)
    assert np.abs(p.sum(axis=1) - 1).max() > (1e-4 if digits < 5 else 0)
    divided = p / p.sum(axis=1, keepdims=True)
    report = calibrant.evaluate(p, y, measures=["brier"], reduction="canonical")
    assert report["brier"].value == pytest.approx(
        calibrant.evaluate(divided, y, measures=["brier"], reduction="canonical")["brier"].value
    )
    fitted = calibrant.fit("temperature", p, y)
    np.testing.assert_allclose(fitted.apply(p), fitted.apply(divided), atol=1e-12)
    with pytest.raises(OutOfRange, match="divide each row by its sum, or evaluate each column"):
        calibrant.evaluate(0.9 * p, y)


@pytest.mark.parametrize("words", ["F,T", "falsch,WAHR", "faux,vrai", "falso,verdadero", "False,TRUE"])
def test_words_of_booleans_are_labels_as_in_files(words: str) -> None:
    labels = [words.split(",")[k] for k in Y]
    assert read_rows(P, labels).batch.labels.tolist() == Y
    content = "p,y\n" + "".join(f"{p},{label}\n" for p, label in zip(P, labels, strict=True))
    sheet = read_sheet(BytesIO(content.encode()), name="a.csv", max_rows=None)
    assert known(sheet.labels).tolist() == Y


def test_labels_of_several_columns_have_a_remedy() -> None:
    with pytest.raises(InvalidLabel, match="for several labels a row evaluate each column"):
        calibrant.evaluate([[0.5, 0.5], [0.25, 0.75]], [[1, 1], [0, 1]])
    with pytest.raises(InvalidLabel, match="one-hot"):
        calibrant.evaluate([0.5, 0.25], [[1, 0], [0, 1]])
    for pos_label in (1, True, 0):
        with pytest.raises(InvalidLabel, match="one-hot"):
            calibrant.evaluate([0.5, 0.25], [[1, 0], [0, 1]], pos_label=pos_label)
    with pytest.raises(InvalidOption, match="is of type str, and the labels are of type int"):
        calibrant.evaluate([0.5, 0.25], [1, 0], pos_label="1")


@pytest.mark.parametrize(
    "integers",
    [
        np.array([10, 9, -1, 9, 10, 100]),
        np.array([-100, 100, 27, -100], np.int8),
        np.array([2**62, 5, 2**62, -(2**62)]),
        np.array([2**63 + 5, 2**63 + 7, 2**63 + 5], np.uint64),
    ],
)
def test_the_names_of_integers_are_numbered_as_those_of_their_texts(integers: Any) -> None:
    names, texts = group_names(integers), [str(integer) for integer in integers.tolist()]
    assert names == texts
    distinct, numbers = numbered_names(names)
    assert (distinct, numbers.tolist()) == (numbered_names(texts)[0], numbered_names(texts)[1].tolist())
    clusters = cluster_names(integers)
    assert (list(clusters), clusters[0], clusters[1:]) == (texts, texts[0], texts[1:])
    assert numbered_names(clusters)[0] == distinct
    assert numbered_names(clusters)[1].tolist() == numbers.tolist()


@pytest.mark.parametrize("name", ["prob_0", "P(Y=0)", "no_prob"])
def test_a_single_column_named_after_class_0_warns_unless_that_is_the_positive_class(name: str) -> None:
    p, y = draw_event(200)
    for predictions in (pd.Series(1.0 - p, name=name), pd.DataFrame({name: 1.0 - p}), pl.Series(name, 1.0 - p)):
        with pytest.warns(UserWarning, match="after class 0; pass those of class 1"):
            calibrant.evaluate(predictions, y, measures=["ece"])
    of_class_0 = calibrant.evaluate(pd.Series(1.0 - p, name=name), y, pos_label=0, measures=["ece"])
    of_event = calibrant.evaluate(pd.Series(1.0 - p, name="p"), 1 - y, measures=["ece"])
    assert of_class_0["ece"].value == of_event["ece"].value
