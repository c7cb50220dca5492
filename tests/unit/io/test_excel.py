"""Excel workbooks: the sheet and header that are read, values, damage and limits."""

from __future__ import annotations

import contextlib
import io
import zipfile
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import openpyxl
import pytest

from calibrant.io.errors import TabularError
from calibrant.io.files import FileOptions, read_columns, read_sheet
from calibrant.io.json_lines import read_workbook
from calibrant.io.limits import FileLimits
from tests.known import known

Rows = Sequence[Sequence[Any]]
SCORES: Rows = [["label", "p"], [1, 0.7], [0, 0.2]]


def workbook(*sheets: Rows, hidden: int | None = None) -> io.BytesIO:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets):
        sheet = book.create_sheet(f"Sheet{number + 1}")
        for cells in rows:
            sheet.append(cells)
        sheet.sheet_state = "hidden" if number == hidden else "visible"
    file = io.BytesIO()
    book.save(file)
    return file


def notes(file: io.BytesIO) -> str:
    sheet = read_sheet(file, name="a.xlsx", max_rows=None)
    np.testing.assert_array_equal(known(sheet.labels), [1, 0])
    np.testing.assert_array_equal(sheet.predictions, [0.7, 0.2])
    return sheet.notes[0]


@pytest.mark.parametrize(
    ("file", "note"),
    [
        (workbook(SCORES), "the file is an Excel workbook: sheet 'Sheet1'"),
        (workbook([], SCORES, SCORES), "sheet 'Sheet2', the first of 3 with cells"),
        (workbook([["label", "p"], [0, 0.9]], SCORES, hidden=0), "sheet 'Sheet2'"),
        (workbook([[], ["Scores of May"], [], *SCORES]), "the titles above 'label' are skipped"),
        (workbook([[None, "label", "p"], [5, 1, 0.7], [6, 0, 0.2], [], [None, " ", None]]), "sheet 'Sheet1'"),
        (workbook([["label", "p"], [True, 0.7], [False, 0.2]]), "sheet 'Sheet1'"),
        (workbook([["label", "p"], ["1", "0.7"], ["0", "2e-1"]]), "sheet 'Sheet1'"),
    ],
    ids=["one", "empty first", "hidden first", "title", "empty cells around", "logical", "numbers as text"],
)
def test_the_first_sheet_with_cells_is_read(file: io.BytesIO, note: str) -> None:
    assert note in notes(file)


def test_a_workbook_in_an_archive_is_read() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("scores.xlsx", workbook(SCORES).getvalue())
    assert "Excel" in notes(file)


def test_classes_are_the_numbers_of_the_header() -> None:
    rows: Rows = [["label", 0, 1, 2], [1, 0.1, 0.7, 0.2], [0, 0.8, 0.1, 0.1]]
    sheet = read_sheet(workbook(rows), name="a.xlsx", max_rows=None)
    np.testing.assert_array_equal(sheet.predictions, [row[1:] for row in rows[1:]])


def test_dates_are_text() -> None:
    rows: Rows = [["day"], [datetime(2026, 5, 1)], [datetime(2026, 5, 1, 6, 30)]]
    assert read_columns(workbook(rows), ["day"], name="a.xlsx") == [["2026-05-01", "2026-05-01 06:30:00"]]


def _without_values(file: io.BytesIO) -> io.BytesIO:
    changed = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"<row r=", b"<row r=x"))
    return changed


@pytest.mark.parametrize(
    ("file", "code", "words"),
    [
        (workbook([]), "empty-file", "no cells"),
        (workbook([["label", "p"]]), "empty-file", "no rows"),
        (workbook([[1, 0.7], [0, 0.2]]), "no-header", "numbers instead of column names"),
        (workbook([["label", "p", "p"], [1, 0.7, 0.7]]), "duplicate-columns", "'p'"),
        (workbook([["label", "p"], [1, 0.7], [None, None], [0, None]]), "missing-value", "first in row 2"),
        (workbook([["label", "p"], [1, "0,7"], [0, 0.2]]), "decimal-comma", "first in row 1"),
        (workbook([["label", "p"], [1, "#DIV/0!"], [0, 0.2]]), "not-a-number", "row 1"),
        (_without_values(workbook(SCORES)), "damaged-file", "save it again"),
        (io.BytesIO(workbook(SCORES).getvalue()[:-9]), "damaged-file", "truncated"),
    ],
    ids=["empty", "no rows", "no header", "duplicates", "missing", "comma", "error value", "damaged", "truncated"],
)
def test_bad_workbooks_have_errors_that_name_the_place(file: io.BytesIO, code: str, words: str) -> None:
    with pytest.raises(TabularError, match=words) as raised:
        read_sheet(file, name="a.xlsx", max_rows=None)
    assert raised.value.code == code


@pytest.mark.slow
def test_any_damage_is_an_error_of_the_reader() -> None:
    """Bytes of the members of a workbook are changed: it is read, or the error is one of the reader."""
    random = np.random.default_rng(0)
    with zipfile.ZipFile(workbook(SCORES)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(200):
        file = io.BytesIO()
        damaged = str(random.choice([*members]))
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in members.items():
                cut = bytearray(content)
                if name == damaged:
                    start = int(random.integers(len(cut)))
                    cut[start : start + int(random.integers(1, 20))] = random.bytes(int(random.integers(5)))
                archive.writestr(name, bytes(cut))
        with contextlib.suppress(TabularError):
            read_sheet(file, name="a.xlsx", max_rows=None)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (FileLimits(max_rows=1), "1 rows"),
        (FileLimits(max_classes=1), "1 columns"),
        (FileLimits(max_numbers=3), "1 rows of 2 numbers"),
    ],
)
def test_a_sheet_has_the_limits_of_files(limits: FileLimits, words: str) -> None:
    _, lines = read_workbook(workbook(SCORES), limits)
    with pytest.raises(TabularError, match=words):
        list(lines)


def test_a_workbook_of_the_service_and_one_beyond_the_limit_are_refused() -> None:
    """The service passes ``heavy``; and the bytes of all members count."""
    with pytest.raises(TabularError, match="an Excel workbook: save it as CSV"):
        read_sheet(workbook(SCORES), name="a.xlsx", max_rows=None, budget=lambda _: None)
    with pytest.raises(TabularError, match="bytes after decompression"):
        read_sheet(workbook(SCORES), name="a.xlsx", max_rows=None, max_bytes=len(workbook(SCORES).getvalue()) + 1)


def test_options_are_those_of_other_files() -> None:
    rows: Rows = [["who", "chance"], ["cat", 0.7], ["dog", 0.2]]
    options = FileOptions(predictions=("chance",), labels="who", mapping={"dog": 0, "cat": 1})
    sheet = read_sheet(workbook(rows), name="a.xlsx", max_rows=None, options=options)
    np.testing.assert_array_equal(known(sheet.labels), [1, 0])
