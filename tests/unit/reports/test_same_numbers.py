"""The calibration error of a group is the same number under the same label in every output."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import calibrant
from calibrant.batch import read_batch
from calibrant.cli.report_tables import report_tables
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.plots.panel import decimal
from calibrant.reports import lookup, numbers
from calibrant.reports.document import report_document
from calibrant.reports.figures import group_figure
from calibrant.reports.panel import group_diagrams
from calibrant.reports.tables import grouped, measured


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    random = np.random.default_rng(0)
    p = random.random(600)
    y = (random.random(600) < p**1.5).astype(int)
    names = random.choice(["north", "south", "west"], 600).tolist()
    batch = read_batch(p, y)
    found = report_document(Evaluation(read_requests(["ece", "ks"])).run(batch, names), None)
    return {**found, "group_diagrams": group_diagrams(batch, names)}


def test_the_error_of_a_group_is_the_same_in_tables_picture_and_json(report: dict[str, Any]) -> None:
    table, picture = grouped(report), group_figure(report)
    assert table is not None
    assert picture is not None
    assert table.columns[0].endswith(", debiased")
    console = Console(file=io.StringIO(), width=200)
    for part in report_tables(report):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "ece, debiased" in text
    for row in table.rows:
        ece = report["groups"][row.name]["measures"]["ece"]
        drawn = report["group_diagrams"][row.name]["diagrams"]["reliability"]["data"]
        assert (drawn["ece"], drawn["ece_debiased"]) == pytest.approx((ece["value"], ece["debiased"]))
        assert row.cells[0][0] == numbers.number(ece["debiased"])
        assert f"debiased ECE {decimal(ece['debiased'])}" in picture.alt
        (line,) = [line for line in text.splitlines() if row.name in line]
        assert f"{ece['debiased']:.4f}" in line


def test_gaps_name_the_kind_of_the_values_that_they_compare(report: dict[str, Any]) -> None:
    table = grouped(report)
    assert table is not None
    assert [text.partition(":")[0].rpartition(", ")[2] for text in table.gaps] == [
        "debiased",
        "Kolmogorov-Smirnov error",
    ]
    console = Console(file=io.StringIO(), width=200)
    for part in report_tables(report):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    (line,) = [line for line in text.splitlines() if "largest gap" in line]
    assert f"{report['gaps']['ece']['value']:.4f}, debiased" in line
    assert f"{report['gaps']['ks']['value']:.4f}" in line
    assert lookup.gap_kind({"of": "value"}, "debiased") == "plain"


def test_a_column_of_the_table_of_measures_has_one_kind_of_values() -> None:
    random = np.random.default_rng(0)
    p = random.random(600)
    y = (random.random(600) < p**1.5).astype(int)
    fitted = calibrant.fit("platt", p, y)
    found = report_document(Evaluation(read_requests(["ece", "ks"]), map=fitted).run(read_batch(p, y)), None)
    for row in measured(found):
        after = found["after"]["measures"][row.key]
        assert row.after == numbers.number(after["value"])
        assert row.after_debiased == ("" if after["debiased"] is None else numbers.number(after["debiased"]))


def test_a_column_shows_plain_values_if_one_group_has_no_debiased_value() -> None:
    answers: list[dict[str, Any]] = [{"value": 0.2, "debiased": 0.1}, {"value": 0.3, "debiased": None}]
    assert lookup.kind(answers) == "plain"
    assert [lookup.shown(answer, "plain") for answer in answers] == [0.2, 0.3]
    assert lookup.kind([{"value": 0.2, "debiased": None}]) is None
    assert lookup.kind([{"value": None, "debiased": None}, answers[0]]) == "debiased"
