"""From predictions to the probability of one event a row, and the label that makes the event true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant.batch import Integers, Predictions, Scale
from calibrant.cells import Floats

#: Applies a map to checked predictions: ``(n,)`` of the map's event, or ``(n, K)``.
Apply = Callable[[Predictions], Floats]


@dataclass(frozen=True)
class Reduced:
    """``p (n,)`` is the probability that the label is ``event (n,)``; ``raw_p`` and ``raw_event`` are those before the
    map, None without one.
    """

    p: Floats
    event: Integers
    raw_p: Floats | None = None
    raw_event: Integers | None = None


def reduce_rows(values: Floats, scale: Scale, reduction: str, apply: Apply | None = None) -> Reduced:
    """Reduce checked predictions, ``(n,)`` or ``(n, K)``, after the map where there is one. O(n K).

    ``reduction`` is binary, confidence, class:k or top:r. Of ``(n,)`` the event is label 1. Under ``confidence`` and
    ``top:r`` it is the class of that rank, of equal probabilities the first; where a map of one event was applied,
    the class that had the rank before it.

    Examples
    --------
    >>> found = reduce_rows(np.array([[0.2, 0.7, 0.1], [0.4, 0.2, 0.4]]), "probability", "confidence")
    >>> found.p.tolist(), found.event.tolist()
    ([0.7, 0.4], [1, 0])
    """
    predictions = Predictions(values, scale)
    raw_p, raw_event = _event(predictions.values, reduction)
    if apply is None:
        return Reduced(raw_p, raw_event)
    mapped = apply(predictions)
    p, event = (mapped, raw_event) if mapped.ndim == 1 else _event(mapped, reduction)
    return Reduced(np.clip(p, 0.0, 1.0), event, raw_p, raw_event)


def _event(values: Floats, reduction: str) -> tuple[Floats, Integers]:
    n = len(values)
    if values.ndim == 1:
        return values, np.ones(n, np.int64)
    if reduction == "binary":
        event = np.ones(n, np.int64)
    elif reduction.startswith("class:"):
        event = np.full(n, int(reduction.removeprefix("class:")))
    elif reduction in ("confidence", "top:1"):
        event = values.argmax(axis=1)
    else:
        rank = int(reduction.removeprefix("top:"))
        event = np.argsort(-values, axis=1, kind="stable")[:, rank - 1]
    return values[np.arange(n), event].astype(np.float64), event
