"""Plots of the diagrams of predictive distributions."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from calibrant.plots.over_time import time_ticks
from calibrant.plots.panel import (
    CALIBRATED,
    UNIT,
    Data,
    Key,
    Look,
    Panel,
    Plot,
    Range,
    decimal,
    level_in,
    level_text,
    listed,
    mark_of,
    percent,
    plain_mark,
    spread,
    tick_labels,
    values,
)

#: The alternative text describes at most this many points.
_DESCRIBED = 10
_QUIET = (5.0, 3.0)
#: Pixels of a tick label of a time.
_APART = 62.0


def _stairs(edges: Any, heights: Any) -> tuple[Any, Any]:
    return np.repeat(values(edges), 2)[1:-1], np.repeat(values(heights), 2)


def _band(panel: Panel, x: Any, low: Any, high: Any, look: Look) -> None:
    if look.hatch is None:
        panel.between(x, low, high, "band")


# --- PIT histogram


def _show_pit(panel: Panel, data: Data, look: Look) -> None:
    edges, density = values(data["edges"]), values(data["density"])
    x, up = _stairs(edges, density)
    if look.hatch is None:
        gap = 0.04 * np.diff(edges)
        left, right, zero = edges[:-1] + gap, edges[1:] - gap, np.zeros_like(density)
        panel.areas(np.stack([left, right, right, left], axis=1), np.stack([zero, zero, density, density], axis=1),
                    look.tint)  # fmt: skip
        for border in ("low", "high"):
            panel.line(*_stairs(edges, data[border]), "quiet", width=1.0, dash=(2.0, 2.0))
        panel.line([0.0, 1.0], [1.0, 1.0], "quiet", width=1.0, dash=_QUIET)
    else:
        panel.line(x, up, look.colour, width=1.6)


def _pit_keys(_: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    return [
        Key("outcomes", look.tint, "area"),
        Key(f"{level_in(definition)} band of calibrated forecasts", "quiet", dash=(2.0, 2.0), brief="band"),
        CALIBRATED,
    ]


def _outside(data: Data, name: str) -> tuple[int, int]:
    shares = values(data[name])
    return int(np.count_nonzero(shares > values(data["high"]) + 1e-12)), int(
        np.count_nonzero(shares < values(data["low"]) - 1e-12)
    )


def _describe_pit(data: Data, definition: Mapping[str, Any]) -> str:
    edges, density = values(data["edges"]), values(data["density"])
    above, below = _outside(data, "density")
    bins = "; ".join(
        f"{edges[i]:.4g} to {edges[i + 1]:.4g}: {decimal(density[i])}" for i in spread(len(density), _DESCRIBED)
    )
    return (
        f"Bins above the {level_in(definition)} band: {above} of {len(density)}; below: {below}. Density 1 is "
        f"calibrated. Densities: {bins}."
    )


def _pit_window(shown: Sequence[Data]) -> tuple[Range, Range]:
    most = max(float(max(*data["density"], *data["high"])) for data in shown)
    return UNIT, (0.0, 1.08 * most)


PIT = Plot(
    "PIT histogram",
    ("probability integral transform of the outcome", "density"),
    lambda data: ("largest distance", float(data["distance"])),
    _show_pit,
    _pit_keys,
    _describe_pit,
    _pit_window,
    diagonal=False,
    mark=lambda _, look: Key("", look.tint, "area") if look.hatch is None else mark_of(look, dots=False, dash=None),
)


# --- Reliability of quantiles, and coverage by level: points near the diagonal


def _show_points(name: str) -> Any:
    def show(panel: Panel, data: Data, look: Look) -> None:
        x, y = values(data["levels"]), values(data[name])
        ends = [0.0, *x, 1.0]
        _band(panel, ends, [0.0, *data["low"], 1.0], [0.0, *data["high"], 1.0], look)
        if look.hatch is None:
            panel.line([0.0, 1.0], [0.0, 1.0], "quiet", width=1.0, dash=_QUIET)
        panel.line(x, y, look.colour, width=1.6, dash=look.dash)
        panel.dots(x, y, (3.0 if len(x) < 30 else 2.0) * panel.grain, look.colour, stroke="paper", square=look.square)

    return show


def _point_keys(label: str) -> Any:
    def keys(_: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
        band = Key(f"{level_in(definition)} band of calibrated forecasts", "band", "area", brief="band")
        return [Key(label, look.colour, "dot", ()), band, CALIBRATED]

    return keys


def _describe_points(name: str, what: str) -> Any:
    def describe(data: Data, definition: Mapping[str, Any]) -> str:
        x, y = values(data["levels"]), values(data[name])
        above, below = _outside(data, name)
        points = "; ".join(f"{x[i]:.4g}: {decimal(y[i])}" for i in spread(len(x), _DESCRIBED))
        outside = f"Levels above the {level_in(definition)} band: {above} of {len(x)}; below: {below}."
        return f"{outside} {what} by level: {points}."

    return describe


QUANTILES = Plot(
    "Reliability of quantiles",
    ("level of the quantile", "share of outcomes at most the quantile"),
    lambda data: ("mean distance", float(data["error"])),
    _show_points("share"),
    _point_keys("observed share"),
    _describe_points("share", "Observed share"),
)


def _nearest(data: Data) -> int:
    """Return the index of the interval whose level is nearest to 90 %."""
    return int(np.argmin(np.abs(values(data["levels"]) - 0.9)))


COVERAGE = Plot(
    "Coverage by level",
    ("level of the interval", "share of outcomes inside"),
    lambda data: (
        f"coverage of {level_text(data['levels'][_nearest(data)])} intervals",
        float(data["coverage"][_nearest(data)]),
    ),
    _show_points("coverage"),
    _point_keys("coverage"),
    _describe_points("coverage", "Coverage"),
)


# --- Mean squared error by predicted variance, on logarithmic axes


def _log(of: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log10(values(of))


def _show_variance(panel: Panel, data: Data, look: Look) -> None:
    x = _log(data["predicted"])
    whiskers = np.stack([_log(data["low"]), _log(data["high"])], axis=1)
    panel.pieces(np.stack([x, x], axis=1), whiskers, look.colour if look.hatch else "ink")
    panel.line(x, _log(data["observed"]), look.colour, width=1.2, dash=look.dash)
    panel.dots(x, _log(data["observed"]), 3.5 * panel.grain, look.colour, stroke="paper", square=look.square)


def _variance_keys(_: Data, definition: Mapping[str, Any], look: Look) -> list[Key]:
    return [Key(f"mean squared error, {level_in(definition)} interval", look.colour, "whisker"), CALIBRATED]


def _variance_window(shown: Sequence[Data]) -> tuple[Range, Range]:
    ends = np.concatenate([_log(data[name]) for data in shown for name in ("predicted", "observed", "low", "high")])
    ends = ends[np.isfinite(ends)]
    across = np.concatenate([_log(data["predicted"]) for data in shown])
    margin = max(0.06 * float(np.ptp(ends)), 0.05)
    return (
        (float(across.min()) - margin, float(across.max()) + margin),
        (float(ends.min()) - margin, float(ends.max()) + margin),
    )


def _powers(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Return ticks of an axis of log10: powers of ten, and 2 and 5 times these if there is room."""
    first, last = (
        max(math.floor(low) - 1, sys.float_info.min_10_exp),
        min(math.ceil(high), sys.float_info.max_10_exp - 1),
    )
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        numbers = [f * 10.0**k for k in range(first, last + 1) for f in factors]
        inside = [number for number in numbers if low <= math.log10(number) <= high]
        if len(inside) <= most:
            break
    inside = inside[:: -(-len(inside) // most)] if inside else inside
    return [math.log10(number) for number in inside], tick_labels([float(f"{number:.3g}") for number in inside])


def _describe_variance(data: Data, _: Mapping[str, Any]) -> str:
    x, y = values(data["predicted"]), values(data["observed"])
    bins = "; ".join(f"{x[i]:.4g} predicted, {y[i]:.4g} observed" for i in spread(len(x), _DESCRIBED))
    above = int(np.count_nonzero(values(data["low"]) > x))
    below = int(np.count_nonzero(values(data["high"]) < x))
    return (
        f"Bins with larger errors than predicted, beyond their interval: {above} of {len(x)}; smaller: {below}. "
        f"Variances: {bins}."
    )


VARIANCE = Plot(
    "Squared error by predicted variance",
    ("predicted variance (log scale)", "mean squared error (log scale)"),
    lambda data: ("ENCE", float(data["error"])),
    _show_variance,
    _variance_keys,
    _describe_variance,
    _variance_window,
    places=_powers,
)


# --- Sharpness and calibration


def _show_sharpness(panel: Panel, data: Data, look: Look) -> None:
    level, reached, width = (values(data[name]) for name in ("levels", "coverage", "width"))
    panel.pieces(np.stack([level, reached], axis=1), np.stack([width, width], axis=1), "quiet", dash=(2.0, 2.0))
    panel.line(reached, width, look.colour, width=1.6, dash=look.dash)
    panel.dots(level, width, 2.6 * panel.grain, "paper", stroke=look.colour, square=look.square)
    panel.dots(reached, width, 3.2 * panel.grain, look.colour, stroke="paper", square=look.square)


def _sharpness_keys(_: Data, __: Mapping[str, Any], look: Look) -> list[Key]:
    return [
        Key("coverage that is reached", look.colour, "dot", ()),
        Key("level that is promised", look.colour, "ring"),
    ]


def _describe_sharpness(data: Data, _: Mapping[str, Any]) -> str:
    level, reached, width = (values(data[name]) for name in ("levels", "coverage", "width"))
    intervals = "; ".join(
        f"{level_text(level[i])} intervals: mean width {width[i]:.4g}, coverage {percent(reached[i])}"
        for i in spread(len(level), _DESCRIBED)
    )
    return f"{intervals}."


SHARPNESS = Plot(
    "Sharpness and calibration",
    ("share of outcomes inside", "mean width of the interval"),
    lambda data: (
        f"mean width of {level_text(data['levels'][_nearest(data)])} intervals",
        float(data["width"][_nearest(data)]),
    ),
    _show_sharpness,
    _sharpness_keys,
    _describe_sharpness,
    lambda shown: (UNIT, (0.0, 1.06 * max(float(max(data["width"])) for data in shown) or 1.0)),
    diagonal=False,
    shared=(),
)


# --- Fan chart

_OUTCOME = Key("outcome", "ink", "dot")


def _show_fan(panel: Panel, data: Data, look: Look) -> None:
    x = values(data["x"])
    for low, high, fill in zip(data["lower"][::-1], data["upper"][::-1], ("band", look.tint), strict=False):
        if look.hatch is None:
            panel.between(x, low, high, fill)
        else:
            for border in (low, high):
                panel.line(x, border, look.colour, width=0.9, dash=(2.0, 2.0))
    if data["median"] is not None:
        panel.line(x, data["median"], look.colour, width=1.6, dash=look.dash)
    if look.hatch is None:
        panel.dots(x, data["observed"], max(1.5, 2.8 - len(x) / 120.0) * panel.grain, "ink", stroke="paper")


def _fan_keys(data: Data, _: Mapping[str, Any], look: Look) -> list[Key]:
    levels = [level_text(level) for level in data["levels"]]
    fills = zip(levels[::-1], ("band", look.tint), strict=False)
    areas = [Key(f"{level} interval", fill, "area") for level, fill in fills]
    median = [] if data["median"] is None else [Key("median", look.colour)]
    return [_OUTCOME, *median, *areas[::-1]]


def _fan_window(shown: Sequence[Data]) -> tuple[Range, Range]:
    x = np.concatenate([values(data["x"]) for data in shown])
    y = np.concatenate([np.ravel(values(data[name])) for data in shown for name in ("lower", "upper", "observed")])
    across, up = 0.02 * float(np.ptp(x)) or 0.5, 0.05 * float(np.ptp(y)) or 0.5
    low = float(y.min())
    return (float(x.min()) - across, float(x.max()) + across), (low - up if low != 0.0 else 0.0, float(y.max()) + up)


def _describe_fan(data: Data, _: Mapping[str, Any]) -> str:
    y = values(data["observed"])
    inside = [
        f"the {level_text(level)} interval contains {np.count_nonzero((values(low) <= y) & (y <= values(high)))}"
        for level, low, high in zip(data["levels"], data["lower"], data["upper"], strict=True)
    ]
    contained = f"Of {len(y)} outcomes, {listed(inside)}. " if inside else ""
    return f"{contained}Outcomes from {float(y.min()):.4g} to {float(y.max()):.4g}, the last {float(y[-1]):.4g}."


FAN = Plot(
    "Fan chart",
    ("row", "outcome"),
    lambda _: None,
    _show_fan,
    _fan_keys,
    _describe_fan,
    _fan_window,
    diagonal=False,
    mark=plain_mark,
    shared=(_OUTCOME,),
)


def _dates(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    places, labels = time_ticks(low, high, most * _APART)
    return list(places), list(labels)


def fan_of(data: Data) -> Plot:
    """Return the plot of a fan, with dates on the x axis if the data has them."""
    return replace(FAN, axes=("time (UTC)", "outcome"), across=_dates) if data["seconds"] else FAN


FORECAST_PLOTS: Mapping[str, Plot] = MappingProxyType(
    {
        "pit": PIT,
        "quantile-reliability": QUANTILES,
        "coverage": COVERAGE,
        "mean-variance": VARIANCE,
        "sharpness": SHARPNESS,
        "fan": FAN,
    }
)
