"""Shapes and calibration maps in probability space and in logit-logit space."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from scipy.special import expit, logit

import calibrant
from benchmarks.gallery.layout import Grid
from benchmarks.gallery.own import diagram_of
from benchmarks.gallery.worlds import of_the_paper
from benchmarks.tables.datasets import SHAPES, Floats
from calibrant.core.synthetic import FULL_ERRORS
from calibrant.diagrams.reliability import end_slopes, on_logit_axes
from calibrant.maps.beta import Beta
from calibrant.plots.canvas import SERIES, Canvas, Drawn, Format, Theme
from calibrant.plots.logit import places
from calibrant.plots.panel import CALIBRATED, UNIT, Key, Panel, Range, decimal, evenly, heading

_GRID = np.linspace(0.0, 1.0, 401)
_TRUTH = Key("true calibration map", "ink")
#: The mixtures with the identity that the paper draws, by their expected error.
_DERIVATES = (0.03, 0.07)
#: The maps of the two rows of the picture of two spaces.
_SMOOTH = (("PL3", "pl3"), ("beta", "beta"), ("Platt", "platt"))
_LOCAL = (("PL", "pl"), ("isotonic", "isotonic"), ("bins (CV)", "es-cv"))
_DASHES = (None, (7.0, 2.0), (2.0, 2.0))
#: The logits shown, and the logit at which the true map of the picture of two spaces is bent.
_LOGITS: Range = (-15.0, 15.0)
_BEND = -3.0
#: Pixels left of the panel of logits, whose y axis has long labels.
_BETWEEN = 96.0


def base_shapes(form: Format, theme: Theme, width: int) -> Drawn:
    """The five shapes of the synthetic data (the paper's Figure D1)."""
    canvas = Canvas(width, theme=theme, form=form)
    title = "The five shapes of the synthetic data"
    mixed = [
        Key(f"mixed with the identity, error {error:g}", SERIES[i], dash=_DASHES[i])
        for i, error in enumerate(_DERIVATES, 1)
    ]
    top = heading(canvas, title, ["true probability against prediction"], [Key("shape", "first"), *mixed, CALIBRATED])
    grid = Grid(canvas, top, 5)
    captions = [(name, f"full error {decimal(FULL_ERRORS[name])}") for name in SHAPES]
    for i, (panel, (name, shape)) in enumerate(zip(grid.panels(captions), SHAPES.items(), strict=True)):
        panel.diagonal()
        panel.line(shape(_GRID), _GRID, "first", width=2.0)
        if name == "stairs":
            for error, key in zip(_DERIVATES, mixed, strict=True):
                w = error / FULL_ERRORS[name]
                panel.line((1.0 - w) * _GRID + w * shape(_GRID), _GRID, key.colour, width=1.4, dash=key.dash)
        panel.base(evenly(*UNIT, 3), "prediction")
        if i == 0:
            panel.side(evenly(*UNIT, 4), "probability of label 1")
    errors = "; ".join(f"{name} {decimal(error)}" for name, error in FULL_ERRORS.items())
    alt = (
        f"{title}. Five panels with the true probability of label 1 against the prediction, the inverse of the shape. "
        f"Expected calibration error of each full shape for uniform true probabilities: {errors}. The last panel also "
        "shows stairs mixed with the identity to errors of 0.03 and 0.07."
    )
    return canvas.drawn(grid.below(), title, alt)


def pl3_on_logit_axes(form: Format, theme: Theme, width: int) -> Drawn:
    """PL3 of the rows of the first picture, on logit axes (the paper's Figure 2c)."""
    return diagram_of({"name": "logit-logit", "method": "pl3"}, form, theme, width, of_the_paper)


def beta_map(form: Format, theme: Theme, width: int) -> Drawn:
    """A map of beta calibration in both spaces (the paper's Figure E7)."""
    curve = Beta(0.3, 1.4, 0.0)
    x, y = on_logit_axes(curve, *expit(np.array(_LOGITS)).tolist())
    start, end = end_slopes(x, y)
    canvas = Canvas(width, theme=theme, form=form)
    title = "Beta calibration is nearly piecewise linear in logit-logit space"
    top = heading(canvas, title, ["a = 0.3, b = 1.4, c = 0"], [Key("map", "first"), CALIBRATED])
    grid = Grid(canvas, top, 2, _BETWEEN)
    slopes = f"slopes {decimal(start or 0.0)} and {decimal(end or 0.0)} at the ends"
    in_space, in_logits = _both(grid, ("(a) probabilities", "a curve"), ("(b) logits", slopes))
    in_space.line(_GRID, curve(_GRID), "first", width=2.0)
    in_logits.line(x, y, "first", width=2.0)
    alt = (
        f"{title}. Two panels of the map logistic(0.3 ln p - 1.4 ln(1 - p)). (a) In probability space it is a curve. "
        f"(b) On logit axes it is nearly two straight lines that meet at p = 1/2, with {slopes}."
    )
    return canvas.drawn(grid.below(), title, alt)


def two_spaces(form: Format, theme: Theme, width: int) -> Drawn:
    """Fitted maps of predictions near 0 and 1, in both spaces (the paper's Figure 4)."""
    p, labels = network_like()
    x = np.linspace(*_LOGITS, 401)
    keys = [
        Key(f"{letters}: {label}", SERIES[i], dash=_DASHES[i])
        for letters, methods in (("a, b", _SMOOTH), ("c, d", _LOCAL))
        for i, (label, _) in enumerate(methods)
    ]
    canvas = Canvas(width, theme=theme, form=form)
    title = "Maps of predictions near 0 and 1"
    top = heading(canvas, title, [f"n = {len(p):,} · binary"], [_TRUTH, *keys, CALIBRATED])
    summaries = []
    for letters, methods, own in (("ab", _SMOOTH, keys[:3]), ("cd", _LOCAL, keys[3:])):
        fitted = [calibrant.fit(method, p, labels).curve for _, method in methods]
        off = [decimal(float(np.abs(curve(p) - truth_of(p)).mean())) for curve in fitted]
        text = ", ".join(f"{label} {distance}" for (label, _), distance in zip(methods, off, strict=True))
        grid = Grid(canvas, top, 2, _BETWEEN)
        in_space, in_logits = _both(
            grid, (f"({letters[0]}) probabilities", f"off by: {text}"), (f"({letters[1]}) logits", "the same maps")
        )
        for curve, key in zip(fitted, own, strict=True):
            calibrated = np.clip(curve(expit(x)), 1e-16, 1.0 - 1e-16)
            in_space.line(expit(x), calibrated, key.colour, width=1.8, dash=key.dash)
            in_logits.line(x, logit(calibrated), key.colour, width=1.8, dash=key.dash)
        in_space.line(expit(x), truth_of(expit(x)), "ink", width=1.2)
        in_logits.line(x, logit(truth_of(expit(x))), "ink", width=1.2)
        top = grid.below()
        summaries.append(text)
    alt = (
        f"{title}. Two rows of two panels: maps fitted to {len(p):,} rows whose true map is bent at a logit of "
        f"{_BEND:g}, in probability space and on logit axes, which show the differences near 0 and 1. Mean distance "
        f"of each map from the truth: {', '.join(summaries)}."
    )
    return canvas.drawn(top, title, alt)


@cache
def network_like() -> tuple[Floats, Floats]:
    """10,000 predictions of one class of ten, most of them near 0 or 1, and labels drawn from the true map."""
    random = np.random.default_rng(0)
    positive = random.random(10_000) < 0.1
    p = expit(np.where(positive, random.normal(6.0, 4.0, 10_000), random.normal(-7.0, 3.5, 10_000)))
    return p, (random.random(10_000) < truth_of(p)).astype(np.float64)


def truth_of(p: Floats) -> Floats:
    """The true probability at predictions ``p``: two straight lines on logit axes, which meet at ``_BEND``."""
    z = logit(np.clip(p, 1e-16, 1.0 - 1e-16))
    truth: Floats = expit(np.where(z < _BEND, _BEND + 0.25 * (z - _BEND), z - 0.4 * (z - _BEND)))
    return truth


def _both(grid: Grid, first: tuple[str, str], other: tuple[str, str]) -> tuple[Panel, Panel]:
    in_space, square = grid.panels((first, other))
    in_logits = replace(square, x=_LOGITS, y=_LOGITS)
    for panel in (in_space, in_logits):
        panel.diagonal()
    in_space.base(evenly(*UNIT, 6), "predicted probability")
    in_space.side(evenly(*UNIT, 6), "calibrated probability")
    marks = places(*_LOGITS, 5)
    in_logits.base(marks, "predicted probability (logit scale)")
    in_logits.side(marks, "calibrated probability (logit scale)")
    return in_space, in_logits
