"""Axes contain what is drawn on them, and their labels neither overlap nor leave the picture."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.plots.canvas import SMALL, About, Canvas, width
from calibrant.plots.diagram import draw, plot_of
from calibrant.plots.panel import BEFORE, Panel, half_window

RANDOM = np.random.default_rng(3)


def shown(name: str, p: Any, y: Any) -> dict[str, Any]:
    """A diagram of a report."""
    found: dict[str, Any] = dict((calibrant.evaluate(p, y, diagrams=[name]).diagrams or {})[name])
    return found


def test_an_interval_that_leaves_the_lower_half_widens_the_axes() -> None:
    data = shown("reliability", [0.3] * 20, [0, 1] * 10)["data"]
    assert max(data["observed_frequency"]) == 0.5
    assert max(data["high"]) > 0.6
    assert plot_of("reliability").window([data]) == ((0.0, 1.0), (0.0, 1.0))
    p = np.linspace(0.52, 0.99, 60)
    data = shown("fit-on-test", p, (np.arange(60) % 3 > 0).astype(int))["data"]
    (_, _), (low, high) = plot_of("fit-on-test").window([data])
    assert low <= min(data["low"])
    assert max(data["high"]) <= high


def test_axes_of_rare_events_end_near_them() -> None:
    p, y = RANDOM.random(20_000) * 2e-4, (np.arange(20_000) % 5000 == 0).astype(int)
    for name in ("reliability", "corp", "fit-on-test"):
        (_, right), (_, top) = plot_of(name).window([shown(name, p, y)["data"]])
        assert right == top <= 0.02
    assert half_window([(0.9991, 1.0, 0.9985, 1.0)])[0] == pytest.approx((0.998, 1.0))
    assert half_window([(0.0, 0.0, 0.0, 0.0)])[0] == (0.0, 0.05)


def test_the_last_bin_of_rare_events_ends_near_its_rows() -> None:
    p = np.linspace(0.0, 2e-4, 4000)
    data = shown("reliability", p, (np.arange(4000) % 400 == 0).astype(int))["data"]
    assert data["end"][-1] == 1.0
    canvas = Canvas(400)
    panel = Panel(canvas, (0.0, 0.0, 1000.0, 1000.0), (0.0, 4e-4), (0.0, 0.02))
    plot_of("reliability").show(panel, data, BEFORE)
    roofs = canvas._shapes[-3].path.vertices
    assert roofs[:, 0].max() == pytest.approx(500.0, abs=1.0)


def test_graphs_of_equal_scores_show_their_probability() -> None:
    one = draw("ks-graphs", shown("ks-graphs", [0.3] * 20, [0, 1] * 10), About(20, "binary")).content.decode()
    two = draw("ks-graphs", shown("ks-graphs", [0.3, 0.4] * 10, [0, 1] * 10), About(20, "binary")).content.decode()
    assert _circles(one) == _circles(two) + 1


def test_graphs_of_high_scores_have_axes_that_start_near_them() -> None:
    p = np.linspace(0.985, 0.999, 500)
    drawn = draw("ks-graphs", shown("ks-graphs", p, (np.arange(500) % 50 > 0).astype(int)), About(500, "binary"))
    assert len(re.findall(r">0\.9\d*<", drawn.content.decode())) >= 4


@pytest.mark.parametrize("wide", [320, 390, 560])
@pytest.mark.parametrize("name", ["reliability", "ks-graphs", "corp", "fit-on-test"])
def test_labels_of_the_x_axis_neither_overlap_nor_leave_the_picture(name: str, wide: int) -> None:
    p, y = RANDOM.random(4000) * 2e-6, (np.arange(4000) % 1500 == 0).astype(int)
    drawn = draw(name, shown(name, p, y), About(4000, "binary"), width=wide).content.decode()
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
