"""Measures against the number of rows; the curve of an unbiased measure is flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.by_size import MeasuresBySize
from calibrant.plots.canvas import (
    IN_SAMPLE,
    SERIES,
    Canvas,
    Caption,
    Drawn,
    Format,
    InvalidPicture,
    NothingToDraw,
    Role,
    Theme,
    cleaned,
)
from calibrant.plots.panel import (
    MARGIN,
    Key,
    Panel,
    Ticks,
    about_lines,
    about_sentence,
    beside,
    count,
    decimal,
    evenly,
    heading,
    notes,
    reach,
)

#: The most curves: two dashes and marks for each colour.
MOST = 2 * len(SERIES)
_DASHES: tuple[tuple[float, ...] | None, ...] = (None, (7.0, 2.5), (2.0, 2.0), (8.0, 2.0, 2.0, 2.0))
_KINDS = ("Measures by test set size", "Squared measures by test set size")
_IMPROVEMENTS = ("Improvement by a map, by test set size", "Improvement of squared measures by a map, by test set size")
_TALL, _BELOW = 280.0, 46.0
#: Pixels between the whiskers of two curves.
_APART = 4.0

Array = npt.NDArray[np.float64]


def draw_by_size(
    results: MeasuresBySize | Mapping[str, Any],
    about: Caption,
    *,
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
    improvement: bool = False,
    squared: bool = False,
    in_sample: bool = False,
) -> Drawn:
    """Draw the mean and standard deviation of measures over random subsets, by the size of the subsets.

    Parameters
    ----------
    found : MeasuresBySize or mapping
        Result of ``calibrant.measure_by_size`` with one to eight curves, or the same as JSON.
    about : Caption
        Rows, reduction and name for the title.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.
    improvement : bool
        Whether the values are improvements by a map, as in Gruber & Buettner (2022), Figures 5 to 7.
    squared, in_sample : bool
        Whether the measures are squared, and whether the map was fitted to these rows.

    Raises
    ------
    NothingToDraw
        If no measure has a value.
    InvalidPicture
        For more than eight curves, or an unsupported form, theme or width.
    """
    sizes, curves = _read(results)
    canvas = Canvas(width, theme=theme, form=form)
    kind = (_IMPROVEMENTS if improvement else _KINDS)[squared]
    title, lines = about_lines(kind, about, None)
    lines += [IN_SAMPLE] if in_sample else []
    names = {key: cleaned(key) for key in curves}
    looks = [(name, *look(i)) for i, name in enumerate(names.values())]
    keys = [Key(name, colour, "square" if square else "dot", dash or ()) for name, colour, dash, square in looks]
    top = heading(canvas, title, [*lines, "mean over random subsets, ± 1 standard deviation"], keys)
    y = reach(_ends(curves))
    marks = evenly(*y, 6)
    left = MARGIN + beside(marks, "improvement" if improvement else "value")
    margin = 0.04 * max(np.log2(sizes[-1] / sizes[0]), 1.0)
    x = float(np.log2(sizes[0]) - margin), float(np.log2(sizes[-1]) + margin)
    panel = Panel(canvas, (left, top, width - left - 2 * MARGIN, _TALL), x, y)
    panel.side(marks, "improvement" if improvement else "value")
    panel.base(_sizes(panel, sizes), "rows (log scale)")
    for i, key in enumerate(curves):
        _curve(panel, np.log2(sizes), *curves[key], i, len(curves))
    text = _describe(kind, about, sizes, curves, names)
    alt = f"{text} In-sample: the map was fitted to these rows." if in_sample else text
    return canvas.drawn(notes(canvas, top + _TALL + _BELOW, []), title, alt)


def look(i: int) -> tuple[Role, tuple[float, ...] | None, bool]:
    """Return the colour, the dash and whether the marks are squares of curve i."""
    again, colour = divmod(i, len(SERIES))
    return SERIES[colour], _DASHES[(i + 2 * again) % len(_DASHES)], bool((i + again) % 2)


def _read(results: MeasuresBySize | Mapping[str, Any]) -> tuple[Array, dict[str, tuple[Array, Array]]]:
    """Return the sizes, and the mean and standard deviation of each measure, NaN for None."""
    if isinstance(results, MeasuresBySize):
        sizes: Sequence[float] = results.sizes
        pairs = {key: (curve.mean, curve.standard_deviation) for key, curve in results.curves.items()}
    else:
        sizes = results["sizes"]
        pairs = {key: (curve["mean"], curve["standard_deviation"]) for key, curve in results["curves"].items()}
    if not 1 <= len(pairs) <= MOST:
        raise InvalidPicture(f"the number of measures must be from 1 to {MOST}")
    curves = {key: (np.array(mean, dtype=float), np.array(off, dtype=float)) for key, (mean, off) in pairs.items()}
    if not any(np.isfinite(mean).any() for mean, _ in curves.values()):
        raise NothingToDraw("no measure has a value at any size")
    return np.array(sizes, dtype=np.float64), curves


def _ends(curves: Mapping[str, tuple[Array, Array]]) -> list[float]:
    """Return the ends of all error bars."""
    ends = np.concatenate([[mean - np.nan_to_num(off), mean + np.nan_to_num(off)] for mean, off in curves.values()])
    return [float(end) for end in ends[np.isfinite(ends)]]


def _sizes(panel: Panel, sizes: Array) -> Ticks:
    """Return ticks at the sizes that have room for a label."""
    labelled: list[float] = []
    for size in [sizes[-1], *sizes[:-1]]:
        place = panel.at(np.log2(size), 0.0)[0]
        if all(abs(place - panel.at(np.log2(other), 0.0)[0]) > 46.0 for other in labelled):
            labelled.append(float(size))
    labelled.sort()
    return [float(np.log2(size)) for size in labelled], [count(size) for size in labelled]


def _curve(panel: Panel, x: Array, mean: Array, off: Array, i: int, of: int) -> None:
    """Draw a curve and its error bars, shifted so that the bars of several curves do not overlap."""
    known = np.isfinite(mean)
    if not known.any():
        return
    shift = (i - (of - 1) / 2.0) * _APART * (panel.x[1] - panel.x[0]) / panel.box[2]
    x, mean, off = x[known] + shift, mean[known], off[known]
    colour, dash, square = look(i)
    spread = np.isfinite(off)
    whiskers = np.stack([mean[spread] - off[spread], mean[spread] + off[spread]], axis=1)
    panel.pieces(np.stack([x[spread]] * 2, axis=1), whiskers, colour, width=1.0)
    panel.line(x, mean, colour, width=1.8, dash=dash)
    panel.dots(x, mean, 2.6, colour, stroke="paper", square=square)


def _describe(
    kind: str, about: Caption, sizes: Array, curves: Mapping[str, tuple[Array, Array]], names: Mapping[str, str]
) -> str:
    sentences = []
    for key, (mean, off) in curves.items():
        of_sizes = "; ".join(
            f"{count(size)} row{'' if size == 1 else 's'}: {_value(m)}"
            + (f" plus or minus {decimal(d)}" if np.isfinite(d) else "")
            for size, m, d in zip(sizes, mean, off, strict=True)
        )
        sentences.append(f"{names[key]}: {of_sizes}.")
    opening = f"{kind}{about_sentence(about, None)} Mean and standard deviation over random subsets."
    return " ".join([opening, *sentences])


def _value(mean: float) -> str:
    return decimal(mean) if np.isfinite(mean) else "no value"
