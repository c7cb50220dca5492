"""Diagrams on matplotlib axes, for notebooks; their contents are those of the pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from calibrant.comparison import ComparisonReport
from calibrant.core.arguments import meant_by
from calibrant.core.docstrings import Function, shares
from calibrant.core.errors import InvalidOption, requires
from calibrant.core.options import known_name
from calibrant.core.reductions import MANY
from calibrant.core.results import Suggesting
from calibrant.diagrams.catalogue import DIAGRAMS, read_diagrams
from calibrant.diagrams.diagram import read_argument
from calibrant.evaluation import Report
from calibrant.plots.canvas import BODY, DARK, LIGHT, NothingToDraw, shortened
from calibrant.plots.diagram import plot_of
from calibrant.plots.logit import RARE_EVENT, logits_of
from calibrant.plots.panel import (
    AFTER,
    BEFORE,
    CALIBRATED,
    MARGIN,
    Data,
    Key,
    Look,
    Plot,
    Range,
    Values,
    data_of,
    values,
)
from calibrant.plots.reliability import RELIABILITY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches of a figure of one diagram.
_SIDE = 5.0
_TICKS = 6
#: Sum of the differences of red, green and blue, in [0, 1], from which colours differ clearly.
_UNLIKE = 0.6
#: Names of binnings in scikit-learn -> names here.
BINNINGS = {"uniform": "equal-width", "quantile": "equal-mass"}
_STYLES = ("alpha", "c", "color", "label", "linestyle", "linewidth", "ls", "lw", "marker", "style")
#: Arguments of other plots -> what to use here.
_ELSEWHERE = {
    **dict.fromkeys(("fig", "figsize"), "pass ax, such as plt.subplots(figsize=(4, 4))[1]"),
    **dict.fromkeys(("kind", "type"), 'pass the name of the diagram first, as in plot("corp")'),
    **dict.fromkeys(("name", "title", "xlabel", "ylabel"), "set it on the axes that plot returns: ax.set_title()"),
    **dict.fromkeys(_STYLES, "CalibrationDisplay(report).plot(color=...) draws lines in other styles"),
}

_SECTIONS = """
Parameters
----------
ax : Axes, optional
    Axes to draw on; by default those of a new figure.
**options : object
    {beside}ptions of ``calibrant.{catalogue}["{name}"]``.

Returns
-------
Axes
    The axes.

See Also
--------
{report}.plot : Draws any diagram.

