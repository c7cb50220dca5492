"""Draw a diagram of the catalogue, for one model or for several side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from calibrant.plots.canvas import (
    SMALL,
    Canvas,
    Caption,
    Drawn,
    Format,
    InvalidPicture,
    Theme,
    UnknownPicture,
    cleaned,
    shortened,
)
from calibrant.plots.canvas import width as width_of
from calibrant.plots.fitted import BELT, CORP, CURVE, FITTED
from calibrant.plots.forecasts import FORECAST_PLOTS, fan_of
from calibrant.plots.ks import KS, four_graphs, two_graphs
from calibrant.plots.logit import LOGIT, RARE_EVENT
from calibrant.plots.panel import (
    BEFORE,
    MARGIN,
    Data,
    Panel,
    Plot,
    Shown,
    about_sentence,
    count,
    data_of,
    error_line,
    heading,
    histogram,
    notes,
    one_panel,
)
from calibrant.plots.reliability import RELIABILITY
from calibrant.plots.thresholds import DECISION_CURVE, MURPHY

PLOTS: Mapping[str, Plot] = MappingProxyType(
    {
        "reliability": RELIABILITY,
        "fit-on-test": FITTED,
        "corp": CORP,
        "logit-logit": LOGIT,
        "ks-graphs": KS,
        "decision-curve": DECISION_CURVE,
        "murphy": MURPHY,
        "calibration-belt": BELT,
        "calibration-curve": CURVE,
    }
)


def draw(
    name: str,
    shown: Mapping[str, Any],
    about: Caption,
    *,
    after: tuple[Mapping[str, Any], Caption] | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw a diagram.

    Parameters
    ----------
    name : str
        Name in ``calibrant.DIAGRAMS`` or ``calibrant.DISTRIBUTION_DIAGRAMS``.
    shown : mapping
        Entry of ``Report.diagrams``: ``data``, ``definition`` and ``problem``.
    about : Caption
        Rows, reduction, name and error for the title.
    after : (mapping, Caption), optional
        The same diagram after a map, which is drawn over the first.
    form : {"svg", "png"}
        Format.
    theme : {"auto", "light", "dark"}
        An SVG with ``auto`` follows the colour scheme of the viewer; a PNG with ``auto`` is light.
    width : int
        Width in pixels, 320 to 2000. A PNG has twice this width and height, for sharp displays.

    Returns
    -------
    Drawn
        The picture, its media type and its alternative text. Equal data gives equal bytes.

    Raises
    ------
    NothingToDraw
        If ``data`` is None.
    UnknownPicture, InvalidPicture
        For an unknown name, or an unsupported form, theme or width.

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1], diagrams=["reliability"])
    >>> drawn = draw("reliability", report.diagrams["reliability"], Caption(4, "binary"))
    >>> drawn.media_type, drawn.alt.partition(".")[0]
    ('image/svg+xml', 'Reliability diagram: 4 rows, reduction binary, debiased ECE 0')
    """
    plot = plot_of(name, shown.get("data"))
    canvas = Canvas(width, theme=theme, form=form)
    if plot is not KS:
        return one_panel(canvas, plot, (shown, about), after)
    return four_graphs(canvas, (shown, about)) if after is None else two_graphs(canvas, (shown, about), after)


def plot_of(name: str, data: Data | None = None) -> Plot:
    """Return the plot with this name, for this data; raises ``UnknownPicture``."""
    if name == "fan" and data is not None:
        return fan_of(data)
    if name == "reliability" and data is not None and data.get("axes") == "logit":
        return RARE_EVENT
    if name in FORECAST_PLOTS:
        return FORECAST_PLOTS[name]
    if name not in PLOTS:
        raise UnknownPicture(f"the diagram must be one of {', '.join([*PLOTS, *FORECAST_PLOTS])}")
    return PLOTS[name]


# --- The same diagram of several models: small multiples with shared axes

#: The most panels.
MOST = 24
#: The smallest width of a panel in pixels, and the space between panels, above and below each.
_NARROWEST, _BETWEEN, _ABOVE, _BELOW = 150.0, 16.0, 36.0, 22.0
_LEFT, _HISTOGRAM, _GAP = 52.0, 24.0, 8.0
_TICKS = 3


