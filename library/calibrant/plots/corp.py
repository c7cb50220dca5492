"""The CORP diagram: isotonic regression of the labels with its consistency band."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calibrant.plots.panel import (
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
    percent,
    spread,
    values,
)

#: With more blocks than this the alternative text describes some, evenly spaced.
_DESCRIBED = 12


def show(panel: Panel, data: Data, look: Look) -> None:
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


def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    marks = [Key("observed frequency (isotonic)", look.colour)]
    if data["band_p"] is not None:
        marks.append(Key(f"{level_in(definition, 0.9)} consistency band", "band", "area"))
    return [*marks, CALIBRATED]


def describe(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the decomposition, the part of the curve outside the band, and the blocks."""
    start, end, height, share = (values(data[name]) for name in ("start", "end", "calibrated", "share"))
    at = spread(len(start), _DESCRIBED)
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
        f"{_outside(data, definition)}{data['blocks']} {several} of predictions with their observed frequency"
        f"{some}: {blocks}."
    )


def _outside(data: Data, definition: Mapping[str, Any]) -> str:
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
    show,
    keys,
    describe,
    # The band, often of full height at its ends, may leave the panel.
    lambda shown: half_window_of(shown, ["start", "end"], ["calibrated"]),
)
