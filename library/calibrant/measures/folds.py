"""Which fold of a cross-validation each row of a subject belongs to."""

from __future__ import annotations

import numpy as np

from calibrant.errors import TooFewRows
from calibrant.measures.intervals import Integers
from calibrant.reductions import Event, Vector
from calibrant.validation import fold_of_rows


def folds_of(subject: Event | Vector, folds: int, seed: int) -> Integers:
    """The fold of each row ``(n,)``, of pooled events that of their row; -1 where the weight is 0. O(n log n).

    Drawn over rows in an order of their own, so that the order they came in does not matter, as scikit-learn's KFold
    shuffles them. Raises ``TooFewRows``.
    """
    per_row = subject.per_row if isinstance(subject, Event) else 1
    order = subject.order()
    if subject.w is not None:
        order = order[subject.w[::per_row][order] > 0.0]
    if len(order) < folds:
        raise TooFewRows(f"{folds} folds need at least as many rows")
    fold = np.full(len(subject) // per_row, -1)
    fold[order] = fold_of_rows(len(order), folds, seed)
    return np.repeat(fold, per_row)
