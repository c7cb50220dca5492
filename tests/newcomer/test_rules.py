"""Every rule of inference is needed by a file, says what it reads, and is on the page of the reference."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages.columns import columns_page
from calibrant.io import rules
from calibrant.io.errors import TabularError
from calibrant.io.files import read_forecast_sheet, read_sheet
from calibrant.io.rules import RULES, STEPS, Rule

FILES = Path(__file__).parent / "files"
OF_FORECASTS = ("Outcomes, of regression", "Predictive distributions")


def _reading(row: Rule) -> tuple[Any, ...]:
    """The content that is read from the file of a rule, and what is printed."""
    with (FILES / row.file).open("rb") as source:
        if row.step in OF_FORECASTS:
            sheet = read_forecast_sheet(source, name=row.file, max_rows=None)
            return repr(sheet.forecasts), repr(sheet.observed), sheet.groups, sheet.notes
        read = read_sheet(source, name=row.file, max_rows=None)
    labels = None if read.labels is None else read.labels.tolist()
    return read.predictions.tolist(), labels, read.groups, read.classes, read.reduction, read.notes


@pytest.mark.parametrize("row", RULES, ids=[row.name for row in RULES])
def test_a_file_is_read_differently_or_refused_without_each_rule(row: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate the file that a rule names, with the rule and without it."""
    with_rule = _reading(row)
    assert any(_as_pattern(row.prints).fullmatch(note) for note in with_rule[-1]), with_rule[-1]
    monkeypatch.setattr(rules, "RULES", [other for other in RULES if other is not row])
    try:
        without_rule = _reading(row)
    except TabularError:
        return
    assert without_rule != with_rule


def _as_pattern(prints: str) -> re.Pattern[str]:
    return re.compile(
        re.sub(r"\\\{[a-z]+\\\}", ".+", re.escape(prints.replace("{levels}", "{columns}"))) if prints else ".*"
    )


def test_every_rule_says_what_it_sees_and_reads_and_is_on_the_page() -> None:
    assert {row.step for row in RULES} == {*STEPS}
    assert len({row.name for row in RULES}) == len(RULES)
    page = columns_page()
    for row in RULES:
        assert row.sees
        assert row.reads
        assert f"| {row.name}" in page


def test_every_file_is_that_of_a_rule() -> None:
    assert {path.name for path in FILES.iterdir()} == {row.file for row in RULES} | {"choices.csv"}
