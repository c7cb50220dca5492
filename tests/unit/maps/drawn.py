"""Batches of many classes, drawn for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

import calibrant
from calibrant.core.cells import Floats
from calibrant.core.errors import InvalidDocument
from calibrant.core.reductions import Vector
from tests.refusals import refused_at


def drawn_logits(
    n: int, K: int, *, seed: int = 0, spread: float = 2.0, heat: float = 1.7, tilt: float = 0.5
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Overconfident logits, tilted by class, and labels."""
    random = np.random.default_rng(seed)
    z = spread * random.standard_normal((n, K))
    labels = (z + random.gumbel(size=z.shape)).argmax(axis=1)
    return heat * z + np.linspace(-tilt, tilt, K), labels


def softmax(z: Floats) -> Floats:
    """Row by row."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    probs: Floats = e / e.sum(axis=1, keepdims=True)
    return probs


def drawn_vector(n: int, K: int, *, seed: int = 0, w: Floats | None = None) -> Vector:
    """The same as a vector with logits."""
    z, labels = drawn_logits(n, K, seed=seed)
    return Vector(softmax(z), labels, w, logits=z)


def assert_refused(document: dict[str, Any], changes: Iterable[tuple[dict[str, Any], str]]) -> None:
    """Each change of the parameters of a document is refused, at its pointer below them."""
    for change, pointer in changes:
        with refused_at(f"/parameters/{pointer}", InvalidDocument):
            calibrant.load(document | {"parameters": document["parameters"] | change})


def log_loss(q: Floats, labels: npt.NDArray[np.int64], w: Floats | None = None) -> float:
    """Mean log loss, in nats, of probabilities clipped at 2^-52."""
    own = np.maximum(q[np.arange(len(labels)), labels].astype(np.float64), 2.0**-52)
    return -float(np.average(np.log(own), weights=w))
