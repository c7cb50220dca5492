"""The calibration belt and the smooth calibration curve: a curve with its bands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.plots.fitted import described_curve
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
    values,
)


def show(panel: Panel, data: Data, look: Look) -> None:
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


def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key(_curve(data), look.colour)]
    if data["low"] is not None:
        if "inner_low" in data:
            marks.append(Key(f"{level_text(float(definition.get('inner_level', 0.8)))} belt", look.tint, "area"))
        what = "belt" if "inner_low" in data else "pointwise band"
        marks.append(Key(f"{level_in(definition)} {what}", look.colour, dash=BORDER))
    return [*marks, CALIBRATED]


def _curve(data: Data) -> str:
    if "curve" in data:
        return f"{data['curve']} curve"
    p_value = "" if data["p_value"] is None else f", p-value {decimal(data['p_value'])}"
    return f"degree {data['degree']}{p_value}"


def describe(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the curve at a few predictions, with its band, and where the band leaves out the diagonal."""
    if "curve" in data:
        events, others = count(data["events"]), count(data["non_events"])
        what = f"The {data['curve']} curve of {events} events and {others} other rows; ICI {decimal(data['ici'])}."
    else:
        what = f"Polynomial logistic recalibration: {_curve(data)}."
    return f"{what} {_outside(data, definition)}{described_curve(data)}"


def _outside(data: Data, definition: Mapping[str, Any]) -> str:
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
        show,
        keys,
        describe,
        lambda shown: half_window_of(shown, ["predictions"], ["calibrated", "low", "high"]),
        mark=plain_mark,
    )


BELT, CURVE = _plot("Calibration belt"), _plot("Smooth calibration curve")
