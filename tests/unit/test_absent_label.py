"""Rows of one class, whose labels lack the positive label that is named."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import InvalidOption
from calibrant.core.inputs import read_rows
from calibrant.io.errors import UnmappedLabel
from calibrant.io.files import read_sheet
from calibrant.io.options import FileOptions
from tests.refusals import refused_at

P = [0.1, 0.3, 0.2]


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [(["no"] * 3, "yes"), ([0, 0, 0], 1), ([0.0, 0.0, 0.0], 1), ([False] * 3, True), ([b"no"] * 3, b"yes")],
)
def test_rows_without_the_positive_label_are_all_negative(labels: list[Any], pos_label: Any) -> None:
    report = calibrant.evaluate(P, np.array(labels), pos_label=pos_label, measures=["brier", "auroc"])
    assert report["brier"].value == pytest.approx(np.mean(np.square(P)))
    assert report["auroc"].value is None
    assert "one outcome" in (report["auroc"].problem or "")


@pytest.mark.parametrize(("pos_label", "positive"), [("yes", 1), ("aye", 0)])
def test_two_columns_are_in_the_order_of_the_label_and_the_absent_one(pos_label: str, positive: int) -> None:
    columns = np.column_stack([1.0 - np.array(P), P])
    rows = read_rows(columns, ["no"] * 3, pos_label=pos_label)
    assert rows.batch.predictions.given[:, 1].tolist() == columns[:, positive].tolist()
    assert rows.batch.labels.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [(["no"] * 3, "No"), (["no"] * 3, 1), ([0] * 3, "yes"), ([0] * 3, True), (["a", "b", "a"], "yes")],
)
def test_a_label_that_may_be_misspelt_is_refused(labels: list[Any], pos_label: Any) -> None:
    with refused_at("/pos_label", InvalidOption):
        read_rows(P, labels, pos_label=pos_label)


def test_a_file_without_the_positive_label_is_read_and_says_so() -> None:
    content = b"p,label\n0.1,no\n0.3,no\n0.2,no\n"
    sheet = read_sheet(BytesIO(content), name="chunk.csv", max_rows=None, options=FileOptions(pos_label="yes"))
    assert sheet.labels is not None
    assert sheet.labels.tolist() == [0, 0, 0]
    assert sheet.classes == ("no", "yes")
    assert "labels: all are 'no', none is 'yes'" in sheet.notes


@pytest.mark.parametrize("pos_label", ["NO", "1"])
def test_a_file_whose_only_label_differs_in_case_or_type_is_refused(pos_label: str) -> None:
    content = b"p,label\n0.1,no\n0.3,no\n0.2,no\n"
    with pytest.raises(UnmappedLabel):
        read_sheet(BytesIO(content), name="chunk.csv", max_rows=None, options=FileOptions(pos_label=pos_label))
