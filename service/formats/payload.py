"""The result of every reader (arrays and options), and the limits that readers enforce."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from calibrant.core.errors import InvalidLabel
from calibrant.io.limits import Limits
from calibrant.io.strict import CLASSIFICATION, REGRESSION, Fields
from calibrant.io.table import Array as Array
from calibrant.io.table import Body as Body
from service.settings import ScoringSettings


def fields_of_kind(options: Mapping[str, Any]) -> Fields:
    """The arrays of a body with these options, by the prediction kind that they declare."""
    return REGRESSION if options.get("prediction_kind") == "regression" else CLASSIFICATION


@dataclass(frozen=True)
class Payload:
    """``arrays`` by field name; ``options`` as JSON values, or as strings if they come from a query.

    If it ``is_text``, the body does not tell numbers from strings.
    """

    arrays: Mapping[str, Array]
    options: Mapping[str, Any]
    from_query: bool
    is_text: bool = False


def with_numbers(payload: Payload) -> Payload:
    """The same rows with labels that are booleans as numbers: true is the event.

    Raises ``InvalidLabel`` if there are several events, or if the classes have names.
    """
    labels, predictions = payload.arrays.get("labels"), payload.arrays.get("predictions")
    if labels is None or labels.dtype.kind != "b":
        return payload
    if labels.ndim == 1 and predictions is not None and predictions.ndim == 2 and predictions.shape[1] > 2:
        classes = predictions.shape[1] - 1
        raise InvalidLabel.at("/labels", f"must be classes from 0 to {classes}, not booleans, for several classes")
    if payload.options.get("class_names") is not None:
        raise InvalidLabel.at("/labels", "must be names in class_names, or 0 and 1, not booleans")
    return replace(payload, arrays={**payload.arrays, "labels": labels.astype(np.uint8)})


@dataclass(frozen=True)
class BodyLimits(Limits):
    """The limits of a request body: its unpacked size and rows, and the nesting and values of JSON."""

    max_rows: int
    max_json_depth: int
    max_json_values: int = 16 * 1024 * 1024

    @classmethod
    def of(cls, settings: ScoringSettings, budget: Callable[[int], None] | None = None) -> Self:
        """Create the limits from the settings."""
        known = (settings.max_unpacked_bytes, settings.max_rows, settings.max_classes, settings.max_json_depth)
        return cls(*known, settings.max_json_values, budget=budget)
