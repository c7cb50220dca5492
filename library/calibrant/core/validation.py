"""Cross-validation: folds, the mean gain outside them, and the rule that prefers the simpler of equal candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import Batch
from calibrant.core.cells import Floats, WeightsKind, take
from calibrant.core.errors import TooFewRows
from calibrant.core.reductions import Event, Vector
from calibrant.core.results import n_rows

#: Folds of the fits outside which the gain of a map is estimated, if its own fit has none.
GAIN_FOLDS = 3
#: A simpler candidate is preferred if its score is within this fraction of the best.
TOLERANCE = 0.001
#: Scores that differ by less are equal up to rounding.
_ROUNDING = 1e-24
#: Number of parts of equal weights into which all copies of rows are divided, at least.
_PARTS = 10_000


class RowParts(NamedTuple):
    """The rows ``row (m,)`` of which parts are, in ascending order, and the weights ``w (m,)`` of the parts."""

    row: npt.NDArray[np.int64]
    w: Floats

    def mean(self, values: Floats) -> Floats:
        """Return the weighted mean of the parts of each row, from ``(m,)`` or ``(m, K)``."""
        first = np.flatnonzero(np.diff(self.row, prepend=-1))
        w = np.where(self.w > 0.0, self.w, 1.0).reshape(-1, *([1] * (values.ndim - 1)))
        means: Floats = np.add.reduceat(w * values, first) / np.add.reduceat(w, first)
        return means


def row_parts(w: Floats | None, kind: WeightsKind, clusters: npt.NDArray[np.int64] | None) -> RowParts | None:
    """Divide rows of large frequency weights into parts of whole weights, which can be in different folds. O(n).

    Without them, one fold of a table of counts would have all copies of a row, and the others none. Up to 10,000 copies
    are parts of their own; of more, a part has at most a 10,000th of them, rounded up. Rows in clusters are in one fold
    anyway. None if no row is divided.
    """
    if w is None or kind != "frequency" or clusters is not None:
        return None
    number = np.ceil(w / max(np.ceil(w.sum() / _PARTS), 1.0)).clip(1.0).astype(np.int64)
    if number.max() == 1:
        return None
    row = np.repeat(np.arange(len(w)), number)
    size = np.floor(w / number)
    place = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number)
    # Stored frequencies may be fractional; then the last part is smaller.
    return RowParts(row, size[row] + np.clip((w - size * number)[row] - place, 0.0, 1.0))


def batch_parts(batch: Batch) -> RowParts | None:
    """Return ``row_parts`` of a batch."""
    return row_parts(batch.weights, batch.weights_kind, batch.clusters)


def divided_batch(batch: Batch) -> Batch:
    """Return the batch with the parts of its rows, for a cross-validation; see ``row_parts``."""
    parts = batch_parts(batch)
    return batch if parts is None else replace(batch.rows(parts.row), weights=parts.w)


def divided_members(members: dict[str, npt.NDArray[np.int64]], batch: Batch) -> dict[str, npt.NDArray[np.int64]]:
    """Return the rows of each group in ``divided_batch``."""
    parts = batch_parts(batch)
    return members if parts is None else {k: np.flatnonzero(np.isin(parts.row, own)) for k, own in members.items()}


@overload
def divided(subject: Event) -> tuple[Event, RowParts | None]: ...


@overload
def divided(subject: Vector) -> tuple[Vector, RowParts | None]: ...


@overload
def divided(subject: Event | Vector) -> tuple[Event | Vector, RowParts | None]: ...


def divided(subject: Event | Vector) -> tuple[Event | Vector, RowParts | None]:
    """Return the event or vectors with the parts of their rows, for a cross-validation; see ``row_parts``."""
    per_row = subject.per_row
    parts = row_parts(take(subject.w, slice(None, None, per_row)), subject.kind, subject.clusters)
    if parts is None:
        return subject, None
    copies = replace(subject.rows(parts.row), w=np.repeat(parts.w, per_row))
    if isinstance(copies, Event) and isinstance(subject, Event) and subject.whole is not None:
        whole = subject.whole
        copies = replace(copies, whole=lambda: divided(whole())[0])
    return copies, parts


def fold_of_rows(n: int, folds: int, seed: int, clusters: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """Return the fold of each of ``n`` rows, as in scikit-learn's KFold(folds, shuffle=True, random_state=seed).

    A Mersenne Twister shuffles 0, ..., n - 1. The folds are consecutive blocks, the first n mod folds of
    them one row longer. With ``clusters (n,)`` folds are drawn over the clusters, in the order of their first rows, so
    that the rows of a cluster are in the same fold. O(n), or O(n log n). Raises ``TooFewRows`` if there are too few.
    """
    if clusters is not None:
        _, first, cluster = np.unique(clusters, return_index=True, return_inverse=True)
        if len(first) < folds:
            count = f"has {len(first)} cluster{'' if len(first) == 1 else 's'}"
            raise TooFewRows.at("/clusters", f"{count}, but {folds} folds need at least {folds}")
        return fold_of_rows(len(first), folds, seed)[np.argsort(np.argsort(first))[cluster]]
    order = np.arange(n, dtype=np.int32 if n < 2**31 else np.int64)
    np.random.RandomState(seed).shuffle(order)
    sizes = np.full(folds, n // folds)
    sizes[: n % folds] += 1
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.repeat(np.arange(folds), sizes)
    return fold


def folds_of(subject: Event | Vector, folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each row or event ``(n,)``, or -1 if its weight is 0. O(n log n).

    Folds are drawn by ``fold_of_rows`` over the rows in canonical order, so that they do not depend on the given order.
    The events of one row are in the same fold. Raises ``TooFewRows``.
    """
    per_row, order = subject.per_row, subject.order()
    if subject.w is not None:
        order = order[subject.w[::per_row][order] > 0.0]
    if len(order) < folds:
        raise TooFewRows(f"{folds} folds need at least {folds} rows")
    fold = np.full(len(subject) // per_row, -1)
    fold[order] = fold_of_rows(len(order), folds, seed, take(subject.clusters, order * per_row))
    return np.repeat(fold, per_row)


def mean_gain(
    gain: Floats,
    w: Floats | None,
    clusters: npt.NDArray[np.int64] | None,
    folds: int,
    kind: WeightsKind = "importance",
) -> dict[str, float | int]:
    """Return the weighted mean of the cross-fitted ``gain (n,)`` in log loss, and its standard error, as diagnostics.

    The error is that between rows or clusters, and treats the fitted maps as fixed, so it is approximate. O(n).
    """
    share = np.full(len(gain), 1.0 / len(gain)) if w is None else w / w.sum()
    mean = float(share @ gain)
    if w is not None and kind == "frequency" and clusters is None:
        n = float(w.sum())
        error = float(np.sqrt(share @ (gain - mean) ** 2 / max(n - 1.0, 1.0)))
        return {"log_loss": mean, "standard_error": error, "folds": folds, "rows": round(n)}
    parts = share * (gain - mean)
    if clusters is not None:
        parts = np.bincount(np.unique(clusters, return_inverse=True)[1], parts)
    error = float(np.linalg.norm(parts) * np.sqrt(len(parts) / max(len(parts) - 1.0, 1.0)))
    return {"log_loss": mean, "standard_error": error, "folds": folds, "rows": len(gain)}


def check_fold_count(n: int, folds: int) -> None:
    """Raise ``TooFewRows`` if there are fewer rows than folds."""
    if n < folds:
        raise TooFewRows.at("/predictions", f"have {n_rows(n)}, but {folds} folds need at least {folds}")


def simplest(sizes: tuple[int, ...], scores: Floats, tolerance: float = TOLERANCE) -> int:
    """Return the index of the simplest candidate up to the best one with a score within ``tolerance`` of the best.

    ``scores (candidates,)`` are mean held-out losses, and ``sizes`` the complexities of the candidates (Kangsepp et
    al. 2022, C.2, with a tolerance of 0.1 %); with a tolerance of 0 it is the best.
    """
    best = int(scores.argmin())
    most = scores[best] + max(tolerance * scores[best], _ROUNDING)
    good = [i for i in range(best + 1) if scores[i] <= most]
    return min(good, key=lambda i: sizes[i])
