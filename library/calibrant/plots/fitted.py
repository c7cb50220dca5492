"""Diagrams of curves that are fitted to the rows: fit-on-test, CORP, calibration belt and smooth curve."""

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
    count,
    decimal,
    draw_borders,
    half_window_of,
    level_in,
    level_text,
    percent,
    plain_mark,
    spread,
    values,
)

# --- The fit-on-test diagram: the area between the map and the diagonal is the error

#: Points of a curve in the alternative text.
_DESCRIBED = 9


def _show_map(panel: Panel, data: Data, look: Look) -> None:
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


def _map_keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key(f"{_family(data, definition)} map", look.colour), Key("calibration gap", look.tint, "area")]
    if data["low"] is not None:
        marks.append(Key(f"{level_in(definition)} band", look.colour, dash=BORDER))
    if len(knots_of(data)[0]):
        marks.append(Key("knots", look.colour, "ring"))
    return [*marks, CALIBRATED]


def _family(data: Data, definition: Mapping[str, Any]) -> str:
    """Return the name of the method."""
    return str(definition.get("method", data["family"]))


def _describe_map(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the map at a few predictions, its errors and its knots."""
    knots = knots_of(data)[0]
    debiased, identity = data["alpha_1_debiased"], data["identity_probability"]
    size = f"{decimal(data['alpha_1'])} on average" + ("" if debiased is None else f", debiased {decimal(debiased)}")
    belief = f" The posterior probability that the predictions are calibrated is {decimal(identity or 0.0)}."
    bends = f" It has {len(knots)} knots from {decimal(knots[0])} to {decimal(knots[-1])}." if len(knots) else ""
    return (
        f"The {_family(data, definition)} map fitted to these rows differs from the predictions by "
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
    _show_map,
    _map_keys,
    _describe_map,
    lambda shown: half_window_of(shown, ["predictions"], ["calibrated", "low", "high"]),
    mark=plain_mark,
)

# --- CORP: isotonic regression of the labels with its consistency band

#: With more blocks than this the alternative text describes some, evenly spaced.
_BLOCKS = 12


def _show_corp(panel: Panel, data: Data, look: Look) -> None:
    """Draw the band and the curve, which is flat in each block and straight between blocks."""
    if data["band_p"] is not None:
        p = values(data["band_p"])
        if look.hatch is None:
            panel.between(p, data["band_low"], data["band_high"], "band")
        else:
            draw_borders(panel, p, data["band_low"], data["band_high"], look)
    start, end = values(data["start"]), values(data["end"])
    height = values(data["calibrated"])
    panel.line(np.stack([start, end], axis=1).ravel(), np.repeat(height, 2), look.colour, width=1.6, dash=look.dash)
    crowd = min(1.0, (40.0 / len(start)) ** 0.5)
    panel.dots(
        (start + end) / 2.0,
        height,
        max(1.4, 3.0 * crowd) * panel.grain,
        look.colour,
        stroke="paper",
        square=look.square,
    )


def _corp_keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key("observed frequency (isotonic)", look.colour)]
    if data["band_p"] is not None:
        marks.append(Key(f"{level_in(definition, 0.9)} consistency band", "band", "area"))
    return [*marks, CALIBRATED]


def _describe_corp(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the decomposition, the part of the curve outside the band, and the blocks."""
    start, end, height, share = (values(data[name]) for name in ("start", "end", "calibrated", "share"))
    at = spread(len(start), _BLOCKS)
    blocks = "; ".join(
        f"{decimal(start[i])} to {decimal(end[i])}: {decimal(height[i])} ({percent(share[i])} of the rows)" for i in at
    )
    brier, missed, resolved, left = (
        decimal(data[name]) for name in ("brier", "miscalibration", "discrimination", "uncertainty")
    )
    several = "block" if data["blocks"] == 1 else "blocks"
    some = "" if len(at) == data["blocks"] else f", {len(at)} of them"
    return (
        f"Brier score {brier} = miscalibration {missed} minus discrimination {resolved} plus uncertainty {left}. "
        f"{_outside_corp(data, definition)}{data['blocks']} {several} of predictions with their observed frequency"
        f"{some}: {blocks}."
    )


def _outside_corp(data: Data, definition: Mapping[str, Any]) -> str:
    if data["band_p"] is None:
        return ""
    p, low, high = (values(data[name]) for name in ("band_p", "band_low", "band_high"))
    curve = np.interp(
        p, np.stack([values(data["start"]), values(data["end"])], axis=1).ravel(), np.repeat(data["calibrated"], 2)
    )
    above, below = (percent(float(np.mean(out))) for out in (curve > high + 1e-12, curve < low - 1e-12))
    level = level_in(definition, 0.9)
    return f"The curve is above the {level} consistency band at {above} of its points and below it at {below}. "


CORP = Plot(
    "CORP reliability diagram",
    ("predicted probability", "observed frequency"),
    lambda data: ("miscalibration", float(data["miscalibration"])),
    _show_corp,
    _corp_keys,
    _describe_corp,
    # The band, often of full height at its ends, may leave the panel.
    lambda shown: half_window_of(shown, ["start", "end"], ["calibrated"]),
)


# --- The calibration belt and the smooth calibration curve


def _show_curve(panel: Panel, data: Data, look: Look) -> None:
    """Draw the curve and its bands; of a diagram after a map only their borders."""
    p = values(data["predictions"])
    if len(p) == 1:
        panel.dots(p, values(data["calibrated"]), 4.0, look.colour, stroke="paper", square=look.square)
        return
    if data["low"] is not None:
        if look.hatch is None:
            panel.between(p, data["low"], data["high"], "band")
            if "inner_low" in data:
                panel.between(p, data["inner_low"], data["inner_high"], look.tint)
        draw_borders(panel, p, data["low"], data["high"], look)
    panel.line(p, data["calibrated"], look.colour, width=2.0, dash=look.dash)


def _curve_keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key(_curve_name(data), look.colour)]
    if data["low"] is not None:
        if "inner_low" in data:
            marks.append(Key(f"{level_text(float(definition.get('inner_level', 0.8)))} belt", look.tint, "area"))
        what = "belt" if "inner_low" in data else "pointwise band"
        marks.append(Key(f"{level_in(definition)} {what}", look.colour, dash=BORDER))
    return [*marks, CALIBRATED]


