"""Reductions: which event a calibration question is about, from many classes to one yes or no."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant.batch import Batch, Predictions
from calibrant.cells import Cells, Floats, Outcomes, SortedRows, WeightsKind, cells_of, sort_rows
from calibrant.errors import UnknownReduction

_CLASS = re.compile(r"class:(0|[1-9][0-9]{0,8})\Z")


@dataclass(frozen=True)
class Event:
    """A yes-or-no question put to each row: ``p (n,)`` its probability, ``y (n,)`` whether it came true.

    ``w (n,)`` is None where every row counts once. Sorting happens on first use and once.
    """

    p: Floats
    y: Outcomes
    w: Floats | None = None
    kind: WeightsKind = "frequency"

    def __len__(self) -> int:
        return len(self.p)

    @cached_property
    def sorted_rows(self) -> SortedRows:
        """The rows in ascending order of (p, y). O(n log n)."""
        return sort_rows(self.p, self.y, self.w)

    @cached_property
    def counted_rows(self) -> SortedRows:
        """The sorted rows with weights that count rows: importance weights sum to (sum w)^2 / sum w^2 (Kish 1965)."""
        rows = self.sorted_rows
        if rows.w is None or self.kind == "frequency":
            return rows
        return SortedRows(rows.p, rows.y, rows.w * (rows.w.sum() / (rows.w @ rows.w)))

    @cached_property
    def cells(self) -> Cells:
        """The distinct predictions with their sums. O(n log n)."""
        return cells_of(self.sorted_rows, self.kind)


def resolve(reduction: str | None, n_classes: int | None) -> str:
    """Give the reduction's full name, by default ``binary`` for (n,) and ``confidence`` for (n, K).

    Raises ``UnknownReduction`` for a name that does not exist or does not fit ``n_classes``.
    """
    if reduction is None:
        return "binary" if n_classes is None else "confidence"
    if not isinstance(reduction, str):
        raise UnknownReduction.at("/reduction", "must be a name")
    asked = _CLASS.match(reduction)
    if not asked and reduction not in ("binary", "confidence"):
        raise UnknownReduction.at("/reduction", "must be binary, confidence or class:k")
    if reduction == "binary" and n_classes not in (None, 2):
        raise UnknownReduction.at("/reduction", "binary needs predictions (n,) or (n, 2)")
    if asked and n_classes is not None and int(asked[1]) >= n_classes:
        raise UnknownReduction.at("/reduction", f"names a class beyond the {n_classes} of the predictions")
    return reduction


def event_probability(predictions: Predictions, reduction: str) -> Floats:
    """Probability of the event for each row, ``(n,)``.

    Predictions given as (n,) already are that probability. ``binary`` takes column 1 of (n, 2),
    ``class:k`` column k, ``confidence`` the largest probability of the row.
    """
    values = predictions.values
    if values.ndim == 1:
        return values
    if reduction == "confidence":
        largest: Floats = values.max(axis=1)
        return largest
    return np.ascontiguousarray(values[:, 1 if reduction == "binary" else _class_of(reduction)])


def reduce(batch: Batch, reduction: str) -> Event:
    """Turn a batch into the event that ``reduction`` asks about. O(n K).

    Under ``confidence`` the event is "the class predicted is right"; of equal probabilities the
    first class is the one predicted.
    """
    values, labels = batch.predictions.values, batch.labels
    if values.ndim == 1:
        y = labels
    elif reduction == "confidence":
        y = values.argmax(axis=1) == labels
    else:
        y = labels == (1 if reduction == "binary" else _class_of(reduction))
    return Event(event_probability(batch.predictions, reduction), y.astype(np.int8), batch.weights, batch.weights_kind)


def _class_of(reduction: str) -> int:
    return int(reduction.removeprefix("class:"))
