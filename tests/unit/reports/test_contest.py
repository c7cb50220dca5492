from __future__ import annotations

import json

import calibrant
from reports.contest import contest
from reports.html import standalone
from reports.subject import Subject
from storage.reports import comparison_document
from tests.unit.reports.reading import Page
from tests.unit.reports.worlds import draw


def test_maps_side_by_side_are_ranked_with_what_chance_could_explain() -> None:
    p, y = draw("overconfident", 6_000)
    maps = {name: calibrant.fit(name, p[:3_000], y[:3_000]) for name in ("platt", "beta")}
    found = calibrant.compare(p[3_000:], y[3_000:], maps, measures=["ece", "brier"], resamples=200)
    report = json.loads(json.dumps(comparison_document(found, {"platt": "map_1", "beta": "map_2"})))
    told = contest(report)
    assert told is not None
    assert [row.name for row in told.rows] == ["uncalibrated", "platt", "beta"]
    brier = told.said[1]
    assert brier.startswith("Brier score: ")
    assert "uncalibrated" not in brier
    page = Page(standalone(report, Subject("a.csv", "0.1.0")))
    assert "Maps side by side" in [heading.text for heading in page.all("h2")]


def test_a_report_of_no_maps_has_no_contest() -> None:
    assert contest({"measures": {}}) is None
