"""Files as other tools write them: which columns are taken for what."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.io.errors import (
    DamagedFile,
    DuplicateColumns,
    LabelsNeedMapping,
    MissingValue,
    NoPredictions,
    NotLabels,
    RaggedRow,
    TabularError,
    TextInNumbers,
    UnclearColumns,
    UnknownColumn,
    UnmappedLabel,
    UnmatchedArrays,
)
from calibrant.io.files import FileOptions, Sheet, read_forecast_sheet, read_sheet
from tests.known import known
from tests.packed import npz, parquet
from tests.unit.io.sheets import labels_of, weights_of

PLAIN = FileOptions()


def sheet(text: str, options: FileOptions = PLAIN, *, labelled: bool = True) -> Sheet:
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
        # numpy.savetxt writes the header as a comment, R's write.table names of rows without a header
        ("# y,p\n1.000000000000000000e+00,7.5e-01\n0.000000000000000000e+00,2.5e-01\n", [0.75, 0.25], [1, 0]),
        ("# run 4\n# y p\n1.0e+00 7.5e-01\n0.0e+00 2.5e-01\n", [0.75, 0.25], [1, 0]),
        ("# a, b\ny,p\n1,0.75\n0,0.25\n", [0.75, 0.25], [1, 0]),
        ('"y" "p"\n"1" 1 0.75\n"2" 0 0.25\n', [0.75, 0.25], [1, 0]),
        ("y p\n1 1 0.75\n2 0 0.25\n", [0.75, 0.25], [1, 0]),
        ('"y","p"\n"1",1,0.75\n"2",0,0.25\n', [0.75, 0.25], [1, 0]),
        # Empty rows of Excel at the end
        ("y,p,\n1,0.75,\n0,0.25,\n,,\n , ,\n,,\n", [0.75, 0.25], [1, 0]),
        ("y,p\n1,0.75\n0,0.25\n" + ",\n" * 5000, [0.75, 0.25], [1, 0]),
        # JSON Lines
        ('{"y": true, "p": 0.75}\n\n{"p": 0.25, "y": false}\n', [0.75, 0.25], [1, 0]),
        ('{"y": "1", "probs": [0.25, 0.75]}\n{"y": "0", "probs": [1, 0]}\n', [[0.25, 0.75], [1, 0]], [1, 0]),
        (
            '{"kind": "cat", "probs": {"bird": 0.25, "cat": 0.75}}\n{"probs": {"cat": 0, "bird": 1}, "kind": "bird"}\n',
            [[0.25, 0.75], [1, 0]],
            [1, 0],
        ),
        (
            '{"y": 1, "scores": [{"label": "LABEL_1", "score": 0.75}, {"label": "LABEL_0", "score": 0.25}]}\n'
            '{"y": 0, "scores": [{"label": "LABEL_0", "score": 0.5}, {"label": "LABEL_1", "score": 0.5}]}\n',
            [[0.25, 0.75], [0.5, 0.5]],
            [1, 0],
        ),
    ],
)
def test_files_of_other_tools_need_no_options(text: str, predictions: list[Any], labels: list[int]) -> None:
    columns = sheet(text)
    assert columns.predictions.tolist() == predictions
    assert labels_of(columns) == labels


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
        ("y,a,b\n1,0.75,0.25\n0,0.5,0.5\n", (("a", "b"), ("b", "a"))),
        ("y,lr_prob,rf_prob\n1,0.5,0.4\n0,0.2,0.1\n", (("lr_prob",), ("rf_prob",))),
    ],
)
def test_several_readings_are_refused(text: str, readings: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(UnclearColumns) as refused:
        sheet(text)
    assert refused.value.readings == readings


def test_empty_rows_before_others_are_missing_values() -> None:
    with pytest.raises(MissingValue, match=r"3,000 rows of column 'p', 3,000 of column 'y', first in row 3;"):
        sheet("y,p\n1,0.75\n0,0.25\n" + ",\n" * 3000 + "1,0.5\n" + ",\n")


def test_names_of_rows_that_could_be_a_decimal_comma_are_refused_with_a_hint() -> None:
    with pytest.raises(RaggedRow, match=r"write 0\.5, not 0,5; if R wrote names of rows, use write\.csv\("):
        sheet("y,p\n1,1,0.75\n2,0,0.25\n")


def test_the_calibrated_columns_are_left_out_without_labels() -> None:
    assert sheet("p,calibrated\n0.5,0.4\n", labelled=False).predictions.tolist() == [0.5]


@pytest.mark.parametrize("text", ["y,p\n1,1\n0,0\n", "label,pred\n2,2\n1,0\n0,1\n", "y,y_hat\n1,1.0\n0,0.0\n"])
def test_predicted_classes_are_no_probabilities(text: str) -> None:
    with pytest.raises(NoPredictions, match="has predicted classes, not probabilities"):
        sheet(text)


def test_a_wildcard_takes_the_columns_in_the_order_of_their_numbers() -> None:
    header = ",".join(["y", *(f"prob_{k}" for k in reversed(range(11)))])
    rows = [",".join(["1", *(str(k / 55) for k in reversed(range(11)))])]
    columns = sheet("\n".join([header, *rows, ""]), FileOptions(("prob_*",)))
    assert columns.predictions[0].tolist() == [k / 55 for k in range(11)]
    with pytest.raises(UnknownColumn, match="no column of numbers matches 'q_\\*'"):
        sheet("y,p\n1,0.5\n", FileOptions(("q_*",)))


def test_class_names_order_the_columns_that_have_them() -> None:
    text = "label,prob_dog,prob_cat\ncat,0.25,0.75\ndog,0.5,0.5\n"
    columns = sheet(text, FileOptions(class_names=("cat", "dog")))
    assert (columns.predictions.tolist(), columns.classes) == ([[0.75, 0.25], [0.5, 0.5]], ("cat", "dog"))
    named = sheet("label,p0,p1\ncat,1,0\ndog,0,1\n", FileOptions(class_names=("dog", "cat")))
    assert labels_of(named) == [1, 0]
    with pytest.raises(UnmappedLabel, match=r"'hen', first in row 2 .* is not one of the class names"):
        sheet("label,p0,p1\ncat,1,0\nhen,0,1\n", FileOptions(class_names=("dog", "cat")))


@pytest.mark.parametrize("words", [("F", "T"), ("false", "TRUE"), ("FALSCH", "WAHR"), ("Faux", "Vrai")])
def test_booleans_of_every_tool_are_labels(words: tuple[str, str]) -> None:
    text = f"y,p\n{words[1]},0.75\n{words[0]},0.25\n"
    readings: list[tuple[FileOptions, list[int], tuple[str, str] | None]] = [
        (PLAIN, [1, 0], None),
        (FileOptions(pos_label=words[1].swapcase()), [1, 0], words),
        (FileOptions(pos_label=words[0].lower()), [0, 1], (words[1], words[0])),
        (FileOptions(class_names=("healthy", "sick")), [1, 0], ("healthy", "sick")),
        (FileOptions(class_names=(words[1].lower(), words[0].lower())), [0, 1], (words[1].lower(), words[0].lower())),
    ]
    for options, labels, names in readings:
        columns = sheet(text, options)
        assert (labels_of(columns), columns.classes) == (labels, names)


def test_none_is_the_negative_label_beside_a_positive_one() -> None:
    text = "y,p\ndisease,0.75\nNone,0.25\n"
    columns = sheet(text, FileOptions(pos_label="disease"))
    assert (labels_of(columns), columns.classes) == ([1, 0], ("None", "disease"))
    assert "labels: 'None' is read as the negative label" in columns.notes
    for options, more in ((PLAIN, ""), (FileOptions(pos_label="disease"), "health,0.5\n")):
        with pytest.raises(MissingValue, match="'None', a missing value"):
            sheet(text + more, options)


def test_one_letter_alone_is_no_boolean() -> None:
    with pytest.raises(LabelsNeedMapping):
        sheet("y,p\nF,0.75\nF,0.25\n")


def test_a_positive_label_is_one_of_two() -> None:
    columns = sheet("y,p\n-1,0.5\n1,1\n", FileOptions(pos_label="-1"))
    assert (labels_of(columns), columns.classes) == ([1, 0], ("1", "-1"))
    for wrong in ("2", "yes"):
        with pytest.raises(UnmappedLabel, match="does not have it"):
            sheet("y,p\n-1,0.5\n1,1\n", FileOptions(pos_label=wrong))
        with pytest.raises(UnmappedLabel, match=r"the labels are '0\.0', '1e0'"):
            sheet("y,p\n1e0,0.5\n0.0,1\n", FileOptions(pos_label=wrong))
    with pytest.raises(UnmappedLabel, match="has more than two"):
        sheet("y,p\na,0.5\nb,1\nc,1\n", FileOptions(pos_label="a"))


@pytest.mark.parametrize("separator", [";", ","])
def test_decimal_commas_are_read_on_request(separator: str) -> None:
    cells = [["y", "p", "w"], ["1", '"0,75"', '"1,5"'], ["0", '"2,5e-1"', "2"]]
    text = "\n".join(separator.join(row) for row in cells)
    columns = sheet(text, FileOptions(decimal=",", weights="w"))
    assert columns.predictions.tolist() == [0.75, 0.25]
    assert weights_of(columns) == [1.5, 2]


THOUSANDS = ["1.225;0,5\n1.001;0,25", "877;0,5\n1.225;0,25", "0,5;0,5\n-1.225;0,25"]


@pytest.mark.parametrize("rows", THOUSANDS)
def test_points_that_may_separate_thousands_are_refused_if_the_decimal_mark_is_a_comma(rows: str) -> None:
    with pytest.raises(TextInNumbers, match=r"column 'weight' has separators .*, first in row [12] \(line [23]\), but"):
        sheet("weight;p;label\n" + rows.replace("\n", ";1\n") + ";0\n", FileOptions(decimal=",", weights="weight"))
    text = "observed;mean;std\n" + rows.replace("\n", ";1\n") + ";1\n"
    with pytest.raises(
        TextInNumbers, match="column 'observed' has separators of thousands or decimal points, first in"
    ):
        read_forecast_sheet(io.BytesIO(text.encode()), name="a", options=FileOptions(decimal=","), max_rows=None)


@pytest.mark.parametrize(
    "rows",
    [
        "900.5;0,5;1\n1,200;0,25;0\n",
        "900;0.5;1\n1,200;0,25;0\n",
        "900;0,5;1\n1,200;0.25;0\n",
        "900;0,5;1\n1,200;0,25;0\n" + "1;0,5;1\n" * 50_000 + "1;0.5;1\n",
    ],
)
def test_commas_that_may_separate_thousands_are_refused_beside_decimal_points(rows: str) -> None:
    with pytest.raises(
        TextInNumbers, match=r"column 'weight' has commas .*, first in row 2 \(line 3\), beside decimal"
    ):
        sheet("weight;p;label\n" + rows, FileOptions(decimal=",", weights="weight"))


def test_commas_that_may_separate_thousands_are_read_as_the_decimal_mark_without_decimal_points() -> None:
    options = FileOptions(decimal=",", weights="weight")
    assert weights_of(sheet("weight;p;label\n900;0,5;1\n1,200;0,25;0\n", options)) == [900.0, 1.2]


def test_points_of_numbers_below_one_are_read_though_the_decimal_mark_is_a_comma() -> None:
    assert sheet("y;p\n1;0,75\n0;0.125\n", FileOptions(decimal=",")).predictions.tolist() == [0.75, 0.125]


def test_rows_that_were_rounded_are_divided_by_their_sum() -> None:
    columns = sheet("y,p0,p1,p2\n0,0.33,0.33,0.33\n1,0.5,0.25,0.25\n")
    assert np.allclose(columns.predictions.sum(axis=1), 1)
    assert columns.notes[-1] == "predictions: rounded to 2 decimals; each row is divided by its sum"
    unchanged = sheet("y,p0,p1,p2\n0,0.33,0.33,0.3\n1,0.5,0.25,0.25\n")
    assert unchanged.predictions[0].tolist() == [0.33, 0.33, 0.3]


def test_missing_values_are_counted_in_all_columns() -> None:
    text = "y,p,w\n1,0.5,1\n,NA,1\n0,,1\n,0.5,\n"
    with pytest.raises(MissingValue) as refused:
        sheet(text, FileOptions(weights="w"))
    assert refused.value.detail == (
        "values are missing in 2 rows of column 'p', 1 of column 'w', 2 of column 'y', first in row 2; fill them in or "
        "remove the rows"
    )


SPARK = pa.struct(
    {"type": pa.int8(), "size": pa.int32(), "indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
)


def dense(*numbers: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(numbers)}


@pytest.mark.parametrize("form", ["parquet", "json lines"])
def test_dense_vectors_of_spark_are_predictions(form: str) -> None:
    sparse = {"type": 0, "size": 2, "indices": [0], "values": [1.0]}

    def read(*vectors: dict[str, Any] | None) -> Sheet:
        columns = {
            "label": [1.0, 0.0],
            "features": [sparse, dense(3, 4)],
            "rawPrediction": [dense(-1, 1), dense(2, 3)],
            "probability": list(vectors),
            "prediction": [1.0, 0.0],
        }
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        content = "\n".join(map(json.dumps, rows)).encode()
        if form == "parquet":
            kinds = {"features": SPARK, "rawPrediction": SPARK, "probability": SPARK}
            content = parquet({k: pa.array(v, type=kinds.get(k)) for k, v in columns.items()})
        return read_sheet(io.BytesIO(content), name="a", max_rows=None)

    read_columns = read(dense(0.25, 0.75), dense(0.5, 0.5))
    assert (read_columns.predictions.tolist(), labels_of(read_columns)) == ([[0.25, 0.75], [0.5, 0.5]], [1, 0])
    with pytest.raises(UnmatchedArrays, match=r"row 2 of .*'probability' is (a sparse vector|not a list)"):
        read(dense(0.25, 0.75), sparse)
    with pytest.raises(MissingValue, match="row 2 of"):
        read(dense(0.25, 0.75), None)


def test_an_array_of_an_archive_names_the_classes() -> None:
    probs, names = np.array([[0.25, 0.75, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]), ("bird", "cat", "dog")
    kinds = np.array(["cat", "dog", "bird", "cat"])

    def read(options: FileOptions = PLAIN, *, labelled: bool = True, **arrays: Any) -> Sheet:
        return read_sheet(io.BytesIO(npz(**arrays)), name="a", options=options, max_rows=None, labelled=labelled)

    for labels in (kinds, np.array([1, 2, 0, 1])):
        columns = read(y=labels, probs=probs, classes=np.array(names))
        assert (labels_of(columns), columns.classes) == ([1, 2, 0, 1], names)
        assert columns.notes[0] == "classes: 'bird', 'cat', 'dog', in this order (array 'classes')"
    assert read(labelled=False, probs=probs, class_names=np.array(names)).classes == names
    event = read(y=np.array(["no", "yes", "no"]), p=np.array([0.25, 0.75, 0.5]), classes_=np.array(["no", "yes"]))
    assert (labels_of(event), event.classes) == ([0, 1, 0], ("no", "yes"))
    assert read(y=np.array([1, 2, 0, 1]), probs=probs, classes=np.arange(3)).classes is None
    # With one element per row, they are the labels.
    assert read(probs=probs[:3], classes=np.array([1, 2, 0])).labels is not None


@pytest.mark.parametrize("order", "<>")
def test_fields_of_a_structured_array_are_columns(order: str) -> None:
    rows = np.array(
        [(1, [0.25, 0.75], "a"), (0, [0.5, 0.5], "b")],
        dtype=[("y", f"{order}i8"), ("p", f"{order}f8", 2), ("group", f"{order}U1")],
    )
    file = io.BytesIO()
    np.save(file, rows)
    columns = read_sheet(file, name="a", max_rows=None)
    assert (columns.predictions.tolist(), labels_of(columns)) == ([[0.25, 0.75], [0.5, 0.5]], [1, 0])
    assert columns.groups == ["a", "b"]


@pytest.mark.parametrize("form", ["parquet", "json lines"])
def test_numbers_written_as_strings_are_read_as_in_text_files(form: str) -> None:
    def read(*cells: str | None) -> Sheet:
        rows = [{"y": "1", "p": cell} for cell in cells]
        lines = "\n".join(map(json.dumps, rows)).encode()
        content = lines if form == "json lines" else parquet(pa.Table.from_pylist(rows))
        return read_sheet(io.BytesIO(content), name="a", max_rows=None)

    assert read("0.5", "2.5e-1").predictions.tolist() == [0.5, 0.25]
    with pytest.raises(MissingValue, match="in 3 rows of column 'p', first in row 2"):
        read("0.5", None, "NA", "-")
    with pytest.raises(TextInNumbers, match="row 2 of column 'p' is not a number"):
        read("0.5", "half")
    with pytest.raises(TabularError, match="row 2 of column 'p' is infinite"):
        read("0.5", "inf")


GAPS = [[0.5, 0.5], *[[None, 0.5], [0.5, float("nan")], None] * 2, [0.5, 0.5]]


@pytest.mark.parametrize(
    "content",
    [
        "\n".join(json.dumps({"y": 1, "p": row}) for row in GAPS).encode(),
        "\n".join(["y,p", *(f"1,{'' if row is None else row}".replace(", ", " ") for row in GAPS)]).encode(),
        parquet({"y": [1] * 8, "p": GAPS}),
        npz(y=np.ones(8, dtype=int), p=np.array([row or [None, None] for row in GAPS], dtype=float)),
    ],
    ids=["json lines", "csv", "parquet", "npz"],
)
def test_missing_values_are_counted_in_vectors(content: bytes) -> None:
    with pytest.raises(MissingValue, match=r"^values are missing in 6 rows of column 'p', first in row 2;"):
        read_sheet(io.BytesIO(content), name="a", max_rows=None)


def test_missing_values_may_be_written_as_dashes_in_numbers_but_not_in_labels() -> None:
    with pytest.raises(MissingValue, match="in 3 rows of column 'p', first in row 2"):
        sheet("y,p\n1,0.5\n1,?\n0,-\n0,.\n")
    columns = sheet("y,p\n+,0.5\n-,0.25\n", FileOptions(pos_label="+"))
    assert labels_of(columns) == [1, 0]


@pytest.mark.parametrize("cell", ["", "NA", "NaN"])
def test_missing_times_are_counted(cell: str) -> None:
    with pytest.raises(MissingValue, match="values are missing in 80 rows of column 'day', first in row 2"):
        sheet("y,p,day\n1,0.5,2024-01-01\n" + f"0,0.5,{cell}\n" * 80, FileOptions(times="day"))
    with pytest.raises(UnmatchedArrays, match="column 'p' has vectors"):
        sheet("y,p,w\n1,[0.5 0.5],1\n", FileOptions(times="p", predictions=("w",)))


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        (['{"y": 1, "p": 0.5}', "[1]"], DamagedFile, "line 2 is not a JSON object"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": 0.5'], DamagedFile, "line 2 is not a JSON object"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "q": 0.5}'], RaggedRow, "line 2 has keys"),
        (['{"y": 1, "p": 0.5}', '{"y": 1}'], MissingValue, "row 2 of column 'p' is empty"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": NaN}'], MissingValue, "row 2 of column 'p'"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": 1e999}'], TabularError, "row 2 of column 'p' is infinite"),
        (['{"y": 1, "p": 0.5}', '{"y": 1, "p": [0.5]}'], TextInNumbers, "row 2 of 'p' is not a number"),
        (
            ['{"y": 1, "p": [0.5, 0.5]}', '{"y": 1, "p": [1]}'],
            UnmatchedArrays,
            "row 2 of 'p' is not a list of 2 numbers",
        ),
        (['{"y": 1, "p": 0.5}', '{"p": 0.1, "y": 1, "p": 0.9}'], DuplicateColumns, "line 2 has the key 'p' twice"),
        (['{"y": 1, "p": 0.5, "x": {"a": 1, "a": 2}}'], DuplicateColumns, "line 1 has the key 'a' twice"),
        (['{"y": 1, "p": {"a": 0, "b": 1}}', '{"y": 1, "p": {"a": 0, "c": 1}}'], RaggedRow, "line 2 has keys"),
        (
            ['{"y": 1, "p": {"a": 0, "b": 1}}', '{"y": 1, "p": null}'],
            MissingValue,
            "'p_a', 1 of column 'p_b', first in",
        ),
        ([f'{{"y": 1, "p": {"[" * 100_000}'], DamagedFile, "line 1 is not a JSON object"),
        ([json.dumps({"y": 1, "p": "x" * (1 << 20)})], TabularError, "line 1 has more than the limit"),
    ],
)
def test_bad_json_lines_are_refused_by_line_or_row(lines: list[str], error: type[TabularError], message: str) -> None:
    with pytest.raises(error) as refused:
        sheet("\n".join(lines))
    assert message in refused.value.detail


@pytest.mark.parametrize(
    ("cell", "error"),
    [("[0.5]", UnmatchedArrays), ("", MissingValue), ("[a b]", TextInNumbers), ("0.5", UnmatchedArrays)],
)
def test_bad_vectors_are_refused_by_row(cell: str, error: type[TabularError]) -> None:
    rows = ["1,[0.25 0.75]"] * 1000
    with pytest.raises(error, match=r"row 1001 "):
        sheet("\n".join(["y,probs", *rows, f"1,{cell}"]))


@pytest.mark.parametrize(
    "name", ["prob_std", "p_uncertainty", "prob_margin", "score_rank", "prob_percentile", "p_entropy", "prob_inverse"]
)
def test_a_column_of_another_quantity_is_no_column_of_probabilities(name: str) -> None:
    with pytest.raises(NoPredictions) as refused:
        sheet(f"y,{name}\n1,0.25\n0,0.75\n")
    assert refused.value.offer == (name,)
    assert sheet(f"y,p,{name}\n1,0.25,0.5\n0,0.75,0.5\n").predictions.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [
        *(("prob_stay", "churn"), ("prob_away", "home_win"), ("prob_churn", "not_churned"), ("pd", "non_default")),
        *(("prob_fraud", "is_not_fraud"), ("prob_show", "no_show"), ("prob_valid", "invalid"), ("pd", "repaid")),
        *(("prob_inactive", "active"), ("prob_approved", "declined"), ("prob_positive", "is_negative")),
        *(("confidence", "is_wrong"), ("max_prob", "incorrect"), ("not_churn_prob", "churn")),
        # Classes that some files number 1 and others 0
        *(
            ("prob_benign", "y"),
            ("p_good", "label"),
            ("legit_prob", "target"),
            ("prob_ham", "y"),
            ("p_alive", "outcome"),
        ),
        *(("survival_probability", "event"), ("p_normal", "y_true"), ("prob_healthy", "diagnosis")),
    ],
)
def test_a_probability_of_the_opposite_of_the_labels_is_refused(predictions: str, labels: str) -> None:
    with pytest.raises(LabelsNeedMapping):
        sheet(f"{labels},{predictions}\n1,0.75\n0,0.95\n")


@pytest.mark.parametrize(
    ("predictions", "labels"),
    [
        *(("prob_malignant", "y"), ("p_bad", "label"), ("p_died", "outcome"), ("prob_win", "y"), ("p_correct", "y")),
        *(("prob_benign", "is_benign"), ("p_survived", "alive"), ("p_good_bad", "y"), ("prob_normalised", "y")),
    ],
)
def test_a_probability_of_an_event_or_of_the_labels_is_that_of_class_1(predictions: str, labels: str) -> None:
    read = known(sheet(f"{labels},{predictions}\n1,0.75\n0,0.95\n").labels)
    assert read.tolist() == [1, 0]


@pytest.mark.parametrize("text", ["# a\n# b\n", "sep=;\n", "sep=;\nsep=;\n1;2\n", "#\n1,2\n"])
def test_a_file_of_comments_is_refused(text: str) -> None:
    with pytest.raises(TabularError):
        sheet(text)


def _rows(head: str, *rows: str, times: int = 1) -> str:
    return "\n".join([head, *rows * times]) + "\n"


@pytest.mark.parametrize(
    ("text", "options", "predictions", "labels"),
    [
        # The number at the end of a class orders the columns: SAS, columns sorted as text
        ("BAD,P_BAD1,P_BAD0\n1,0.75,0.25\n0,0.25,0.75\n", PLAIN, [[0.25, 0.75], [0.75, 0.25]], [1, 0]),
        ("y,p_class1,p_class0\n1,0.75,0.25\n0,0.25,0.75\n", PLAIN, [[0.25, 0.75], [0.75, 0.25]], [1, 0]),
        ("y,prob_event,prob_nonevent\n1,0.75,0.25\n", PLAIN, [[0.25, 0.75]], [1]),
        # A single column of class 0
        ("y,p_false\n1,0.25\n0,0.75\n", PLAIN, [0.25, 0.75], [0, 1]),
        ("y,prob_negative\n1,0.25\n0,0.75\n", PLAIN, [0.25, 0.75], [0, 1]),
        ("y,prob_class_0\nTrue,0.25\nFalse,0.75\n", PLAIN, [0.25, 0.75], [0, 1]),
        *(
            (f"y,{name}\n1,0.25\n0,0.75\n", PLAIN, [0.25, 0.75], [0, 1])
            for name in (
                *("P(Y=0)", "p_y0", "prob_of_class_0", "probability_of_0", "P(class=0)", "prob_target_0", "prob_is_0"),
                *("class_0_prob", "no_prob", "false_prob", "negative_score", "score_negative_class"),
                "prob_class_0_calibrated",
            )
        ),
        ("y,P(Y=1)\n1,0.75\n0,0.25\n", PLAIN, [0.75, 0.25], [1, 0]),
        ("y,no_prob\n1,0.25\n0,0.75\n", FileOptions(predictions=("no_prob",)), [0.25, 0.75], [0, 1]),
        ("y,prob_0\n1,0.25\n0,0.75\n", FileOptions(predictions=("prob_0",)), [0.25, 0.75], [0, 1]),
        # The positive label orders two named columns; a wildcard takes the negative class first
        ("y,p_no,p_yes\nyes,0.25,0.75\nno,0.5,0.5\n", FileOptions(pos_label="no"), [[0.75, 0.25], [0.5, 0.5]], [0, 1]),
        ("y,yes,no\nyes,0.75,0.25\n", FileOptions(pos_label="yes"), [[0.25, 0.75]], [1]),
        (
            "y,p_no,p_yes\nyes,0.25,0.75\nno,0.5,0.5\n",
            FileOptions(predictions=("p_no", "p_yes"), pos_label="no"),
            [[0.75, 0.25], [0.5, 0.5]],
            [0, 1],
        ),
        # Columns that are not named after the labels are in the order of the sorted labels
        ("y,p0,p1\na,0.25,0.75\nb,0.5,0.5\n", FileOptions(pos_label="b"), [[0.25, 0.75], [0.5, 0.5]], [0, 1]),
        ("y,p0,p1\n0,0.25,0.75\n1,0.5,0.5\n", FileOptions(pos_label="0"), [[0.75, 0.25], [0.5, 0.5]], [1, 0]),
        (
            '{"y": 9, "p": [0.25, 0.75]}\n{"y": 10, "p": [0.5, 0.5]}\n',
            FileOptions(pos_label="10"),
            [[0.25, 0.75], [0.5, 0.5]],
            [0, 1],
        ),
        ("y,prob_yes,prob_no\n1,0.75,0.25\n", FileOptions(predictions=("prob_*",)), [[0.25, 0.75]], [1]),
        # Classes and labels that differ in case; the highest probability beside them; SAS's predicted class
        ("pet,Cat,Dog\ncat,0.75,0.25\ndog,0.25,0.75\n", PLAIN, [[0.75, 0.25], [0.25, 0.75]], [0, 1]),
        ("y,p_yes\nYes,0.75\nNo,0.25\n", PLAIN, [0.75, 0.25], [1, 0]),
        (
            "y,p_cat,p_dog,p_max\ncat,0.75,0.25,0.75\ndog,0.25,0.75,0.75\n",
            PLAIN,
            [[0.75, 0.25], [0.25, 0.75]],
            [0, 1],
        ),
        (
            "F_pet,I_pet,P_petcat,P_petdog\ncat,cat,0.75,0.25\ndog,cat,0.75,0.25\n",
            PLAIN,
            [[0.75, 0.25], [0.75, 0.25]],
            [0, 1],
        ),
        # PyCaret's score is that of the predicted class
        (
            _rows("target,prediction_label,prediction_score", "1,1,0.75", "0,0,0.75", "1,0,0.75", times=5),
            PLAIN,
            [0.75] * 15,
            [1, 1, 0] * 5,
        ),
        ("pH,y,prob\n0.5,1,0.75\n0.25,0,0.25\n", PLAIN, [0.75, 0.25], [1, 0]),
        # Numbers that are the labels need not be consecutive, and may be negative
        ("y,prob_1,prob_-1\n1,0.75,0.25\n-1,0.5,0.5\n", PLAIN, [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        ("y,1,-1\n1,0.75,0.25\n-1,0.5,0.5\n", PLAIN, [[0.25, 0.75], [0.5, 0.5]], [1, 0]),
        ("mood,p_1,p_0,p_-1\n-1,0.5,0.5,0\n1,0,0.5,0.5\n", PLAIN, [[0, 0.5, 0.5], [0.5, 0.5, 0]], [0, 2]),
        ("quality,prob_5,prob_7,prob_8\n8,0.5,0.5,0\n5,0,0.5,0.5\n", PLAIN, [[0.5, 0.5, 0], [0, 0.5, 0.5]], [2, 0]),
        ("y,3,5\n5,0.25,0.75\n5,0.5,0.5\n", PLAIN, [[0.25, 0.75], [0.5, 0.5]], [1, 1]),
        ("y,logit_3,logit_5\n5,-1,1\n3,2,0\n", FileOptions(scale="logit"), [[-1, 1], [2, 0]], [1, 0]),
    ],
)
def test_columns_mean_what_their_names_say(text: str, options: FileOptions, predictions: Any, labels: Any) -> None:
    columns = sheet(text, options)
    np.testing.assert_allclose(columns.predictions, predictions)
    assert labels_of(columns) == labels


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("y,p_no\nyes,0.25\nno,0.5\n", FileOptions(pos_label="yes"), "column of predictions is that of 'no'"),
        ("y,p_no\nyes,0.25\nno,0.5\n", FileOptions(class_names=("no", "yes")), "'p_no' is that of 'no'"),
        ("y,p_not_fraud\n1,0.25\n0,0.5\n", PLAIN, "name the label of this class"),
        ("bad,prob_good\n1,0.25\n0,0.5\n", PLAIN, "is that of 'good'; name the label of this class"),
        ("survivalProbability,died\n0.25,True\n0.5,False\n", PLAIN, "is that of 'survival'; name the label"),
        (
            "y,p_cow,p_cat\ncat,0.25,0.75\n",
            FileOptions(class_names=("cat", "dog")),
            "named after 'cow', 'cat', but the classes are 'cat', 'dog'",
        ),
        ("y_true,y_pred\n1,0\n0,0\n1,0\n", PLAIN, "'y_pred' has predicted classes"),
    ],
)
def test_columns_of_other_classes_are_refused(text: str, options: FileOptions, message: str) -> None:
    with pytest.raises(TabularError) as refused:
        sheet(text, options)
    assert message in refused.value.detail


def test_logits_and_columns_named_after_classes_need_no_labels() -> None:
    assert sheet("logit_0,logit_1\n-1,3\n", FileOptions(scale="logit"), labelled=False).predictions.tolist() == [
        [-1, 3]
    ]
    options = FileOptions(class_names=("5", "7"))
    assert sheet("prob_7,prob_5\n0.75,0.25\n", options, labelled=False).predictions.tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("is_a,is_b,is_c,p_a,p_b,p_c\n0,1,0,0.5,0.5,0\n1,0,0,0,0.5,0.5\n", PLAIN),
        ("is_a,is_b,is_c,p_a,p_b,p_c\n0,1,0,0.5,0.5,0\n1,0,0,0,0.5,0.5\n", FileOptions(labels="is_b")),
        (
            "p_a,p_b,p_c,new,a,b,c\n0.5,0.5,0,1,False,True,False\n0,0.5,0.5,1,True,False,False\n",
            FileOptions(labels="c"),
        ),
    ],
)
def test_one_hot_labels_are_refused(text: str, options: FileOptions) -> None:
    with pytest.raises(NotLabels, match="have a single 1 per row, like one-hot labels; write the class of each row in"):
        sheet(text, options)


def test_a_flag_beside_the_labels_is_not_one_hot() -> None:
    columns = sheet("p_0,p_1,p_2,new,label,old\n0.5,0.5,0,0,1,0\n0,0.5,0.5,1,1,0\n")
    assert known(columns.labels).tolist() == [1, 1]
    # The first rows of a file that is sorted by its labels, beside a feature in two columns, or rare flags.
    for rows, labels in (
        ("0.5,0.5,0,0,1,0\n0,0.5,0.5,0,0,1\n", [0, 0]),
        ("0.5,0.5,0,1,0,0\n0,0.5,0.5,1,0,0\n", [1, 1]),
    ):
        columns = sheet(f"p_0,p_1,p_2,label,mobile,desktop\n{rows}")
        assert labels_of(columns) == labels
    arrays = {"a": np.array([1]), "label": np.array([0, 1]), "b": np.array([0, 1, 0]), "probs": np.eye(3)[:2]}
    read = read_sheet(io.BytesIO(npz(**arrays)), name="a", options=PLAIN, max_rows=None)
    assert labels_of(read) == [0, 1]


def test_a_map_of_named_classes_is_not_applied_to_columns_of_others() -> None:
    options = FileOptions(class_names=("bird", "cat", "dog"))
    with pytest.raises(UnclearColumns, match="named after 'dog', 'bird', 'fish'"):
        sheet("prob_dog,prob_bird,prob_fish\n0.5,0.25,0.25\n", options, labelled=False)


def test_readings_are_whole_sets_of_columns_in_the_order_of_the_classes() -> None:
    with pytest.raises(UnclearColumns) as refused:
        sheet("y,p_a_0,p_a_1,p_b_0,p_b_1\n1,0.25,0.75,0.5,0.5\n0,0.75,0.25,0.5,0.5\n")
    assert refused.value.readings == (("p_a_0", "p_a_1"), ("p_b_0", "p_b_1"))
    with pytest.raises(UnclearColumns) as refused:
        sheet("y,pos,neg\n1,0.75,0.25\n0,0.25,0.75\n")
    assert refused.value.readings == (("neg", "pos"),)
    with pytest.raises(UnclearColumns) as refused:
        sheet("label,LABEL_0,LABEL_10,LABEL_2\n1,0.5,0.25,0.25\n0,0.25,0.25,0.5\n")
    assert refused.value.readings == (("LABEL_0", "LABEL_2", "LABEL_10"),)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_sorted_files_are_read_as_shuffled_ones(kind: str) -> None:
    def of(head: str, rows: list[str]) -> str:
        if kind == "csv":
            return _rows(head, *rows)
        names = head.split(",")
        cells = ([cell if cell.isalpha() else float(cell) for cell in row.split(",")] for row in rows)
        return "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in cells)

    columns = sheet(of("pet,cat,dog", ["cat,0.75,0.25"] * 1500 + ["dog,0.25,0.75"] * 1500))
    assert columns.classes == ("cat", "dog")
    columns = sheet(of("y_true,y_pred,y_pred_proba", ["1,1,0.75"] * 1500 + ["0,0,0.25"] * 1500))
    assert columns.predictions.ndim == 1
    assert set(columns.predictions.tolist()) == {0.25, 0.75}
    with pytest.raises(NoPredictions, match="'y_pred' has predicted classes"):
        sheet(of("y_true,y_pred", ["1,1"] * 1500 + ["0,0"] * 1500))
    with pytest.raises(UnclearColumns, match="row 1501 is below 1/2"):
        sheet(of("label,pred,score", ["yes,yes,0.75", "yes,yes,0.8"] * 750 + ["no,no,0.25"]))
