"""The reliability diagram on logit axes, which spread out the ends and make Platt scaling a straight line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.maps.curves import clipped_logit
from calibrant.plots.panel import (
    CALIBRATED,
    MINUS,
    Data,
    Key,
    Look,
    Panel,
    Plot,
    Range,
    decimal,
    level_in,
    mark_of,
    rows_of,
    spread,
    tick_labels,
    ticks,
    values,
)
from calibrant.plots.reliability import RELIABILITY, radii

#: With more bins than this the alternative text describes some, evenly spaced.
_DESCRIBED = 20
#: The span of logits below which ticks are evenly spaced probabilities.
_NARROW = 3.0
Array = npt.NDArray[np.float64]
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_PLATT = (7.0, 2.0, 1.5, 2.0)


def show(panel: Panel, data: Data, look: Look) -> None:
    """Draw the bins with their intervals, and the line of Platt scaling or the map of another method."""
    x, y = values(data["x"]), values(data["y"])
    if data["slope"] is not None:
        ends = np.array(panel.x)
        panel.line(ends, data["slope"] * ends + data["intercept"], look.colour, width=1.6, dash=look.dash or _PLATT)
    elif data.get("curve_x") is not None:
        panel.line(values(data["curve_x"]), values(data["curve_y"]), look.colour, width=2.0, dash=look.dash)
    if data["low"] is not None:
        whiskers = np.stack([values(data["low"]), values(data["high"])], axis=1)
        panel.pieces(np.stack([x, x], axis=1), whiskers, look.colour if look.hatch else "ink")
    panel.dots(x, y, radii(values(data["share"])) * panel.grain, look.colour, stroke="paper", square=look.square)


def window(shown: Sequence[Data]) -> tuple[Range, Range]:
    """Return the ranges that contain every bin and its interval, with a margin."""
    x = np.concatenate([values(data["x"]) for data in shown])
    y = np.concatenate(
        [values(data[name]) for data in shown for name in ("y", "low", "high") if data[name] is not None]
    )
    return _widened(x.min(), x.max()), _widened(y.min(), y.max())


def places(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Return ticks: logits, and labels with their probabilities, powers of ten towards both ends.

    >>> places(-5.0, 5.0, 7)[1]
    ['0.01', '0.1', '0.5', '0.9', '0.99']
    """
    if high - low < _NARROW:
        shares = [p for p in ticks(_share(low), _share(high), most) if 0.0 < p < 1.0]
        return [_logit(p) for p in shares], tick_labels(shares)
    powers = range(1, 17)
    step = max(1, math.ceil((high - low) / (math.log(10.0) * most)))
    far = [k for k in powers if (k - 1) % step == 0]
    marks = [(-_logit_of_power(k), _small(k)) for k in reversed(far)]
    marks += [(0.0, "0.5"), *((_logit_of_power(k), _near_one(k)) for k in far)]
    inside = [mark for mark in marks if low <= mark[0] <= high]
    return [place for place, _ in inside], [label for _, label in inside]


