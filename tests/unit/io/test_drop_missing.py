"""Rows with missing values, which are left out only if that is requested."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calibrant.core.errors import CalibrationError
from calibrant.io.errors import MissingValue, NotLabels, TabularError, TextInNumbers, UnclearColumns
from calibrant.io.files import FileOptions, Sheet, read_models, read_sheet
from tests.packed import npz, parquet
from tests.unit.io.sheets import labels_of, weights_of

#: Rows 2 and 4 lack a prediction, row 5 a label.
P = [0.1, None, 0.7000000000000001, None, 0.25, 0.9]
Y = [0, 1, 1, 0, None, 1]
SITES = ["a", "b", None, "b", "a", "b"]


def read(content: bytes, **options: Any) -> Sheet:
    return read_sheet(
        io.BytesIO(content), name="a.bin", max_rows=None, options=FileOptions(**{"drop_missing": True, **options})
    )


def csv_of(columns: Mapping[str, Any], missing: str = "", separator: str = ",") -> bytes:
    rows = zip(*columns.values(), strict=True)
    cells = [list(columns), *([missing if cell is None else str(cell) for cell in row] for row in rows)]
    return "\n".join(separator.join(row) for row in cells).encode()


def _files() -> dict[str, bytes]:
    columns = {"y": Y, "p": P, "site": SITES}
    json_lines = pa.table(columns).to_pandas().to_json(orient="records", lines=True, double_precision=15)
    arrays = {"p": np.array(P, dtype=float), "label": np.array(Y, dtype=float)}
    return {
        "csv": csv_of(columns),
        "csv with NaN": csv_of(columns, "NaN"),
        "semicolons": csv_of(columns, "NA", ";"),
        "json lines": json_lines.encode(),
        "parquet": parquet(pa.table(columns)),
        "npz": npz(np.savez, **arrays),
    }


@pytest.mark.parametrize("kind", _files())
def test_rows_with_missing_predictions_and_labels_are_left_out_and_counted(kind: str) -> None:
    sheet = read(_files()[kind])
    np.testing.assert_allclose(sheet.predictions, [0.1, 0.7000000000000001, 0.9], rtol=1e-14)
    assert labels_of(sheet) == [0, 1, 1]
    assert sheet.notes[-1].startswith("rows: 3 of 6 left out, as values are missing in ")
    assert sheet.notes[-1].endswith(", first in row 2")


@pytest.mark.parametrize("kind", _files())
def test_missing_values_are_refused_without_the_option(kind: str) -> None:
    with pytest.raises(TabularError):
        read(_files()[kind], drop_missing=False)


def test_rows_with_labels_that_are_booleans_of_arrays_are_left_out_too() -> None:
    sheet = read(npz(np.savez, p=np.array([0.1, np.nan, 0.9]), y=np.array([False, True, True])))
    assert sheet.predictions.tolist() == [0.1, 0.9]
    assert labels_of(sheet) == [0, 1]


def test_values_keep_every_bit_in_a_file_of_single_precision() -> None:
    p = np.random.default_rng(0).random(50).astype(np.float32)
    columns = {"p": pa.array(p, mask=np.arange(50) == 3), "y": np.arange(50) % 2}
    expected = np.delete(p.astype(np.float64), 3)
    assert (read(parquet(pa.table(columns))).predictions == expected).all()


def test_lists_of_numbers_groups_and_times_follow_their_rows() -> None:
    rows = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]]
    table = pa.table({"probs": rows, "label": [0, None, 2], "site": ["a", "b", None], "at": ["1", "2", "3"]})
    sheet = read(parquet(table), times="at", groups=("site",))
    assert sheet.predictions.tolist() == [rows[0], rows[2]]
    assert sheet.times == ["1", "3"]
    assert (sheet.groups or [""])[0] == "a"
    sheet = read(csv_of({"y": [0, 1, 1], "p": ["[0.25 0.75]", "[0.5 nan]", "[0.125 0.875]"]}))
    assert sheet.predictions.tolist() == [[0.25, 0.75], [0.125, 0.875]]


def test_a_file_without_missing_values_is_read_as_without_the_option() -> None:
    content = csv_of({"y": [0, 1], "p": [0.1, 0.9]})
    assert read(content).notes == read(content, drop_missing=False).notes


def test_a_missing_weight_counts_and_a_missing_group_does_not() -> None:
    columns = {"y": [0, 1, 1], "p": [0.1, 0.9, 0.8], "w": [1.0, None, 2.0], "site": [None, "a", "b"]}
    sheet = read(csv_of(columns), weights="w", groups=("site",))
    assert (weights_of(sheet), len(sheet.groups or ())) == ([1.0, 2.0], 2)


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"y": [0, 1], "p": [None, None]}, TabularError),
        ({"y": [None, 1], "p": [0.1, None]}, MissingValue),
        ({"y": [0, 1, 1], "p": [0.1, None, "abc"]}, TextInNumbers),
        ({"y": [0, 1, 1], "p": [0.1, None, "inf"]}, TabularError),
        ({"y": [0, 1, 0.5], "p": [0.1, None, 0.2]}, NotLabels),
    ],
)
def test_other_bad_values_are_still_refused(columns: dict[str, list[Any]], error: type[TabularError]) -> None:
    with pytest.raises(error):
        read(csv_of(columns), predictions=("p",), labels="y")


def test_an_error_names_the_row_of_the_file_and_not_that_of_the_rows_kept() -> None:
    with pytest.raises(TextInNumbers, match="row 4"):
        read(csv_of({"y": [0, 1, 1, 0], "p": [0.1, None, 0.3, "abc"]}))


def test_names_and_cells_with_separators_and_quotes_are_kept() -> None:
    content = b'"the, label","p","a ""b"""\nyes,0.5,"x, y"\nno,,z\nno,0.25,"new\nline"\n'
    options = {"labels": "the, label", "groups": ('a "b"',), "pos_label": "yes"}
    sheet = read(content, **options)
    assert sheet.groups == ["x, y", "new\nline"]
    assert sheet.predictions.tolist() == [0.5, 0.25]


