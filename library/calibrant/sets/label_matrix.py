"""Labels that need not exclude each other, such as the topics of a document: K events of each row, its cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibrant.core.errors import CalibrationError, LengthMismatch, Offence, WrongShape

_PLACE = re.compile(r"/(predictions|labels|groups|clusters)/([0-9]+)\b")


class LabelRows(NamedTuple):
    """The n K rows of one event that are n rows of ``n_labels`` labels, with the group and cluster of each."""

    predictions: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    groups: npt.NDArray[Any] | None
    clusters: npt.NDArray[Any]
    n_labels: int


def rows_of_labels(predictions: Any, labels: Any, groups: Any = None, clusters: Any = None) -> LabelRows:
    """Return the rows of labels ``(n, K)``; each row is a cluster, unless there are others. O(n K).

    Raises ``WrongShape`` unless the predictions have the same shape and columns, and ``LengthMismatch``.
    """
    p, y = np.asarray(predictions), np.asarray(labels)
    columns = [list(getattr(frame, "columns", ())) for frame in (predictions, labels)]
    if p.shape != y.shape or (all(columns) and columns[0] != columns[1]):
        raise WrongShape.at("/labels", "must have the columns of the predictions")
    if not y.shape[1]:
        raise WrongShape.at("/labels", "must have at least one column")
    own = {"groups": groups, "clusters": np.arange(len(p)) if clusters is None else clusters}
    repeated: dict[str, Any] = {}
    for name, values in own.items():
        if values is not None and len(values) != len(p):
            raise LengthMismatch.at(f"/{name}", f"has {len(values):,} rows, but /predictions has {len(p):,}")
        repeated[name] = None if values is None else np.repeat(np.asarray(values), y.shape[1])
    return LabelRows(p.ravel(), y.ravel(), repeated["groups"], repeated["clusters"], y.shape[1])


@contextmanager
def in_matrix(n_labels: int) -> Iterator[None]:
    """Name the row, and the label, in the places of errors about the n K rows; of one label, leave them."""

    def place(match: re.Match[str]) -> str:
        row, label = divmod(int(match[2]), n_labels)
        return f"/{match[1]}/{row}" + (f"/{label}" if match[1] in ("predictions", "labels") else "")

    try:
        yield
    except CalibrationError as error:
        if n_labels == 1:
            raise
        offences = [Offence(_PLACE.sub(place, offence.pointer), offence.detail) for offence in error.offences]
        raise type(error)(_PLACE.sub(place, error.detail), offences) from None
