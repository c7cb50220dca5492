"""Every rule of inference is needed by a file, says what it reads, and is on the page of the reference."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.pages.columns import STEPS, columns_page
from calibrant.io import columns, forecast_columns, rules
from calibrant.io.errors import TabularError
from calibrant.io.files import read_forecast_sheet, read_sheet
from calibrant.io.rules import Rule

FILES = Path(__file__).parent / "files"
TABLES: list[tuple[ModuleType, str]] = [
    *((columns, name) for name in ("LABEL_RULES", "LATE_LABEL_RULES", "PREDICTION_RULES")),
    *((columns, name) for name in ("ORDER_RULES", "CONFIDENCE_RULES")),
    *((rules, name) for name in ("WEIGHT_RULES", "GROUP_RULES")),
    *((forecast_columns, name) for name in ("OUTCOME_RULES", "FORECAST_RULES")),
]
ROWS: list[tuple[ModuleType, str, Rule]] = [(of, name, row) for of, name in TABLES for row in getattr(of, name)]


def _reading(file: str, module: ModuleType) -> tuple[Any, ...]:
    """The content that is read from a file, and what is printed."""
    with (FILES / file).open("rb") as source:
        if module is forecast_columns:
            sheet = read_forecast_sheet(source, name=file, max_rows=None)
            return repr(sheet.forecasts), repr(sheet.observed), sheet.groups, sheet.notes
        read = read_sheet(source, name=file, max_rows=None)
    labels = None if read.labels is None else read.labels.tolist()
    return read.predictions.tolist(), labels, read.groups, read.classes, read.reduction, read.notes


@pytest.mark.parametrize(("module", "table", "row"), ROWS, ids=[row.name for _, _, row in ROWS])
def test_a_file_is_read_differently_or_refused_without_each_rule(
    module: ModuleType, table: str, row: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluate the file that a rule names, with the rule and without it."""
    of_file = module
    if module is rules and table == "GROUP_RULES":
        of_file = columns
    with_rule = _reading(row.file, of_file)
    assert any(_as_pattern(row.prints).fullmatch(note) for note in with_rule[-1]), with_rule[-1]
    monkeypatch.setattr(module, table, [other for other in getattr(module, table) if other is not row])
    try:
        without_rule = _reading(row.file, of_file)
    except TabularError:
        return
    assert without_rule != with_rule


def _as_pattern(prints: str) -> re.Pattern[str]:
    return re.compile(
        re.sub(r"\\\{[a-z]+\\\}", ".+", re.escape(prints.replace("{levels}", "{columns}"))) if prints else ".*"
    )


def test_every_rule_says_what_it_sees_and_reads_and_is_on_the_page() -> None:
    listed = [row for of_step in STEPS.values() for row in of_step]
    assert listed == [row for step in STEPS.values() for row in step]
    assert {row.name for row in listed} == {row.name for _, _, row in ROWS}
    assert len({row.name for row in listed}) == len(listed)
    page = columns_page()
    for row in listed:
        assert row.sees
        assert row.reads
        assert f"| {row.name}" in page


def test_every_file_is_that_of_a_rule() -> None:
    assert {path.name for path in FILES.iterdir()} == {row.file for _, _, row in ROWS} | {"choices.csv"}
