"""Pictures of prediction sets: the coverage of classes, sizes and groups, and the sizes of the sets."""

from __future__ import annotations

import numpy as np

from calibrant.diagrams.sets import SetCoverage, SetSizes, set_coverage, set_sizes
from calibrant.plots.canvas import SMALL, Canvas, Caption, Drawn, Format, Theme, UnknownPicture, cleaned, shortened
from calibrant.plots.canvas import width as width_of
from calibrant.plots.panel import (
    MARGIN,
    Key,
    Panel,
    about_lines,
    beside,
    count,
    decimal,
    evenly,
    heading,
    level_text,
    notes,
    percent,
    rows_of,
)
from calibrant.sets.evaluation import SetEvaluation

#: Pixels of a row of the coverage, of the longest name, of the histogram, and below a panel.
_ROW, _NAME, _TALL, _BELOW = 18.0, 150.0, 200.0, 46.0
_NOMINAL_DASH = (5.0, 3.0)


def draw_sets(
    evaluation: SetEvaluation,
    diagram: str,
    *,
    name: str | None = None,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw ``set-coverage`` or ``set-sizes`` of an evaluation of prediction sets.

    ``name`` is that of the model or data, and the others are as for ``calibrant.plots.diagram.draw``. Raises
    ``UnknownPicture`` and ``InvalidPicture``.
    """
    canvas, about = Canvas(width, theme=theme, form=form), Caption(evaluation.n, _nominal(evaluation), name)
    if diagram == "set-coverage":
        return _coverage(canvas, set_coverage(evaluation), evaluation, about)
    if diagram == "set-sizes":
        return _sizes(canvas, set_sizes(evaluation), about)
    raise UnknownPicture("the diagram must be set-coverage or set-sizes")


def _nominal(evaluation: SetEvaluation) -> str:
    return "no nominal coverage" if evaluation.alpha is None else f"nominal {level_text(1.0 - evaluation.alpha)}"


def _coverage(canvas: Canvas, data: SetCoverage, evaluation: SetEvaluation, about: Caption) -> Drawn:
    title, lines = about_lines("Coverage of prediction sets", about, ("coverage", evaluation.coverage))
    keys = [Key(f"coverage, {level_text(evaluation.level)} interval", "first", "whisker")]
    if data.nominal is not None:
        keys.append(Key(f"nominal {level_text(data.nominal)}", "quiet", dash=_NOMINAL_DASH))
    top = heading(canvas, title, lines, keys)
    names = [shortened(cleaned(stratum), _NAME, SMALL) for stratum in data.names]
    left = MARGIN + max(width_of(stratum, SMALL) for stratum in names) + 10.0
    tall, rows = _ROW * len(names), np.arange(len(names)) + 0.5
    least = min(float(data.low.min()), 1.0 if data.nominal is None else data.nominal)
    x = max(0.0, np.floor(10.0 * least) / 10.0), 1.0
    panel = Panel(canvas, (left, top, canvas.width - left - MARGIN, tall), x, (float(len(names)), 0.0))
    if data.nominal is not None:
        panel.line([data.nominal] * 2, [0.0, len(names)], "quiet", dash=_NOMINAL_DASH)
    panel.pieces(np.stack([data.low, data.high], axis=1), np.stack([rows, rows], axis=1), "first", width=1.2)
    panel.dots(data.coverage, rows, 3.0, "first", stroke="paper")
    panel.side((rows.tolist(), names))
    panel.base(evenly(*x, 6), "coverage")
    nominal = "" if data.nominal is None else f" Nominal coverage {level_text(data.nominal)}."
    stratum = "; ".join(
        f"{cleaned(name)}: {decimal(value)} of {rows_of(n)}, {decimal(low)} to {decimal(high)}"
        for name, value, low, high, n in zip(data.names, data.coverage, data.low, data.high, data.n, strict=True)
    )
    alt = f"Coverage of {rows_of(about.n)} of prediction sets.{nominal} {stratum}."
    return canvas.drawn(notes(canvas, top + tall + _BELOW, []), title, alt)


def _sizes(canvas: Canvas, data: SetSizes, about: Caption) -> Drawn:
    title, lines = about_lines("Sizes of prediction sets", about, ("mean size", data.mean_size))
    top = heading(canvas, title, lines, [])
    marks = evenly(0.0, 1.05 * float(data.share.max()), 5)
    upright = (marks[0], [percent(share) for share in marks[0]])
    left = MARGIN + beside(upright, "share of the sets")
    x = float(data.sizes.min()) - 0.5, float(data.sizes.max()) + 0.5
    box = (left, top, canvas.width - left - MARGIN, _TALL)
    panel = Panel(canvas, box, x, (0.0, 1.05 * float(data.share.max())))
    start, end, zero = data.sizes - 0.4, data.sizes + 0.4, np.zeros_like(data.share)
    corners = np.stack([zero, zero, data.share, data.share], axis=1)
    panel.areas(np.stack([start, end, end, start], axis=1), corners, "first-tint")
    panel.side(upright, "share of the sets")
    ticks = [place for place in evenly(*x, 8)[0] if float(place).is_integer()]
    panel.base((ticks, [count(place) for place in ticks]), "classes in the set")
    most = np.sort(np.argsort(-data.share, kind="stable")[:10])
    by_size = "; ".join(f"{count(data.sizes[i])}: {percent(float(data.share[i]))}" for i in most)
    whole = f"Sizes of {rows_of(about.n)} of prediction sets, mean size {decimal(data.mean_size)}."
    return canvas.drawn(notes(canvas, top + _TALL + _BELOW, []), title, f"{whole} Shares by size: {by_size}.")