def _curve_name(data: Data) -> str:
    if "curve" in data:
        return f"{data['curve']} curve"
    p_value = "" if data["p_value"] is None else f", p-value {decimal(data['p_value'])}"
    return f"degree {data['degree']}{p_value}"


def _describe_curve(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the curve at a few predictions, with its band, and where the band leaves out the diagonal."""
    if "curve" in data:
        events, others = count(data["events"]), count(data["non_events"])
        what = f"The {data['curve']} curve of {events} events and {others} other rows; ICI {decimal(data['ici'])}."
    else:
        what = f"Polynomial logistic recalibration: {_curve_name(data)}."
    return f"{what} {_outside_curve(data, definition)}{described_curve(data)}"


def _outside_curve(data: Data, definition: Mapping[str, Any]) -> str:
    if data["low"] is None:
        return ""
    p = values(data["predictions"])
    above, below = (percent(float(np.mean(out))) for out in (values(data["low"]) > p, values(data["high"]) < p))
    level = level_in(definition)
    return f"The whole {level} band is above the diagonal at {above} of the points and below it at {below}. "


def _plot(kind: str) -> Plot:
    return Plot(
        kind,
        ("predicted probability", "observed frequency"),
        lambda _: None,
        _show_curve,
        _curve_keys,
        _describe_curve,
        lambda shown: half_window_of(shown, ["predictions"], ["calibrated", "low", "high"]),
        mark=plain_mark,
    )


BELT, CURVE = _plot("Calibration belt"), _plot("Smooth calibration curve")
