"""Events and vectors that are drawn, and one measure evaluated on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import calibrant
from calibrant.core.reductions import Event, Vector


def drawn_event(n: int = 400, seed: int = 0, digits: int = 2) -> Event:
    random = np.random.default_rng(seed)
    c = random.random(n)
    return Event(np.round(c**1.4, digits), (random.random(n) < c).astype(np.int8))


def drawn_vector(n: int = 300, K: int = 4, seed: int = 0) -> Vector:
    random = np.random.default_rng(seed)
    P = random.dirichlet(np.ones(K), n)
    return Vector(P, np.array([random.choice(K, p=row) for row in P]))


def answer_of(measure: str | dict[str, Any], *arguments: Any, **options: Any) -> calibrant.MeasureResult:
    request = {"name": measure} if isinstance(measure, str) else measure
    return calibrant.evaluate(*arguments, measures=[{**request, "as": "it"}], **options).measures["it"]


def rows_of(event: Event) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    return event.p, event.y.astype(np.int64)
