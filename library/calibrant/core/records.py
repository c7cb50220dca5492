"""Predictions as lists of dictionaries: the output of Hugging Face pipelines, or one probability per label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.core.arrays import Array
from calibrant.core.errors import InvalidLabel, WrongShape

_PIPELINE = {"label", "score"}


def is_records(predictions: Any) -> bool:
    """Return whether predictions are a list of dictionaries, or of lists of dictionaries."""
    if not isinstance(predictions, list | tuple) or not predictions:
        return False
    first = predictions[0]
    return isinstance(first, Mapping) or (
        isinstance(first, list | tuple) and bool(first) and isinstance(first[0], Mapping)
    )


def read_records(predictions: Sequence[Any], known: Sequence[str] | None = None) -> tuple[Array, list[str], bool]:
    """Convert dictionaries to an array ``(n, K)`` with the names of its columns, and whether the names have an order.

    Each row is ``{"bird": 0.2, "cat": 0.8}``; a list of ``{"label": "cat", "score": 0.8}`` with every label; or one
    such dictionary of the predicted label, for two classes. Names beside a score have no order, and are sorted.

    >>> read_records([{"label": "yes", "score": 0.75}, {"label": "no", "score": 0.5}])[0].tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    single = all(isinstance(row, Mapping) and set(row) == _PIPELINE for row in predictions)
    if single:
        return _of_predicted(predictions, known)
    rows = [row if isinstance(row, Mapping) else _by_label(row, i) for i, row in enumerate(predictions)]
    ordered = isinstance(predictions[0], Mapping)
    names = [str(name) for name in rows[0]] if ordered else sorted(rows[0])
    texts = [{str(name): value for name, value in row.items()} for row in rows]
    for i, row in enumerate(texts):
        if set(row) != set(names):
            raise WrongShape.at(f"/predictions/{i}", "must have the same labels as the first row")
    return np.array([[row[name] for name in names] for row in texts]), names, ordered


def _by_label(row: Any, i: int) -> dict[str, Any]:
    if not all(isinstance(entry, Mapping) and set(entry) >= _PIPELINE for entry in row):
        raise WrongShape.at(f"/predictions/{i}", "must have dictionaries with a label and a score")
    return {str(entry["label"]): entry["score"] for entry in row}


def _of_predicted(
    predictions: Sequence[Mapping[str, Any]], known: Sequence[str] | None
) -> tuple[Array, list[str], bool]:
    labels = {str(row["label"]) for row in predictions}
    names = list(known) if known is not None and labels.issubset(known) else sorted(labels)
    if len(names) == 1:
        raise InvalidLabel.at("/predictions", "have only one label; pass class_names=[negative, positive]")
    if len(names) > 2:
        raise WrongShape.at("/predictions", "have one score per row; ask the pipeline for all with top_k=None")
    score = np.array([row["score"] for row in predictions], dtype=np.float64)
    last = np.array([str(row["label"]) == names[1] for row in predictions])
    second = np.where(last, score, 1.0 - score)
    return np.column_stack([1.0 - second, second]), names, False
