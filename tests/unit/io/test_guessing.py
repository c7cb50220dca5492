"""Which columns are read as what, and that the command prints it."""

from __future__ import annotations

import io

import pytest

from calibrant.io.errors import LabelsNeedMapping, UnclearOrder
from calibrant.io.files import FileOptions, Sheet, read_sheet
from calibrant.io.texts import join_names, split_names
from tests.unit.io.sheets import labels_of, weights_of


def sheet(text: str, *, labelled: bool = True, options: FileOptions = FileOptions()) -> Sheet:  # noqa: B008 - frozen
    return read_sheet(io.BytesIO(text.encode()), name="a.csv", options=options, max_rows=None, labelled=labelled)


@pytest.mark.parametrize("labels", ["y", "label", "Labels", "target", "class", "truth", "y_true", "Y True"])
@pytest.mark.parametrize("predictions", ["p", "prob", "Probability", "score", "y_prob", "prediction", "p1", "prob_1"])
def test_two_columns_are_found_by_their_names(labels: str, predictions: str) -> None:
    columns = sheet(f"id,{predictions},{labels}\n7,0.25,1\n8,0.5,0\n9,1,1\n")
    assert columns.predictions.tolist() == [0.25, 0.5, 1.0]
    assert labels_of(columns) == [1, 0, 1]
    assert columns.notes == (
        f"labels: column '{labels}' (inferred from its name)",
        f"predictions: column '{predictions}', the probability of class 1 (inferred from its name)",
    )


@pytest.mark.parametrize(
    "header",
    ["prob_2,prob_0,prob_1", "p2,p0,p1", "predictions.2,predictions.0,predictions.1", "2,0,1", "P[2],P[0],P[1]"],
)
def test_a_column_a_class_is_put_in_the_order_of_the_classes(header: str) -> None:
    columns = sheet(f"{header},label\n0.5,0.25,0.25,2\n0.25,0.75,0,0\n")
    assert columns.predictions.tolist() == [[0.25, 0.25, 0.5], [0.75, 0, 0.25]]
    assert columns.classes is None


def test_columns_that_are_called_as_the_labels_are_theirs() -> None:
    columns = sheet("truth,cat,dog,hen\nhen,0.25,0.25,0.5\ncat,0.75,0,0.25\n")
    assert columns.classes == ("cat", "dog", "hen")
    assert labels_of(columns) == [2, 0]
    assert "classes: 'cat', 'dog', 'hen', in this order (inferred from the column names)" in columns.notes


def test_named_columns_are_not_inferred() -> None:
    options = FileOptions(predictions=("b",), labels="a", weights="c", groups=("d",))
    columns = sheet("a,b,c,d,label,p\n1,0.5,2,x,0,0.1\n0,0.25,1,y,0,0.1\n", options=options)
    assert columns.predictions.tolist() == [0.5, 0.25]
    assert labels_of(columns) == [1, 0]
    assert weights_of(columns) == [2, 1]
    assert columns.groups == ["x", "y"]
    assert columns.notes == ()


def test_digits_of_other_scripts_are_names_of_classes_in_the_order_of_the_file() -> None:
    columns = sheet("\u0662_prob,\u0661_prob,label\n0.75,0.25,\u0662\n0.25,0.75,\u0661\n0.5,0.5,\u0662\n")
    assert columns.classes == ("\u0662", "\u0661")
    assert labels_of(columns) == [0, 1, 0]


@pytest.mark.parametrize("other", ["stay", "no_churn"])
def test_the_column_named_like_the_labels_is_class_1_of_two(other: str) -> None:
    for header, rows in (
        (f"churn,prob_churn,prob_{other}", "1,0.75,0.25\n0,0.25,0.75\n"),
        (f"churn,prob_{other},prob_churn", "1,0.25,0.75\n0,0.75,0.25\n"),
    ):
        columns = sheet(f"{header}\n{rows}")
        assert columns.predictions.tolist() == [[0.25, 0.75], [0.75, 0.25]]
        assert columns.classes == (other, "churn")
        assert labels_of(columns) == [1, 0]


def test_named_columns_of_numbered_classes_are_not_taken_in_an_order_that_predicts_worse_than_the_other() -> None:
    text = "label,prob_dog,prob_cat,prob_bird\n2,0.75,0.125,0.125\n1,0.125,0.75,0.125\n0,0.25,0.125,0.625\n"
    with pytest.raises(UnclearOrder) as refused:
        sheet(text)
    alphabetical = ("prob_bird", "prob_cat", "prob_dog")
    assert refused.value.readings == (alphabetical, alphabetical[::-1])
    for reading, first in zip(refused.value.readings, (0.125, 0.75), strict=True):
        assert sheet(text, options=FileOptions(predictions=reading)).predictions[0, 0] == first


def test_ordinal_classes_in_the_order_of_the_file_are_noted() -> None:
    columns = sheet("label,prob_low,prob_medium,prob_high\n0,0.75,0.125,0.125\n1,0.25,0.5,0.25\n2,0.25,0.25,0.5\n")
    assert columns.predictions[0].tolist() == [0.75, 0.125, 0.125]
    assert columns.classes == ("low", "medium", "high")
    assert columns.notes[-1].startswith("classes: 0 is 'low', 1 is 'medium', 2 is 'high' (in the order of the file")


def test_a_name_of_a_class_with_a_comma_is_quoted() -> None:
    names = ["Paris, France", "Bonn", 'the "old" town', "a, b\nc", "d, e\rf"]
    assert split_names(join_names(names)) == names
    assert split_names('"Paris, France", Bonn') == ["Paris, France", "Bonn"]
    assert split_names("a\nb,c") == ["a\nb", "c"]


def test_the_class_named_like_the_labels_is_that_of_the_positive_label() -> None:
    rows = "yes,0.75,0.25\nno,0.25,0.75\n"
    with pytest.raises(LabelsNeedMapping):
        sheet(f"churn,prob_churn,prob_stay\n{rows}")
    for pos_label, first in (("yes", 0.25), ("no", 0.75)):
        columns = sheet(f"churn,prob_churn,prob_stay\n{rows}", options=FileOptions(pos_label=pos_label))
        assert columns.predictions[0, 0] == first
        assert labels_of(columns) == [int(pos_label == "yes"), int(pos_label == "no")]
        assert columns.classes == (("stay", "churn") if pos_label == "yes" else ("churn", "stay"))
