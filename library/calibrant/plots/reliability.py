"""The reliability diagram with diagonal filling: the area between the line of a bin and the diagonal is its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.diagrams.reliability import wilson
from calibrant.plots.canvas import Canvas, Caption, Drawn, Format, NothingToDraw, Theme
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
    one_panel,
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

# --- The in-sample diagram of a stored map, before and after it, from the bins in its record

#: The most bins drawn, of at most 100 in a record, and the bars of the histogram.
_DRAWN, _BARS = 20, 20
_LEVEL = 0.95


def draw_fit_bins(
    bins: Mapping[str, Any] | None,
    about: Caption,
    *,
    errors: tuple[float, float] | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw the in-sample reliability diagram of a fit, before and after the map.

    Parameters
    ----------
    bins : mapping or None
        ``bins`` of the record of a map, as JSON. Neighbouring bins are merged to 20; the histogram assumes that rows
        are spread evenly over each bin.
    about : Caption
        Rows, reduction and name for the title.
    errors : (float, float), optional
        ECE of the rows before and after the map, which is more exact than that of the merged bins.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.

    Raises
    ------
    NothingToDraw
        If ``bins`` is None.
    """
    if bins is None:
        raise NothingToDraw("the record of the map has no bins of its fit")
    plot = replace(RELIABILITY, kind="In-sample reliability diagram")
    before, after = (_of_bins(bins[side]) for side in ("before", "after"))
    canvas = Canvas(width, theme=theme, form=form)
    abouts = [
        replace(about, error=None if errors is None else ("plain ECE", errors[i]), interval=None) for i in range(2)
    ]
    return one_panel(canvas, plot, (before, abouts[0]), (after, abouts[1]))


def reliability_of(bins: Mapping[str, Any]) -> dict[str, Any]:
    """Merge bins to at most 20; returns the data of a reliability diagram."""
    count, rows, share = (values(bins[name]) for name in ("count", "rows", "share"))
    groups = np.minimum((np.cumsum(share) - share / 2.0) / share.sum() * _DRAWN, _DRAWN - 1).astype(np.int64)
    first = np.unique(groups, return_index=True)[1]
    mass, number = (np.add.reduceat(part, first) for part in (share, count))
    effective = mass**2 / np.add.reduceat(share**2 / rows, first)  # of weights w: (sum w)^2 / sum w^2
    mean = np.add.reduceat(share * values(bins["mean_prediction"]), first) / mass
    positive = np.clip(np.add.reduceat(share * values(bins["observed_frequency"]), first) / mass, 0.0, 1.0)
    border = values(bins["start"])[first]
    start, end = np.append(0.0, border[1:]), np.append(border[1:], 1.0)
    gap = positive - mean
    low, high = wilson(positive, effective, _LEVEL)
    return {
        "start": start, "end": end, "count": number, "rows": effective, "share": mass, "mean_prediction": mean,
        "observed_frequency": positive, "gap": gap, "low": low, "high": high, "roof_start": start + gap,
        "roof_end": end + gap, "ece": float(mass @ np.abs(gap)), "ece_debiased": None, "axes": "linear",
        "histogram": _histogram(bins),
    }  # fmt: skip


def _histogram(bins: Mapping[str, Any]) -> dict[str, Array]:
    """Return a histogram; the rows of a bin are spread evenly and symmetrically around its mean."""
    start, mean, share = (values(bins[name]) for name in ("start", "mean_prediction", "share"))
    following = np.append(start[1:], 1.0)
    end = np.clip(2.0 * mean - start, start, following)
    edges = np.arange(_BARS + 1) / _BARS
    wide = np.maximum(end - start, 1e-12)
    before = np.clip((edges[:, None] - start) / wide, 0.0, 1.0) @ share
    before[-1] = share.sum()
    return {"edges": edges, "share": np.diff(before)}


def _of_bins(bins: Mapping[str, Any]) -> dict[str, Any]:
    return {"data": reliability_of(bins), "definition": {"level": _LEVEL, "binning": "equal-mass"}, "problem": None}
