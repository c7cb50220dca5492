"""Checks of the scale: probabilities must not be percentages or logits."""

from __future__ import annotations

import numpy as np

from calibrant.batch import TOLERANCE
from calibrant.io.errors import LooksLikeLogits, LooksLikePercent, OutOfRange
from calibrant.io.table import Floats, Scale

_WHOLE = 100.0
#: The first bad rows that an error names.
_ROWS_SHOWN = 3


def check_scale(predictions: Floats, scale: Scale, what: str) -> tuple[str, ...]:
    """Raise an error if the predictions do not match the scale; values up to 1e-4 outside [0, 1] are accepted.

    ``what`` names the columns. Returns notes on values that look like something else.
    """
    low, high = float(predictions.min()), float(predictions.max())
    inside = low >= -TOLERANCE and high <= 1 + TOLERANCE
    if scale == "logit":
        return (f"predictions: read as logits as requested, but all values of {what} are in [0, 1]",) if inside else ()
    if inside:
        note = f"predictions: {what} has only the values 0 and 1, like predicted classes"
        return (note,) if _are_whole(predictions) else ()
    if low < -TOLERANCE:
        raise LooksLikeLogits(
            f"values of {what} are negative, so they are not probabilities; if they are logits, set the scale to logit",
            field="scale",
            offer=("logit",),
        )
    if high <= _WHOLE * (1 + TOLERANCE) and _sums_to_hundred(predictions):
        classes = " (or predicted classes, which are not probabilities)" if _are_whole(predictions) else ""
        raise LooksLikePercent(
            f"values of {what} are above 1 but not above 100; they look like percentages{classes}: divide by 100",
            field="predictions",
        )
    rows = np.flatnonzero((predictions > 1 + TOLERANCE).reshape(len(predictions), -1).any(axis=1))
    first = ", ".join(str(row + 1) for row in rows[:_ROWS_SHOWN])
    raise OutOfRange(
        f"values of {what} are outside [0, 1] in {len(rows):,} of {len(predictions):,} rows, first in "
        f"row{'s' if len(rows) > 1 else ''} {first}; if they are logits, set the scale to logit",
        field="predictions",
    )


def _sums_to_hundred(predictions: Floats) -> bool:
    """Whether rows of several classes sum to 100; for one column, whether most values are above 1, or all are whole."""
    if predictions.ndim == 1:
        return bool(np.median(predictions) > 1.0) or _are_whole(predictions)
    return bool(abs(float(np.median(predictions.sum(axis=1))) - _WHOLE) <= 1)


def _are_whole(predictions: Floats) -> bool:
    """Whether predictions are one column of whole numbers."""
    return predictions.ndim == 1 and bool(np.all(predictions == np.floor(predictions)))
