"""The reliability diagram with diagonal filling: the area between the line of a bin and the diagonal is its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.plots.panel import (
    CALIBRATED,
    Data,
    Key,
    Look,
    Panel,
    Plot,
    Range,
    decimal,
    extent,
    half_window,
    level_in,
    mark_of,
    rows_of,
    signed,
    values,
)

#: With more bins than this the alternative text describes only the largest gaps.
_DESCRIBED = 20
_LARGEST = 3
#: Radii of points in pixels.
_SMALLEST, _MIDDLE, _WIDEST = 1.4, 3.2, 5.5
#: Steps of opacity of the filling.
_SHADES = 5

Array = npt.NDArray[np.float64]


def show(panel: Panel, data: Data, look: Look) -> None:
    """Draw fillings, lines of slope 1, intervals, and points (mean prediction, observed frequency) sized by weight."""
    ends = _predictions(data)
    start, end = np.clip(values(data["start"]), *ends), np.clip(values(data["end"]), *ends)
    gap, share = values(data["gap"]), values(data["share"])
    _fill(panel, start, end, gap, share, look)
    roof = np.stack([start, end], axis=1)
    panel.pieces(roof, roof + gap[:, None], look.colour, width=1.8)
    mean, frequency = values(data["mean_prediction"]), values(data["observed_frequency"])
    if data["low"] is not None:
        whiskers = np.stack([values(data["low"]), values(data["high"])], axis=1)
        panel.pieces(np.stack([mean, mean], axis=1), whiskers, look.colour if look.hatch else "ink", width=1.0)
    panel.dots(mean, frequency, radii(share) * panel.grain, look.colour, stroke="paper", square=look.square)


def _fill(panel: Panel, start: Array, end: Array, gap: Array, share: Array, look: Look) -> None:
    """Fill between the lines and the diagonal, lighter if a bin has few rows for its width.

    The area of a bin times its rows per width is its contribution to the error.
    """
    density = np.clip(share / np.maximum(end - start, 1e-9), 0.0, 1.0)
    shade = np.maximum(np.ceil(density * _SHADES), 1.0)
    for level in np.unique(shade):
        x0, x1, y = start[shade == level], end[shade == level], gap[shade == level]
        panel.areas(
            np.stack([x0, x1, x1, x0], axis=1),
            np.stack([x0, x1, x1 + y, x0 + y], axis=1),
            None if look.hatch else look.tint,
            hatch=look.hatch,
            stroke=look.tint if look.hatch else None,
            opacity=float(level) / _SHADES,
        )


def radii(share: Array) -> Array:
    """Return radii of points in pixels; areas are proportional to the shares of the rows."""
    crowd = min(1.0, (30.0 / len(share)) ** 0.5)
    radius: Array = np.clip(_MIDDLE * crowd * np.sqrt(share * len(share)), _SMALLEST, _WIDEST)
    return radius


def window(shown: Sequence[Data]) -> tuple[Range, Range]:
    """Return the ranges of the axes: [0, 1], or one half of it if that contains everything."""
    up = ("observed_frequency", "low", "high")
    return half_window([extent((_predictions(data),), [data[name] for name in up]) for data in shown])


def _predictions(data: Data) -> tuple[float, float]:
    """Return the edges of the histogram that contain all predictions, or less if they contain no other edge.

    The first and the last bin of equal mass extend to 0 and 1. Their rows are about as far below the mean as above it.
    """
    edges, filled = values(data["histogram"]["edges"]), np.flatnonzero(values(data["histogram"]["share"]))
    low, high = float(edges[filled[0]]), float(edges[filled[-1] + 1])
    if len(filled) > 1:
        return low, high
    mean = data["mean_prediction"]
    return max(low, 2.0 * mean[0] - data["end"][0]), min(high, 2.0 * mean[-1] - data["start"][-1])


def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    bins = [Key("calibration gap", look.tint, "area"), Key("bin (slope 1)", look.colour)]
    if data["low"] is not None:
        return [*bins, Key(f"observed frequency, {level_in(definition)} interval", look.colour, "whisker"), CALIBRATED]
    return [*bins, Key("observed frequency", look.colour, "dot"), CALIBRATED]


def error(data: Data) -> tuple[str, float]:
    """Return the ECE and its kind, debiased if that is defined, as in reports."""
    debiased = data.get("ece_debiased")
    return ("plain ECE", float(data["ece"])) if debiased is None else ("debiased ECE", float(debiased))


def describe(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe every bin, or with many bins those that add most to the error."""
    share, mean, frequency = (values(data[name]) for name in ("share", "mean_prediction", "observed_frequency"))
    gap = values(data["gap"])
    cut = definition.get("binning", "")
    above, below = int(np.count_nonzero(gap > 0.0)), int(np.count_nonzero(gap < 0.0))
    worst = int(np.argmax(np.abs(gap)))
    many = len(gap) > _DESCRIBED
    described = np.sort(np.argsort(-share * np.abs(gap))[:_LARGEST]) if many else range(len(gap))
    rows = values(data["count"])
    bins = "; ".join(
        f"{decimal(mean[i])} predicted, {decimal(frequency[i])} observed ({rows_of(rows[i])})" for i in described
    )
    debiased = data.get("ece_debiased")
    return (
        f"{_bins(len(gap), str(cut))}; ECE {decimal(data['ece'])}"
        + ("" if debiased is None else f", debiased {decimal(debiased)}")
        + f". The observed frequency is below the prediction in {below} and above it in {above}. "
        f"The largest gap is {signed(gap[worst])}, at a mean prediction of {decimal(mean[worst])}. "
        + ("The bins that add most to the error" if many else "Bins")
        + f": {bins}."
    )


def _bins(number: int, binning: str) -> str:
    return " ".join(part for part in (str(number), binning, "bin" if number == 1 else "bins") if part)


RELIABILITY = Plot(
    "Reliability diagram",
    ("predicted probability", "observed frequency"),
    error,
    show,
    keys,
    describe,
    window,
    lambda data: (data["histogram"]["edges"], data["histogram"]["share"]),
    mark=lambda _, look: mark_of(look),
)
