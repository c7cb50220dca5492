from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.evaluation import report_document
from calibrant.measures.catalogue import read_requests
from calibrant.reports.pictures import caption, shown_error
from tests.rows import draw_distorted

P, Y = draw_distorted(600, 7)

ASKED: list[tuple[dict[str, Any], str]] = [
    ({"name": "reliability"}, "ece_debiased"),
    ({"name": "reliability", "binning": "equal-width", "n_bins": 7, "closed": "right"}, "ece_debiased"),
    ({"name": "reliability", "binning": "adaptive"}, "ece_debiased"),
    ({"name": "reliability", "count": "sweep"}, "ece_debiased"),
    ({"name": "reliability", "count": "cross-validated", "binning": "equal-width"}, "ece_debiased"),
    ({"name": "fit-on-test"}, "alpha_1"),
    ({"name": "fit-on-test", "method": "platt", "folds": 4}, "alpha_1"),
    ({"name": "ks-graphs"}, "ks"),
]


def _report(diagram: dict[str, Any], **more: Any) -> dict[str, Any]:
    request = read_diagrams([diagram])[0]
    measure = shown_error({"name": request.diagram.name, **request.options})
    report = calibrant.evaluate(P, Y, measures=[measure], diagrams=[diagram], resamples=100, **more)
    return report_document(report, None)


@pytest.mark.parametrize(("diagram", "figure"), ASKED)
def test_the_title_has_the_error_of_the_diagram(diagram: dict[str, Any], figure: str) -> None:
    report = _report(diagram, interval=0.9)
    about = caption(report, diagram["name"])
    assert about.error is not None
    assert about.interval is not None
    assert about.error[1] == pytest.approx(report["diagrams"][diagram["name"]]["data"][figure], abs=1e-12)
    assert about.interval[0] < about.error[1] < about.interval[1]
    assert (about.n, about.reduction) == (600, "binary")


def test_corp_is_titled_with_the_mean_distance_of_its_curve() -> None:
    report = _report({"name": "corp"})
    points = report["diagrams"]["corp"]["data"]
    block = np.searchsorted(points["start"], P, side="right") - 1
    distance = np.abs(np.asarray(points["calibrated"])[block] - P).mean()
    about = caption(report, "corp")
    assert about.error is not None
    assert about.error[0] == "ECE by isotonic"
    assert about.error[1] == pytest.approx(distance, abs=1e-12)
    assert about.interval is None


@pytest.mark.parametrize("name", list(DIAGRAMS))
def test_every_diagram_has_an_error_that_can_be_measured(name: str) -> None:
    assert read_requests([shown_error({"name": name, **read_diagrams([name])[0].options})])


def test_the_title_has_no_error_that_the_report_lacks() -> None:
    other = report_document(calibrant.evaluate(P, Y, measures=["brier"], diagrams=["reliability"]), None)
    assert caption(other, "reliability").error is None


def test_an_error_of_other_bins_is_not_taken_for_the_diagrams() -> None:
    report = calibrant.evaluate(P, Y, measures=[{"name": "ece", "n_bins": 5}, "ece-sweep"], diagrams=["reliability"])
    assert caption(report_document(report, None), "reliability").error is None
