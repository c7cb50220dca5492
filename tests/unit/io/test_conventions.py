"""Files as other tools write them: which columns are taken for what."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from calibrant.io.errors import (
    DamagedFile,
    DuplicateColumns,
    MissingValue,
    NoPredictions,
    NotANumber,
    RaggedRow,
    TabularError,
    UnclearColumns,
    UnknownColumn,
    UnmappedLabel,
    WrongShape,
)
from calibrant.io.files import Sheet, SheetOptions, read_sheet

PLAIN = SheetOptions()


def sheet(text: str, options: SheetOptions = PLAIN, *, labelled: bool = True) -> Sheet:
    return read_sheet(io.BytesIO(text.encode()), name="a", options=options, max_rows=None, labelled=labelled)


@pytest.mark.parametrize(
    ("text", "predictions", "labels"),
    [
        # scikit-learn, R, caret, tidymodels, Spark, pandas
        ("y_true,y_pred,y_pred_proba\n1,1,0.75\n0,0,0.25\n", [0.75, 0.25], [1, 0]),
        ('"","default","fit"\n"1",TRUE,0.75\n"2",FALSE,0.25\n', [0.75, 0.25], [1, 0]),
        ("loan_id,flag,PD\n17,1,0.75\n18,0,0.25\n", [0.75, 0.25], [1, 0]),
        ("outcome,prob_yes\nyes,0.75\nno,0.25\n", [0.75, 0.25], [1, 0]),
        ("outcome,prob_no\nyes,0.75\nno,0.25\n", [0.75, 0.25], [0, 1]),
        (
            "pred,obs,No,Yes,rowIndex\nYes,Yes,0.25,0.75,1\nNo,No,0.75,0.25,2\n",
            [[0.25, 0.75], [0.75, 0.25]],
            [1, 0],
        ),
        (
            ".pred_class,.pred_No,.pred_Yes,truth\nYes,0.25,0.75,Yes\nNo,0.75,0.25,No\n",
            [[0.25, 0.75], [0.75, 0.25]],
            [1, 0],
        ),
        (
            'label,prediction,probability\n1.0,1.0,"[0.25,0.75]"\n0.0,0.0,"[0.75,0.25]"\n',
            [[0.25, 0.75], [0.75, 0.25]],
            [1, 0],
        ),
        ("label,probs\n1,[0.25 0.75]\n0,[0.75 0.25]\n", [[0.25, 0.75], [0.75, 0.25]], [1, 0]),
        # Confidence and correctness; the first class of a Hugging Face pipeline
        ("confidence,correct\n0.75,True\n0.5,False\n", [0.75, 0.5], [1, 0]),
        ("label,pred,confidence\n2,2,0.75\n0,2,0.5\n1,1,0.5\n", [0.75, 0.5, 0.5], [1, 0, 1]),
        ("label,predicted_label,score\ncat,cat,0.75\ndog,cat,0.5\nhen,hen,0.5\n", [0.75, 0.5, 0.5], [1, 0, 1]),
        # Names of classes
        ("species,cat,dog\ncat,0.75,0.25\ndog,0.5,0.5\n", [[0.75, 0.25], [0.5, 0.5]], [0, 1]),
        (
            "species,y_pred_proba_cat,y_pred_proba_dog,y_pred\ncat,0.75,0.25,cat\ndog,0.5,0.5,dog\n",
            [[0.75, 0.25], [0.5, 0.5]],
            [0, 1],
        ),
        ("label,score_dark_green,score_red\nred,0.75,0.25\ndark_green,0.5,0.5\n", [[0.75, 0.25], [0.5, 0.5]], [1, 0]),
        ("kind,cat_prob,dog_prob\ndog,0.75,0.25\ncat,0.5,0.5\n", [[0.75, 0.25], [0.5, 0.5]], [1, 0]),
        ("pet,pet_cat_scores,pet_dog_scores\ndog,0.75,0.25\ncat,0.5,0.5\n", [[0.75, 0.25], [0.5, 0.5]], [1, 0]),
        ("y,class1_prob,class0_prob\n1,0.75,0.25\n0,0.5,0.5\n", [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        ("ill,ill_1_PREDICTION,ill_0_PREDICTION\n1,0.75,0.25\n0,0.5,0.5\n", [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        # The positive class is class 1 wherever its column stands
        ("y,prob_pos,prob_neg\n1,0.75,0.25\n0,0.5,0.5\n", [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        ("y,Yes,No\nYes,0.75,0.25\nNo,0.5,0.5\n", [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        # Azure Machine Learning
        ("won,Scored Labels,Scored Probabilities\n1,1,0.75\n0,0,0.25\n", [0.75, 0.25], [1, 0]),
        (
            'kind,Scored Probabilities for Class ""a"",Scored Probabilities for Class ""b""\nb,0.75,0.25\na,0.5,0.5\n',
            [[0.75, 0.25], [0.5, 0.5]],
            [1, 0],
        ),
        # Lines before the header
        ("sep=;\ny;p\n1;0.75\n0;0.25\n", [0.75, 0.25], [1, 0]),
        ("# model 3\n\n# run 4\ny,p\n1,0.75\n0,0.25\n", [0.75, 0.25], [1, 0]),
        # JSON Lines
        ('{"y": true, "p": 0.75}\n\n{"p": 0.25, "y": false}\n', [0.75, 0.25], [1, 0]),
        ('{"y": "1", "probs": [0.25, 0.75]}\n{"y": "0", "probs": [1, 0]}\n', [[0.25, 0.75], [1, 0]], [1, 0]),
    ],
)
def test_files_of_other_tools_need_no_options(text: str, predictions: list[Any], labels: list[int]) -> None:
    found = sheet(text)
    assert found.predictions.tolist() == predictions
    assert found.labels is not None
    assert found.labels.tolist() == labels


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("y,p,calibrated\n1,0.5,0.4\n0,0.2,0.1\n", (("p",), ("calibrated",))),
        ("y,p_lr,p_rf\n1,0.5,0.4\n0,0.2,0.1\n", (("p_lr",), ("p_rf",))),
        ("y,score_a,risk_score\n1,0.5,0.4\n0,0.2,0.1\n", (("score_a",), ("risk_score",))),
        (
            "s,cat,dog,calibrated_cat,calibrated_dog\ncat,0.5,0.5,0.25,0.75\ndog,1,0,0.25,0.75\n",
            (("calibrated_cat", "calibrated_dog"), ("cat", "dog")),
        ),
        ("y,a,b\n1,0.75,0.25\n0,0.5,0.5\n", (("a", "b"),)),
        ("y,lr_prob,rf_prob\n1,0.5,0.4\n0,0.2,0.1\n", (("lr_prob",), ("rf_prob",))),
    ],
)
def test_several_readings_are_never_decided(text: str, readings: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(UnclearColumns) as refused:
        sheet(text)
    assert refused.value.readings == readings


def test_without_labels_the_calibrated_columns_are_left_out() -> None:
    assert sheet("p,calibrated\n0.5,0.4\n", labelled=False).predictions.tolist() == [0.5]


@pytest.mark.parametrize("text", ["y,p\n1,1\n0,0\n", "label,pred\n2,2\n1,0\n0,1\n", "y,y_hat\n1,1.0\n0,0.0\n"])
def test_predicted_classes_are_no_probabilities(text: str) -> None:
    with pytest.raises(NoPredictions, match="has predicted classes, not probabilities"):
        sheet(text)


def test_a_wildcard_takes_the_columns_in_the_order_of_their_numbers() -> None:
    header = ",".join(["y", *(f"prob_{k}" for k in reversed(range(11)))])
    rows = [",".join(["1", *(str(k / 55) for k in reversed(range(11)))])]
    found = sheet("\n".join([header, *rows, ""]), SheetOptions(("prob_*",)))
    assert found.predictions[0].tolist() == [k / 55 for k in range(11)]
    with pytest.raises(UnknownColumn, match="no column of numbers matches 'q_\\*'"):
        sheet("y,p\n1,0.5\n", SheetOptions(("q_*",)))


def test_class_names_order_the_columns_that_have_them() -> None:
    text = "label,prob_dog,prob_cat\ncat,0.25,0.75\ndog,0.5,0.5\n"
    found = sheet(text, SheetOptions(class_names=("cat", "dog")))
    assert (found.predictions.tolist(), found.classes) == ([[0.75, 0.25], [0.5, 0.5]], ("cat", "dog"))
    named = sheet("label,p0,p1\ncat,1,0\ndog,0,1\n", SheetOptions(class_names=("dog", "cat")))
    assert named.labels is not None
    assert named.labels.tolist() == [1, 0]
    with pytest.raises(UnmappedLabel, match=r"'hen', first in row 2 .* is not one of the class names"):
        sheet("label,p0,p1\ncat,1,0\nhen,0,1\n", SheetOptions(class_names=("dog", "cat")))


def test_a_positive_label_is_one_of_two() -> None:
    found = sheet("y,p\n-1,0.5\n1,1\n", SheetOptions(pos_label="-1"))
    assert found.labels is not None
    assert (found.labels.tolist(), found.classes) == ([1, 0], ("1", "-1"))
    for wrong in ("2", "yes"):
        with pytest.raises(UnmappedLabel, match="does not have it"):
            sheet("y,p\n-1,0.5\n1,1\n", SheetOptions(pos_label=wrong))
    with pytest.raises(UnmappedLabel, match="has more than two"):
        sheet("y,p\na,0.5\nb,1\nc,1\n", SheetOptions(pos_label="a"))


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas_are_read_on_request(separator: str) -> None:
    cells = [["y", "p", "w"], ["1", '"0,75"', '"1,5"'], ["0", '"2,5e-1"', "2"]]
    text = "\n".join(separator.join(row) for row in cells)
    found = sheet(text, SheetOptions(decimal=","))
    assert found.predictions.tolist() == [0.75, 0.25]
    assert found.weights is not None
    assert found.weights.tolist() == [1.5, 2]


def test_rows_that_were_rounded_are_divided_by_their_sum() -> None:
    found = sheet("y,p0,p1,p2\n0,0.33,0.33,0.33\n1,0.5,0.25,0.25\n")
    assert np.allclose(found.predictions.sum(axis=1), 1)
    assert found.notes[-1] == "predictions: rounded to 2 decimals; each row is divided by its sum"
    kept = sheet("y,p0,p1,p2\n0,0.33,0.33,0.3\n1,0.5,0.25,0.25\n")
    assert kept.predictions[0].tolist() == [0.33, 0.33, 0.3]


def test_missing_values_are_counted_in_all_columns() -> None:
    text = "y,p,w\n1,0.5,1\n,NA,1\n0,,1\n,0.5,\n"
    with pytest.raises(MissingValue) as refused:
        sheet(text)
    assert refused.value.detail == (
        "values are missing in 2 rows of column 'p', 1 of column 'w', 2 of column 'y', first in row 2; fill them in or "
        "remove the rows"
    )


@pytest.mark.parametrize(
    ("lines", "error", "told"),
    [
        (['{"y": 1, "p": 0.5}', "[1]"], DamagedFile, "line 2 is not a JSON object"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": 0.5'], DamagedFile, "line 2 is not a JSON object"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "q": 0.5}'], RaggedRow, "line 2 has keys"),
        (['{"y": 1, "p": 0.5}', '{"y": 1}'], MissingValue, "row 2 of column 'p' is empty"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": NaN}'], MissingValue, "row 2 of column 'p'"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": 1e999}'], TabularError, "row 2 of column 'p' is infinite"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": [0.5]}'], NotANumber, "row 2 of 'p' is not a number"),
        (['{"y": 1, "p": [0.5, 0.5]}', '{"y": 1, "p": [1]}'], WrongShape, "row 2 of 'p' is not a list of 2 numbers"),
        (['{"y": 1, "p": 0.5}', '{"p": 0.1, "y": 1, "p": 0.9}'], DuplicateColumns, "line 2 has the key 'p' twice"),
        (['{"y": 1, "p": 0.5, "x": {"a": 1, "a": 2}}'], DuplicateColumns, "line 1 has the key 'a' twice"),
        ([f'{{"y": 1, "p": {"[" * 100_000}'], DamagedFile, "line 1 is not a JSON object"),
        ([json.dumps({"y": 1, "p": "x" * (1 << 20)})], TabularError, "line 1 has more than the limit"),
    ],
)
def test_bad_json_lines_are_refused_by_line_or_row(lines: list[str], error: type[TabularError], told: str) -> None:
    with pytest.raises(error) as refused:
        sheet("\n".join(lines))
    assert told in refused.value.detail


@pytest.mark.parametrize(
    ("cell", "error"), [("[0.5]", WrongShape), ("", MissingValue), ("[a b]", NotANumber), ("0.5", WrongShape)]
)
def test_bad_vectors_are_refused_by_row(cell: str, error: type[TabularError]) -> None:
    rows = ["1,[0.25 0.75]"] * 1000
    with pytest.raises(error, match=r"row 1001 "):
        sheet("\n".join(["y,probs", *rows, f"1,{cell}"]))


@pytest.mark.parametrize("text", ["# a\n# b\n", "sep=;\n", "sep=;\nsep=;\n1;2\n", "#\n1,2\n"])
def test_a_file_of_comments_is_refused(text: str) -> None:
    with pytest.raises(TabularError):
        sheet(text)
