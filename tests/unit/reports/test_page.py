from __future__ import annotations

import re
from pathlib import Path

import pytest

from calibrant.reports import advice, verdict

DOCS = Path(__file__).parents[3] / "docs"
PAGE, RULES = DOCS / "how-to" / "reports.md", DOCS / "explanation" / "report-verdict.md"


def test_the_example_runs_and_makes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "scores.csv" in page


def test_the_documented_thresholds_are_those_used() -> None:
    text = " ".join(RULES.read_text("utf-8").split())
    assert f"below {verdict.ALPHA:g}" in text
    assert f"is below {verdict.LEAST_VARIANCE:g}, the normal approximation" in text
    assert f"fewer than {verdict.FEW_ROWS} rows or X is above {100 * verdict.COULD_HIDE:g} points" in text
    assert f"more than {advice.MOST_ROWS:,} rows or {advice.MOST_NUMBERS:,} probabilities" in text
