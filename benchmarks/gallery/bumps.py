"""The order of models under each measure (the paper's Figure 15)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.gallery.orders import KEPT, MEASURES, TRUTH
from benchmarks.records import load
from calibrant.plots.canvas import SERIES, SMALL, Canvas, Drawn, Format, Theme
from calibrant.plots.panel import Panel, heading

#: Pixels beside a chart for the names of its lines, of a chart, and of the words below the lowest.
_NAMES, _TALL, _WORDS = 104.0, 128.0, 34.0
_DASHES = (None, (6.0, 2.5))


def orders(form: Format, theme: Theme, width: int) -> Drawn:
    """Six calibrated outputs of each of three models, the best on top, by their true error and by seven measures."""
    figures: Mapping[str, Mapping[str, Mapping[str, float]]] = load(KEPT, "make gallery-orders", older=True)
    canvas = Canvas(width, theme=theme, form=form)
    title = "How measures order calibrated models"
    top = heading(canvas, title, ["n = 10,000 each · confidence · the least error stands on top"], [])
    names = [TRUTH, *MEASURES]
    summaries = []
    for model, outputs in figures.items():
        canvas.text(12.0, top + 18.0, model, colour="ink", bold=True)
        box = (_NAMES, top + 34.0, width - 2 * _NAMES, _TALL)
        panel = Panel(canvas, box, (0.0, len(names) - 1.0), (len(outputs) - 0.5, -0.5))
        _lines(panel, {name: _ranks(outputs, name) for name in names}, list(outputs))
        agreed = [name for name in MEASURES if _best(outputs, name) == _best(outputs, TRUTH)]
        summaries.append(
            f"{model}: the true best is {_best(outputs, TRUTH)}, found by {', '.join(agreed) or 'no measure'}"
        )
        top += _TALL + 46.0
    _measures(panel, names, top)
    alt = (
        f"{title}. Lines join the ranks of six outputs under the true error and seven measures. {'; '.join(summaries)}."
    )
    return canvas.drawn(top + _WORDS, title, alt)


def _lines(panel: Panel, ranks: Mapping[str, Mapping[str, int]], calibrators: list[str]) -> None:
    left, top, width, height = panel.box
    for x in panel.at(np.arange(len(ranks)), 0.0)[:, 0]:
        panel.canvas.line([np.array([[x, top], [x, top + height]])], "faint")
    for i, calibrator in enumerate(calibrators):
        places = np.array([of[calibrator] for of in ranks.values()], dtype=np.float64)
        colour, dash = SERIES[i % len(SERIES)], _DASHES[i // len(SERIES)]
        panel.line(np.arange(len(places)), places, colour, width=2.2, dash=dash)
        panel.dots(np.arange(len(places)), places, 3.4, colour, stroke="paper", square=dash is not None)
        for x, place, anchor in ((left - 10.0, places[0], "end"), (left + width + 10.0, places[-1], "start")):
            y = float(panel.at(0.0, place)[..., 1])
            panel.canvas.text(x, y + 4.0, calibrator, size=SMALL, colour="ink", anchor=anchor)  # type: ignore[arg-type]


def _measures(panel: Panel, names: list[str], top: float) -> None:
    for x, name in zip(panel.at(np.arange(len(names)), 0.0)[:, 0], names, strict=True):
        for i, part in enumerate(name.split(", ")):
            panel.canvas.text(float(x), top + 4.0 + 14.0 * i, part, anchor="middle", bold=name == TRUTH)


def _ranks(outputs: Mapping[str, Mapping[str, float]], name: str) -> dict[str, int]:
    ordered = sorted(outputs, key=lambda calibrator: outputs[calibrator][name])
    return {calibrator: place for place, calibrator in enumerate(ordered)}


def _best(outputs: Mapping[str, Mapping[str, float]], name: str) -> str:
    return min(outputs, key=lambda calibrator: outputs[calibrator][name])
