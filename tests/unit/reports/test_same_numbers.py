"""The calibration error of a group is the same number under the same label in every output."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from calibrant.batch import read_batch
from calibrant.cli.report_tables import report_tables
from calibrant.evaluation import Evaluation
from calibrant.measures.catalogue import read_requests
from calibrant.plots.panel import decimal
from calibrant.reports import lookup, numbers
from calibrant.reports.document import report_document
from calibrant.reports.figures import group_figure
from calibrant.reports.panel import group_diagrams
from calibrant.reports.tables import grouped


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


def test_a_column_shows_plain_values_if_one_group_has_no_debiased_value() -> None:
    answers: list[dict[str, Any]] = [{"value": 0.2, "debiased": 0.1}, {"value": 0.3, "debiased": None}]
    assert lookup.kind(answers) == "plain"
    assert [lookup.shown(answer, "plain") for answer in answers] == [0.2, 0.3]
    assert lookup.kind([{"value": 0.2, "debiased": None}]) is None
    assert lookup.kind([{"value": None, "debiased": None}, answers[0]]) == "debiased"
