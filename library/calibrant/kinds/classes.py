"""Predictions of classes: rows from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.core.batch import (
    Batch,
    Fractional,
    InputScale,
    Integers,
    Predictions,
    check_weights,
    clustered,
    read_batch,
    read_predictions,
    with_features,
)
from calibrant.core.cells import WeightsKind
from calibrant.core.errors import EmptyBatch, InvalidLabel, untoken
from calibrant.core.groups import Groups
from calibrant.core.inputs import labels_by_name, numbers_of_texts
from calibrant.io.errors import InvalidField
from calibrant.io.strict import CLASSIFICATION, check_names

Array = npt.NDArray[Any]
#: The arrays of names.
_NAMED = CLASSIFICATION.texts
#: The beginning of the names of the arrays of features.
_FEATURES = CLASSIFICATION.features
#: Number of names converted to Python strings at once; no other thread runs during a conversion.
_NAMES_AT_ONCE = 1 << 16

# --- Rows from arrays


@dataclass(frozen=True)
class ClassRows:
    """Checked predictions, and the ``arrays`` that they came from; ``labels`` and ``batch`` are None without labels.

    They may be ``n_labels`` rows for each row of a request, one for each label of several that it may have.
    """

    arrays: Mapping[str, Array]
    predictions: Predictions
    labels: Integers | None
    batch: Batch | None
    weights_kind: WeightsKind | Fractional
    class_names: tuple[str, ...] | None = None
    n_labels: int = 1

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def numbers(self) -> int:
        """How many numbers the arrays have."""
        return sum(array.size for array in self.arrays.values())

    @property
    def labelled(self) -> Batch:
        """The batch; raises ``InvalidField`` without labels."""
        if self.batch is None:
            raise InvalidField.at("/labels", "is missing")
        return self.batch

    @cached_property
    def groups(self) -> Groups | None:
        """The group of each row."""
        groups = self.arrays.get("groups")
        return None if groups is None else Groups(_names(groups))

    def stored(self) -> dict[str, Array]:
        """Return the arrays that store the rows, to which others may be appended: weights are not normalised.

        Predictions are as given; percentages are probabilities, and rounded rows are divided by their sums.
        """
        values = self.predictions.given if self.predictions.rewritten else np.asarray(self.arrays["predictions"])
        stored_arrays: dict[str, Array] = {"predictions": values}
        if self.labels is not None:
            stored_arrays["labels"] = self.labels
        if "weights" in self.arrays:
            stored_arrays["weights"] = np.asarray(self.arrays["weights"], dtype=np.float64)
        others = [name for name in self.arrays if name in _NAMED or name.startswith(_FEATURES)]
        return stored_arrays | {name: self.arrays[name] for name in others}


def _names(column: Array) -> list[str]:
    """Return names as Python strings."""
    names: list[str] = []
    for start in range(0, len(column), _NAMES_AT_ONCE):
        names += column[start : start + _NAMES_AT_ONCE].tolist()
    return names


def check_arrays(
    arrays: Mapping[str, Array],
    *,
    scale: InputScale = "probability",
    weights_kind: WeightsKind | Fractional = "importance",
    class_names: Sequence[str] | None = None,
    labelled: bool = True,
) -> ClassRows:
    """Check the arrays of a request or of a stored batch; labels are required if ``labelled``.

    Labels may be names among ``class_names``; without these, only strings whose class is known, as in files. Raises a
    ``CalibrationError`` that names the field and the first invalid rows.
    """
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    arrays, names = _with_numbers(arrays, class_names)
    labels, weights = arrays.get("labels"), arrays.get("weights")
    if labelled and labels is None:
        raise InvalidField.at("/labels", "is missing")
    if labels is None:
        predictions, checked, batch = read_predictions(arrays["predictions"], scale=scale), None, None
        if weights is not None:
            check_weights(weights, len(predictions), weights_kind)
    else:
        batch = read_batch(arrays["predictions"], labels, weights, scale=scale, kind=weights_kind)
        predictions, checked = batch.predictions, batch.labels
    columns = {untoken(name[len(_FEATURES) :]): array for name, array in arrays.items() if name.startswith(_FEATURES)}
    if columns:
        predictions = with_features(predictions, columns)
        batch = None if batch is None else replace(batch, predictions=predictions)
    check_names(arrays, _NAMED, len(predictions), "/predictions has")
    if batch is not None and "clusters" in arrays:
        batch = clustered(batch, _names(arrays["clusters"]))
    return ClassRows(arrays, predictions, checked, batch, weights_kind, names)


def _with_numbers(
    arrays: Mapping[str, Array], names: Sequence[str] | None
) -> tuple[Mapping[str, Array], tuple[str, ...] | None]:
    """Check the names of the classes, and convert labels that are names; raises ``InvalidOption``, ``InvalidLabel``."""
    predictions, labels = arrays["predictions"], arrays.get("labels")
    if names is None and (labels is None or labels.dtype.kind not in "UO"):
        return arrays, None
    if not predictions.size:
        raise EmptyBatch.at("/predictions", "has no rows")
    n_classes = predictions.shape[1] if predictions.ndim == 2 else 2
    if names is not None:
        numbers, class_names = labels_by_name(np.empty(0) if labels is None else labels, n_classes, names)
        return (arrays if labels is None else {**arrays, "labels": numbers}), class_names
    texts = arrays["labels"]
    of_texts = numbers_of_texts(texts, n_classes) if texts.ndim == 1 else None
    if of_texts is None:
        raise _of_unknown_order(texts, n_classes)
    return {**arrays, "labels": of_texts}, None


def _of_unknown_order(labels: Array, n_classes: int) -> InvalidLabel:
    """Return the error for strings whose classes are not known, with the places of both labels of two."""
    first: dict[Any, int] = {}
    for row, label in enumerate(labels.ravel().tolist()):
        first.setdefault(label, row)
    places = [f"/labels/{row}" for row in first.values()]
    if len(places) > n_classes:
        of = f"are {len(places):,} different strings, but the predictions have {n_classes} classes"
        return InvalidLabel.at("/labels", of)
    order = f"the labels of the {n_classes} classes in the order of the columns"
    if n_classes == 2:
        order = "the label of class 0, then that of class 1"
    if len(places) == n_classes == 2:
        order += f": those at {' and '.join(places)}, or at {' and '.join(reversed(places))}"
    return InvalidLabel.at("/labels", f"are strings; send class_names, {order}")
