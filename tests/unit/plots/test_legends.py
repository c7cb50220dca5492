"""Legends and axes of diagrams."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.plots.canvas import SMALL, Canvas, Caption, width
from calibrant.plots.cost_plane import draw_cost_plane
from calibrant.plots.diagram import PLOTS, draw, draw_several, plot_of
from calibrant.plots.forecasts import FORECAST_PLOTS
from calibrant.plots.over_time import draw_groups, draw_timeline
from calibrant.plots.panel import AFTER, BEFORE, Look, Panel, half_window
from tests.unit.plots.specimens import PICTURES, PLAIN, diagram, forecast_diagram, piecewise, plane


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


@pytest.mark.slow
@pytest.mark.parametrize("look", [BEFORE, AFTER], ids=["before", "after"])
@pytest.mark.parametrize("name", [*PLOTS, *FORECAST_PLOTS])
def test_the_legend_of_two_overlaid_diagrams_shows_what_is_drawn(name: str, look: Look) -> None:
    drawn_data = (diagram(name) if name in PLOTS else forecast_diagram(name, "normal"))["data"]
    plot, drawn = plot_of(name, drawn_data), Recorder()
    plot.show(drawn, drawn_data, look)  # type: ignore[arg-type]
    mark = plot.mark(drawn_data, look)
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
    shown_diagram: Any = (calibrant.evaluate(p, y, diagrams=[{"name": name, "level": level}]).diagrams or {})[name]
    labels = [key.label for key in plot_of(name).keys(shown_diagram["data"], shown_diagram["definition"], BEFORE)]
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
    plain = diagram("fit-on-test"), PLAIN
    drawn = draw_several("fit-on-test", [plain, (piecewise(), PLAIN)]).content.decode()
    assert ">knots<" in drawn


def test_a_slope_below_zero_has_a_minus_sign() -> None:
    points = {**diagram("logit-logit")["data"], "slope": -0.46, "intercept": -0.1}
    labels = [key.label for key in plot_of("logit-logit").keys(points, {}, BEFORE)]
    assert "Platt scaling: slope \N{MINUS SIGN}0.46, intercept \N{MINUS SIGN}0.10" in labels


def test_alarms_have_a_colour_that_no_line_has() -> None:
    line = {"name": "observed", "values": [0.1, 0.2], "intervals": None}
    chart: dict[str, Any] = {"title": "t", "axis": "a", "filled": False, "bound": None, "alarms": [1.5], "empty": ""}
    chart |= {"spans": [(0.0, 1.0), (1.0, 2.0)], "lines": [line, {**line, "name": "predicted"}]}
    drawn = draw_timeline(chart).content.decode()
    assert drawn.count('stroke="var(--picture-fourth,') == 2


RANDOM = np.random.default_rng(3)


def shown(name: str, p: Any, y: Any) -> dict[str, Any]:
    """A diagram of a report."""
    of_rows: dict[str, Any] = dict((calibrant.evaluate(p, y, diagrams=[name]).diagrams or {})[name])
    return of_rows


def test_an_interval_that_leaves_the_lower_half_widens_the_axes() -> None:
    points = shown("reliability", [0.3] * 20, [0, 1] * 10)["data"]
    assert max(points["observed_frequency"]) == 0.5
    assert max(points["high"]) > 0.6
    assert plot_of("reliability").window([points]) == ((0.0, 1.0), (0.0, 1.0))
    p = np.linspace(0.52, 0.99, 60)
    points = shown("fit-on-test", p, (np.arange(60) % 3 > 0).astype(int))["data"]
    (_, _), (low, high) = plot_of("fit-on-test").window([points])
    assert low <= min(points["low"])
    assert max(points["high"]) <= high


def test_axes_of_rare_events_end_near_them() -> None:
    p, y = RANDOM.random(20_000) * 2e-4, (np.arange(20_000) % 5000 == 0).astype(int)
    for name in ("reliability", "corp", "fit-on-test"):
        (_, right), (_, top) = plot_of(name).window([shown(name, p, y)["data"]])
        assert right == top <= 0.02
    assert half_window([(0.9991, 1.0, 0.9985, 1.0)])[0] == pytest.approx((0.998, 1.0))
    assert half_window([(0.0, 0.0, 0.0, 0.0)])[0] == (0.0, 0.05)


def test_the_last_bin_of_rare_events_ends_near_its_rows() -> None:
    p = np.linspace(0.0, 2e-4, 4000)
    points = shown("reliability", p, (np.arange(4000) % 400 == 0).astype(int))["data"]
    assert points["end"][-1] == 1.0
    canvas = Canvas(400)
    panel = Panel(canvas, (0.0, 0.0, 1000.0, 1000.0), (0.0, 4e-4), (0.0, 0.02))
    plot_of("reliability").show(panel, points, BEFORE)
    roofs = canvas._shapes[-3].path.vertices
    assert roofs[:, 0].max() == pytest.approx(500.0, abs=1.0)


def test_graphs_of_equal_scores_show_their_probability() -> None:
    single = draw("ks-graphs", shown("ks-graphs", [0.3] * 20, [0, 1] * 10), Caption(20, "binary")).content.decode()
    different = draw(
        "ks-graphs", shown("ks-graphs", [0.3, 0.4] * 10, [0, 1] * 10), Caption(20, "binary")
    ).content.decode()
    assert _circles(single) == _circles(different) + 1


def test_graphs_of_high_scores_have_axes_that_start_near_them() -> None:
    p = np.linspace(0.985, 0.999, 500)
    drawn = draw("ks-graphs", shown("ks-graphs", p, (np.arange(500) % 50 > 0).astype(int)), Caption(500, "binary"))
    assert len(re.findall(r">0\.9\d*<", drawn.content.decode())) >= 4


@pytest.mark.parametrize("wide", [320, 390, 560])
@pytest.mark.parametrize("name", ["reliability", "ks-graphs", "corp", "fit-on-test"])
def test_labels_of_the_x_axis_neither_overlap_nor_leave_the_picture(name: str, wide: int) -> None:
    p, y = RANDOM.random(4000) * 2e-6, (np.arange(4000) % 1500 == 0).astype(int)
    drawn = draw(name, shown(name, p, y), Caption(4000, "binary"), width=wide).content.decode()
    rows: dict[str, list[tuple[float, float]]] = {}
    for x, line, label in re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*text-anchor="middle">([^<]*)<', drawn):
        half = width(label, SMALL) / 2.0
        rows.setdefault(line, []).append((float(x) - half, float(x) + half))
    assert rows
    for ends in rows.values():
        in_order = sorted(ends)
        assert in_order[0][0] >= -0.1
        assert in_order[-1][1] <= wide + 0.1
        assert all(before < after for (_, before), (after, _) in itertools.pairwise(in_order))


def _circles(drawn: str) -> int:
    return sum(path.count("L") == 15 for path in re.findall(r'<path d="([^"]*)"', drawn))
