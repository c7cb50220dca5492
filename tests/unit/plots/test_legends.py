"""A legend shows the colours, dashes and points with which a picture is drawn."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import PLOTS, draw_several, plot_of
from calibrant.plots.forecasts import FORECAST_PLOTS
from calibrant.plots.panel import AFTER, BEFORE, Look
from calibrant.plots.timeline import draw_groups, draw_timeline
from tests.unit.plots.specimens import PICTURES, PLAIN, diagrams, forecast_diagram, piecewise, plane


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


@pytest.mark.parametrize(("level", "shown"), [(0.95, "95 %"), (0.975, "97.5 %"), (0.999, "99.9 %")])
@pytest.mark.parametrize("name", ["reliability", "corp", "fit-on-test", "logit-logit"])
def test_levels_are_in_the_legend_in_full(name: str, level: float, shown: str) -> None:
    p, y = np.linspace(0.01, 0.99, 200), (np.arange(200) * 7 % 200 < np.arange(200)).astype(int)
    found: Any = (calibrant.evaluate(p, y, diagrams=[{"name": name, "level": level}]).diagrams or {})[name]
    labels = [key.label for key in plot_of(name).keys(found["data"], found["definition"], BEFORE)]
    assert any(shown in label for label in labels)


def test_levels_of_forecasts_are_in_full() -> None:
    p = np.linspace(-1.0, 1.0, 50)
    quantiles = np.stack([p - 1.0, p, p + 1.0], axis=1)
    plot: Any = calibrant.evaluate_distribution(p + 0.1, quantiles=quantiles, levels=[0.0125, 0.5, 0.9875]).plot
    assert "97.5 % interval" in [text.get_text() for text in plot.fan().get_legend().get_texts()]
    assert "97.5 % intervals" in plot("coverage").get_title()
    fine = {**plane(), "abstention": [0.005 * i for i in range(10)]}
    drawn = draw_cost_plane(fine, PLAIN).content.decode()
    assert ">2.5 %<" in drawn


def test_the_legend_of_several_models_has_the_marks_of_all() -> None:
    plain = diagrams()["fit-on-test"], PLAIN
    drawn = draw_several("fit-on-test", [plain, (piecewise(), PLAIN)]).content.decode()
    assert ">knots<" in drawn


def test_a_slope_below_zero_has_a_minus_sign() -> None:
    data = {**diagrams()["logit-logit"]["data"], "slope": -0.46, "intercept": -0.1}
    labels = [key.label for key in plot_of("logit-logit").keys(data, {}, BEFORE)]
    assert "Platt scaling: slope \N{MINUS SIGN}0.46, intercept \N{MINUS SIGN}0.10" in labels


def test_alarms_have_a_colour_that_no_line_has() -> None:
    line = {"name": "observed", "values": [0.1, 0.2], "intervals": None}
    chart: dict[str, Any] = {"title": "t", "axis": "a", "filled": False, "bound": None, "alarms": [1.5], "empty": ""}
    chart |= {"spans": [(0.0, 1.0), (1.0, 2.0)], "lines": [line, {**line, "name": "predicted"}]}
    drawn = draw_timeline(chart).content.decode()
    assert drawn.count('stroke="var(--picture-fourth,') == 2
