"""Tests of the reader of features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calibrant.core.errors import CalibrationError
from calibrant.core.features import Feature, read_features, text_of_number
from tests.refusals import refused_at

COLUMNS: dict[str, Any] = {"text": ["b", None, "a"], "number": [1, None, 2.5], "flag": [True, False, None]}


FRAMES: dict[str, Callable[[], Any]] = {
    "mapping": lambda: COLUMNS,
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "categories": lambda: pd.DataFrame(COLUMNS).astype({"text": "category"}),
    "nullable": lambda: pd.DataFrame(COLUMNS).astype({"text": "string", "number": "Float64", "flag": "boolean"}),
    "polars": lambda: pl.DataFrame(COLUMNS, strict=False),
    "polars-categories": lambda: pl.DataFrame(COLUMNS, strict=False).with_columns(pl.col("text").cast(pl.Categorical)),
    "arrow": lambda: pa.table(COLUMNS),
    "rows": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
}


@pytest.mark.parametrize("library", FRAMES)
def test_features_of_every_library_are_the_same(library: str) -> None:
    text, number, flag = read_features(FRAMES[library]())
    assert (text.kind, number.kind, flag.kind) == ("categorical", "numeric", "categorical")
    assert (text.categories, flag.categories) == (("a", "b"), ("false", "true"))
    assert text.texts().tolist() == ["b", "", "a"]
    assert number.texts().tolist() == ["1", "", "2.5"]
    assert flag.texts().tolist() == ["true", "false", ""]
    assert [feature.missing.tolist() for feature in (text, number, flag)] == [
        [False, True, False],
        [False, True, False],
        [False, False, True],
    ]


def test_a_structured_array_has_named_features() -> None:
    rows = np.array([(1, "x"), (2, "y")], dtype=[("age", "i4"), ("country", "U1")])
    age, country = read_features(rows, 2)
    assert (age.name, age.kind, country.categories) == ("age", "numeric", ("x", "y"))


def test_stored_columns_give_the_features_again() -> None:
    features = read_features(COLUMNS)
    again = read_features(features.stored())
    assert [feature.texts().tolist() for feature in again] == [feature.texts().tolist() for feature in features]
    assert [feature.kind for feature in again] == [feature.kind for feature in features]


def test_rows_are_chosen_by_number_and_by_mask() -> None:
    features = read_features(COLUMNS)
    assert features.rows(np.array([2, 2])).by_name["text"].texts().tolist() == ["a", "a"]
    assert features.rows(np.array([True, False, True])).by_name["number"].texts().tolist() == ["1", "2.5"]


def test_numbers_become_categories_with_the_text_of_the_number() -> None:
    feature = Feature("zip", numbers=np.array([10115.0, np.nan, 0.5]))
    assert feature.as_categories().categories == ("0.5", "10115")
    assert [text_of_number(number) for number in (1e300, -0.0, 0.1)] == ["1e+300", "0", "0.1"]


@pytest.mark.parametrize(
    ("features", "code", "pointer"),
    [
        ({"a": [1, "x"]}, "not-a-number", "/features/a/1"),
        ({"a": ["x", None, 3]}, "not-a-number", "/features/a/2"),
        ({"a": [True, 1]}, "not-a-number", "/features/a/1"),
        ({"a": [None, object()]}, "not-a-number", "/features/a/1"),
        ({"a": [b"x"]}, "not-a-number", "/features/a/0"),
        ({"a": [1, float("inf")]}, "not-a-number", "/features/a/1"),
        ({"a": [10**400]}, "not-a-number", "/features/a"),
        ({"a": np.array(["2020-01-01"], "M8[D]")}, "not-a-number", "/features/a"),
        ({"a/b": [[1], [2]]}, "wrong-shape", "/features/a~1b"),
        ({"a": np.zeros((2, 2))}, "wrong-shape", "/features/a"),
        ({"a": "text"}, "wrong-shape", "/features/a"),
        (np.zeros((2, 2)), "wrong-shape", "/features"),
        ([1, 2], "wrong-shape", "/features"),
        ({"a": [1], "b": [1, 2]}, "length-mismatch", "/features/b"),
        ({"a": []}, "empty-batch", "/features"),
        ({}, "invalid-option", "/features"),
        ({"": [1]}, "invalid-option", "/features"),
        ({1: [1], "1": [2]}, "invalid-option", "/features"),
        ({"a": ["x" * 257]}, "invalid-option", "/features/a/0"),
        ({"id": [f"u{i}" for i in range(20_001)]}, "invalid-option", "/features/id"),
        ({f"f{i}": [1] for i in range(201)}, "invalid-option", "/features"),
    ],
)
def test_bad_features_are_refused_with_their_place(features: Any, code: str, pointer: str) -> None:
    with refused_at(pointer, CalibrationError, code=code):
        read_features(features)


def test_features_of_other_length_than_the_predictions_are_refused() -> None:
    with pytest.raises(CalibrationError) as caught:
        read_features({"a": [1, 2, 3]}, 2)
    assert caught.value.code == "length-mismatch"
