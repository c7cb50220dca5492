"""Tasks of a validator of credit risk: a table of grades, and a frame of obligors."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import calibrant
from tests.commands import output_of, succeeds
from tests.newcomer.conftest import Typed

_TABLE = pd.DataFrame({"rating": ["A", "B"], "obligors": [1000, 200], "pd": [0.01, 0.05], "defaults": [16, 17]})


def test_a_table_of_grades_has_a_line_for_each_and_one_for_all(typed: Typed) -> None:
    """Test the PDs in a spreadsheet saved as CSV."""
    _TABLE.to_csv("grades.csv", index=False)
    printed = output_of(typed("calibrant grades grades.csv --group rating --label defaults --count obligors"))
    assert [line.split()[0] for line in printed.splitlines()[2:5]] == ["A", "B", "(all)"]
    assert "0.03577" in printed
    without = typed("calibrant grades grades.csv --group rating --label defaults")
    assert "name the column of obligors with --count" in without.stderr
    assert without.exit_code != 0


def test_a_table_of_grades_with_few_defaults_is_not_read_as_rows_of_obligors(typed: Typed) -> None:
    """Forget the numbers of obligors of a portfolio with one default."""
    table = _TABLE.assign(defaults=[0, 1])
    with pytest.raises(calibrant.CalibrationError, match="numbers of obligors are missing"):
        calibrant.grade_tests(table["pd"], table["rating"], table["defaults"])
    table.to_csv("grades.csv", index=False)
    completed = typed("calibrant grades grades.csv --group rating --label defaults")
    assert "numbers of obligors are missing" in completed.stderr


@pytest.mark.parametrize("library", [pd, pl])
def test_columns_of_a_frame_of_grades_work(library: type) -> None:
    """Test the PDs in a frame of pandas or polars."""
    table = library.DataFrame(_TABLE.to_dict("list"))  # type: ignore[attr-defined]
    tested = calibrant.grade_tests(table["pd"], table["rating"], table["defaults"], n=table["obligors"])
    assert tested.to_frame()["jeffreys_p"][0] == pytest.approx(0.03577, abs=5e-6)
    assert "<table>" in tested._repr_html_()


def test_obligors_of_a_frame_are_counted(typed: Typed) -> None:
    """Test the PDs of obligors, with booleans or 0 and 1 for defaults."""
    rows = pd.DataFrame({"pd": [0.1] * 40, "grade": ["C"] * 40, "default": [True] * 8 + [False] * 32})
    expected = calibrant.grade_tests([0.1], ["C"], [8], n=[40]).to_dict()
    assert calibrant.grade_tests(rows["pd"], rows["grade"], rows["default"]).to_dict() == expected
    assert calibrant.grade_tests(rows["pd"], rows["grade"], rows["default"].astype(int)).to_dict() == expected
    rows.to_csv("rows.csv", index=False)
    completed = typed("calibrant grades rows.csv --group grade --label default --json")
    assert json.loads(completed.stdout) == expected


def test_the_report_of_obligors_tests_their_grades(typed: Typed) -> None:
    """Write a report with the tests of the grades, and read what is missing without them."""
    rows = pd.DataFrame({"pd": [0.1] * 40, "grade": ["C"] * 40, "default": [True] * 8 + [False] * 32})
    rows.to_csv("rows.csv", index=False)
    line = "calibrant report rows.csv --prediction pd --label default"
    assert "needs --group" in typed(f"{line} --grades").stderr
    succeeds(typed(f"{line} --group grade --grades --out report.html"))
    assert "Tests of rating grades" in Path("report.html").read_text("utf-8")


def test_a_portfolio_without_defaults_has_prudent_pds(typed: Typed) -> None:
    """Bound the PDs of three grades in which nobody defaulted."""
    table = _TABLE.assign(defaults=0)
    table.to_csv("grades.csv", index=False)
    line = "calibrant grades grades.csv --group rating --label defaults --count obligors"
    printed = json.loads(typed(f"{line} --confidence 0.75 --correlation 0.12 --json").stdout)
    better, worse = (row["prudent_pd"] for row in printed["grades"])
    assert 0.0 < better < worse < printed["grades"][1]["one_factor_prudent_pd"]


def test_a_table_with_pds_in_percent_is_read_with_the_scale_or_refused_with_a_remedy(typed: Typed) -> None:
    """Test PDs that the rating system writes as percentages, with and without percent signs."""
    percent = _TABLE.assign(pd=[1.0, 5.0])
    call = calibrant.grade_tests
    tested = call(percent["pd"], percent["rating"], percent["defaults"], n=percent["obligors"], scale="percent")
    expected = call(_TABLE["pd"], _TABLE["rating"], _TABLE["defaults"], n=_TABLE["obligors"])
    assert tested.to_dict() == expected.to_dict()
    for table, remedy in ((percent, 'scale="percent"'), (percent.assign(pd=["1 %", "5 %"]), "remove percent signs")):
        with pytest.raises(calibrant.CalibrationError, match=remedy):
            call(table["pd"], table["rating"], table["defaults"], n=table["obligors"])
    with pytest.raises(calibrant.CalibrationError, match="pass n, the number of obligors"):
        call(_TABLE["pd"].repeat(2), _TABLE["rating"].repeat(2), _TABLE["defaults"].repeat(2))
    _TABLE.to_csv("grades.csv", index=False)
    assert "name the column of the grades" in typed("calibrant grades grades.csv").stderr.replace("\n", " ")
