"""Records of long benchmarks, and the range of the figures on pages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import by_size, records
from benchmarks.distributions import friedman
from benchmarks.records import ROOT, ImpossibleFigure, append, current, possible, read, sources, version

PAGES = sorted((ROOT / "docs" / "benchmarks").glob("*.md"))
#: Pages whose tables are in thousandths.
THOUSANDTHS = [page for page in PAGES if "thousandths" in page.read_text("utf-8").partition("\n## ")[0]]


def test_records_of_other_code_are_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program.py"
    monkeypatch.setattr(records, "KEPT", tmp_path / "kept")
    program.write_text("x = 1\n", "utf-8")
    append(current("named", str(program)), [[1, 2], {"error": 0.1}])
    assert list(read(current("named", str(program)))) == [[[1, 2], {"error": 0.1}]]
    program.write_text("x = 2\n", "utf-8")
    assert list(read(current("named", str(program)))) == []


def test_the_numeric_library_and_the_program_determine_records_but_not_its_pages_of_html() -> None:
    tables = sources(ROOT / "benchmarks" / "tables" / "run.py")
    assert {ROOT / "benchmarks/tables/columns.py", ROOT / "library/calibrant/maps/averaged.py"} <= set(tables)
    assert not any("reports" in path.parts or "cli" in path.parts for path in tables)
    assert ROOT / "benchmarks" / "coverage.py" not in sources(Path(by_size.__file__))
    assert version(tables) == version(tables) != version(tables[1:])


def test_an_incomplete_record_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append(path, ["a", 1])
    with path.open("a", encoding="utf-8") as file:
        file.write('\n["b", ')
    append(path, ["c", 3])
    assert list(read(path)) == [["a", 1], ["c", 3]]


@pytest.mark.parametrize("value", [1.03599, -1.1, float("nan"), np.array([0.2, np.inf])])
def test_an_impossible_figure_is_refused(value: float) -> None:
    with pytest.raises(ImpossibleFigure, match=r"distance must be in \[-1, 1\]"):
        possible(value, "distance")


def test_possible_figures_are_unchanged() -> None:
    assert possible(0.5, "ECE", low=0.0) == 0.5
    with pytest.raises(ImpossibleFigure):
        possible(-0.1, "ECE", low=0.0)


@pytest.mark.parametrize("page", THOUSANDTHS, ids=lambda page: page.stem)
def test_no_table_of_thousandths_has_a_larger_error_than_1(page: Path) -> None:
    rows = [line for line in page.read_text("utf-8").splitlines() if line.startswith("|")]
    numbers = [float(text) for line in rows for text in re.findall(r"(?<![\d.,])\d+\.\d\d(?!\d)", line)]
    assert max(numbers, default=0.0) <= 1000.0


def test_the_page_of_variances_is_what_its_command_writes() -> None:
    runs = json.loads(friedman.RESULTS.read_text("utf-8"))
    assert friedman.PAGE.read_text("utf-8") == friedman.page(runs)
