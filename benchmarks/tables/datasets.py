"""The synthetic datasets: five shapes of miscalibration, 21 strengths of each, three sizes, five label draws.

A classifier predicts p = f_w(c) = (1 - w) c + w f(c) for uniform true probabilities c. With the weights w of
``derivates.json`` the expected distance of p from c is the derivate's name (by bisection in the paper's code).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.provenance import uses
from calibrant.core import synthetic

Floats = npt.NDArray[np.float64]

SHAPES = synthetic.SHAPES

SIZES = (1_000, 3_000, 10_000)
SEEDS = range(5)
TEST_POINTS = 1_000_000
_WEIGHTS = json.loads(uses(Path(__file__).parent / "derivates.json").read_text("utf-8"))
DERIVATES = tuple(sorted(name for name in _WEIGHTS["square"] if name != "full_shape_CE"))


@dataclass(frozen=True)
class SimulatedData:
    """One dataset: the true probabilities ``c``, the predictions ``p`` and the labels ``y``, ascending in p."""

    shape: str
    derivate: str
    n: int
    seed: int
    c: Floats
    p: Floats
    y: npt.NDArray[np.int8]


def dataset(shape: str, derivate: str, n: int, seed: int) -> SimulatedData:
    """Draw a dataset as in the paper's code: labels depend only on n and the seed."""
    c, y = _truth(n, seed)
    return SimulatedData(shape, derivate, n, seed, c, emitted(shape, derivate, c), y)


def emitted(shape: str, derivate: str, c: Floats) -> Floats:
    """The prediction of the classifier for the true probability ``c``."""
    w = float(_WEIGHTS[shape][derivate])
    return (1 - w) * c + w * SHAPES[shape](c)


@lru_cache(maxsize=1)
def _truth(n: int, seed: int) -> tuple[Floats, npt.NDArray[np.int8]]:
    random = np.random.RandomState(seed + n)
    c = np.sort(random.dirichlet([1, 1], n)[:, 0])
    return c, random.binomial(1, c).astype(np.int8)


@cache
def unseen_truth() -> Floats:
    """The million true probabilities of the test points, ascending."""
    return np.sort(np.random.RandomState(TEST_POINTS).dirichlet([1, 1], TEST_POINTS)[:, 0])


@cache
def _unseen_shape(shape: str) -> Floats:
    return SHAPES[shape](unseen_truth())


def unseen_predictions(shape: str, derivate: str, step: int = 1) -> Floats:
    """The predictions of every so many of the test points."""
    w = float(_WEIGHTS[shape][derivate])
    return (1 - w) * unseen_truth()[::step] + w * _unseen_shape(shape)[::step]
