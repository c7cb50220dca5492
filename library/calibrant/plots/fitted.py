"""The fit-on-test diagram: a map fitted to the rows; the area between the map and the diagonal is the error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.plots.panel import (
    BORDER,
    CALIBRATED,
    Data,
    Key,
    Look,
    Panel,
    Plot,
    decimal,
    draw_borders,
    half_window_of,
    level_in,
    plain_mark,
    spread,
    values,
)

#: Points of a curve in the alternative text.
_DESCRIBED = 9


def show(panel: Panel, data: Data, look: Look) -> None:
    """Draw the filling, the map, its band, and the knots of a piecewise linear map."""
    p, calibrated = values(data["predictions"]), values(data["calibrated"])
    if len(p) == 1:
        panel.dots(p, calibrated, 4.0, look.colour, stroke="paper", square=look.square)
        return
    if data["low"] is not None and look.hatch is None:
        panel.between(p, data["low"], data["high"], "band")
    panel.between(p, p, calibrated, None if look.hatch else look.tint, hatch=look.hatch, stroke=look.tint)
    if data["low"] is not None:
        draw_borders(panel, p, data["low"], data["high"], look)
    panel.line(p, calibrated, look.colour, width=2.0, dash=look.dash)
    knots, heights = knots_of(data)
    if len(knots):
        panel.dots(knots, heights, 2.6, "paper", stroke=look.colour, square=look.square)


def knots_of(data: Data) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the inner knots of all averaged piecewise linear curves, and the map there; empty for other families."""
    parameters = data.get("parameters")
    if data["family"] not in ("pl", "pl3") or not parameters:
        return np.empty(0), np.empty(0)
    inner = [values(model["knots"])[1:-1] for model in parameters["models"]]
    knots = np.unique(np.concatenate(inner)) if inner else np.empty(0)
    if data["family"] == "pl3":
        knots = 1.0 / (1.0 + np.exp(-knots))
    p = values(data["predictions"])
    knots = knots[(knots > p[0]) & (knots < p[-1])]
    return knots, np.interp(knots, p, values(data["calibrated"]))


def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key(f"{family(data, definition)} map", look.colour), Key("calibration gap", look.tint, "area")]
    if data["low"] is not None:
        marks.append(Key(f"{level_in(definition)} band", look.colour, dash=BORDER))
    if len(knots_of(data)[0]):
        marks.append(Key("knots", look.colour, "ring"))
    return [*marks, CALIBRATED]


def family(data: Data, definition: Mapping[str, Any]) -> str:
    """Return the name of the method."""
    return str(definition.get("method", data["family"]))


def describe(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the map at a few predictions, its errors and its knots."""
    knots = knots_of(data)[0]
    debiased, identity = data["alpha_1_debiased"], data["identity_probability"]
    size = f"{decimal(data['alpha_1'])} on average" + ("" if debiased is None else f", debiased {decimal(debiased)}")
    belief = f" The posterior probability that the predictions are calibrated is {decimal(identity or 0.0)}."
    bends = f" It has {len(knots)} knots from {decimal(knots[0])} to {decimal(knots[-1])}." if len(knots) else ""
    return (
        f"The {family(data, definition)} map fitted to these rows differs from the predictions by "
        f"{size}; the mean squared difference is {decimal(data['alpha_2'])}.{'' if identity is None else belief}"
        f"{bends} {described_curve(data, 'band ')}"
    )


def described_curve(data: Data, band: str = "") -> str:
    """Describe a curve at a few predictions, with its band, whose limits follow the word ``band``."""
    p, calibrated = values(data["predictions"]), values(data["calibrated"])
    at = spread(len(p), _DESCRIBED)
    points = [f"{decimal(p[i])} to {decimal(calibrated[i])}" for i in at]
    if data["low"] is not None:
        limits = [f" ({band}{decimal(data['low'][i])} to {decimal(data['high'][i])})" for i in at]
        points = [point + limit for point, limit in zip(points, limits, strict=True)]
    return f"Prediction to calibrated probability: {'; '.join(points)}."


FITTED = Plot(
    "Fit-on-test diagram",
    ("predicted probability", "calibrated probability"),
    lambda data: ("mean |c(p) \N{MINUS SIGN} p|", float(data["alpha_1"])),
    show,
    keys,
    describe,
    lambda shown: half_window_of(shown, ["predictions"], ["calibrated", "low", "high"]),
    mark=plain_mark,
)