def draw_several(
    name: str,
    shown: Sequence[tuple[Mapping[str, Any], Caption]],
    *,
    title: str | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
    noun: str = "models",
) -> Drawn:
    """Draw the same diagram of several models as small multiples, each with its name and error.

    Parameters
    ----------
    name : str
        Name of the diagram, as for ``draw``. ``ks-graphs`` draws only graph (b).
    shown : sequence of (mapping, Caption)
        1 to 24 diagrams. A diagram without data is omitted, with a note.
    title : str, optional
        Title; by default the kind of diagram.
    form, theme, width
        As for ``draw``.
    noun : str
        Plural noun for the panels, such as ``models`` or ``groups``.

    Raises
    ------
    NothingToDraw
        If no diagram has data.
    UnknownPicture, InvalidPicture
        As ``draw``, and for more than 24 diagrams.
    """
    plot_of(name)  # raises an error for an unknown name
    if not 1 <= len(shown) <= MOST:
        raise InvalidPicture(f"the number of diagrams must be from 1 to {MOST}")
    drawable = [(diagram, about) for diagram, about in shown if diagram.get("data") is not None] or list(shown)
    every = [data_of(diagram) for diagram, _ in drawable]
    plot = plot_of(name, every[0] if name == "reliability" else None)
    canvas = Canvas(width, theme=theme, form=form)
    heading_title = plot.kind if title is None else cleaned(title)
    rows = {about.n for _, about in drawable}
    lines = [f"{_counted(drawable, noun)} · {_rows(rows)} · {cleaned(drawable[0][1].reduction)}"]
    lines = lines if title is None else [f"{plot.kind} · {lines[0]}"]
    legends = (
        plot.keys(data, diagram.get("definition") or {}, BEFORE)
        for data, (diagram, _) in zip(every, drawable, strict=True)
    )
    keys = max(legends, key=len)  # one model may have knots or a line that another lacks
    top = heading(canvas, heading_title, lines, [replace(key, label=key.brief or key.label) for key in keys])
    bottom = _panels(canvas, top, plot, drawable, every)
    lost = [
        f"{cleaned(about.name or '')}: {diagram.get('problem') or 'no data'}"
        for diagram, about in shown
        if diagram["data"] is None
    ]
    height = notes(canvas, bottom, [*lost, *(diagram.get("problem") for diagram, _ in drawable)])
    return canvas.drawn(height, heading_title, _alternative(plot, drawable, every, lost, cleaned(noun)))


def _panels(canvas: Canvas, top: float, plot: Plot, drawable: Sequence[Shown], every: Sequence[Data]) -> float:
    room = canvas.width - _LEFT - MARGIN
    columns = max(1, min(len(drawable), int((room + _BETWEEN) // (_NARROWEST + _BETWEEN))))
    side = min((room - (columns - 1) * _BETWEEN) / columns, 260.0)
    x, y = plot.window(every)
    strip = 0.0 if plot.rows is None else _HISTOGRAM + _GAP
    deep = _ABOVE + side + strip + _BELOW
    last = (len(drawable) - 1) // columns
    for i, ((_, about), data) in enumerate(zip(drawable, every, strict=True)):
        row, column = divmod(i, columns)
        box = (_LEFT + column * (side + _BETWEEN), top + row * deep + _ABOVE, side, side)
        panel = Panel(canvas, box, x, y)
        _title(
            canvas, box, cleaned(about.name or "") or f"model {i + 1}", error_line(about, plot.error(data), brief=True)
        )
        if plot.diagonal:
            panel.diagonal()
        plot.show(panel, data, BEFORE)
        panel.side(
            plot.places(*y, _TICKS) if column == 0 else ((), ()), _brief(plot.axes[1], side) if column == 0 else ""
        )
        if plot.rows is not None:
            panel.base(((), ()))
            panel = Panel(canvas, (box[0], box[1] + side + _GAP, side, _HISTOGRAM), x)
            histogram(panel, [plot.rows(data)], [BEFORE], bare=True)
        beneath = i + columns >= len(drawable)
        panel.base((plot.across or plot.places)(*x, _TICKS), _brief(plot.axes[0], side) if beneath else "")
    return top + (last + 1) * deep + 24.0


def _brief(title: str, room: float) -> str:
    """The title of an axis, without its remark in parentheses if there is no room for that."""
    return title if width_of(title, SMALL) <= room else title.partition(" (")[0]


def _title(canvas: Canvas, box: tuple[float, float, float, float], name: str, error: str) -> None:
    left, top, side, _ = box
    canvas.text(left, top - 22.0, shortened(name, side, SMALL, "bold"), colour="ink", bold=True)
    canvas.text(left, top - 8.0, shortened(error, side, SMALL))


def _counted(drawable: Sequence[Shown], noun: str) -> str:
    return f"1 {cleaned(noun.removesuffix('s'))}" if len(drawable) == 1 else f"{len(drawable)} {cleaned(noun)}"


def _rows(rows: set[int]) -> str:
    least, most = min(rows), max(rows)
    return f"n = {count(least)}" if least == most else f"n = {count(least)} to {count(most)}"


def _alternative(plot: Plot, drawable: Sequence[Shown], every: Sequence[Data], lost: Sequence[str], noun: str) -> str:
    sentences, one_of = [f"{plot.kind} of {_counted(drawable, noun)}."], noun.removesuffix("s").capitalize()
    for i, ((diagram, about), data) in enumerate(zip(drawable, every, strict=True), 1):
        described = plot.describe(data, diagram.get("definition") or {})
        sentences.append(f"{one_of} {i}{about_sentence(about, plot.error(data))} {described}")
    return " ".join([*sentences, *(f"Not drawn: {cleaned(problem)}." for problem in lost)])
