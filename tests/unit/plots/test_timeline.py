"""Charts of a monitor: lines with a bound over time, areas, and groups."""

from __future__ import annotations

import re
from typing import Any

import pytest

from calibrant.plots.over_time import draw_groups, draw_timeline

HOUR = 3600.0
SPANS = [(HOUR * i, HOUR * (i + 1)) for i in (0, 1, 2, 5)]


def chart(**changes: Any) -> dict[str, Any]:
    line = {"name": "ece", "values": [0.1, None, 0.3, 0.2], "intervals": [(0.05, 0.2), None, (0.2, 0.4), None]}
    arguments = {"title": "Error", "axis": "ece", "spans": SPANS, "lines": [line], "filled": False, "bound": None}
    return arguments | {"alarms": [], "empty": "no labelled rows yet"} | changes


def text_of(drawn: Any) -> str:
    return str(drawn.content.decode())


def test_the_alternative_text_has_the_numbers_of_the_chart() -> None:
    drawn = draw_timeline(chart(bound={"name": "threshold", "value": 0.25}, alarms=[2.5 * HOUR, -1.0]))
    assert drawn.alt == (
        "Error, 4 time spans. ece: minimum 0.100, maximum 0.300, last 0.200; threshold: 0.250; alarms raised: 1."
    )
    assert drawn.media_type == "image/svg+xml"
    for word in ("ece", "interval", "threshold", "alarm raised", "time of prediction (UTC)"):
        assert f">{word}</text>" in text_of(drawn)


def test_an_alarm_after_the_last_span_is_drawn_at_its_end() -> None:
    at_end = draw_timeline(chart(alarms=[6 * HOUR]))
    assert "alarms raised: 1." in at_end.alt
    assert draw_timeline(chart(alarms=[99 * HOUR])) == at_end


@pytest.mark.parametrize("spans", [[], SPANS])
def test_a_chart_without_values_says_so(spans: list[tuple[float, float]]) -> None:
    drawn = draw_timeline(chart(spans=spans, lines=[{"name": "ece", "values": [None] * len(spans), "intervals": None}]))
    assert drawn.alt == "Error: no labelled rows yet."
    assert "no labelled rows yet" in text_of(drawn)


def test_areas_start_at_zero_and_are_described_as_counts() -> None:
    lines = [{"name": "predictions", "values": [900, 1000, 950, 990], "intervals": None}]
    drawn = draw_timeline(chart(lines=lines, filled=True))
    assert "predictions: minimum 900, maximum 1,000, last 990" in drawn.alt
    assert re.search(r">0</text>", text_of(drawn))


def test_two_lines_differ_in_more_than_colour() -> None:
    lines = [{"name": name, "values": [0.1, 0.2, 0.3, 0.4], "intervals": None} for name in ("predicted", "observed")]
    assert "stroke-dasharray" in text_of(draw_timeline(chart(lines=lines)))
    assert "stroke-dasharray" not in text_of(draw_timeline(chart(lines=lines[:1])))


def test_groups_are_drawn_with_their_names_and_numbers() -> None:
    groups = [
        {"name": "<b>north\n", "rows": 1200, "predicted": 0.3, "observed": 0.4, "interval": (0.35, 0.45)},
        {"name": "n" * 300, "rows": 1, "predicted": 0.0, "observed": 0.0, "interval": (0.0, 0.8)},
    ]
    drawn = draw_groups(groups, width=360)
    assert "<b>north: 1,200 rows, observed 0.400, predicted 0.300; " in drawn.alt
    assert "&lt;b&gt;north (1,200)" in text_of(drawn)
    assert "<b>" not in text_of(drawn)
    assert draw_groups([]).alt == "Groups: no labelled rows with a group."
