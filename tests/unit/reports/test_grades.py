"""Tests of the rating grades of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli.main import app
from calibrant.core.errors import CalibrationError
from tests.commands import succeeds
from tests.refusals import refused_at

GRADE = np.repeat(["A", "<B>"], [600, 200])
PD = np.where(GRADE == "A", 0.01, 0.05)
DEFAULTED = (np.arange(800) % 40 == 0).astype(int) | ((GRADE == "<B>") & (np.arange(800) % 8 == 0))


def test_a_report_of_grades_has_the_tests_of_the_grades() -> None:
    report = calibrant.report(PD, DEFAULTED, groups=GRADE, grades=True)
    assert report.document["grades"] == calibrant.grade_tests(PD, GRADE, DEFAULTED).to_dict()
    assert 'id="report-grades"' in report.html
    assert "the PD is too low of 2 of 2 grades: A, &lt;B&gt;" in report.html
    assert "<B>" not in report.html
    assert "report-grades" not in calibrant.report(PD, DEFAULTED, groups=GRADE).html


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"groups": None}, "/groups"),
        ({"weights": 1.0 + np.arange(800) % 2}, "/weights_kind"),
        ({"clusters": np.arange(800) // 2}, "/clusters"),
        ({"predictions": {"a": PD, "b": PD}}, "/grades"),
        ({"predictions": np.column_stack([1 - PD, PD])}, "/predictions"),
    ],
)
def test_rows_that_are_no_obligors_are_refused(change: dict[str, Any], pointer: str) -> None:
    arguments: dict[str, Any] = {"predictions": PD, "labels": DEFAULTED, "groups": GRADE, "grades": True, **change}
    with refused_at(pointer, CalibrationError):
        calibrant.report(**arguments)


def test_the_command_writes_the_tests_of_the_grades(tmp_path: Path) -> None:
    rows, output = tmp_path / "rows.csv", tmp_path / "report.html"
    lines = [f"{pd},{grade},{y}" for pd, grade, y in zip(PD, GRADE, DEFAULTED, strict=True)]
    rows.write_text("\n".join(["pd,grade,default", *lines, ""]), "utf-8")
    command = ["report", str(rows), "--label", "default", "--prediction", "pd", "--grades", "--out", str(output)]
    succeeds(CliRunner().invoke(app, [*command, "--group", "grade"]))
    assert 'id="report-grades"' in output.read_text("utf-8")
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "--group" in refused.output
