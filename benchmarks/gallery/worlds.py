"""Rows whose truth is known, and what each method makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import calibrant
from benchmarks.tables.datasets import SHAPES, Floats, SimulatedData, dataset, emitted
from calibrant.core.synthetic import FULL_ERRORS

#: Places at which a curve is drawn.
_GRID = 201
#: The derivate that is the shape itself.
_FULL = "full"


@dataclass(frozen=True)
class GalleryFit:
    """What a method says of the rows: its map at ``p``, and the calibration error that it reports.

    ``away`` is the mean distance of the map from the true one over the rows, and ``parts`` the number of its bins or
    pieces, if it was chosen.
    """

    method: str
    p: Floats
    calibrated: Floats
    error: float
    away: float
    parts: int | None = None


def truth(data: SimulatedData) -> tuple[Floats, Floats]:
    """The true calibration map of a dataset: predictions, ascending, and the true probability at each."""
    c = np.linspace(0.0, 1.0, _GRID)[1:-1]
    return SHAPES[data.shape](c) if data.derivate == _FULL else emitted(data.shape, data.derivate, c), c


def fitted(data: SimulatedData, method: str, options: Mapping[str, Any] | None = None) -> GalleryFit:
    """A method's map of the rows that it was fitted to, which is what fit-on-test evaluation looks at."""
    fitted_map = calibrant.fit(method, data.p, data.y, **dict(options or {}))
    parts = fitted_map.diagnostics.get("bins", fitted_map.diagnostics.get("pieces"))
    at = np.linspace(data.p[0], data.p[-1], _GRID)
    on_rows = fitted_map.apply(data.p)
    error, away = (float(np.abs(on_rows - other).mean()) for other in (data.p, data.c))
    return GalleryFit(method, at, fitted_map.apply(at), error, away, parts)


def example() -> SimulatedData:
    """3,000 rows of an overconfident classifier, true calibration error 0.05 in expectation."""
    return dataset("beta2", "0.050", 3_000, 0)


def of_the_paper() -> SimulatedData:
    """The rows of the paper's Figures 1 and 2: 3,000 of the shape beta2, whose draw has the numbers that it prints."""
    p, y, c = calibrant.shaped_predictions(3_000, shape="beta2", error=FULL_ERRORS["beta2"], seed=1)
    return SimulatedData("beta2", _FULL, len(p), 1, c, p, y.astype(np.int8))


def strong(shape: str) -> SimulatedData:
    """10,000 rows of a shape, true calibration error 0.1 in expectation: those of the paper's Figures 9 to 13."""
    return dataset(shape, "0.100", 10_000, 0)


@dataclass(frozen=True)
class Bars:
    """A classifier for the picture of equal bars: its rows."""

    title: str
    p: Floats
    y: Floats


def same_bars() -> tuple[Bars, ...]:
    """Three classifiers whose five bins hold the same shares of positives, and whose errors differ.

    The idea is that of Figure 4 of Kangsepp, Valk & Kull (2022); the numbers are made for this page.
    """
    heights = (0.1, 0.3, 0.5, 0.7, 0.9)
    near, off = (0.11, 0.29, 0.51, 0.69, 0.89), (0.02, 0.22, 0.50, 0.78, 0.98)
    even, middle = (200, 200, 200, 200, 200), (40, 40, 840, 40, 40)
    return (
        _bars("predictions near the bars", heights, near, even),
        _bars("predictions off the bars", heights, off, even),
        _bars("off, but few rows there", heights, off, middle),
    )


def _bars(title: str, heights: tuple[float, ...], means: tuple[float, ...], counts: tuple[int, ...]) -> Bars:
    p, y = [], []
    for height, mean, count in zip(heights, means, counts, strict=True):
        p.append(mean + np.linspace(-0.015, 0.015, count))
        y.append((np.arange(count) < round(height * count)).astype(np.float64))
    return Bars(title, np.clip(np.concatenate(p), 0.0, 1.0), np.concatenate(y))
