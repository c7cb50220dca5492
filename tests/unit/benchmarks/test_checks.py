"""``make pages-check`` computes cells of pages again, and finds wrong ones."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import agreement, records
from benchmarks.checks import CellComparison, NotChecked, PageCheck, Rendering, StoredRecord, __main__, recorded, states
from benchmarks.checks.__main__ import PageReport, cells_of, check, main
from benchmarks.checks.catalogue import CHECKED, UNCHECKED, WITHOUT_FIGURES
from benchmarks.checks.comparison import same
from benchmarks.online import change
from benchmarks.provenance import ROOT, digest_of
from benchmarks.records import append, body, current, load

DOCS = ROOT / "docs" / "benchmarks"
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
TABLE = ["| a | n | b | time |", "|---|---|---|---|", "| x | 1 | 0.25 | 3 s |", "| y | 2 | 0.50 | 4 s |"]


@pytest.fixture(autouse=True)
def _no_records_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(records, "KEPT", tmp_path / "kept")
    yield
    records._used.clear()
    records._older.clear()


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_computed_again_or_says_why_not(name: str) -> None:
    assert sum(name in names for names in (CHECKED, UNCHECKED, WITHOUT_FIGURES)) == 1


def test_the_list_of_pages_is_current() -> None:
    assert states.PAGE.read_text("utf-8") == states.page(), "run make reference"


def test_a_page_of_the_present_code_has_the_digest_of_its_text() -> None:
    for path in records.ORIGINS.glob("*.json"):
        stored = records.origin_of(path.stem)
        assert stored is not None
        assert stored[1]["page_sha256"] == digest_of((DOCS / f"{path.stem}.md").read_bytes()), path.stem


@pytest.mark.parametrize(
    ("printed", "computed", "equal"),
    [
        ("0.25", "0.25", True),
        ("0.25", "0.26", True),  # one unit: another processor may round another way
        ("0.25", "0.27", False),
        ("**0.25** (1.0%)", "0.25 (1.0%)", True),
        ("0.25 (1.0%)", "0.25", False),
        ("1.2e-04", "1.4e-04", False),
        ("yes", "yes", True),
        ("yes", "**no**", False),
        ("", "0.1", False),
    ],
)
def test_cells_are_the_same_within_one_unit_of_the_last_digit(printed: str, computed: str, equal: bool) -> None:
    assert same(printed, computed, 0.0) is equal


def test_a_tolerance_is_relative() -> None:
    assert same("100.00", "100.90", 0.01)
    assert not same("100.00", "101.10", 0.01)


PART = PageCheck("part", lambda: [*TABLE[:2], TABLE[3]], "Section", keys=2)


def test_a_part_of_a_table_is_compared_with_its_row_and_not_with_its_times() -> None:
    page = "\n".join(["## Section", "", *TABLE]).replace("4 s", "9 s")
    assert PART.compare(page) == CellComparison(1, [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.50", "0.60", "Section, y, 2, b: the page has 0.60, computed is 0.50"),
        ("| y | 2", "| z | 2", "Section, y, 2: the page has no such row"),
        ("| b |", "| c |", "Section, y, 2: the page has no such row"),
        ("## Section", "## Other", "Section, y, 2: the page has no such row"),
    ],
)
def test_a_planted_wrong_cell_is_found(old: str, new: str, message: str) -> None:
    page = "\n".join(["## Section", "", *TABLE]).replace(old, new)
    assert PART.compare(page).differences == [message]


def test_columns_with_the_same_head_are_compared_in_their_order() -> None:
    lines = ["| n | after | after |", "|---|---|---|", "| 1 | 0.1 | 0.2 |"]
    part = PageCheck("twice", lambda: lines)
    assert part.compare("\n".join(lines)) == CellComparison(2, [])
    assert len(part.compare("\n".join(lines).replace("0.1 | 0.2", "0.2 | 0.1")).differences) == 0
    assert len(part.compare("\n".join(lines).replace("0.1 | 0.2", "0.9 | 0.2")).differences) == 1


@pytest.mark.parametrize("record", [{"a": [1.0, {"b": 3}], "seconds": 2.0}, [float("nan"), None, "x"]])
def test_a_stored_record_is_compared_number_by_number(record: Any) -> None:
    assert StoredRecord("record", record, lambda: record).compare("").differences == []


@pytest.mark.parametrize(
    ("old", "new"), [([1.0], [1.1]), ([1.0], [1.0, 2.0]), ({"a": 1}, {"b": 1}), ("x", "y"), (None, 0.0), (1.0, None)]
)
def test_a_planted_wrong_record_is_found(old: Any, new: Any) -> None:
    assert len(StoredRecord("record", old, lambda: new).compare("").differences) == 1


def test_a_page_that_is_not_that_of_its_results_is_found() -> None:
    assert Rendering("page", lambda: "# A\n\ntext\n").compare("# A\n\ntext") == CellComparison()
    assert len(Rendering("page", lambda: "# A\n\ntext\n").compare("# A\n\nother\nmore").differences) == 2


def test_a_page_of_stored_results_is_the_one_in_the_repository() -> None:
    rendering, *runs = change.checks()
    assert rendering.compare(body(change.PAGE)) == CellComparison()
    assert len(runs) == 1500


def test_a_wrong_stored_run_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = load(change.RESULTS, "make change-time", older=True)
    stored["+.05 everywhere"][3][0] += 500.0
    monkeypatch.setattr(change, "load", lambda *_, **__: stored)
    run = next(part for part in change.checks() if part.name == "+.05 everywhere, 3")
    assert len(run.compare("").differences) == 1


def _pages(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    text = agreement.PAGE.read_text("utf-8")
    assert old in text
    (folder / "agreement.md").write_text(text.replace(old, new, 1), "utf-8")
    monkeypatch.setattr(__main__, "DOCS", folder)


def test_the_check_of_a_page_prints_each_part_and_repeats_with_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pages(tmp_path, monkeypatch, "", "")
    runs = []
    for seed in (1, 1, 2):
        check("agreement", share=0.02, seed=seed, seconds=60.0, data=None)
        runs.append(capsys.readouterr().out)
    report = PageReport(runs[0])
    assert report.cells >= 0.02 * cells_of(body(agreement.PAGE)) > 1
    assert report.differences == []
    assert runs[0] == runs[1] != runs[2]


def test_a_planted_wrong_cell_of_a_page_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pages(tmp_path, monkeypatch, "0.007932860 | 0.007932860", "0.007932960 | 0.007932860")
    first = agreement.answers()[:5]
    monkeypatch.setattr(agreement, "answers", lambda: first)
    check("agreement", share=1.0, seed=1, seconds=60.0, data=None)
    report = PageReport(capsys.readouterr().out)
    assert len(report.differences) == 1
    assert "the page has 0.007932960, computed is 0.007932860" in report.differences[0]
    assert "agreement: DIFFERS in 1 of " in report.line("agreement", 1.0, code=0)


def test_the_command_ends_with_1_if_a_cell_differs_and_names_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pages(tmp_path, monkeypatch, "", "")
    wrong = json.dumps({"part": "x", "cells": 1, "differences": ["a cell"]})
    monkeypatch.setattr(__main__, "_run", lambda *_: (PageReport(f"{wrong}\n{{incomplete"), 0))
    assert main(["agreement", "--seed", "3"]) == 1
    assert "pages that differ or cannot be computed: agreement" in capsys.readouterr().out
    monkeypatch.setattr(__main__, "_run", lambda *_: (PageReport(""), -9))
    assert main(["agreement"]) == 1
    monkeypatch.setattr(__main__, "_run", lambda *_: (PageReport(""), None))
    assert main(["agreement"]) == 0
    assert "agreement: not checked: no part is computed within its time" in capsys.readouterr().out


def test_a_page_that_is_not_computed_again_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cuda", "tally-speed", "--seed", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2.0% of the cells of 2 pages, seed 1"
    assert lines[1].startswith("cuda: not checked: its cells are times")


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["--share", "0"], ["--share", "1.1"], ["--seconds", "0"], ["--seed", "x"]]
)
def test_wrong_options_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)


def test_pages_of_records_say_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    check("tables", share=0.02, seed=1, seconds=1.0, data=None)
    assert "there are none of this code; run make tables" in PageReport(capsys.readouterr().out).reason
    check("splines", share=0.02, seed=1, seconds=1.0, data=None)
    assert PageReport(capsys.readouterr().out).reason == "it needs DATA=folder"


def test_records_of_an_earlier_run_are_computed_again() -> None:
    from benchmarks.tables.order import task
    from benchmarks.tables.run import published_keys

    key = published_keys()[0]
    append(current("averaged-order", str(ROOT / "benchmarks" / "tables" / "run.py")), [key, task(key)])
    (part,) = recorded.averaged_order()
    comparison = part.compare("")
    assert comparison.cells > 3
    assert comparison.differences == []


#: Pages whose parts need files or records, or whose modules need much time to be imported.
_ELSEWHERE = ("flusight", "real-data", "variance-regression", "estimates")


@pytest.mark.parametrize(
    "name", [name for name, place in CHECKED.items() if ".recorded:" not in place and name not in _ELSEWHERE]
)
def test_the_parts_of_a_page_have_names_of_their_own(name: str) -> None:
    parts = importlib.import_module(CHECKED[name]).checks(None)
    assert len({part.name for part in parts}) == len(parts) > 0


@pytest.mark.parametrize("name", ["flusight", "real-data"])
def test_a_page_of_files_is_not_checked_without_them(name: str) -> None:
    with pytest.raises(NotChecked, match="it needs DATA=folder"):
        importlib.import_module(CHECKED[name]).checks(None)


#: Modules, constants that make their runs few, and the number of parts.
_FEW: tuple[tuple[str, dict[str, int]], ...] = (
    ("clinical", {"RUNS": 1, "MANY": 1_000}),
    ("clusters", {"RUNS": 1, "MANY": 1_000}),
    ("comparison-error", {"RUNS": 1, "TRUTH_ROWS": 1_000}),
    ("calibration-test", {"RUNS": 1}),
    ("conformal-coverage", {"RUNS": 3}),
    ("decision-curves", {"RUNS": 1, "MANY": 1_000}),
    ("alarms", {"DELAY_RUNS": 1, "ROWS": 30_000}),
)


@pytest.mark.parametrize(("name", "constants"), _FEW, ids=[name for name, _ in _FEW])
def test_the_rows_and_columns_that_are_computed_again_are_those_of_the_page(
    name: str, constants: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = importlib.import_module(CHECKED[name])
    for constant, number in constants.items():
        monkeypatch.setattr(module, constant, number)
    parts = module.checks(None)
    for part in (parts[0], parts[-1]):
        comparison = part.compare(body(DOCS / f"{name}.md"))
        assert comparison.cells > 0
        assert [text for text in comparison.differences if "no such row" in text] == []
