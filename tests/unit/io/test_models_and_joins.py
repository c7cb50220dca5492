"""Columns of several models in one file, and files that are joined on the ids of their rows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from calibrant.io.cells import matching_rows
from calibrant.io.errors import (
    InvalidFileOption,
    TabularError,
    UnclearColumns,
    UnknownColumn,
    UnmatchedIds,
)
from calibrant.io.files import FileOptions, read_forecast_sheet, read_models, read_sheet
from tests.unit.io.sheets import labels_of

RANDOM = np.random.default_rng(5)
N = 60
FRAME = pd.DataFrame(
    {
        "customer_id": [f"c{i:03}" for i in range(N)],
        "rf": RANDOM.random(N).round(4),
        "xgb": RANDOM.random(N).round(4),
        "churned": RANDOM.choice(["yes", "no"], N),
        "region": RANDOM.choice(["north", "south"], N),
        "amount": RANDOM.integers(1, 5, N),
    }
)
PREDICTIONS, LABELS = FRAME[["customer_id", "rf", "xgb"]], FRAME[["customer_id", "churned", "region", "amount"]]


def _bytes(frame: pd.DataFrame, form: str = "csv") -> bytes:
    if form == "csv":
        return bytes(frame.to_csv(index=False), "utf-8")
    file = io.BytesIO()
    if form == "parquet":
        frame.to_parquet(file, index=False)
    else:
        frame.to_excel(file, index=False)
    return file.getvalue()


def _models(content: bytes, **options: Any) -> Any:
    return read_models(io.BytesIO(content), name="f.csv", options=FileOptions(**options), max_rows=None)


@pytest.mark.parametrize("form", ["csv", "parquet", "xlsx"])
def test_each_column_of_predictions_is_a_model(form: str) -> None:
    options = {"predictions": ("rf", "xgb"), "labels": "churned", "pos_label": "yes", "weights": "amount"}
    columns = _models(_bytes(FRAME, form), **options, groups=("region",))
    assert list(columns.sheets) == ["rf", "xgb"]
    for name, sheet in columns.sheets.items():
        assert sheet.predictions.tolist() == FRAME[name].tolist()
        assert labels_of(sheet) == (FRAME["churned"] == "yes").astype(int).tolist()
        assert sheet.weights is not None
        assert sheet.groups == FRAME["region"].tolist()
    assert len(columns.notes) == len(set(columns.notes))


def test_a_wildcard_names_the_classes_of_a_model() -> None:
    frame = pd.DataFrame({"species": ["cat", "dog", "bird"] * 5})
    for model in ("rf", "xgb"):
        probs = RANDOM.dirichlet([1.0, 1.0, 1.0], 15)
        frame[[f"{model}_{name}" for name in ("dog", "bird", "cat")]] = probs
    columns = _models(_bytes(frame), predictions=("rf_*", "xgb_*"), labels="species")
    assert {name: sheet.predictions.shape for name, sheet in columns.sheets.items()} == {
        "rf_*": (15, 3),
        "xgb_*": (15, 3),
    }
    assert columns.sheets["rf_*"].classes == columns.sheets["xgb_*"].classes


def test_models_of_other_classes_and_models_named_twice_are_refused() -> None:
    with pytest.raises(InvalidFileOption, match="different column for each model"):
        _models(_bytes(FRAME), predictions=("rf", "rf"))
    wide = FRAME.assign(p_no=1.0 - FRAME["rf"], p_yes=FRAME["rf"])
    with pytest.raises(UnclearColumns, match="other classes than 'rf'"):
        _models(_bytes(wide), predictions=("rf", "p_*"), labels="churned", pos_label="yes")
    with pytest.raises(UnknownColumn, match="no column 'lgbm'"):
        _models(_bytes(FRAME), predictions=("rf", "lgbm"), labels="churned", pos_label="yes")


def test_rows_are_matched_in_the_order_of_the_first_file() -> None:
    (first, second), notes = matching_rows({"a": ["x", "y", "z"], "b": ["z", "x", "y"]})
    assert (first.tolist(), second.tolist(), notes) == ([0, 1, 2], [1, 2, 0], ())
    (first, second, third), notes = matching_rows({"a": ["x", "y"], "b": ["y", "w", "v"], "c": ["y", "x"]}, inner=True)
    assert (first.tolist(), second.tolist(), third.tolist()) == ([1], [0], [0])
    assert notes == (
        "ids: 1 of the 2 ids in 'a' are not in 'b'; these rows are left out",
        "ids: 2 of the 3 ids in 'b' are not in 'a' or 'c'; these rows are left out",
        "ids: 1 of the 2 ids in 'c' are not in 'b'; these rows are left out",
    )


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"a": ["x", "y", "x"], "b": ["x", "y"]}, "1 row has the id of a later row in 'a', first in row 1"),
        ({"a": ["x", "y"], "b": ["x", "y", "z"]}, "1 of the 3 ids in 'b' are not in 'a'; to leave"),
        ({"a": ["x"], "b": ["y"]}, "no id occurs in all of 'a', 'b'"),
        ({"a": [], "b": []}, "no id occurs"),
    ],
)
def test_ids_that_are_repeated_or_lack_a_partner_are_refused(ids: dict[str, list[str]], message: str) -> None:
    with pytest.raises(UnmatchedIds, match=message):
        matching_rows(ids)


def test_duplicates_are_refused_although_rows_may_be_left_out() -> None:
    with pytest.raises(UnmatchedIds, match="2 rows have the ids"):
        matching_rows({"a": ["x", "x", "x"], "b": ["x"]}, inner=True)


def _joined(
    folder: Path, left: bytes, right: bytes, read: Any = read_sheet, name: str = "labels.csv", **options: Any
) -> Any:
    path = folder / name
    path.write_bytes(right)
    joined = {"ids": "customer_id", "labels_from": str(path), **options}
    return read(io.BytesIO(left), name="preds.csv", options=FileOptions(**joined), max_rows=None)


@pytest.mark.parametrize("forms", [("csv", "csv"), ("parquet", "csv"), ("csv", "parquet"), ("csv", "xlsx")])
def test_labels_of_a_second_file_are_joined_on_the_ids(tmp_path: Path, forms: tuple[str, str]) -> None:
    shuffled = LABELS.sample(frac=1.0, random_state=3)
    options: dict[str, Any] = {"predictions": ("rf",), "labels": "churned", "pos_label": "yes", "groups": ("region",)}
    columns = _joined(tmp_path, _bytes(PREDICTIONS, forms[0]), _bytes(shuffled, forms[1]), **options, weights="amount")
    whole: Any = read_sheet(
        io.BytesIO(_bytes(FRAME)), name="f.csv", options=FileOptions(**options, weights="amount"), max_rows=None
    )
    assert columns.predictions.tolist() == whole.predictions.tolist()
    assert columns.labels.tolist() == whole.labels.tolist()
    assert columns.weights.tolist() == whole.weights.tolist()
    assert columns.groups == whole.groups
    assert columns.ids == FRAME["customer_id"].tolist()


def test_rows_without_a_partner_are_left_out_with_the_option(tmp_path: Path) -> None:
    right = _bytes(LABELS.iloc[5:].sample(frac=1.0, random_state=1))
    options: dict[str, Any] = {"predictions": ("rf",), "labels": "churned", "pos_label": "yes"}
    with pytest.raises(UnmatchedIds, match=r"5 of the 60 ids in 'preds\.csv' are not in 'labels\.csv'"):
        _joined(tmp_path, _bytes(PREDICTIONS), right, **options)
    columns = _joined(tmp_path, _bytes(PREDICTIONS), right, **options, inner=True)
    assert columns.ids == FRAME["customer_id"].tolist()[5:]
    assert columns.labels.tolist() == (FRAME["churned"] == "yes").astype(int).tolist()[5:]
    assert "ids: 5 of the 60 ids in 'preds.csv' are not in 'labels.csv'; these rows are left out" in columns.notes


def test_columns_are_inferred_over_both_files(tmp_path: Path) -> None:
    left, right = PREDICTIONS[["customer_id", "rf"]].rename(columns={"rf": "p"}), LABELS[["customer_id", "churned"]]
    right = right.assign(churned=(right["churned"] == "yes").astype(int)).rename(columns={"churned": "label"})
    columns = _joined(tmp_path, _bytes(left), _bytes(right.iloc[::-1]))
    assert columns.predictions.tolist() == left["p"].tolist()
    assert columns.labels.tolist() == right["label"].tolist()


def test_class_columns_and_names_of_labels_of_two_files_are_those_of_one(tmp_path: Path) -> None:
    probs = pd.DataFrame(RANDOM.dirichlet([1.0, 1.0, 1.0], N), columns=["dog", "bird", "cat"])
    species = pd.Series(RANDOM.choice(["cat", "dog", "bird"], N), name="species")
    ids = FRAME["customer_id"]
    columns = _joined(
        tmp_path, _bytes(pd.concat([ids, probs], axis=1)), _bytes(pd.concat([ids, species], axis=1).iloc[::-1])
    )
    whole: Any = read_sheet(io.BytesIO(_bytes(pd.concat([ids, probs, species], axis=1))), name="f.csv", max_rows=None)
    assert columns.classes == whole.classes
    assert columns.predictions.tolist() == whole.predictions.tolist()
    assert columns.labels.tolist() == whole.labels.tolist()


def test_outcomes_of_a_second_file_are_joined_too(tmp_path: Path) -> None:
    left = pd.DataFrame({"customer_id": FRAME["customer_id"], "mean": FRAME["rf"], "std": 1.0 + FRAME["xgb"]})
    right = pd.DataFrame({"customer_id": FRAME["customer_id"], "outcome": FRAME["amount"]}).iloc[::-1]
    columns = _joined(tmp_path, _bytes(left), _bytes(right), read_forecast_sheet, labels="outcome")
    assert columns.observed.tolist() == FRAME["amount"].tolist()


HOSTILE: dict[str, tuple[bytes, type[TabularError], str]] = {
    "no column of ids": (b"id,churned\nc000,yes\n", UnknownColumn, "'labels.csv' has no column 'customer_id'"),
    "an empty id": (b"customer_id,churned\n,yes\nc001,no\n", TabularError, "is empty"),
    "a missing id": (b"customer_id,churned\nNA,yes\nc001,no\n", TabularError, "is empty"),
    "ids twice": (b"customer_id,churned\nc000,yes\nc000,no\n", UnmatchedIds, "later row in 'labels.csv'"),
    "no rows": (b"customer_id,churned\n", TabularError, ""),
    "no file": (b"", TabularError, ""),
    "an image": (b"\x89PNG\r\n\x1a\n", TabularError, "PNG"),
    "other ids": (b"customer_id,churned\nx,yes\ny,no\n", UnmatchedIds, "no id occurs"),
    "no labels": (_bytes(LABELS[["customer_id"]]), TabularError, ""),
    "a column of both": (_bytes(LABELS.assign(rf=0.5)), UnclearColumns, "both have a column 'rf'"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bad_second_file_is_refused(tmp_path: Path, case: str) -> None:
    content, error, message = HOSTILE[case]
    with pytest.raises(error) as caught:
        _joined(tmp_path, _bytes(PREDICTIONS), content, predictions=("rf",), labels="churned", pos_label="yes")
    assert message in caught.value.detail


def test_a_second_file_needs_the_column_of_ids(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileOption, match="needs --id"):
        _joined(tmp_path, _bytes(PREDICTIONS), _bytes(LABELS), ids=None)


def test_labels_are_read_if_there_are_any() -> None:
    def read(frame: pd.DataFrame) -> Any:
        options = FileOptions(predictions=("rf",), labels="churned", pos_label="yes")
        return read_sheet(io.BytesIO(_bytes(frame)), name="f.csv", options=options, max_rows=None, labelled=None)

    assert read(FRAME).labels is not None
    assert read(PREDICTIONS).labels is None
    with pytest.raises(UnknownColumn):
        read(FRAME.rename(columns={"rf": "forest"}))
