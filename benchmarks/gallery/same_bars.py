"""Three classifiers that an ordinary reliability diagram cannot tell apart (the paper's Figure 4)."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant
from benchmarks.gallery.layout import Grid
from benchmarks.gallery.worlds import Bars, same_bars
from calibrant.plots.canvas import Canvas, Drawn, Format, Points, Theme
from calibrant.plots.panel import CALIBRATED, UNIT, Key, Panel, decimal, evenly, heading, values
from calibrant.plots.reliability import radii

_BINS = 5
#: Heights in pixels of a panel of bars, and of one of rows.
_BARS, _ROWS = 168.0, 46.0


def equal_bars(form: Format, theme: Theme, width: int) -> Drawn:
    """Bars; bars with mean predictions; rows a bin; diagonal filling: what each shows of the three."""
    classifiers = same_bars()
    bins = [_bins(classifier) for classifier in classifiers]
    canvas = Canvas(width, theme=theme, form=form)
    title = "The same bars, three different errors"
    keys = [
        Key("observed frequency", "rule"),
        Key("mean prediction", "second", "dot"),
        Key("error", "first-tint", "area"),
        CALIBRATED,
    ]
    grid = Grid(canvas, heading(canvas, title, ["n = 1,000 each · binary · 5 bins of equal width"], keys), 3)
    captions = [
        (classifier.title, f"ECE {decimal(diagram['ece'])}")
        for classifier, diagram in zip(classifiers, bins, strict=True)
    ]
    top = _row(grid, captions, bins, dots=False)
    top = _row(Grid(canvas, top, 3), [("", "")] * 3, bins, dots=True)
    top = _counts(Grid(canvas, top, 3), bins)
    top = _row(Grid(canvas, top, 3), [("", "")] * 3, bins, dots=True, filled=True)
    errors = "; ".join(
        f"{classifier.title}: {decimal(diagram['ece'])}" for classifier, diagram in zip(classifiers, bins, strict=True)
    )
    alt = (
        f"{title}. Three classifiers whose five bins have the observed frequencies 0.1, 0.3, 0.5, 0.7 and 0.9; ECE of "
        f"each: {errors}. Four rows of panels: bars alone, which are equal; bars with the mean prediction of each bin; "
        "the share of the rows in each bin; and diagonal filling, whose distance from the diagonal, weighted by rows, "
        "is the ECE."
    )
    return canvas.drawn(top, title, alt)


def _row(grid: Grid, captions: Any, bins: list[dict[str, Any]], *, dots: bool, filled: bool = False) -> float:
    for i, (panel, diagram) in enumerate(zip(grid.panels(captions, height=_BARS), bins, strict=True)):
        start, end, up, mean = (
            values(diagram[name]) for name in ("start", "end", "observed_frequency", "mean_prediction")
        )
        bars = np.stack([start, end, end, start], 1), np.stack([0.0 * up, 0.0 * up, up, up], 1)
        if filled:
            _fill(panel, diagram, start, end)
        panel.canvas.polygon(list(panel.at(*bars)), None if filled else "faint", stroke="rule")
        panel.diagonal()
        if filled:
            roofs = np.stack([values(diagram["roof_start"]), values(diagram["roof_end"])], 1)
            panel.pieces(np.stack([start, end], 1), roofs, "first", width=2.0)
        if dots:
            panel.dots(mean, up, radii(values(diagram["share"])), "second", stroke="paper")
        panel.base(evenly(*UNIT, 3), "predicted probability" if filled else "")
        if i == 0:
            panel.side(evenly(*UNIT, 4), "observed frequency")
    return grid.below(_BARS) - (0.0 if filled else 36.0)


def _fill(panel: Panel, diagram: dict[str, Any], start: Points, end: Points) -> None:
    """The area between each roof and the diagonal."""
    roofs = values(diagram["roof_end"]), values(diagram["roof_start"])
    panel.areas(np.stack([start, end, end, start], 1), np.stack([start, end, *roofs], 1), "first-tint")


def _counts(grid: Grid, bins: list[dict[str, Any]]) -> float:
    for i, (panel, diagram) in enumerate(zip(grid.panels([("", "")] * 3, height=_ROWS), bins, strict=True)):
        left, right, share = values(diagram["start"]) + 0.01, values(diagram["end"]) - 0.01, values(diagram["share"])
        zero = 0.0 * share
        panel.areas(np.stack([left, right, right, left], 1), np.stack([zero, zero, share, share], 1), "first-tint")
        panel.base(evenly(*UNIT, 3))
        if i == 0:
            panel.side(((0.0, 1.0), ("0", "100 %")))
    return grid.below(_ROWS) - 36.0


def _bins(bars: Bars) -> dict[str, Any]:
    asked = [{"name": "reliability", "binning": "equal-width", "n_bins": _BINS}]
    report = calibrant.evaluate(bars.p, bars.y.astype(np.int64), measures=["ks"], diagrams=asked)
    diagram: dict[str, Any] = report.diagrams["reliability"]["data"]
    return diagram
