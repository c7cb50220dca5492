"""What a report contains: its options, its parts, its page of documentation and reports of earlier versions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from backend.kinds.classes import full_report, read_operation
from calibrant.core.batch import Batch, read_batch
from calibrant.core.progress import Progress, reporting
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.evaluation import CheckedBatch, report_document
from calibrant.measures.catalogue import read_requests
from calibrant.measures.hypothesis_tests import LEAST_VARIANCE
from calibrant.reports import advice, panel, verdict
from calibrant.reports.figures import group_figure
from calibrant.reports.operations import ClassEvaluation, ClassReport
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import draw_report
from calibrant.reports.regions import shift_of
from schemas.evaluations import EvaluateOptions, EvaluateSpec
from schemas.maps import MapRecord
from tests.rows import draw_distorted
from tests.unit.reports.worlds import draw, many_classes, report_of

BARE = EvaluateSpec(batch=None, measures=None, reduction=None, map=None, interval=None, resamples=500, seed=3)
GROUPS = ["north", "south"] * 150
NO_MAPS = dict[str, MapRecord]().__getitem__


def _batch() -> Batch:
    return read_batch(*draw_distorted(300, 4))


def _read(
    spec: EvaluateSpec, groups: Sequence[str] | None = None, batch: Batch | None = None
) -> tuple[ClassReport, EvaluateSpec, CheckedBatch]:
    operation = read_operation(spec, NO_MAPS)
    assert isinstance(operation, ClassEvaluation)
    rows = operation.check(_batch() if batch is None else batch, groups)
    return *full_report(operation, rows, spec), rows


def _document_of(spec: EvaluateSpec, groups: Sequence[str] | None, progress: Progress | None = None) -> dict[str, Any]:
    report, _, rows = _read(spec, groups)
    with reporting(progress):
        return report.document(rows)


def test_options_of_a_report_default_to_the_panel() -> None:
    _, filled, _ = _read(BARE)
    assert filled.report
    assert filled.measures
    assert filled.diagrams
    assert (filled.interval, filled.resamples, filled.seed) == (0.95, 1000, 3)
    assert not filled.by_group


def test_named_options_of_a_report_are_kept() -> None:
    named = BARE.model_copy(update={"measures": ["ks"], "diagrams": [], "interval": 0.8})
    report, filled, _ = _read(named, GROUPS)
    assert filled == named.model_copy(update={"report": True})
    assert report.of_groups is None


def test_a_completed_report_is_completed_to_itself() -> None:
    _, filled, _ = _read(BARE, GROUPS)
    report, again, _ = _read(filled, GROUPS)
    assert again == filled
    assert report.of_groups is not None


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_groups_are_evaluated_apart_and_by_few_measures(groups: list[str] | None) -> None:
    report, _, _ = _read(BARE, groups)
    document = _document_of(BARE, groups)
    assert document["recommendation"]["candidates"]
    assert len(document["diagrams"]) == 5
    assert not report.whole.by_group
    if groups is None:
        assert report.of_groups is None
        assert "groups" not in document
    else:
        assert report.of_groups is not None
        assert set(document["groups"]) == {"north", "south"}
        assert len(report.of_groups.evaluation.measures) < len(report.whole.evaluation.measures)


def test_named_measures_are_those_of_the_groups_too() -> None:
    named = BARE.model_copy(update={"measures": ["ks"], "resamples": 100})
    report, _, _ = _read(named, GROUPS)
    assert (report.whole.by_group, report.of_groups) == (True, None)
    assert set(_document_of(named, GROUPS)["groups"]["north"]["measures"]) == {"ks"}


def test_no_map_is_recommended_where_classes_are_chosen() -> None:
    spec = BARE.model_copy(update={"measures": ["ks"], "diagrams": [], "classes": [0, 2]})
    random = np.random.default_rng(5)
    batch = read_batch(random.dirichlet(np.ones(3), 60), random.integers(0, 3, 60))
    report, _, rows = _read(spec, batch=batch)
    assert "recommendation" not in report.document(rows)


def test_progress_rises_over_all_parts_to_its_end() -> None:
    stages: list[tuple[int, int, str]] = []
    _document_of(BARE, GROUPS, lambda done, total, stage: stages.append((done, total, stage)))
    assert [done for done, _, _ in stages] == sorted(done for done, _, _ in stages)
    assert stages[-1][0] == stages[-1][1]
    assert any(stage == "recommendation" for _, _, stage in stages)


def test_groups_of_a_report_have_the_level_and_at_most_the_resamples_of_the_request() -> None:
    report, _, _ = _read(BARE.model_copy(update={"interval": 0.8}), GROUPS)
    assert report.of_groups is not None
    resampling = report.of_groups.evaluation.resampling
    assert (resampling.level, resampling.resamples) == (0.8, 500)


KINDS = [(None, None), (4, None), (4, "classwise"), (4, "canonical"), (4, "class:2"), (4, "pooled"), (2, "binary")]


@pytest.mark.parametrize(("n_classes", "reduction"), KINDS)
def test_options_are_those_of_an_evaluation_and_no_job(n_classes: int | None, reduction: str | None) -> None:
    options = panel.full(10_000, n_classes, reduction, seed=3)
    assert EvaluateOptions.model_validate(options, strict=True).seed == 3
    assert all(request.measure.runs == "inline" for request in read_requests(options["measures"]))
    assert all(request.runs == "inline" for request in read_diagrams(options.get("diagrams")))
    EvaluateOptions.model_validate(panel.by_group(10_000, n_classes, reduction), strict=True)


@pytest.mark.parametrize("reduction", [None, "classwise", "canonical", "class:2", "pooled"])
def test_every_default_measure_of_many_classes_has_a_value(reduction: str | None) -> None:
    report = report_of(*many_classes(n=500), reduction)
    assert [key for key, answer in report["measures"].items() if answer["value"] is None] == []
    assert all(shown["data"] is not None for shown in report.get("diagrams", {}).values())


def test_every_default_measure_of_one_event_has_a_value_and_an_interval_or_a_test() -> None:
    report = report_of(*draw("overconfident", 500))
    assert [k for k, a in report["measures"].items() if a["interval"] is None and a["p_value"] is None] == []


def test_groups_are_joined_to_the_report() -> None:
    p, y = draw("overconfident", 400)
    groups = ["a", "b"] * 200
    whole = report_of(p, y)
    second = report_document(calibrant.evaluate(p, y, groups=groups, **panel.by_group(400, None)), None)
    joined = panel.joined(whole, second)
    assert set(joined["groups"]) == {"a", "b"}
    assert joined["gaps"]["ece"]["p_value"] is not None
    assert joined["measures"] == whole["measures"]
    assert "groups" not in whole


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
    assert f"is below {LEAST_VARIANCE:g}, the normal approximation" in text
    assert f"fewer than {verdict.FEW_ROWS} rows or X is above {100 * verdict.COULD_HIDE:g} points" in text
    assert f"more than {advice.MOST_ROWS:,} rows or {advice.MOST_NUMBERS:,} probabilities" in text


PREDICTIONS = np.linspace(0.02, 0.98, 400)
LABELS = (np.random.default_rng(5).random(400) < PREDICTIONS**2).astype(int)


def _renamed(part: Any) -> Any:
    """The part with the name of the observed frequency that earlier versions stored."""
    if isinstance(part, dict):
        return {"label_share" if key == "observed_frequency" else key: _renamed(inner) for key, inner in part.items()}
    return [_renamed(inner) for inner in part] if isinstance(part, list) else part


def test_the_observed_frequency_under_its_earlier_name() -> None:
    evaluated = calibrant.evaluate(PREDICTIONS, LABELS, measures=["ece"], diagrams=["reliability"], interval=0.95)
    report = report_document(evaluated, None)
    group = {"n": report["n"], "diagrams": report["diagrams"]}
    report["group_diagrams"] = {"north": group, "south": group}
    earlier = _renamed(report)
    assert "observed_frequency" not in earlier["diagrams"]["reliability"]["data"]
    assert draw_report(earlier, "reliability").content == draw_report(report, "reliability").content
    assert shift_of(earlier) == shift_of(report)
    assert (
        group_figure(earlier, ReportSubject("a.csv", "0.1.0"))
        == group_figure(report, ReportSubject("a.csv", "0.1.0"))
        is not None
    )