Examples
--------
>>> import calibrant
>>> report = {example}
"""


def draws_for(report: str, catalogue: str, example: str, beside: str = "O") -> Callable[[Function], Function]:
    """Return a decorator of methods that draw a diagram of a report, which completes their docstrings.

    The ``example`` makes the report of their examples, and ``beside`` begins the description of the options.
    """

    def decorated(method: Function) -> Function:
        named = {"report": report, "catalogue": catalogue, "name": method.__name__.replace("_", "-")}
        return shares(_SECTIONS.format(**named, example=example, beside=beside))(method)

    return decorated


_DRAWS = draws_for("Report", "DIAGRAMS", "calibrant.evaluate([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10)")


class Plotter(Suggesting):
    """Draw the diagrams of a report on matplotlib axes.

    ``report.plot()`` draws a reliability diagram, and each method another one. With a map, the diagrams before and
    after the map are overlaid. A diagram that is in the report is drawn from its data. Another diagram, or one with
    other options, is computed from the rows, to which a report of ``calibrant.evaluate`` keeps a reference.

    Parameters
    ----------
    report : Report
        The report.

    See Also
    --------
    Report.plot : Returns this object.
    plot : Draws several reports side by side.

    Examples
    --------
    >>> import calibrant
    >>> ax = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1]).plot.reliability(n_bins=2)
    >>> ax.get_ylabel()
    'observed frequency'
    """

    def __init__(self, report: Report) -> None:
        self._report = report

    def __call__(self, diagram: str | Axes = "reliability", ax: Axes | None = None, **options: Any) -> Axes:
        """Draw a diagram; ``ax`` is a new figure by default, and ``options`` are those of ``calibrant.DIAGRAMS``."""
        if not isinstance(diagram, str):  # the axes alone, as in pandas
            ax, diagram = diagram, "reliability"
        if diagram == "reliability":
            return draw_reliability(self._report, ax, options)
        name, entries = entries_of(self._report, diagram, options)
        return draw_entries(name, entries, ax, in_sample=bool(self._report.in_sample))

    @_DRAWS
    def reliability(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the reliability diagram: the observed frequency of each bin, with its interval.

        >>> report.plot.reliability().get_ylabel()
        'observed frequency'
        """
        return self("reliability", ax, **options)

    @_DRAWS
    def fit_on_test(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw a map fitted to these rows, with its band.

        >>> report.plot.fit_on_test().get_ylabel()
        'calibrated probability'
        """
        return self("fit-on-test", ax, **options)

    @_DRAWS
    def corp(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the CORP diagram: isotonic regression of the labels, with a consistency band.

        >>> report.plot.corp().get_ylabel()
        'observed frequency'
        """
        return self("corp", ax, **options)

    @_DRAWS
    def logit_logit(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the reliability diagram on logit axes.

        >>> report.plot.logit_logit().get_xlabel()
        'predicted probability (logit scale)'
        """
        return self("logit-logit", ax, **options)

    @_DRAWS
    def ks_graphs(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the cumulative labels against the cumulative scores.

        >>> report.plot.ks_graphs().get_ylabel()
        'cumulative label'
        """
        return self("ks-graphs", ax, **options)

    @_DRAWS
    def calibration_belt(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw polynomial logistic recalibration with its belts.

        >>> report.plot.calibration_belt().get_ylabel()
        'observed frequency'
        """
        return self("calibration-belt", ax, **options)

    @_DRAWS
    def calibration_curve(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw a smooth calibration curve with a pointwise band.

        >>> report.plot.calibration_curve(curve="logistic").get_ylabel()
        'observed frequency'
        """
        return self("calibration-curve", ax, **options)

    @_DRAWS
    def decision_curve(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the net benefit of decisions by threshold, beside that of treating all rows.

        ``calibrant.decision_curve`` compares several models.

        >>> report.plot.decision_curve().get_ylabel()
        'net benefit'
        """
        return self("decision-curve", ax, **options)

    @_DRAWS
    def murphy(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Draw the mean elementary score by threshold, beside that of predicting the rate of events.

        >>> report.plot.murphy().get_ylabel()
        'mean elementary score'
        """
        return self("murphy", ax, **options)


def plot(
    reports: Report | ComparisonReport | Mapping[str, Report] | Sequence[Report],
    diagram: str = "reliability",
    *,
    axes: Any = None,
    **options: Any,
) -> list[Axes]:
    """Draw the same diagram of several reports side by side.

    Parameters
    ----------
    reports : ComparisonReport, mapping of str to Report, sequence of Report, or Report
        A comparison of ``calibrant.compare``, or reports of ``calibrant.evaluate``, by the name of the model.
    diagram : str, default "reliability"
        Name in ``calibrant.DIAGRAMS``.
    axes : sequence of Axes, optional
        Axes to draw on, one for each report; by default those of a new figure.
    **options : object
        Options of the diagram.

    Returns
    -------
    list of Axes
        The axes, with equal limits.

    Raises
    ------
    CalibrationError
        If an option or a report is invalid, or the number of axes is not that of the reports.
    MissingExtra
        If matplotlib is not installed.

    See Also
    --------
    Report.plot : Draws one report.

    Examples
    --------
    >>> import calibrant
    >>> one = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 1, 1, 1])
    >>> two = calibrant.evaluate([0.2, 0.3, 0.7, 0.8], [0, 1, 1, 1])
    >>> [ax.get_title() for ax in calibrant.plot({"one": one, "two": two})]
    ['one', 'two']
    """
    if "ax" in options:
        raise TypeError("plot() has no argument ax; pass axes, one for each report, or use report.plot(ax=ax) of each")
    if isinstance(reports, ComparisonReport):
        reports = reports.reports
    if isinstance(reports, Report):
        return [reports.plot(diagram, axes, **options)]
    if not isinstance(reports, Mapping | Sequence):
        raise InvalidOption.at(
            "/reports", "must be reports by name, or a sequence of reports, the results of calibrant.evaluate"
        )
    named = reports if isinstance(reports, Mapping) else {str(i + 1): shown for i, shown in enumerate(reports)}
    if not named:
        raise InvalidOption.at("/reports", "must have at least one report")
    if not all(isinstance(shown, Report) for shown in named.values()):
        raise InvalidOption.at("/reports", "must be reports, the results of calibrant.evaluate")
    if axes is None:
        axes = new_axes(len(named))
    places = np.ravel(np.asarray(axes, dtype=object))
    if len(places) != len(named):
        raise InvalidOption.at("/axes", f"must be {len(named)} axes, one for each report")
    shared: str | None = None
    for ax, (name, report) in zip(places, named.items(), strict=True):
        if diagram == "reliability":  # whose axes would otherwise depend on the labels of each report
            draw_reliability(report, ax, options, axes=shared)
            shared = _DRAWN[ax][0].axes
        else:
            report.plot(diagram, ax, **options)
        ax.set_title(shortened(str(name), 72.0 * _SIDE - 2.0 * MARGIN, BODY))
    limits = [(*ax.get_xlim(), *ax.get_ylim()) for ax in places]
    low, high = np.min(limits, axis=0), np.max(limits, axis=0)
    for ax in places:
        ax.set(xlim=(low[0], high[1]), ylim=(low[2], high[3]))
    return list(places)


def new_axes(number: int = 1) -> Any:
    """Return the axes of a new figure, side by side; raises ``MissingExtra`` without matplotlib."""
    with requires("plots", "a diagram"):
        from matplotlib import pyplot
    return pyplot.subplots(1, number, figsize=(_SIDE * number, _SIDE), layout="constrained", squeeze=False)[1][0]


def entries_of(report: Report, diagram: str, options: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Return the full name of a diagram, and the diagram of a report, or those before and after its map."""
    options = dict(options)
    if "strategy" in options and "binning" not in options:
        options["binning"] = options.pop("strategy")
    if isinstance(options.get("binning"), str):
        options["binning"] = BINNINGS.get(options["binning"], options["binning"])
    check_options(diagram, options, DIAGRAMS)
    request = read_argument(read_diagrams, diagram, options)
    stored = [side[diagram] for side in (report.diagrams, report.after_diagrams) if side and diagram in side]
    if report.source is not None and (options or not stored):
        entries = report.source.diagram(request)
        if entries[0]["data"] is None and report.reduction in MANY:
            raise NothingToDraw(f'{entries[0]["problem"]}; evaluate again, as with reduction="confidence"')
        return request.diagram.name, entries
    if not stored or options:
        how = f'evaluate with diagrams=["{diagram}"]'
        raise InvalidOption.at("/diagrams", f"need {diagram}, because this report does not have its rows; {how}")
    return request.diagram.name, stored


def check_options(diagram: str, options: Mapping[str, Any], catalogue: Mapping[str, Any]) -> None:
    """Raise ``TypeError`` with what to pass instead, if an option is unknown."""
    if not isinstance(diagram, str):
        raise InvalidOption.at("/diagram", "must be the name of a diagram")
    name = known_name(diagram, catalogue, {})
    if name not in catalogue:
        return  # which is refused with the request
    known = list(catalogue[name].options)
    listed = f"the options of {name} are: {', '.join(known)}"
    for option in options:
        if option not in known:
            meant = meant_by(option, known) if "n_bins" in known else listed
            raise TypeError(f"plot() has no argument {option}; {_ELSEWHERE.get(option) or meant}")


def draw_entries(
    name: str,
    entries: Sequence[Mapping[str, Any]],
    ax: Axes | None,
    *,
    in_sample: bool = False,
    diagonal: bool = True,
    empty: bool = False,
) -> Axes:
    """Draw a diagram, or those before and after a map; ``empty`` axes have no data and no legend yet."""
    every = [data_of(entry) for entry in entries]
    plot = plot_of(name, every[0])
    if ax is None:
        ax = new_axes()[0]
    check_axes(ax)
    x, y = plot.window(every)
    panel: Any = AxesPanel(ax, x, y)
    if plot.diagonal and diagonal:
        panel.diagonal()
    looks = (BEFORE, AFTER)[: len(every)]
    for data, look in zip(every, looks, strict=True) if not empty else ():
        plot.show(panel, data, look)
    for axis, ends, title, marks in (
        (ax.xaxis, x, plot.axes[0], plot.across or plot.places),
        (ax.yaxis, y, plot.axes[1], plot.places),
    ):
        places, labels = marks(*ends, _TICKS)
        axis.set_ticks(places, labels)
        axis.set_label_text(title)
    ax.set(xlim=x, ylim=y)
    ax.set_title(_title(plot, every))
    if empty:
        return ax
    sides = _sides(in_sample)
    handles = [
        handle
        for data, entry, look, side in zip(every, entries, looks, sides, strict=False)
        for handle in _handles(plot, data, entry, look, side if len(every) > 1 else None)
    ]
    handles += [_handle(key) for key in plot.shared if len(every) > 1]
    if not diagonal:
        handles = [handle for handle in handles if handle.get_label() != CALIBRATED.label]
    ax.legend(handles=handles, loc="best", fontsize="small", framealpha=0.7)
    return ax


def check_axes(ax: object) -> None:
    """Raise ``InvalidOption`` for anything but axes."""
    if not hasattr(ax, "add_collection"):
        raise InvalidOption.at("/ax", "must be matplotlib axes, such as plt.gca(); of several, pass one: axes[0]")


def _sides(in_sample: bool) -> tuple[str, str]:
    return "before the map", "after the map, in-sample" if in_sample else "after the map"


@dataclass(frozen=True)
class _Model:
    """A model on axes: its name, the label and the legend entry of each of its lines, and the scale of the axes."""

    name: str | None
    lines: Sequence[tuple[str, Any]]
    axes: str


#: Axes with reliability diagrams -> the models on them; another model is drawn over them.
_DRAWN: WeakKeyDictionary[Axes, list[_Model]] = WeakKeyDictionary()


def draw_reliability(
    report: Report,
    ax: Axes | None,
    options: Mapping[str, Any],
    *,
    name: str | None = None,
    diagonal: bool = True,
    style: Mapping[str, Any] = MappingProxyType({}),
    axes: str | None = None,
) -> Axes:
    """Draw a reliability diagram; over another one, or with the ``style`` of a line, only its bins and intervals.

    ``axes`` are linear or logit, by default those of its data. Over another diagram they are those of the other one.
    """
    if ax is not None:
        check_axes(ax)
    models = _DRAWN.get(ax, []) if ax is not None and ax.has_data() else []
    _, entries = entries_of(report, "reliability", options)
    axes = models[0].axes if models else axes or data_of(entries[0]).get("axes", "linear")
    entries = [{**entry, "data": {**data_of(entry), "axes": axes}} for entry in entries]
    in_sample = bool(report.in_sample) and len(entries) > 1
    if models or style:
        if ax is None or not models:
            ax = draw_entries("reliability", entries[-1:], ax, diagonal=diagonal, empty=True)
        line = _overlay(ax, data_of(entries[-1]), models, style)
        models = [*models, _Model(name, [("in-sample" if in_sample else "", line)], axes)]
        _name_models(ax, models)
    else:
        ax = draw_entries("reliability", entries, ax, in_sample=in_sample, diagonal=diagonal)
        marks = [_handle(RELIABILITY.mark(data_of(entries[0]), look)) for look in (BEFORE, AFTER)]
        sides = _sides(in_sample) if len(entries) > 1 else ("",)
        models = [_Model(name, list(zip(sides, marks, strict=False)), axes)]
    if len(models) == 1 and name is not None:
        ax.set_title(name)
    _DRAWN[ax] = models
    return ax


def _overlay(ax: Axes, data: Data, models: Sequence[_Model], style: Mapping[str, Any]) -> Any:
    """Draw the bins of a model, with their intervals, in a colour that no other model has; returns their line."""
    from matplotlib import rcParams
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D

    used = np.array([to_rgb(line.get_color()) for model in models for _, line in model.lines]).reshape(-1, 3)
    cycle = rcParams["axes.prop_cycle"].by_key()["color"]
    free = [cycled for cycled in cycle if (np.abs(used - to_rgb(cycled)).sum(axis=1) > _UNLIKE).all()]
    free = free or [cycle[len(models) % len(cycle)]]
    look = {"color": free[0], "marker": "o", "zorder": 3, **normalize_kwargs(dict(style), Line2D)}
    plot = plot_of("reliability", data)
    (left, right), (bottom, top) = plot.window([data])
    x, y = values(data["mean_prediction"]), values(data["observed_frequency"])
    ends = None if data["low"] is None else np.stack([values(data["low"]), values(data["high"])], axis=1)
    if plot is RARE_EVENT:
        x, y, ends = logits_of(data)
    if ends is not None:
        ends = np.maximum([[-1.0], [1.0]] * (np.clip(ends.T, bottom, top) - y), 0.0)
    limits = (*ax.get_xlim(), *ax.get_ylim())
    line = ax.errorbar(x, y, ends, **look).lines[0]
    ax.set(xlim=(min(limits[0], left), max(limits[1], right)), ylim=(min(limits[2], bottom), max(limits[3], top)))
    return line


def _name_models(ax: Axes, models: Sequence[_Model]) -> None:
    """Name all models in the legend, and remove the title of the first if there are several."""
    from matplotlib.lines import Line2D

    if len(models) > 1:
        ax.set_title("")
    handles = []
    for i, model in enumerate(models):
        for side, line in model.lines:
            handle = Line2D([], [])
            handle.update_from(line)
            handle.set_label(", ".join(filter(None, (model.name or f"model {i + 1}", side))))
            handles.append(handle)
    ax.legend(handles=handles, loc="best", fontsize="small", framealpha=0.7)


def _title(plot: Plot, every: Sequence[Data]) -> str:
    errors = [error for data in every if (error := plot.error(data)) is not None]
    if not errors:
        return plot.kind
    return f"{plot.kind}\n{errors[0][0]} " + " \N{RIGHTWARDS ARROW} ".join(f"{value:.3f}" for _, value in errors)


def _handles(plot: Plot, data: Data, entry: Mapping[str, Any], look: Look, side: str | None) -> list[Any]:
    """Return the legend of one diagram, or its mark alone, labelled ``side``, if there are two."""
    if side is None:
        return [_handle(key) for key in plot.keys(data, entry.get("definition") or {}, look)]
    return [_handle(replace(plot.mark(data, look), label=side))]


def _handle(key: Key) -> Any:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shade = colour(key.colour)
    if key.kind == "area":
        return Patch(color=shade, label=key.label)
    style: Any = (0, key.dash) if key.dash else "-"
    if key.kind in ("dot", "square", "ring", "whisker"):
        face = "none" if key.kind == "ring" else shade
        line: Any = style if key.dash is not None or key.kind == "whisker" else "none"
        marker = "s" if key.kind == "square" else "o"
        return Line2D([], [], color=shade, marker=marker, markerfacecolor=face, linestyle=line, label=key.label)
    return Line2D([], [], color=shade, linestyle=style, linewidth=3 if key.kind == "bar" else 1.5, label=key.label)


def colour(role: str) -> str:
    """Return the colour of a role in the style of matplotlib: text and background are its own, others fit them."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    if role in ("ink", "paper"):
        return str(rcParams["text.color" if role == "ink" else "axes.facecolor"])
    is_dark = sum(to_rgb(rcParams["axes.facecolor"])) < 1.5
    return (DARK if is_dark else LIGHT)[role]  # type: ignore[index]


class AxesPanel:
    """Matplotlib axes with the drawing methods of ``Panel``."""

    grain = 1.0

    def __init__(self, ax: Axes, x: Range, y: Range) -> None:
        self.ax, self.x, self.y = ax, x, y

    def line(
        self, x: Values, y: Values, role: str, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """Draw a line through points."""
        self.ax.plot(values(x), values(y), color=colour(role), linewidth=width, dashes=dash or (), zorder=2.5)

    def pieces(
        self, x: Values, y: Values, role: str, *, width: float = 1.0, dash: tuple[float, ...] | None = None
    ) -> None:
        """Draw separate lines."""
        from matplotlib.collections import LineCollection

        lines = np.stack([values(x), values(y)], axis=-1)
        style: Any = (0, dash) if dash else "-"
        self.ax.add_collection(
            LineCollection(list(lines), colors=colour(role), linewidths=width, linestyles=style, zorder=2.5)
        )

    def between(
        self, x: Values, low: Values, high: Values, fill: str | None, *, hatch: str | None = None,
        stroke: str | None = None,
    ) -> None:  # fmt: skip
        """Fill the area between two curves."""
        low, high = np.broadcast_arrays(values(low), values(high))
        self.ax.fill_between(values(x), low, high, **_fill(fill, hatch, stroke))

    def areas(self, x: Values, y: Values, fill: str | None, *, hatch: str | None = None, stroke: str | None = None,
              opacity: float = 1.0) -> None:  # fmt: skip
        """Fill separate polygons."""
        from matplotlib.collections import PolyCollection

        corners = np.stack([values(x), values(y)], axis=-1)
        self.ax.add_collection(PolyCollection(list(corners), **_fill(fill, hatch, stroke), alpha=opacity))

    def dots(self, x: Values, y: Values, radius: Values, fill: str, *, stroke: str | None = None,
             square: bool = False) -> None:  # fmt: skip
        """Draw circles or squares with radii in points."""
        edge = colour(stroke) if stroke else "none"
        self.ax.scatter(
            values(x), values(y), (2.0 * values(radius)) ** 2, color=colour(fill), edgecolors=edge, linewidths=0.8,
            marker="s" if square else "o", zorder=3,
        )  # fmt: skip

    def diagonal(self) -> None:
        """Draw the diagonal."""
        low, high = max(self.x[0], self.y[0]), min(self.x[1], self.y[1])
        if low < high:
            self.line([low, high], [low, high], "quiet", dash=(5.0, 3.0))


def _fill(fill: str | None, hatch: str | None, stroke: str | None) -> dict[str, Any]:
    return {
        "facecolor": "none" if fill is None else colour(fill),
        "edgecolor": colour(stroke) if stroke else "none",
        "hatch": hatch,
        "linewidth": 0.0,
        "zorder": 1.5,
    }
