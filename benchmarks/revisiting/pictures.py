"""The pictures: errors against each other, and lines over the severity of the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.gallery.layout import Grid
from benchmarks.revisiting.measures import SeverityFigures
from calibrant.comparison import PowerLaw
from calibrant.plots.canvas import SERIES, Canvas, Drawn
from calibrant.plots.panel import Key, Range, decimal, evenly, heading

_WIDTH, _TALL = 820, 230.0
_DASHES = (None, (6.0, 2.5))


def laws(
    families: Mapping[str, Sequence[SeverityFigures]],
    fitted_laws: Mapping[str, PowerLaw],
    front: Sequence[SeverityFigures],
) -> Drawn:
    """ECE against classification error with the power law of each family and the Pareto front (Figure 11)."""
    canvas = Canvas(_WIDTH, theme="auto", form="svg")
    title = "ECE and classification error of noisy digits"
    keys = [Key(name, SERIES[i], "square" if i % 2 else "dot") for i, name in enumerate(families)]
    top = heading(
        canvas, title, ["before temperature scaling"], [*keys, Key("Pareto front without noise", "ink", "ring")]
    )
    everything = [figures for figures_of_family in families.values() for figures in figures_of_family]
    x: Range = 0.0, 1.05 * max(figures.error for figures in everything)
    y: Range = 0.0, 1.05 * max(figures.before for figures in everything)
    grid = Grid(canvas, top, 1)
    (panel,) = grid.panels((("Plain ECE, equal mass, 100 bins", "lines: power laws"),), height=1.6 * _TALL, x=x, y=y)
    panel.base(evenly(*x, 8), "classification error")
    panel.side(evenly(*y, 6), "ECE")
    for i, (name, figures_of_family) in enumerate(families.items()):
        errors = np.array([figures.error for figures in figures_of_family])
        panel.dots(
            errors,
            [figures.before for figures in figures_of_family],
            3.6,
            SERIES[i],
            stroke="paper",
            square=bool(i % 2),
        )
        law = fitted_laws[name]
        if law.exponent is not None and law.factor is not None:
            over = np.linspace(errors.min(), errors.max(), 80)
            panel.line(over, law.factor * over**law.exponent, SERIES[i], width=1.6)
    panel.dots([figures.error for figures in front], [figures.before for figures in front], 6.0, "paper", stroke="ink")
    for i, (_, figures_of_family) in enumerate(families.items()):
        on_front = [figures for figures in figures_of_family if figures in front]
        panel.dots(
            [figures.error for figures in on_front],
            [figures.before for figures in on_front],
            3.6,
            SERIES[i],
            square=bool(i % 2),
        )
    laws_text = "; ".join(
        f"{name} factor {decimal(law.factor)}, exponent {decimal(law.exponent)}"
        for name, law in fitted_laws.items()
        if law.factor is not None and law.exponent is not None
    )
    alt = f"{title}. Points of four families of three classifiers at six severities, and power laws: {laws_text}."
    return canvas.drawn(grid.below(1.6 * _TALL), title, alt)


def by_severity(title: str, what: str, names: Sequence[str], values: Mapping[str, Sequence[Sequence[float]]]) -> Drawn:
    """A panel for each of ``values``, with the line of each name over the severity (Figures 13, 14 and 18)."""
    canvas = Canvas(_WIDTH, theme="auto", form="svg")
    keys = [Key(name, SERIES[i % len(SERIES)], dash=_DASHES[i // len(SERIES)]) for i, name in enumerate(names)]
    top = heading(canvas, title, [what], keys)
    grid = Grid(canvas, top, len(values))
    sentences = [f"{title}, {what}."]
    captions = [(caption, "") for caption in values]
    for square, (caption, rows) in zip(list(grid.panels(captions, height=_TALL)), values.items(), strict=True):
        low, high = min(0.0, *map(min, rows)), max(map(max, rows))
        margin = 0.05 * (high - low)
        panel = replace(square, x=(-0.2, len(rows[0]) - 0.8), y=(low - margin * (low < 0.0), high + margin))
        places = list(range(len(rows[0])))
        panel.base((places, [str(place) for place in places]), "severity of the noise")
        panel.side(evenly(*panel.y, 5))
        for i, row in enumerate(rows):
            panel.line(places, row, SERIES[i % len(SERIES)], width=1.8, dash=_DASHES[i // len(SERIES)])
            panel.dots(places, row, 2.4, SERIES[i % len(SERIES)], stroke="paper")
        described = "; ".join(
            f"{name} {', '.join(decimal(value) for value in row)}" for name, row in zip(names, rows, strict=True)
        )
        sentences.append(f"{caption}: {described}.")
    return canvas.drawn(grid.below(_TALL), title, " ".join(sentences))
