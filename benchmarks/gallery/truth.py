"""Pictures of rows whose true calibration map is known: errors row by row, and each method's map over the truth."""

from __future__ import annotations

from typing import Any

import numpy as np

import calibrant
from benchmarks.gallery.layout import Grid
from benchmarks.gallery.worlds import GalleryFit, fitted, of_the_paper, strong, truth
from benchmarks.tables.datasets import SimulatedData
from calibrant.plots.canvas import Canvas, Drawn, Format, Theme
from calibrant.plots.panel import CALIBRATED, UNIT, Key, Panel, decimal, evenly, heading, values

#: Rows whose error is drawn, of all; lines closer than a pixel say no more.
_LINES = 100
_TRUTH = Key("true calibration map", "ink")
_ERRORS = Key("error", "second")
#: The methods over the truth: what the picture calls them, their name and options.
METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("15 bins of equal mass", "histogram", {"n_bins": 15, "slope": "unit"}),
    ("bins by monotonic sweep", "es-sweep", {}),
    ("bins by cross-validation", "es-cv", {}),
    ("isotonic", "isotonic", {}),
    ("Platt", "platt", {}),
    ("beta", "beta", {}),
    ("PL", "pl", {}),
    ("averaged", "averaged", {}),
)
_BINNED = ("histogram", "es-sweep", "es-cv", "ew-cv")
#: The bins of the paper's Figure 1.
_BINS = 10
_CUT: dict[str, Any] = {"binning": "equal-width", "n_bins": _BINS}
#: The maps of the paper's Figure 2: the method, and what it chooses the number of.
_CHOSEN = (("EW_CV", "ew-cv", "bins"), ("PL", "pl", "pieces"), ("PL3", "pl3", "pieces"))


def row_errors(form: Format, theme: Theme, width: int) -> Drawn:
    """What a calibration error is, and what a reliability diagram shows of it (the paper's Figure 1)."""
    data = of_the_paper()
    bins = _bins(data)
    error = float(np.abs(data.p - data.c).mean())
    canvas = Canvas(width, theme=theme, form=form)
    title = "The calibration error of rows, and of bins"
    top = heading(canvas, title, ["n = 3,000 · binary · shape beta2"], [_ERRORS, _TRUTH, CALIBRATED])
    grid = Grid(canvas, top, 2)
    first, other = grid.panels(
        (
            ("(a) the truth", f"mean length {decimal(error)}: the error"),
            (f"(b) {_BINS} bins of equal width", f"weighted mean length {decimal(bins['ece'])}: the ECE"),
        )
    )
    for panel in (first, other):
        panel.diagonal()
        panel.base(evenly(*UNIT, 6), "predicted probability")
    first.side(evenly(*UNIT, 6), "probability of label 1")
    shown = np.linspace(0, len(data.p) - 1, _LINES).astype(int)
    _errors(first, data.p[shown], data.p[shown], data.c[shown])
    first.line(*truth(data), "ink", width=2.0)
    _bars(other, bins)
    _errors(other, bins["mean_prediction"], bins["mean_prediction"], bins["observed_frequency"], width=2.2)
    alt = (
        f"{title}. Two panels of the same 3,000 rows. (a) Lines from the diagonal to the true calibration map, "
        f"one for each of 100 rows; over all rows their mean length is the calibration error, {decimal(error)}. (b) A "
        f"reliability diagram of {_BINS} bins of equal width with a line from mean prediction to observed frequency in "
        f"each; their mean length is the ECE, {decimal(bins['ece'])}. The first bin has a height of "
        f"{bins['observed_frequency'][0]:.3f} at a mean prediction of {bins['mean_prediction'][0]:.3f}."
    )
    return canvas.drawn(grid.below(), title, alt)


def slopes(form: Format, theme: Theme, width: int) -> Drawn:
    """Roofs of slope 0 and of slope 1 over the same bins (the paper's Figure 3)."""
    data = of_the_paper()
    bins = _bins(data)
    flat, unit = (fitted(data, "histogram", {**_CUT, "slope": slope}) for slope in ("flat", "unit"))
    canvas = Canvas(width, theme=theme, form=form)
    title = "Why a bin's roof has slope 1"
    top = heading(
        canvas, title, [f"n = 3,000 · binary · {_BINS} bins of equal width"], [_ERRORS, Key("map", "first"), CALIBRATED]
    )
    grid = Grid(canvas, top, 3)
    captions = (
        ("(a) bins", f"mean length {decimal(bins['ece'])}"),
        ("(b) slope 0", f"mean length {decimal(flat.error)}"),
        ("(c) slope 1", f"mean length {decimal(unit.error)}"),
    )
    shown = np.linspace(0, len(data.p) - 1, 61).astype(int)
    for i, panel in enumerate(grid.panels(captions)):
        panel.diagonal()
        panel.base(evenly(*UNIT, 4), "predicted probability")
        if i == 0:
            panel.side(evenly(*UNIT, 6), "observed frequency")
            _bars(panel, bins)
            _errors(panel, bins["mean_prediction"], bins["mean_prediction"], bins["observed_frequency"], width=2.2)
            continue
        tilt = 1.0 if i == 2 else 0.0
        start, end, at, up = (values(bins[name]) for name in ("start", "end", "mean_prediction", "observed_frequency"))
        p = data.p[shown]
        k = np.clip(np.searchsorted(start, p, side="right") - 1, 0, len(start) - 1)
        _errors(panel, p, p, up[k] + tilt * (p - at[k]))
        panel.pieces(
            np.stack([start, end], 1),
            np.stack([up + tilt * (start - at), up + tilt * (end - at)], 1),
            "first",
            width=2.2,
        )
    alt = (
        f"{title}. Three panels of the same rows and {_BINS} bins. (a) From mean prediction to observed frequency, the "
        f"mean length is {decimal(bins['ece'])}, the ECE. (b) From the diagonal to flat lines row by row it is "
        f"{decimal(flat.error)}. "
        f"(c) To lines of slope 1 it is {decimal(unit.error)}, the ECE again: each line is as long as that of its bin."
    )
    return canvas.drawn(grid.below(), title, alt)


