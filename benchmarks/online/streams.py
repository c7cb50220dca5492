"""Streams with drift: 20 simulated ones, and forecasts of games."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from benchmarks.data_sets import verified

Floats = npt.NDArray[np.float64]
Stream = tuple[Floats, npt.NDArray[np.int64]]

#: Rows of a simulated stream, and rows before it that the static map is fitted to.
ROWS, BEFORE = 10_000, 2_000
#: Real streams: the forecasts of FiveThirtyEight.
GAMES = ("nba", "mlb")


def _abrupt(t: Floats, z: Floats, size: float) -> Floats:
    """The log-odds are shifted from 40 % of the stream on."""
    return z + size * (t >= 0.4)


def _gradual(t: Floats, z: Floats, size: float) -> Floats:
    """The log-odds are shifted and stretched more and more from 20 % of the stream on."""
    grown = np.clip((t - 0.2) / 0.6, 0.0, 1.0)
    return (1.0 - 0.4 * grown) * z + size * grown


def _seasonal(t: Floats, z: Floats, size: float) -> Floats:
    """The shift is a sine of four periods."""
    return z + size * np.sin(8.0 * np.pi * t)


def _prevalence(t: Floats, z: Floats, size: float) -> Floats:
    """The odds of the positive class change by a factor in three steps, such that P(x | y) stays."""
    return z + size * np.floor(4.0 * t) / 3.0


def _recurring(t: Floats, z: Floats, size: float) -> Floats:
    """Two concepts alternate every 20 % of the stream."""
    return np.where(np.floor(5.0 * t) % 2 == 0, z, 0.7 * z + size)


KINDS: dict[str, Callable[..., Floats]] = {
    "abrupt": _abrupt,
    "gradual": _gradual,
    "seasonal": _seasonal,
    "prevalence": _prevalence,
    "recurring": _recurring,
}
#: Sizes of the four streams of each kind, in log-odds, and their mean prediction in log-odds.
SETTINGS = ((0.5, -0.5), (-0.8, 0.0), (1.0, -2.0), (-0.4, 1.0))


def simulated() -> Iterator[tuple[str, Stream, Stream]]:
    """Name, calibrated rows before the stream, and the stream."""
    for kind, shifted in KINDS.items():
        for number, (size, level) in enumerate(SETTINGS):
            random = np.random.default_rng([538, list(KINDS).index(kind), number])
            yield (
                f"{kind} {size:+.1f}, mean {expit(level):.2f}",
                _drawn(random, BEFORE, level, lambda _, z: z),
                _drawn(random, ROWS, level, partial(shifted, size=size)),
            )


def _drawn(random: np.random.Generator, n: int, level: float, true: Callable[[Floats, Floats], Floats]) -> Stream:
    """Predictions that are too confident by a fifth, and labels."""
    z = random.normal(level, 1.2, n)
    y = random.random(n) < expit(true(np.arange(n) / n, z))
    return np.asarray(expit(1.2 * z)), y.astype(np.int64)


def games(folder: Path, league: str) -> Stream:
    """Forecasts of one league in the order of their dates."""
    with gzip.open(verified(folder / f"538_{league}_games.csv.gz"), "rt", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row["prob1"] and row["prob1_outcome"] in {"0", "1"}]
    rows.sort(key=lambda row: row["date"])
    return np.array([float(row["prob1"]) for row in rows]), np.array([int(row["prob1_outcome"]) for row in rows])
