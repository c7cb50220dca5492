"""Recently calibrated predictions, so that their evaluation on the rows of the fit does not pass for held-out."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from calibrant.core.batch import Batch, Predictions, Scale, read_predictions
from calibrant.core.digest import digest
from calibrant.core.errors import CalibrationError, warn
from calibrant.core.inputs import prediction_array


@dataclass(frozen=True)
class _Application:
    """What a map was applied to; neither the predictions nor the result are kept alive."""

    predictions: weakref.ref[Any]
    result: weakref.ref[Any]
    training_digest: str
    class_names: tuple[str, ...] | None
    scale: Scale


#: By the identity of the result, until the result is deleted.
_applications: dict[int, _Application] = {}


def remember(
    predictions: Any, result: Any, training_digest: str, class_names: tuple[str, ...] | None, scale: Scale
) -> None:
    """Remember that a map fitted to rows of this digest returned ``result`` for ``predictions``, if both can be."""
    key = id(result)
    try:
        predicted = weakref.ref(predictions)
        returned = weakref.ref(result, lambda _: _applications.pop(key, None))
    except TypeError:  # a list
        return
    _applications[key] = _Application(predicted, returned, training_digest, class_names, scale)


def input_of(result: Any) -> tuple[Predictions, str] | None:
    """Return the predictions of which a map made ``result``, checked again, and the digest of the rows of its fit.

    None if they are unknown, or have been changed to invalid ones. O(n K) if they are known, else O(1).
    """
    application = _applications.get(id(result))
    uncalibrated = None if application is None or application.result() is not result else application.predictions()
    if application is None or uncalibrated is None:
        return None
    try:
        values = prediction_array(uncalibrated, application.class_names)[0]
        return read_predictions(values, scale=application.scale), application.training_digest
    except CalibrationError:
        return None


def warn_of_training(predictions: Any, batch: Batch) -> None:
    """Warn the caller of a public function if a map fitted to the rows of the batch calibrated the predictions.

    O(n K) if a map calibrated them, else O(1).
    """
    read, fitted_to = input_of(predictions) or (None, "")
    if read is not None and len(read) == len(batch) and digest(Batch(read, batch.labels, None)) == fitted_to:
        text = (
            "in-sample: these predictions were calibrated by a map fitted to the same rows, so they look better than "
            "new ones; evaluate other rows, or pass the uncalibrated predictions and map= for cross-fitted values"
        )
        warn(text)