def chosen_maps(form: Format, theme: Theme, width: int) -> Drawn:
    """Maps with a cross-validated number of bins or pieces over the true one (the paper's Figure 2)."""
    data = of_the_paper()
    error = float(np.abs(data.p - data.c).mean())
    canvas = Canvas(width, theme=theme, form=form)
    title = "Bins and pieces by cross-validation"
    line = f"n = {data.n:,} · binary · true calibration error {error:.4f}"
    top = heading(canvas, title, [line], [Key("map", "first"), _TRUTH, CALIBRATED])
    grid, texts, captions, maps = Grid(canvas, top, 3), [], [], []
    for letter, (name, method, what) in zip("abc", _CHOSEN, strict=True):
        fit = fitted(data, method)
        off = f"error off by {abs(fit.error - error):.4f}, map by {fit.away:.4f}"
        maps.append(fit)
        captions.append((f"({letter}) {name}: {fit.parts} {what}", off))
        texts.append(f"{name} with {fit.parts} {what}, {off}")
    for i, (panel, fit) in enumerate(zip(grid.panels(captions), maps, strict=True)):
        _over(panel, data, fit)
        panel.base(evenly(*UNIT, 4), "predicted probability")
        if i == 0:
            panel.side(evenly(*UNIT, 6), "probability")
    alt = (
        f"{title}. Three panels of {data.n:,} rows with true calibration error {error:.4f}, with a fitted map over the "
        f"true one. How far the reported error is from the true error, and the map from the true map on average: "
        f"{'; '.join(texts)}."
    )
    return canvas.drawn(grid.below(), title, alt)


def over_the_truth(shape: str, form: Format, theme: Theme, width: int) -> Drawn:
    """Every method's map over the true one (the paper's Figures 9 to 13)."""
    data = strong(shape)
    maps = [(label, fitted(data, method, options)) for label, method, options in METHODS]
    error = float(np.abs(data.p - data.c).mean())
    canvas = Canvas(width, theme=theme, form=form)
    title = f"Eight methods over the known truth: {shape}"
    line = f"n = 10,000 · binary · true calibration error {decimal(error)}"
    top = heading(
        canvas,
        title,
        [line],
        [Key("map of the method", "first"), Key("what it reports", "first-tint", "area"), _TRUTH, CALIBRATED],
    )
    grid = Grid(canvas, top, 4)
    for row in (maps[:4], maps[4:]):
        captions = [(label, f"says {decimal(f.error)}, off by {decimal(f.away)}") for label, f in row]
        for i, (panel, (_, fit)) in enumerate(zip(grid.panels(captions), row, strict=True)):
            _over(panel, data, fit)
            panel.base(evenly(*UNIT, 3), "predicted probability")
            if i == 0:
                panel.side(evenly(*UNIT, 4), "probability")
        grid = Grid(canvas, grid.below(), 4)
    errors_by_label = "; ".join(f"{label} {decimal(f.error)}, {decimal(f.away)}" for label, f in maps)
    alt = (
        f"{title}. 10,000 rows, true calibration error {decimal(error)}. The error that each method reports, and the "
        f"mean distance of its map from the truth: {errors_by_label}."
    )
    return canvas.drawn(grid.top, title, alt)


def _over(panel: Panel, data: SimulatedData, fit: GalleryFit) -> None:
    panel.between(fit.p, fit.p, fit.calibrated, "first-tint")
    panel.diagonal()
    panel.line(*truth(data), "ink", width=1.2)
    if fit.method in _BINNED:  # roofs, with nothing between them
        jumps = np.flatnonzero(np.abs(np.diff(fit.calibrated)) > 2.5 * np.diff(fit.p)) + 1
        for p, c in zip(np.split(fit.p, jumps), np.split(fit.calibrated, jumps), strict=True):
            panel.line(p, c, "first", width=2.0)
        return
    panel.line(fit.p, fit.calibrated, "first", width=2.0)


def _bins(data: SimulatedData) -> dict[str, Any]:
    asked = [{"name": "reliability", **_CUT}]
    diagram: dict[str, Any] = calibrant.evaluate(data.p, data.y, measures=["ks"], diagrams=asked).diagrams[
        "reliability"
    ]["data"]
    return diagram


def _bars(panel: Panel, bins: dict[str, Any]) -> None:
    start, end, up = (values(bins[name]) for name in ("start", "end", "observed_frequency"))
    corners = np.stack([start, end, end, start], 1), np.stack([0.0 * up, 0.0 * up, up, up], 1)
    panel.canvas.polygon(list(panel.at(*corners)), "faint", stroke="rule", width=0.8)
    panel.diagonal()


def _errors(panel: Panel, x: Any, low: Any, high: Any, *, width: float = 1.0) -> None:
    at = values(x)
    panel.pieces(np.stack([at, at], 1), np.stack([values(low), values(high)], 1), "second", width=width)
