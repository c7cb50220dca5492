"""Prediction sets and labels in the types that callers have, reduced to the size of each set and what it covers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.arrays import array_of, is_frame, text_names
from calibrant.core.batch import read_class_names, read_labels
from calibrant.core.errors import (
    EmptyBatch,
    InvalidLabel,
    InvalidOption,
    LengthMismatch,
    NotANumber,
    WrongShape,
)
from calibrant.core.inputs import labels_by_name, listed_names
from calibrant.core.results import n_rows
from calibrant.sets.prediction_sets import PredictionSets

Array = npt.NDArray[Any]
Booleans = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
#: Numbers of classes are below this, so that a row and a class fit into one integer.
_MOST_CLASSES = 2**31
#: The most classes of lists that become a matrix.
MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class CoveredRows:
    """For each of n rows the ``sizes`` of its set, whether the set has the label, and the number of the ``labels``.

    ``class_names`` and ``alpha`` are None if they are unknown.
    """

    sizes: Integers
    covered: Booleans
    labels: Integers
    class_names: tuple[str, ...] | None = None
    alpha: float | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.sizes)


def read_sets(sets: Any, labels: Any, class_names: Any = None) -> CoveredRows:
    """Check sets and labels; raise a ``CalibrationError`` at ``/sets``, ``/labels`` or ``/class_names``. O(n K).

    Sets are ``PredictionSets``, a matrix or frame ``(n, K)`` of booleans or of 0 and 1, or a sequence of n collections
    of classes: of numbers from 0, or of ``class_names``. Lists of numbers are never a matrix, except of booleans.
    """
    class_names = listed_names(class_names)
    if (matrix := _matrix(sets)) is None:
        return _of_lists(sets, labels, class_names)
    numbers, names = _labels_of(matrix, sets, labels, class_names)
    covered = matrix[np.arange(len(matrix)), numbers]
    alpha = sets.alpha if isinstance(sets, PredictionSets) else None
    return CoveredRows(np.count_nonzero(matrix, axis=1).astype(np.int64), covered, numbers, names, alpha)


def read_members(sets: Any, labels: Any, class_names: Any = None) -> tuple[Booleans, CoveredRows]:
    """Check sets and labels as ``read_sets`` does, and return the sets as a matrix ``(n, K)`` too.

    Raises ``InvalidOption`` for numbers of classes of 100,000 and above.
    """
    rows, matrix = read_sets(sets, labels, class_names), _matrix(sets)
    if matrix is not None:
        return matrix, rows
    names = rows.class_names
    _, row_of, members = _listed(sets, names)
    n_classes = 1 + max(1, int(members.max(initial=0)), int(rows.labels.max())) if names is None else len(names)
    if n_classes > MOST_COLUMNS:
        raise InvalidOption.at("/sets", f"must be of at most {MOST_COLUMNS:,} classes")
    matrix = np.zeros((len(rows), n_classes), np.bool_)
    matrix[row_of, members] = True
    return matrix, rows


def _labels_of(matrix: Booleans, sets: Any, labels: Any, class_names: Any) -> tuple[Integers, tuple[str, ...] | None]:
    """Return the labels of the rows of a matrix as numbers, and the names of its classes."""
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise WrongShape.at("/sets", "must have shape (n, K) with K at least 2, or be lists of classes")
    if not len(matrix):
        raise EmptyBatch.at("/sets", "has no rows")
    if class_names is None and isinstance(sets, PredictionSets):
        class_names = list(sets.classes) if all(isinstance(name, str) for name in sets.classes) else None
    elif class_names is None and is_frame(sets) and array_of(labels, "labels").dtype.kind in "UO":
        class_names = text_names(sets.columns)
    return _labels(labels, len(matrix), matrix.shape[1], class_names)


def _labels(labels: Any, n: int, n_classes: int, class_names: Any) -> tuple[Integers, tuple[str, ...] | None]:
    """Return labels as numbers from 0 to ``n_classes`` - 1, and the names of the classes."""
    values, names = array_of(labels, "labels"), None
    if class_names is not None:
        values, names = labels_by_name(values, n_classes, class_names)
    elif values.dtype.kind in "UO":
        raise InvalidLabel.at("/labels", "are not numbers; pass class_names, the name of each class")
    if len(values) != n:
        raise LengthMismatch.at("/labels", f"has {n_rows(len(values))}, but sets have {n:,}")
    return read_labels(values, n, n_classes).astype(np.int64), names


def _matrix(sets: Any) -> Booleans | None:
    """Return sets that are a matrix of booleans, or of 0 and 1 as an array or frame; None of lists of classes."""
    if isinstance(sets, PredictionSets):
        return sets.members
    listed = isinstance(sets, Sequence) and not isinstance(sets, str)
    if listed and not all(type(row) is list and row and set(map(type, row)) == {bool} for row in sets):
        return None
    if not listed and not (hasattr(sets, "dtype") or is_frame(sets)):
        raise WrongShape.at("/sets", "must be prediction sets, a matrix of 0 and 1, or lists of classes")
    if listed and not sets:
        raise EmptyBatch.at("/sets", "has no rows")
    values = array_of(sets, "sets")
    if values.dtype.kind == "b":
        return values.astype(np.bool_, copy=False)
    if values.dtype.kind == "O":  # an array of collections
        return None
    if values.dtype.kind not in "iuf":
        raise NotANumber.at("/sets", "must be booleans or 0 and 1")
    bad = (values != 0) & (values != 1)
    if bad.any():
        rows = np.flatnonzero(bad if values.ndim == 1 else bad.reshape(len(values), -1).any(axis=1))
        raise _at_rows(InvalidOption, "must have only 0 and 1, whether the set has each class", rows)
    return np.asarray(values == 1)


def _at_rows(error: type[InvalidOption | InvalidLabel | WrongShape], text: str, rows: Integers) -> Exception:
    """Return the error of some rows of the sets, which names the first ones."""
    return error.at_places("/sets", rows, text, f"{n_rows(len(rows))} {text}")


def _of_lists(sets: Iterable[Any], labels: Any, class_names: Any) -> CoveredRows:
    names = None if class_names is None else read_class_names(text_names(class_names), len(class_names))
    sizes, row_of, members = _listed(sets, names)
    numbers, names = _labels(labels, len(sizes), _MOST_CLASSES if names is None else len(names), names)
    covered = np.bincount(row_of[members == numbers[row_of]], minlength=len(sizes)) > 0
    return CoveredRows(sizes, covered, numbers, names)


def _listed(sets: Iterable[Any], names: tuple[str, ...] | None) -> tuple[Integers, Integers, Integers]:
    """Return the sizes of sets that are collections, and for each of their classes the row and the number."""
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in sets]
    if not rows:
        raise EmptyBatch.at("/sets", "has no rows")
    odd = [i for i, row in enumerate(rows) if not isinstance(row, list | tuple | AbstractSet)]
    if odd:
        raise _at_rows(WrongShape, "must be lists of classes", np.array(odd))
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    row_of = np.repeat(np.arange(len(rows)), sizes)
    members = _numbers(list(chain.from_iterable(rows)), names, row_of)
    order = np.sort(row_of * _MOST_CLASSES + members)
    twice = order[1:][order[1:] == order[:-1]] // _MOST_CLASSES
    if len(twice):
        text = "must not name a class twice; pass a matrix as an array, or as booleans"
        raise _at_rows(InvalidOption, text, np.unique(twice))
    if names is None and (sizes == 2).all() and members.max() == 1:
        text = "may be a matrix of two classes, or lists of both; pass an array or booleans, or class_names"
        raise InvalidOption.at("/sets", text)
    return sizes, row_of, members


def _numbers(flat: list[Any], names: tuple[str, ...] | None, row_of: Integers) -> Integers:
    """Return the number of each class that is in a set."""
    kinds = set(map(type, flat))
    if names is not None and str in kinds:
        number = {name: k for k, name in enumerate(names)}
        members = np.array([number.get(value, -1) if isinstance(value, str) else -1 for value in flat], np.int64)
        bad = members < 0
        text = "must have only names in class_names"
    elif str in kinds:
        raise InvalidOption.at("/class_names", "are missing: sets have names of classes")
    else:
        whole = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
        if not whole:
            odd = [not isinstance(value, int | np.integer) or isinstance(value, bool) for value in flat]
            raise _at_rows(InvalidLabel, "must be lists of classes, by number or by name", np.unique(row_of[odd]))
        most = _MOST_CLASSES - 1 if names is None else len(names)
        members = np.array([value if 0 <= value < most else -1 for value in flat], np.int64)
        bad = members < 0
        text = "must have only numbers of classes, from 0"
    if bad.any():
        raise _at_rows(InvalidLabel, text, np.unique(row_of[bad]))
    return members