def test_decimal_commas_and_percentages_are_read_too() -> None:
    sheet = read(b"y;p\n1;72,5\n0;\n0;10\n", decimal=",", scale="percent")
    assert sheet.predictions.tolist() == [0.725, 0.1]


def test_models_keep_the_rows_in_which_no_model_lacks_a_prediction() -> None:
    content = csv_of({"y": Y, "rf": P, "xgb": [0.2, 0.3, None, 0.4, 0.5, 0.8]})
    options = FileOptions(predictions=("rf", "xgb"), labels="y", drop_missing=True)
    models = read_models(io.BytesIO(content), name="a.csv", max_rows=None, options=options)
    assert {name: sheet.predictions.tolist() for name, sheet in models.sheets.items()} == {
        "rf": [0.1, 0.9],
        "xgb": [0.2, 0.8],
    }
    assert [note.partition(", first")[0] for note in models.notes if note.startswith("rows")] == [
        "rows: 3 of 6 left out, as values are missing in 'rf', 'y'",
        "rows: 2 are complete for all models",
        "rows: 2 of 6 left out, as values are missing in 'xgb', 'y'",
    ]


def test_models_without_a_common_row_are_refused() -> None:
    content = csv_of({"y": [0, 1, 1], "rf": [0.1, None, 0.3], "xgb": [None, 0.3, None]})
    options = FileOptions(predictions=("rf", "xgb"), labels="y", drop_missing=True)
    with pytest.raises(UnclearColumns, match="no row has the predictions of all models"):
        read_models(io.BytesIO(content), name="a.csv", max_rows=None, options=options)


def test_the_memory_of_the_cells_is_reserved_before_rows_are_left_out() -> None:
    lines = b"p,y\n,1\n" + b"0.5,0\n" * 2_000
    sizes: list[int] = []
    sheet = read_sheet(
        io.BytesIO(lines), name="a.csv", max_rows=None, options=FileOptions(drop_missing=True), budget=sizes.append
    )
    assert len(sheet) == 2_000
    assert sum(sizes) > 2 * 2_000 * 64


def test_a_budget_ends_the_reading_of_models() -> None:
    def refuse(_: int) -> None:
        raise CalibrationError("not now")

    options = FileOptions(predictions=("a", "b"))
    content = b"a,b,y\n" + b"0.5,0.25,0\n" * 100
    with pytest.raises(CalibrationError, match="not now"):
        read_models(io.BytesIO(content), name="a.csv", options=options, max_rows=None, budget=refuse)
