"""Decisions at the threshold of costs in a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli.main import app
from calibrant.core.errors import CalibrationError
from calibrant.reports.decisions import decision_section
from calibrant.reports.panel import ReportSubject
from tests.commands import succeeds
from tests.refusals import refused_at

RANDOM = np.random.default_rng(8)
P = RANDOM.random(600).round(4)
Y = (RANDOM.random(600) < P).astype(int)
COSTS = (1.0, 4.0)
SQUARE = (P**2).round(6)
MODELS = {"<b>one</b>": P, "square": SQUARE}


def _section(html: str) -> str:
    return html.partition('id="report-decisions"')[2].partition("</section>")[0]


@pytest.mark.slow
@pytest.mark.parametrize("used", [{}, {"clusters": np.arange(600) // 3}, {"weights": 1.0 + np.arange(600) % 3}])
def test_a_report_has_the_decisions_of_the_costs(used: dict[str, Any]) -> None:
    report = calibrant.report(P, Y, costs=COSTS, seed=3, **used)
    expected = calibrant.best_threshold(P, Y, costs=COSTS, seed=3, **used)
    decisions = report.document["decisions"]
    own = {"threshold": expected.threshold, "measures": expected.to_dict()["measures"], "problem": None}
    assert decisions["models"] == {"model": own}
    assert (decisions["criterion"], decisions["value"]) == ("costs", [1.0, 4.0])
    assert (decisions["level"], decisions["differences"]) == (0.95, {})
    section = _section(report.html)
    assert "positive from a probability of 0.2 up" in section
    assert "Decision curve" in section
    assert f"{expected['cost'].value:.4f}" in section
    assert not _section(calibrant.report(P, Y, **used).html)


@pytest.mark.parametrize(
    ("predictions", "labels", "sentence"),
    [
        (P, Y, "do not cost significantly less"),
        (SQUARE, Y, "Fit a map, and keep the threshold"),
        (P[:8], Y[:8] | 1, "What miscalibration costs is unknown"),
    ],
)
def test_a_report_says_what_miscalibration_costs(predictions: Any, labels: Any, sentence: str) -> None:
    assert sentence in _section(calibrant.report(predictions, labels, costs=COSTS).html)


def test_the_cost_of_models_is_compared_on_the_same_rows() -> None:
    report = calibrant.report(MODELS, Y, costs=COSTS)
    decisions, (pair,) = report.document["decisions"], report.document["decisions"]["differences"].values()
    first, second = (own["measures"]["cost"]["value"] for own in decisions["models"].values())
    assert pair["value"] == pytest.approx(first - second, abs=1e-12)
    curve = calibrant.decision_curve(MODELS, Y, thresholds=[0.2]).differences["<b>one</b> - square"]
    assert pair["interval"] == pytest.approx((-4.0 * curve.high[0], -4.0 * curve.low[0]), abs=1e-12)
    section = _section(report.html)
    assert "&lt;b&gt;one&lt;/b&gt; cost the least" in section
    assert "<b>one" not in section
    assert section.count("<tr") == 4
    assert "costs=[1.0, 4.0]" in report.html


@pytest.mark.parametrize("criterion", [{"capacity": 100}, {"capacity": 0.1}, {"precision": 0.8}, {"recall": 0.9}])
def test_a_report_has_the_decisions_of_every_criterion(criterion: dict[str, Any]) -> None:
    report, expected = calibrant.report(P, Y, **criterion), calibrant.best_threshold(P, Y, **criterion)
    (own,) = report.document["decisions"]["models"].values()
    assert own == {"threshold": expected.threshold, "measures": expected.to_dict()["measures"], "problem": None}
    section = _section(report.html)
    assert f"from a probability of {expected.threshold:.10g} up" in section
    assert ("have no intervals" in section) is ("capacity" not in criterion)
    assert "Decision curve" in section


@pytest.mark.parametrize("used", [{}, {"clusters": np.arange(600) // 3}, {"weights": 1.0 + np.arange(600) % 3}])
def test_models_under_a_capacity_are_compared_by_their_recall(used: dict[str, Any]) -> None:
    noisy = np.clip(P + np.random.default_rng(1).normal(0.0, 0.3, 600), 0.0, 1.0)
    report = calibrant.report({"<b>one</b>": P, "noisy": noisy}, Y, capacity=0.2, **used)
    decisions, (pair,) = report.document["decisions"], report.document["decisions"]["differences"].values()
    first, second = decisions["models"].values()
    assert decisions["compared"] == "recall"
    difference = first["measures"]["recall"]["value"] - second["measures"]["recall"]["value"]
    assert pair["value"] == pytest.approx(difference, abs=1e-12)
    w = np.asarray(used.get("weights", np.ones(600)))
    ends = first["threshold"], second["threshold"]
    gained = (ends[0] <= P) * 1.0 - (ends[1] <= noisy)
    influence = w * Y * (gained - difference) / (w @ Y)
    if "clusters" in used:
        influence = np.bincount(used["clusters"], influence)
    half = 1.96 * np.sqrt((influence**2).sum())
    assert pair["interval"] == pytest.approx((difference - half, difference + half), abs=0.1 * half)
    section = _section(report.html)
    assert "&lt;b&gt;one&lt;/b&gt; include the most events" in section
    assert f"{second['threshold']:.10g}" in section


def test_a_bound_that_one_model_misses_is_named_beside_the_threshold_of_the_other() -> None:
    report = calibrant.report({"good": P, "constant": np.full(600, 0.5)}, Y, precision=0.8)
    models = report.document["decisions"]["models"]
    assert models["good"]["threshold"] is not None
    assert (models["constant"]["threshold"], models["constant"]["measures"]) == (None, {})
    assert "No threshold exists for constant: precision is not reached" in _section(report.html)
    alone = calibrant.report(np.full(600, 0.5), Y, precision=0.8)
    assert "No threshold exists: precision is not reached" in _section(alone.html)
    assert "chose the threshold" not in _section(alone.html)
    assert "No threshold exists: capacity is less than" in _section(
        calibrant.report(np.full(600, 0.5), Y, capacity=5).html
    )


def test_decisions_that_were_stored_before_there_were_criteria_have_no_section() -> None:
    earlier = {"costs": [1.0, 4.0], "threshold": 0.2, "level": 0.95, "models": {"model": {}}, "differences": {}}
    assert decision_section({"decisions": earlier}, ReportSubject("a.csv", "0.1.0")) is None


VECTORS = np.column_stack([P, (1 - P) / 2, (1 - P) / 2])


@pytest.mark.parametrize(
    ("predictions", "options", "pointer"),
    [
        (P, {"costs": (0.0, 1.0)}, "/costs"),
        (P, {"costs": (1.0, float("nan"))}, "/costs"),
        (P, {"costs": (1e308, 1e308)}, "/costs"),
        (P, {"costs": (1.0,)}, "/costs"),
        (P, {"costs": "15"}, "/costs"),
        (P, {"map": True}, "/costs"),
        (VECTORS, {"reduction": "classwise"}, "/reduction"),
        (np.column_stack([1 - P, P]), {}, "/reduction"),
        ({"a": np.column_stack([1 - P, P]), "b": np.column_stack([1 - P, P])}, {}, "/reduction"),
        ({"a": VECTORS, "b": VECTORS[:, ::-1]}, {}, "/reduction"),
        (MODELS, {"costs": (1.0, -1.0)}, "/costs"),
        (P, {"capacity": 100}, "/capacity"),
        (MODELS, {"recall": 0.9}, "/recall"),
        (P, {"costs": None, "capacity": 1.5}, "/capacity"),
        (P, {"costs": None, "precision": 1.0}, "/precision"),
        (P, {"costs": None, "recall": 0.9, "map": True}, "/recall"),
        (P, {"costs": None, "capacity": 9, "weights": 1.0 + np.arange(600) % 3}, "/capacity"),
        (P, {"costs": None, "recall": 0.9, "weights": 1.0 + np.arange(600) % 3}, "/recall"),
        (MODELS, {"costs": None, "precision": 0.8, "clusters": np.arange(600) // 3}, "/clusters"),
    ],
)
def test_costs_without_a_threshold_are_refused(predictions: Any, options: dict[str, Any], pointer: str) -> None:
    if options.get("map"):
        options = options | {"map": calibrant.fit("platt", P, Y)}
    with refused_at(pointer, CalibrationError):
        calibrant.report(predictions, Y, **{"costs": COSTS, **options})


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    lines = [f"{y},{p},{square}" for y, p, square in zip(Y, P, SQUARE, strict=True)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["y,one,square", *lines, ""]), "utf-8")
    return path


def _written(rows: Path, *arguments: str) -> str:
    output = rows.with_name("report.html")
    succeeds(CliRunner().invoke(app, ["report", str(rows), *arguments, "--out", str(output)]))
    return output.read_text("utf-8")


@pytest.mark.parametrize("names", [["one"], ["one", "square"]])
def test_the_command_writes_the_decisions_and_the_lines_that_make_them_again(rows: Path, names: list[str]) -> None:
    html = _written(rows, *(word for name in names for word in ("--prediction", name)), "--costs", "1,4")
    predictions: Any = P if len(names) == 1 else {"one": P, "square": SQUARE}
    assert _section(html) == _section(calibrant.report(predictions, Y, costs=COSTS).html) != ""
    scope: dict[str, Any] = {}
    python = html.rpartition("<pre><code>")[2].partition("</code>")[0]
    exec(python.replace("&#39;", "'").replace("&#34;", '"'), scope)
    thresholds = (
        [scope["decisions"].threshold]
        if len(names) == 1
        else [own["threshold"] for own in scope["report"].document["decisions"]["models"].values()]
    )
    assert thresholds == [0.2] * len(names)
    assert "&#34;costs&#34;: [1.0, 4.0]" in html


@pytest.mark.parametrize("criterion", [{"capacity": 60.0}, {"precision": 0.8}, {"recall": 0.9}])
@pytest.mark.parametrize("names", [["one"], ["one", "square"]])
def test_the_command_writes_the_decisions_of_every_criterion(
    rows: Path, names: list[str], criterion: dict[str, Any]
) -> None:
    ((name, bound),) = criterion.items()
    html = _written(rows, *(word for column in names for word in ("--prediction", column)), f"--{name}", str(bound))
    predictions: Any = P if len(names) == 1 else {"one": P, "square": SQUARE}
    assert _section(html) == _section(calibrant.report(predictions, Y, **criterion).html) != ""
    assert f"&#34;{name}&#34;: {bound}" in html
    assert f"{name}={bound}," in html


@pytest.mark.parametrize(
    "arguments",
    [("--costs", "1;4"), ("--costs", "1"), ("--costs", "0,1"), ("--costs", "1,4", "--map", "map.json")],
)
def test_the_command_refuses_costs_by_their_flag(rows: Path, arguments: tuple[str, ...]) -> None:
    completed = CliRunner().invoke(app, ["report", str(rows), "--prediction", "one", *arguments])
    assert completed.exit_code in (1, 2)
    assert "--costs" in completed.output
