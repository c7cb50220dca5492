"""The cost plane of two models: which has the lower cost at each cost ratio and abstention rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.measures.selective import CostPlane
from calibrant.plots.canvas import SMALL, Canvas, Caption, Drawn, Format, Role, Theme, cleaned, shortened
from calibrant.plots.canvas import width as width_of
from calibrant.plots.panel import (
    MARGIN,
    MINUS,
    Key,
    Panel,
    about_lines,
    about_sentence,
    heading,
    level_text,
    notes,
    percent,
    values,
)

_KIND = "Cost plane"
#: Upper bounds of the relative difference of the costs, and the opacity of cells below each.
_STRENGTHS = ((0.02, 0.0), (0.10, 0.45), (0.30, 0.7), (1.01, 1.0))
_HATCH = "////"
_ROW, _BELOW = 16.0, 46.0
#: The smallest height and width of a cell with a number.
_FIGURE = (13.0, 30.0)

Array = npt.NDArray[np.float64]


def draw_cost_plane(
    plane: CostPlane | Mapping[str, Any],
    about: Caption,
    *,
    names: tuple[str, str] = ("the first model", "the second model"),
    form: Format = "svg",
    theme: Theme = "auto",
    width: int = 560,
) -> Drawn:
    """Draw which of two models has the lower cost, and by how many percent of the higher cost.

    Cells in which the second model is cheaper are hatched.

    Parameters
    ----------
    plane : CostPlane or mapping
        Result of ``calibrant.cost_plane``, or the same as JSON.
    about : Caption
        Rows, reduction and name for the title.
    names : (str, str)
        Names of the models.
    form, theme, width
        As for ``calibrant.plots.diagram.draw``.

    Raises
    ------
    InvalidPicture
        For an unsupported form, theme or width.
    """
    read = plane if isinstance(plane, Mapping) else vars(plane)
    rates, ratios, relative = (values(read[name]) for name in ("abstention", "cost_ratios", "relative"))
    first, second = (cleaned(name) for name in names)
    canvas = Canvas(width, theme=theme, form=form)
    title, lines = about_lines(_KIND, about, None)
    keys = [
        Key(f"{shortened(first, width / 2, SMALL)} is cheaper (by %)", "first-tint", "area"),
        Key(
            f"{shortened(second, width / 2, SMALL)} is cheaper (by %)",
            "second-tint",
            "area",
            hatch=_HATCH,
            stroke="paper",
        ),
    ]
    top = heading(canvas, title, lines, keys)
    labels = [level_text(rate) for rate in rates]
    left = MARGIN + max(width_of(label, SMALL) for label in labels) + 26.0
    tall = max(60.0, min(_ROW * len(rates), 420.0))
    panel = Panel(canvas, (left, top, width - left - MARGIN, tall), (0.0, len(ratios)), (float(len(rates)), 0.0))
    _cells(panel, relative)
    _axes(panel, labels, [f"{ratio:g}" for ratio in ratios])
    alt = _describe(about, (first, second), rates, ratios, relative)
    return canvas.drawn(notes(canvas, top + tall + _BELOW, []), title, alt)


def _cells(panel: Panel, relative: Array) -> None:
    """Draw the cells by sign and strength, with a number in each if there is room."""
    below = 0.0
    for most, opacity in _STRENGTHS:
        strong = (np.abs(relative) >= below) & (np.abs(relative) < most)
        below = most
        if opacity:
            _fill(panel, strong & (relative < 0.0), "first-tint", opacity, None)
            _fill(panel, strong & (relative > 0.0), "second-tint", opacity, _HATCH)
    rows, columns = relative.shape
    if panel.box[3] / rows < _FIGURE[0] or panel.box[2] / columns < _FIGURE[1]:
        return
    for row, column in np.ndindex(rows, columns):
        x, y = panel.at(column + 0.5, row + 0.5)
        panel.canvas.text(x, y + 4.0, _figure(float(relative[row, column])), colour="ink", anchor="middle")


def _fill(panel: Panel, where: npt.NDArray[np.bool_], tint: Role, opacity: float, hatch: str | None) -> None:
    row, column = np.nonzero(where)
    x = np.stack([column, column + 1, column + 1, column], axis=1) + np.array([0.03, -0.03, -0.03, 0.03])
    y = np.stack([row, row, row + 1, row + 1], axis=1) + np.array([0.06, 0.06, -0.06, -0.06])
    panel.canvas.polygon(list(panel.at(x, y)), tint, opacity=opacity, hatch=hatch, stroke="paper" if hatch else None,
                         width=0.0)  # fmt: skip


def _axes(panel: Panel, rates: list[str], ratios: list[str]) -> None:
    rows, columns = len(rates), len(ratios)
    every = max(1, int(np.ceil(14.0 * rows / panel.box[3])))
    panel.side(([i + 0.5 for i in range(0, rows, every)], rates[::every]), "abstention rate")
    across = max(1, int(np.ceil(columns * (max(width_of(r, SMALL) for r in ratios) + 8.0) / panel.box[2])))
    panel.base(
        ([i + 0.5 for i in range(0, columns, across)], ratios[::across]), "cost of an error / cost of an abstention"
    )


def _figure(share: float) -> str:
    text = f"{100.0 * share:+.0f}"
    return "0" if text in ("+0", "-0") else text.replace("-", MINUS)


def _describe(about: Caption, names: tuple[str, str], rates: Array, ratios: Array, relative: Array) -> str:
    cheaper = [int(np.count_nonzero(sign * relative > 0.0)) for sign in (-1.0, 1.0)]
    best = np.unravel_index(int(np.argmin(relative)), relative.shape)
    worst = np.unravel_index(int(np.argmax(relative)), relative.shape)
    sentences = [
        f"{_KIND} of {names[0]} and {names[1]}{about_sentence(about, None)}",
        f"Of {relative.size} pairs of cost ratio and abstention rate, {names[0]} is cheaper in {cheaper[0]} "
        f"and {names[1]} in {cheaper[1]}.",
    ]
    for name, at, sign in ((names[0], best, -1.0), (names[1], worst, 1.0)):
        if sign * relative[at] > 0.0:  # the extreme of a model that is never cheaper has the other sign
            sentences.append(
                f"The largest advantage of {name} is {percent(abs(relative[at]))}, at cost ratio {ratios[at[1]]:g} and "
                f"abstention rate {level_text(rates[at[0]])}."
            )
    return " ".join(sentences)
