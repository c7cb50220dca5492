"""Cross-validation: which fold a row belongs to, and the rule that prefers the simpler of nearly equal candidates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats
from calibrant.errors import TooFewRows
from calibrant.reductions import Event, Vector

#: A simpler candidate is preferred while its score is within this share of the best.
TOLERANCE = 0.001
#: Scores that differ by less are equal: squared errors of probabilities that differ by rounding.
_ROUNDING = 1e-24


def fold_of_rows(n: int, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """The fold of each of ``n`` rows, as scikit-learn's KFold(folds, shuffle=True, random_state=seed) draws it.

    A Mersenne Twister shuffles 0, ..., n - 1; consecutive blocks are the folds, the first n mod
    folds of them one row longer. O(n).
    """
    order = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    np.random.RandomState(seed).shuffle(order)
    sizes = np.full(folds, n // folds)
    sizes[: n % folds] += 1
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.repeat(np.arange(folds), sizes)
    return fold


def folds_of(subject: Event | Vector, folds: int, seed: int) -> npt.NDArray[np.int64]:
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


def check_fold_count(n: int, folds: int) -> None:
    """Refuse fewer rows than folds: ``TooFewRows``."""
    if n < folds:
        raise TooFewRows.at("/predictions", f"has {n} row{'' if n == 1 else 's'}; {folds} folds need at least {folds}")


def simplest(sizes: tuple[int, ...], scores: Floats) -> int:
    """Position of the chosen candidate: the smallest at or below the best whose score is within 0.1 % of it.

    ``scores (candidates,)`` are mean held-out losses, ``sizes`` say how complex a candidate is. The threshold
    refers to the smallest score; a candidate beyond it does not end the search (Kangsepp et al. 2022, C.2).
    """
    best = int(scores.argmin())
    most = scores[best] + max(TOLERANCE * scores[best], _ROUNDING)
    good = [i for i in range(best + 1) if scores[i] <= most]
    return min(good, key=lambda i: sizes[i])
