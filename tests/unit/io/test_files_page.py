"""docs/reference/columns.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.core import column_names
from calibrant.io import errors
from tests.unit.io import test_forecast_files
from tests.unit.io.test_messages import CASES

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "columns.md").read_text(encoding="utf-8")
CODES = {
    kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TabularError)
}
#: Codes that reading a file does not have.
ELSEWHERE = {"tabular-error", "unreadable-file", "spool-full", "invalid-times", "unmatched-ids"}


def test_every_code_is_on_the_page_once() -> None:
    section = PAGE.partition("## Error codes")[2]
    assert sorted(re.findall(r"^\| `([a-z0-9-]+)` \|", section, re.MULTILINE)) == sorted(CODES - {"tabular-error"})


def test_every_code_is_among_the_refusals_that_are_tried() -> None:
    tried = {case.code for case in CASES.values()} | {
        code for _, _, code, _, _ in test_forecast_files.REFUSALS.values()
    }
    assert tried == CODES - ELSEWHERE


OF_CLASSES = ["PREDICTIONS", "LOGITS", "LABELS", "WEIGHTS", "GROUPS"]
OF_DISTRIBUTIONS = ["OBSERVED", "MEAN", "POINTS", "STD", "VARIANCE", "QUANTILES", "LEVELS", "SAMPLES", "LEVEL"]


@pytest.mark.parametrize("field", OF_CLASSES + OF_DISTRIBUTIONS)
def test_every_name_that_is_inferred_is_on_the_page(field: str) -> None:
    listed = {column_names.word(name) for name in re.findall(r"`([^`\n]+)`", PAGE)}
    assert getattr(column_names, field) <= listed
