from __future__ import annotations

import pytest

import calibrant
from calibrant.diagrams.catalogue import read_diagrams
from calibrant.measures.catalogue import read_requests
from calibrant.reports import panel
from calibrant.reports.document import report_document
from schemas.evaluate import EvaluateOptions
from tests.unit.reports.worlds import draw, many_classes, report_of

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
