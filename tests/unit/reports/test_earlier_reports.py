"""Reports that earlier versions stored are drawn and read as today's."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant
from calibrant.reports.document import report_document
from calibrant.reports.figures import group_figure
from calibrant.reports.panel import ReportSubject
from calibrant.reports.pictures import draw_report
from calibrant.reports.regions import shift_of

PREDICTIONS = np.linspace(0.02, 0.98, 400)
LABELS = (np.random.default_rng(5).random(400) < PREDICTIONS**2).astype(int)


def _renamed(part: Any) -> Any:
    """The part with the name of the observed frequency that earlier versions stored."""
    if isinstance(part, dict):
        return {"label_share" if key == "observed_frequency" else key: _renamed(value) for key, value in part.items()}
    return [_renamed(value) for value in part] if isinstance(part, list) else part


def test_the_observed_frequency_under_its_earlier_name() -> None:
    found = calibrant.evaluate(PREDICTIONS, LABELS, measures=["ece"], diagrams=["reliability"], interval=0.95)
    report = report_document(found, None)
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
