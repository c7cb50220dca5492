"""A diagram of the catalogue, from the data of ``calibrant.diagrams``, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from calibrant.plots.canvas import (
    SMALL,
    About,
    Canvas,
    Drawn,
    Format,
    InvalidPicture,
    Theme,
    UnknownPicture,
    cleaned,
    shortened,
)
from calibrant.plots.corp import CORP
from calibrant.plots.fitted import FITTED
from calibrant.plots.ks import KS, four_graphs, two_graphs
from calibrant.plots.logit import LOGIT
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

PLOTS: Mapping[str, Plot] = MappingProxyType(
    {"reliability": RELIABILITY, "fit-on-test": FITTED, "corp": CORP, "logit-logit": LOGIT, "ks-graphs": KS}
)


def draw(
    name: str,
    shown: Mapping[str, Any],
    about: About,
    *,
    after: tuple[Mapping[str, Any], About] | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw one diagram.

    Parameters
    ----------
    name : of the catalogue: reliability, fit-on-test, corp, logit-logit, ks-graphs
    shown : what a report holds of it under ``diagrams``: ``data``, ``definition`` and ``problem``
    about : what its title says beside its own figures
    after : the same diagram after a map, laid over it, and what it is about
    form, theme : ``auto`` follows the reader's preference in SVG; a PNG of it is light
    width : in pixels, from 320 to 2000; a PNG has twice as many

    Returns
    -------
    Drawn
        the picture, its media type and its figures as text; the same bytes for the same data

    Raises
    ------
    NothingToDraw
        where ``data`` is None
    UnknownPicture, InvalidPicture
        of a name, form, theme or width that there is not

    Examples
    --------
    >>> import calibrant
    >>> report = calibrant.evaluate([0.1, 0.4, 0.6, 0.9], [0, 0, 1, 1], diagrams=["reliability"])
    >>> drawn = draw("reliability", report.diagrams["reliability"], About(4, "binary"))
    >>> drawn.media_type, drawn.alt.partition(".")[0]
    ('image/svg+xml', 'Reliability diagram: 4 rows, reduction binary, ECE 0')
    """
    plot = plot_of(name)
    canvas = Canvas(width, theme=theme, form=form)
    if plot is not KS:
        return one_panel(canvas, plot, (shown, about), after)
    return four_graphs(canvas, (shown, about)) if after is None else two_graphs(canvas, (shown, about), after)


def plot_of(name: str) -> Plot:
    """The kind of diagram of a name. Raises ``UnknownPicture``."""
    if name not in PLOTS:
        raise UnknownPicture(f"no diagram is called so; there are {', '.join(PLOTS)}")
    return PLOTS[name]


# --- The same diagram of several models: one small panel each, all on the same axes

#: More models than this are no longer compared by eye.
MOST = 24
#: The least width of a panel in pixels, the space between two, and above and below each.
_NARROWEST, _BETWEEN, _ABOVE, _BELOW = 150.0, 16.0, 36.0, 22.0
_LEFT, _HISTOGRAM, _GAP = 52.0, 24.0, 8.0
_TICKS = 3


