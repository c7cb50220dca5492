"""The calibration error of a group is the same number under the same label in every output."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import calibrant
from calibrant.cli.report_tables import report_tables
from calibrant.core.batch import read_batch
from calibrant.evaluation import Evaluation, report_document
from calibrant.measures.catalogue import read_requests
from calibrant.plots.panel import decimal
from calibrant.reports import lookup, numbers
from calibrant.reports.figures import group_figure
from calibrant.reports.panel import ReportSubject, by_group, group_diagrams
from calibrant.reports.tables import fewer, grouped, measured
from tests.rows import draw_event


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    random = np.random.default_rng(0)
    p, y = draw_event(600, random, 1.5)
    names = random.choice(["north", "south", "west"], 600).tolist()
    evaluation = Evaluation(read_requests(["ece", "ks"]))
    rows = evaluation.check(read_batch(p, y), names)
    return {**report_document(evaluation.run(rows), None), "group_diagrams": group_diagrams(rows)}


def test_the_error_of_a_group_is_the_same_in_tables_picture_and_json(report: dict[str, Any]) -> None:
    table, picture = grouped(report), group_figure(report, ReportSubject("a.csv", "0.1.0"))
    assert table is not None
    assert picture is not None
    assert table.columns[0].endswith(", debiased")
    text = _text(report)
    assert "ece, debiased" in text
    for row in table.rows:
        ece = report["groups"][row.name]["measures"]["ece"]
        drawn = report["group_diagrams"][row.name]["diagrams"]["reliability"]["data"]
        assert (drawn["ece"], drawn["ece_debiased"]) == pytest.approx((ece["value"], ece["debiased"]))
        assert row.cells[0][0] == numbers.number(ece["debiased"])
        assert f"debiased ECE {decimal(ece['debiased'])}" in picture.alt
        (line,) = [line for line in text.splitlines() if row.name in line]
        assert f"{ece['debiased']:.4f}" in line


@pytest.fixture(scope="module")
def in_sample() -> tuple[dict[str, Any], dict[str, Any]]:
    """A report with groups, with a map fitted to the same rows, and the options by group as evaluated."""
    random = np.random.default_rng(0)
    p, y = draw_event(600, random, 1.5)
    names = random.choice(["north", "south", "west"], 600).tolist()
    report = calibrant.report(p, y, groups=names, map=calibrant.fit("platt", p, y))
    again = calibrant.evaluate(
        p, y, groups=names, map=calibrant.fit("platt", p, y), measures=["ks-end", "ece"], interval=0.95
    )
    return dict(report.document), {"html": report.html, "evaluated": report_document(again, None)}


def _text(report: dict[str, Any], level: float | None = None) -> str:
    console = Console(file=io.StringIO(), width=200)
    for part in report_tables(report, level=level):
        console.print(part)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.slow
def test_groups_and_gaps_of_a_report_are_those_of_an_evaluation(in_sample: tuple[Any, Any]) -> None:
    report, evaluated = in_sample[0], in_sample[1]["evaluated"]
    assert report["groups"] == evaluated["groups"]
    assert report["gaps"] == evaluated["gaps"]
    assert report["after"]["gaps"] == evaluated["after"]["gaps"]


def test_tables_of_groups_name_the_side_of_the_map_and_in_sample_values(in_sample: tuple[Any, Any]) -> None:
    report, page = in_sample[0], in_sample[1]["html"]
    text, table = _text(in_sample[1]["evaluated"]), grouped(report)
    assert table is not None
    assert "group, before the map" in text
    assert "group, after the map (in-sample)" in text
    ece = "Expected calibration error, debiased"
    assert table.columns[:2] == [f"{ece}, before the map", f"{ece}, after the map (in-sample)"]
    for row in table.rows:
        group = report["groups"][row.name]
        for side, (shown, _) in zip((group, group["after"]), row.cells, strict=False):
            assert shown == numbers.number(side["measures"]["ece"]["debiased"])
    assert [text.split(":")[0] for text in table.gaps][:2] == table.columns[:2]
    assert "Debiased after the map (in-sample)" in page
    assert "The largest error before the map first; the 95 % interval, from 1,000 resamples, is below" in page
    assert "Reliability diagram of each group, before the map." in page


def test_tables_of_groups_without_a_map_do_not_name_a_side(report: dict[str, Any]) -> None:
    text, table = _text(report), grouped(report)
    assert table is not None
    assert "the map" not in text + str(table)
    assert "interval" not in text


def test_the_table_of_groups_has_the_intervals_of_the_groups_and_the_gap(in_sample: tuple[Any, Any]) -> None:
    evaluated = in_sample[1]["evaluated"]
    text = _text(evaluated, 0.95)
    for side in (evaluated["groups"]["north"], evaluated["groups"]["west"]["after"], {"measures": evaluated["gaps"]}):
        low, high = side["measures"]["ece"]["interval"]
        assert f"{low:.4f} to {high:.4f}" in text
    assert f"{evaluated['gaps']['ece']['p_value']:.3f}" in text
    assert "The 95 % interval, from 1,000 resamples, is below each value." in text


def test_fewer_resamples_are_named(in_sample: tuple[Any, Any]) -> None:
    report = in_sample[0]
    assert fewer(report) == ""
    some = {"measures": {"ece": {"interval": [0, 1], "definition": {"resamples": 200}}}}
    assert fewer(some) == " Intervals are from 200 resamples."
    options = [by_group(n, 10, name, weighted=weighted) for n, name, weighted in _MANY]
    assert [of_call["resamples"] for of_call in options] == [1000, 100, 100, 100]


_MANY = [(50_000, None, False), (50_001, None, False), (5_001, "classwise", False), (10_000, "class:2", True)]


def test_gaps_name_the_kind_of_the_values_that_they_compare(report: dict[str, Any]) -> None:
    table = grouped(report)
    assert table is not None
    assert [text.partition(":")[0].rpartition(", ")[2] for text in table.gaps] == [
        "debiased",
        "Kolmogorov-Smirnov calibration error",
    ]
    text = _text(report)
    (line,) = [line for line in text.splitlines() if "largest gap" in line]
    assert f"{report['gaps']['ece']['value']:.4f}, debiased" in line
    assert f"{report['gaps']['ks']['value']:.4f}" in line
    assert lookup.gap_kind({"of": "value"}, "debiased") == "plain"


def test_a_column_of_the_table_of_measures_has_one_kind_of_values() -> None:
    p, y = draw_event(600, 0, 1.5)
    fitted = calibrant.fit("platt", p, y)
    evaluation = Evaluation(read_requests(["ece", "ks"]), map=fitted)
    document = report_document(evaluation.run(evaluation.check(read_batch(p, y))), None)
    for row in measured(document):
        after = document["after"]["measures"][row.key]
        assert row.after == numbers.number(after["value"])
        assert row.after_debiased == ("" if after["debiased"] is None else numbers.number(after["debiased"]))


def test_a_column_shows_plain_values_if_one_group_has_no_debiased_value() -> None:
    answers: list[dict[str, Any]] = [{"value": 0.2, "debiased": 0.1}, {"value": 0.3, "debiased": None}]
    assert lookup.kind(answers) == "plain"
    assert [lookup.shown(answer, "plain") for answer in answers] == [0.2, 0.3]
    assert lookup.kind([{"value": 0.2, "debiased": None}]) is None
    assert lookup.kind([{"value": None, "debiased": None}, answers[0]]) == "debiased"
