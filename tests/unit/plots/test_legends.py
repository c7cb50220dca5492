"""A legend shows the colours, dashes and points with which a picture is drawn."""

from __future__ import annotations

import re
from typing import Any

import pytest

from calibrant.plots.diagram import PLOTS, plot_of
from calibrant.plots.forecasts import FORECAST_PLOTS
from calibrant.plots.panel import AFTER, BEFORE, Look
from calibrant.plots.timeline import draw_groups
from tests.unit.plots.specimens import PICTURES, diagrams, forecast_diagram


class Recorder:
    """A panel that keeps the looks of what is drawn on it."""

    x = y = (0.0, 1.0)
    grain = 1.0

    def __init__(self) -> None:
        self.lines: list[tuple[str, Any]] = []
        self.dots_: list[tuple[str, bool]] = []
        self.fills: list[str | None] = []

    def line(self, _: Any, __: Any, colour: str, *, width: float = 1.0, dash: Any = None) -> None:
        self.lines.append((colour, dash))

    pieces = line

    def between(self, _: Any, __: Any, ___: Any, fill: str | None, **____: Any) -> None:
        self.fills.append(fill)

    def areas(self, _: Any, __: Any, fill: str | None, **___: Any) -> None:
        self.fills.append(fill)

    def dots(self, _: Any, __: Any, ___: Any, fill: str, *, square: bool = False, **____: Any) -> None:
        self.dots_.append((fill, square))


@pytest.mark.parametrize("look", [BEFORE, AFTER], ids=["before", "after"])
@pytest.mark.parametrize("name", [*PLOTS, *FORECAST_PLOTS])
def test_the_legend_of_two_overlaid_diagrams_shows_what_is_drawn(name: str, look: Look) -> None:
    data = (diagrams()[name] if name in PLOTS else forecast_diagram(name, "normal"))["data"]
    plot, drawn = plot_of(name, data), Recorder()
    plot.show(drawn, data, look)  # type: ignore[arg-type]
    mark = plot.mark(data, look)
    if mark.kind == "area":
        assert mark.colour in drawn.fills
        return
    assert (mark.colour, mark.dash or None) in drawn.lines
    points = {square for colour, square in drawn.dots_ if colour == mark.colour}
    assert points == ({mark.kind == "square"} if mark.kind in ("dot", "square") else set())


def test_the_groups_of_a_monitor_have_no_lines_and_squares_for_predictions() -> None:
    group = {"name": "a", "rows": 5, "predicted": 0.2, "observed": 0.3, "interval": (0.1, 0.4)}
    svg = draw_groups([group]).content.decode()
    for role, corners in (("first", 16), ("second", 4)):
        shapes = [
            d for d, ink in re.findall(r'<path d="([^"]*)"[^>]*fill="var\(--picture-([a-z-]+),', svg) if ink == role
        ]
        assert [d.count("L") + 1 for d in shapes] == [corners] * 2  # in the legend and in the picture
    assert not re.findall(r'stroke="var\(--picture-(first|second),', svg)


def test_the_hatching_of_a_cost_plane_has_the_colour_of_the_legend() -> None:
    drawn = PICTURES["cost-plane"](form="svg", theme="auto", width=400).content.decode()
    hatched = re.findall(r"<pattern.*?</pattern>", drawn, re.DOTALL)
    assert hatched
    assert all("--picture-paper" in pattern for pattern in hatched)
