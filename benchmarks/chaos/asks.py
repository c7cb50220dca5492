"""Requests of the clients: quick and long fits and evaluations, as jobs on batches that are uploaded once."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

#: Names that the maps of several clients share.
NAMES = tuple(f"chaos-{i}" for i in range(5))
SMALL, LARGE, CLASSES = 1_000, 20_000, 3
QUICK = ("platt", "beta", "isotonic", "temperature")

Rows = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


@dataclass(frozen=True)
class Ask:
    """A request for a job; ``name`` is the name of its map, if any."""

    path: str
    kind: str
    body: dict[str, Any]
    name: str | None = None
    headers: dict[str, str] = field(default_factory=lambda: {"Prefer": "respond-async"})


def draw(n: int, seed: int) -> Rows:
    """Predictions that are off by a power, and their labels."""
    numbers = np.random.default_rng(seed)
    c = numbers.random(n)
    return c**1.3, (numbers.random(n) < c).astype(np.int64)


@dataclass(frozen=True)
class Batches:
    """Ids of the batches that all requests use."""

    small: str
    large: str
    classes: str


def draw_classes(n: int, seed: int) -> Rows:
    """Overconfident predictions of three classes, and their labels."""
    numbers = np.random.default_rng(seed)
    logits = numbers.standard_normal((n, CLASSES))
    truth, odds = np.exp(logits), np.exp(1.5 * logits)
    cumulative = np.cumsum(truth / truth.sum(1, keepdims=True), axis=1)
    labels = np.minimum((numbers.random((n, 1)) > cumulative).sum(1), CLASSES - 1)
    return odds / odds.sum(1, keepdims=True), labels


def fit(method: str, batch: str, name: str | None = None, reduction: str | None = None) -> Ask:
    """A fit of one map."""
    fields = {"method": method, "batch": batch, "name": name, "reduction": reduction}
    return Ask("/maps", "fit", {field: value for field, value in fields.items() if value is not None}, name)


def evaluation(batch: str) -> Ask:
    """An evaluation with the default measures."""
    return Ask("/evaluate", "evaluate", {"batch": batch})


def mixed(batches: Batches, numbers: random.Random) -> Ask:
    """A request of the mix. Of a hundred: 45 quick fits, 20 of PL, 5 in parts, 10 averaged (half of them long) and 20
    evaluations.
    """
    name = numbers.choice(NAMES) if numbers.random() < 0.3 else None
    at = numbers.random()
    if at < 0.45:
        return fit(numbers.choice(QUICK), batches.small, name)
    if at < 0.65:
        return fit("pl", batches.small, name)
    if at < 0.70:
        # A name has versions of one shape.
        return fit("pl", batches.classes, name and f"{name}-classes", "classwise")
    if at < 0.80:
        return fit("averaged", batches.large if at > 0.75 else batches.small, name)
    return evaluation(batches.small)
