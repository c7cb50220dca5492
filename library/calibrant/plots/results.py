"""Matplotlib axes of results that are no reports: maps, measures by size, decisions, comparisons and sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.comparison.results import ComparisonReport
from calibrant.core.errors import InvalidOption, one_of
from calibrant.core.inputs import reduction_with_name
from calibrant.diagrams.sets import SET_DIAGRAMS, set_coverage, set_sizes
from calibrant.maps.calibration_map import VECTORS, CalibrationMap
from calibrant.measures.selective import CostPlane
from calibrant.plots.axes import check_axes, colour, new_axes
from calibrant.plots.canvas import BODY, IN_SAMPLE, NothingToDraw, shortened
from calibrant.plots.panel import level_text
from calibrant.sets.evaluation import SetEvaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.by_size import MeasuresBySize
    from calibrant.decisions.decision_curve import DecisionCurve
    from calibrant.decisions.segments import SegmentSearch

#: Points of a curve.
_POINTS = 2001
#: The most cells with numbers, and from which share of the largest one a cell is dark.
_FIGURES, _DARK = 200, 0.7
#: Points of the name of a contestant.
_NAME = 130.0
#: Points of the name of a segment.
_SEGMENT = 220.0
#: The most curves that a legend names.
_NAMED = 10


def _axes(ax: Axes | None) -> Axes:
    used: Axes = new_axes()[0] if ax is None else ax
    check_axes(used)
    return used


def plot_map(fitted: CalibrationMap, ax: Axes | None) -> Axes:
    """Draw the calibrated probability by the given one: a curve, or one for each class or rank."""
    function: Any = fitted.function
    curves = getattr(function, "curves", ()) if fitted.reduction in VECTORS else (function,)
    if not curves:
        raise NothingToDraw(
            "a map of the whole vector has no curve; draw its effect with "
            "calibrant.evaluate(predictions, labels, map=...).plot()"
        )
    ax = _axes(ax)
    p = np.linspace(0.0, 1.0, _POINTS)
    for k, curve in enumerate(curves):
        name = fitted.class_names[k] if fitted.class_names is not None and len(curves) > 1 else f"class {k}"
        ax.plot(p, np.clip(curve(p), 0.0, 1.0), label=f"rank {k + 1}" if "ranks" in fitted.reduction else name)
    ax.plot([0.0, 1.0], [0.0, 1.0], color=colour("quiet"), dashes=(5.0, 3.0), linewidth=1.0, zorder=1.5)
    ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), xlabel="predicted probability", ylabel="calibrated probability")
    ax.set_title(f"{fitted.method}, {reduction_with_name(fitted.reduction, fitted.class_names)}")
    if 1 < len(curves) <= _NAMED:
        ax.legend(fontsize="small", framealpha=0.7)
    return ax


def plot_by_size(results: MeasuresBySize, ax: Axes | None) -> Axes:
    """Draw the mean of each measure by the number of rows, with one standard deviation."""
    ax = _axes(ax)
    for key, curve in results.curves.items():
        mean, off = np.array(curve.mean, dtype=float), np.array(curve.standard_deviation, dtype=float)
        ax.errorbar(results.sizes, mean, np.nan_to_num(off), label=key, capsize=2.0, marker="o", markersize=3.0)
    ax.set_xscale("log", base=2)
    ax.set_xticks(results.sizes, [f"{size:,}" for size in results.sizes], rotation=45.0, fontsize="small")
    what = "improvement by the map" if results.improvement else "mean"
    what = f"{what}, squared," if results.squared else what
    ax.set(xlabel="rows (log scale)", ylabel=f"{what} over random subsets, ± 1 standard deviation")
    if results.in_sample:
        ax.set_title(IN_SAMPLE)
    ax.legend(fontsize="small", framealpha=0.7)
    return ax


def plot_cost_plane(plane: CostPlane, ax: Axes | None) -> Axes:
    """Draw by how many percent the first model is cheaper (below 0), or the second."""
    ax = _axes(ax)
    percent = 100.0 * plane.relative
    most = float(np.abs(percent).max()) or 1.0
    shown = ax.imshow(percent, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for row, column in np.ndindex(*percent.shape):
        if percent.size <= _FIGURES:
            ink = "white" if abs(percent[row, column]) > _DARK * most else "black"
            ax.text(column, row, f"{percent[row, column]:+.0f}", ha="center", va="center", fontsize=7.0, color=ink)
    every = max(1, len(plane.abstention) // 10)
    ax.set_yticks(range(0, len(plane.abstention), every), [level_text(rate) for rate in plane.abstention[::every]])
    ax.set_xticks(range(len(plane.cost_ratios)), [f"{ratio:g}" for ratio in plane.cost_ratios])
    ax.set(xlabel="cost of an error / cost of an abstention", ylabel="abstention rate")
    ax.set_title("difference of costs in %; below 0 the first model is cheaper", fontsize="medium")
    ax.figure.colorbar(shown, ax=ax)
    return ax


def plot_decision_curve(curves: DecisionCurve, ax: Axes | None) -> Axes:
    """Draw the net benefit of each model with its intervals, of treating all rows, and of treating none."""
    ax = _axes(ax)
    highest = max(curves.prevalence, *(float(curve.value.max()) for curve in curves.net_benefit.values()))
    for name, curve in curves.net_benefit.items():
        if name in curves.over_treat_all:
            (line,) = ax.plot(curves.thresholds, curve.value, label=name)
            ax.fill_between(curves.thresholds, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0.0)
        else:
            ax.plot(curves.thresholds, curve.value, color=colour("quiet"), label=name, linestyle="--", linewidth=1.0)
    ax.set(xlabel="threshold", ylabel="net benefit", ylim=(-highest / 4.0, 1.1 * highest) if highest > 0.0 else (-1, 1))
    ax.legend(fontsize="small", framealpha=0.7)
    return ax


def plot_comparison(report: ComparisonReport, measure: str | None, ax: Axes | None) -> Axes:
    """Draw a measure of every contestant with its interval; in-sample ones are hollow."""
    key = next(iter(report.measures)) if measure is None else measure
    if key not in report.measures:
        raise InvalidOption.at("/measure", one_of(key, report.measures))
    ax = _axes(ax)
    of = report.measures[key].of
    for place, contestant in enumerate(reversed(report.contestants)):
        result = contestant.measures[key]
        value = getattr(result, of)
        if value is None:
            continue
        low, high = result.interval or (value, value)
        fill = "none" if contestant.in_sample else colour("ink")
        ax.plot([low, high], [place, place], color=colour("ink"), linewidth=1.0)
        ax.plot([value], [place], "o", color=colour("ink"), markerfacecolor=fill)
    shown = [
        (shortened(contestant.name, _NAME, BODY), contestant.in_sample) for contestant in reversed(report.contestants)
    ]
    names = [f"{name} (in-sample)" if in_sample else name for name, in_sample in shown]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.5, len(names) - 0.5)
    ax.set_xlabel(f"{key} (debiased)" if of == "debiased" else key)
    return ax


def plot_sets(evaluation: SetEvaluation, diagram: str, ax: Axes | None) -> Axes:
    """Draw the coverage of classes, sizes and groups with its intervals, or the sizes of the sets."""
    if diagram not in SET_DIAGRAMS:
        raise InvalidOption.at("/diagram", one_of(diagram, SET_DIAGRAMS))
    ax = _axes(ax)
    if diagram == "set-sizes":
        sizes = set_sizes(evaluation)
        ax.bar(sizes.sizes, sizes.share, width=0.8)
        ax.set(xlabel="classes in the set", ylabel="share of the sets")
        return ax
    data = set_coverage(evaluation)
    rows = np.arange(len(data.names))[::-1]
    reach = np.abs(np.stack([data.low, data.high]) - data.coverage)
    ax.errorbar(data.coverage, rows, xerr=reach, fmt="o", markersize=3.0, capsize=2.0)
    if data.nominal is not None:
        ax.axvline(data.nominal, color=colour("quiet"), linestyle="--", linewidth=1.0)
    ax.set_yticks(rows, [shortened(name, _NAME, BODY) for name in data.names])
    ax.set(xlabel="coverage", xlim=(min(0.5, float(data.low.min())), 1.0))
    return ax


def plot_segments(search: SegmentSearch, ax: Axes | None) -> Axes:
    """Draw the gap of each segment with its interval, the clearest at the top."""
    if not search.segments:
        raise NothingToDraw("no segment has a significant gap")
    ax = _axes(ax)
    ink = colour("ink")
    for place, segment in enumerate(reversed(search.segments)):
        ax.plot(segment.interval, [place, place], color=ink, linewidth=1.0)
        ax.plot([segment.gap], [place], "o", color=ink)
    ax.axvline(0.0, color=colour("quiet"), dashes=(5.0, 3.0), linewidth=1.0, zorder=1.5)
    names = [shortened(f"{segment} ({segment.n:,})", _SEGMENT, BODY) for segment in reversed(search.segments)]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(-0.5, len(names) - 0.5)
    ax.set_xlabel(f"mean label - mean prediction, with simultaneous {level_text(search.confidence)} intervals")
    return ax
