"""Streams of predictions and labels, calibrated or with an error of a known size and shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.calibration_test import Array, Draw, calibrated

#: Distributions of calibrated predictions.
SPREADS: Mapping[str, Callable[[int, np.random.Generator], Array]] = {
    "uniform": lambda n, random: random.random(n),
    "mean of two uniforms": lambda n, random: (random.random(n) + random.random(n)) / 2.0,
    "Beta(2, 5)": lambda n, random: random.beta(2.0, 5.0, n),
    "Beta(.5, .5)": lambda n, random: random.beta(0.5, 0.5, n),
    "Beta(5, 1), as a confidence": lambda n, random: random.random(n) ** 0.2,
    "from 0.5 to 1, mostly near 1": lambda n, random: 1.0 - 0.5 * random.random(n) ** 4,
    "near 0, u^8": lambda n, random: random.random(n) ** 8,
    "near 0 and 1, u^10 or 1 - u^10": lambda n, random: _both_ends(n, random),
}


def _both_ends(n: int, random: np.random.Generator) -> Array:
    near = random.random(n) ** 10
    return np.where(random.random(n) < 0.5, near, 1.0 - near)


@dataclass(frozen=True)
class Stream:
    """An infinite stream: the first ``sound`` rows are calibrated and uniform, later rows come from ``draw``."""

    draw: Draw
    sound: int = 0

    def chunks(self, size: int, random: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        """Predictions and labels, ``size`` rows at a time."""
        begun = 0
        while True:
            whole = max(min(self.sound - begun, size), 0)
            parts = [
                draw(n, random) for draw, n in ((calibrated(SPREADS["uniform"]), whole), (self.draw, size - whole)) if n
            ]
            p, c = (np.concatenate(both) for both in zip(*parts, strict=True))
            yield p, (random.random(size) < c).astype(np.float64)
            begun += size