def keys(data: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    """Return the legend."""
    interval = "observed frequency" if data["low"] is None else f"observed frequency, {level_in(definition)} interval"
    marks = [Key(interval, look.colour, "dot" if data["low"] is None else "whisker")]
    if data["slope"] is not None:
        slope, intercept = f"{data['slope']:.2f}".replace("-", MINUS), _signed(data["intercept"])
        line = f"Platt scaling: slope {slope}, intercept {intercept}"
        marks.append(Key(line, look.colour, dash=_PLATT, brief="Platt scaling"))
    elif data.get("curve_x") is not None:
        marks.append(Key(f"fitted map: {definition['method']}", look.colour, dash=look.dash))
    return [*marks, CALIBRATED]


def mark(data: Data, look: Look) -> Key:
    """Return the legend entry of one of two overlaid diagrams."""
    if data["slope"] is not None:
        return mark_of(look, dash=look.dash or _PLATT)
    return mark_of(look, dash=None if data.get("curve_x") is None else look.dash or ())


def describe(data: Data, definition: Mapping[str, Any]) -> str:
    """Describe the line and the bins, as probabilities."""
    x, y, rows = (values(data[name]) for name in ("x", "y", "count"))
    at = spread(len(x), _DESCRIBED)
    bins = "; ".join(
        f"{decimal(_share(x[i]))} predicted, {decimal(_share(y[i]))} observed ({rows_of(rows[i])})" for i in at
    )
    line = _map_sentence(data, str(definition.get("method", "platt")))
    clipped = "was" if data["clipped"] == 1 else "were"
    some = "Bins" if len(at) == len(x) else f"{len(at)} of {len(x)} bins"
    return f"{line} {some}: {bins}. {rows_of(data['clipped'])} {clipped} clipped."


def _map_sentence(data: Data, method: str) -> str:
    if data["slope"] is not None:
        numbers = f"slope {decimal(data['slope'])} and intercept {decimal(data['intercept'])}"
        return f"The line of Platt scaling has {numbers}."
    if method == "platt":
        return "There is no line of Platt scaling."
    if data["curve_x"] is None:
        return f"There is no map of {method}."
    if data["start_slope"] is None:
        return f"All predictions are equal, so that the map of {method} is a point."
    slopes = (
        f"{decimal(data['start_slope'])} at the smallest and {decimal(data['end_slope'])} at the largest prediction"
    )
    return f"The slope of the map of {method} is {slopes}."


def _widened(low: float, high: float) -> Range:
    margin = max(0.05 * (high - low), 0.25)
    return float(low - margin), float(high + margin)


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700.0 else 0.0


def _logit(share: float) -> float:
    return math.log(share) - math.log1p(-share)


def _logit_of_power(k: int) -> float:
    return -_logit(10.0**-k)


def _small(k: int) -> str:
    return f"{10.0**-k:.{k}f}" if k <= 3 else "10⁻" + str(k).translate(_SUPERSCRIPTS)


def _near_one(k: int) -> str:
    return f"{1.0 - 10.0**-k:.{k}f}" if k <= 3 else f"1{MINUS}10⁻" + str(k).translate(_SUPERSCRIPTS)


def _signed(number: float) -> str:
    return f"{number:+.2f}".replace("-", MINUS)


LOGIT = Plot(
    "Reliability on logit axes",
    ("predicted probability (logit scale)", "observed frequency (logit scale)"),
    lambda _: None,
    show,
    keys,
    describe,
    window,
    places=places,
    mark=mark,
)

# --- The bins of a reliability diagram of a rare event


def logits_of(data: Data) -> tuple[Array, Array, Array | None]:
    """Return the logits of the mean predictions, of the observed frequencies, and of the ends of their intervals.

    Half a row of each label is added to a bin, so that its logit is finite; that of an end may be infinite.
    """
    rows, frequency = values(data["rows"]), values(data["observed_frequency"])
    y = np.log(rows * frequency + 0.5) - np.log(rows * (1.0 - frequency) + 0.5)
    x = clipped_logit(values(data["mean_prediction"]))
    if data["low"] is None:
        return x, y, None
    ends = np.stack([values(data["low"]), values(data["high"])], axis=1)
    with np.errstate(divide="ignore"):
        return x, y, np.log(ends) - np.log1p(-ends)


def _show_bins(panel: Panel, data: Data, look: Look) -> None:
    x, y, ends = logits_of(data)
    if ends is not None:
        whiskers = np.clip(ends, *panel.y)
        panel.pieces(np.stack([x, x], axis=1), whiskers, look.colour if look.hatch else "ink")
    panel.dots(x, y, radii(values(data["share"])) * panel.grain, look.colour, stroke="paper", square=look.square)


def _window_of_bins(shown: Sequence[Data]) -> tuple[Range, Range]:
    parts = [logits_of(data) for data in shown]
    x = np.concatenate([x for x, _, _ in parts])
    y = np.concatenate([logits.ravel() for _, y, ends in parts for logits in (y, ends) if logits is not None])
    y = y[np.isfinite(y)]
    return _widened(x.min(), x.max()), _widened(y.min(), y.max())


RARE_EVENT = replace(
    RELIABILITY,
    kind="Reliability diagram, logit axes",
    axes=LOGIT.axes,
    show=_show_bins,
    keys=lambda data, definition, look: RELIABILITY.keys(data, definition, look)[2:],
    describe=lambda data, definition: f"The axes are on the logit scale. {RELIABILITY.describe(data, definition)}",
    window=_window_of_bins,
    rows=None,
    places=places,
)