def draw_several(
    name: str,
    shown: Sequence[tuple[Mapping[str, Any], About]],
    *,
    title: str | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
    each: str = "models",
) -> Drawn:
    """Draw the same diagram of several models as small multiples, each under its name and error.

    As ``draw``, of 1 to 24 diagrams; ``each`` says what they are of, in the plural. One without data is left out, its
    name and problem noted below; ``NothingToDraw`` where all are. The KS graphs show the second of the four.
    """
    plot = plot_of(name)
    if not 1 <= len(shown) <= MOST:
        raise InvalidPicture(f"from 1 to {MOST} diagrams go on one sheet")
    kept = [(one, about) for one, about in shown if one.get("data") is not None] or list(shown)
    every = [data_of(one) for one, _ in kept]
    canvas = Canvas(width, theme=theme, form=form)
    heading_title = plot.kind if title is None else cleaned(title)
    rows = {about.n for _, about in kept}
    lines = [f"{_counted(kept, each)} · {_rows(rows)} · {cleaned(kept[0][1].reduction)}"]
    lines = lines if title is None else [f"{plot.kind} · {lines[0]}"]
    keys = plot.keys(every[0], kept[0][0].get("definition") or {}, BEFORE)
    top = heading(canvas, heading_title, lines, [replace(key, label=key.brief or key.label) for key in keys])
    bottom = _panels(canvas, top, plot, kept, every)
    lost = [
        f"{cleaned(about.name or '')}: {one.get('problem') or 'no data'}" for one, about in shown if one["data"] is None
    ]
    height = notes(canvas, bottom, [*lost, *(one.get("problem") for one, _ in kept)])
    return canvas.drawn(height, heading_title, _alternative(plot, kept, every, lost, cleaned(each)))


def _panels(canvas: Canvas, top: float, plot: Plot, kept: Sequence[Shown], every: Sequence[Data]) -> float:
    room = canvas.width - _LEFT - MARGIN
    columns = max(1, min(len(kept), int((room + _BETWEEN) // (_NARROWEST + _BETWEEN))))
    side = min((room - (columns - 1) * _BETWEEN) / columns, 260.0)
    x, y = plot.window(every)
    strip = 0.0 if plot.rows is None else _HISTOGRAM + _GAP
    deep = _ABOVE + side + strip + _BELOW
    last = (len(kept) - 1) // columns
    for i, ((_, about), data) in enumerate(zip(kept, every, strict=True)):
        row, column = divmod(i, columns)
        box = (_LEFT + column * (side + _BETWEEN), top + row * deep + _ABOVE, side, side)
        panel = Panel(canvas, box, x, y)
        _title(
            canvas, box, cleaned(about.name or "") or f"model {i + 1}", error_line(about, plot.error(data), brief=True)
        )
        panel.diagonal()
        plot.show(panel, data, BEFORE)
        panel.side(plot.places(*y, _TICKS) if column == 0 else ((), ()), plot.axes[1] if column == 0 else "")
        if plot.rows is not None:
            panel.base(((), ()))
            panel = Panel(canvas, (box[0], box[1] + side + _GAP, side, _HISTOGRAM), x)
            histogram(panel, [plot.rows(data)], [BEFORE], bare=True)
        beneath = i + columns >= len(kept)
        panel.base(plot.places(*x, _TICKS), plot.axes[0] if beneath else "")
    return top + (last + 1) * deep + 24.0


def _title(canvas: Canvas, box: tuple[float, float, float, float], name: str, error: str) -> None:
    left, top, side, _ = box
    canvas.text(left, top - 22.0, shortened(name, side, SMALL, "bold"), colour="ink", bold=True)
    canvas.text(left, top - 8.0, shortened(error, side, SMALL))


def _counted(kept: Sequence[Shown], each: str) -> str:
    return f"1 {cleaned(each.removesuffix('s'))}" if len(kept) == 1 else f"{len(kept)} {cleaned(each)}"


def _rows(rows: set[int]) -> str:
    least, most = min(rows), max(rows)
    return f"n = {count(least)}" if least == most else f"n = {count(least)} to {count(most)}"


def _alternative(plot: Plot, kept: Sequence[Shown], every: Sequence[Data], lost: Sequence[str], each: str) -> str:
    sentences, one_of = [f"{plot.kind} of {_counted(kept, each)}."], each.removesuffix("s").capitalize()
    for i, ((one, about), data) in enumerate(zip(kept, every, strict=True), 1):
        sentences.append(
            f"{one_of} {i}{about_sentence(about, plot.error(data))} {plot.describe(data, one.get('definition') or {})}"
        )
    return " ".join([*sentences, *(f"Not drawn: {cleaned(problem)}." for problem in lost)])
