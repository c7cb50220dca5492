"""How cells of features become numbers or categories, whatever the other cells of their column are."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.errors import CalibrationError
from calibrant.io.errors import InvalidFileOption, TabularError
from calibrant.io.files import FileOptions, read_sheet
from calibrant.io.limits import Limits
from calibrant.io.strict import read_csv
from calibrant.io.texts import MixedCells, numbers_or_texts
from tests.refusals import refused_at

LIMITS = Limits(1 << 20, 1000, 10)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2", "b"], ["2", "b"]),
        (["02", "2"], ["02", "2"]),
        (["2.0", "1e3", ""], [2.0, 1000.0, None]),
        (["", ""], ["", ""]),
        (["10115", "01234"], ["10115", "01234"]),
        (["0.5", "b"], ["0.5", "b"]),
    ],
)
def test_cells_are_numbers_if_all_are_and_texts_otherwise(cells: list[str], expected: list[Any]) -> None:
    column = numbers_or_texts(cells).tolist()
    assert [None if cell != cell else cell for cell in column] == expected


@pytest.mark.parametrize("cell", ["2.0", "1e3", "-0", "0.10", "12345678901234567890", "5E1"])
def test_a_number_in_a_longer_form_beside_texts_is_refused_unless_the_column_is_categorical(cell: str) -> None:
    with pytest.raises(MixedCells) as caught:
        numbers_or_texts(["", "b", cell, cell])
    assert caught.value.row == 2
    assert numbers_or_texts(["", "b", cell], categorical=True).tolist() == ["", "b", cell]


def test_a_strict_body_names_the_row_but_not_the_cell() -> None:
    with pytest.raises(CalibrationError) as caught:
        read_csv(b"predictions,features/v\n0.5,b\n0.5,77.0\n", LIMITS)
    assert (caught.value.code, caught.value.offences[0].pointer) == ("not-a-number", "/features/v/1")
    assert "77" not in str(caught.value)


def _read(text: str, **options: Any) -> Any:
    return read_sheet(
        io.BytesIO(text.encode()), name="a.csv", max_rows=None, options=FileOptions(features=("v",), **options)
    ).features


def test_a_file_is_refused_with_both_readings() -> None:
    text = "p,y,v\n0.1,0,b\n0.9,1,2.0\n0.5,1,b\n"
    with pytest.raises(TabularError) as caught:
        _read(text)
    assert caught.value.field == "categorical"
    assert all(part in caught.value.detail for part in ("row 2", "'2.0'", "'2'", "--categorical"))
    assert _read(text, categorical=("v",))["v"].tolist() == ["b", "2.0", "b"]
    assert _read(text.replace(",b", ",3"))["v"].tolist() == [3.0, 2.0, 3.0]


def test_a_categorical_column_that_is_no_feature_is_refused() -> None:
    with pytest.raises(InvalidFileOption) as caught:
        _read("p,y,v\n0.1,0,b\n0.9,1,c\n", categorical=("y",))
    assert caught.value.field == "categorical"


def test_a_map_with_such_categories_refuses_numbers() -> None:
    p = np.tile([0.2, 0.5, 0.8], 60)
    v = np.array(["2.0", "b"], object)[np.arange(180) % 2]
    y = (np.random.default_rng(1).random(180) < np.where(v == "b", p**3, p**0.3)).astype(int)
    fitted = calibrant.fit("segments", p, y, features={"v": v})
    assert fitted.apply([0.5], features={"v": ["2.0"]}) != fitted.apply([0.5], features={"v": ["2"]})
    with refused_at("/features/v", CalibrationError):
        fitted.apply([0.5], features={"v": [2.0]})
    plain = calibrant.fit("segments", p, y, features={"v": np.where(v == "2.0", "2", "b")})
    assert plain.apply([0.5], features={"v": [2.0]}) == plain.apply([0.5], features={"v": ["2"]})
