"""Checks of the scale: probabilities must not be percentages or logits."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from calibrant.core.batch import TOLERANCE
from calibrant.core.choices import InputScale
from calibrant.core.column_names import is_log_probability, is_percentage
from calibrant.io.errors import LooksLikeLogits, LooksLikePercent, TabularError, UnclearScale
from calibrant.io.table import Floats
from calibrant.io.texts import quoted, span

_WHOLE = 100.0
#: Logits above this number are rare, and numbers up to 100 more probably percentages.
_ODD_LOGIT = 40.0
#: The numbers of a few predicted classes, which are no percentages.
_FEW = 10.0
#: The first bad rows that an error names.
_ROWS_SHOWN = 3


def check_scale(predictions: Floats, scale: InputScale, names: Sequence[str]) -> tuple[str, ...]:
    """Raise an error if the predictions do not match the scale; values up to 1e-4 outside [0, 1] are accepted.

    ``names`` are those of the columns. Returns notes on values that look like something else.
    """
    what = span(names)
    low, high = float(predictions.min()), float(predictions.max())
    inside = low >= -TOLERANCE and high <= 1 + TOLERANCE
    most = _WHOLE if scale == "percent" else 1.0
    # The logarithms of the probabilities of all classes are logits too.
    if predictions.ndim == 1 and not inside and high <= TOLERANCE and is_log_probability(names[0]):
        raise logarithms(names[0])
    if scale == "logit":
        like = "in [0, 1]" if inside else "in [0, 100], like percentages"
        odd = inside or (low >= 0.0 and _ODD_LOGIT < high <= _WHOLE)
        return (f"predictions: read as logits as requested, but all values of {what} are {like}",) if odd else ()
    if scale == "percent" and low >= -most * TOLERANCE and high <= most * (1 + TOLERANCE):
        note = f"predictions: read as percentages as requested, but all values of {what} are in [0, 1]"
        return (note,) if inside else ()
    if inside:
        note = f"predictions: {what} has only the values 0 and 1, like predicted classes"
        return (note,) if _are_whole(predictions) else ()
    if low < -most * TOLERANCE:
        raise LooksLikeLogits(
            f"values of {what} are negative, so they are not probabilities; if they are logits, set the scale to logit",
            offer=("logit",),
        )
    if scale == "probability" and high <= _WHOLE * (1 + TOLERANCE) and _sums_to_hundred(predictions):
        classes = " (or predicted classes, which are not probabilities)" if _are_whole(predictions) else ""
        raise percentages(what, classes)
    rows = np.flatnonzero((predictions > most * (1 + TOLERANCE)).reshape(len(predictions), -1).any(axis=1))
    first = ", ".join(str(row + 1) for row in rows[:_ROWS_SHOWN])
    raise UnclearScale(
        f"values of {what} are outside [0, {most:g}] in {len(rows):,} of {len(predictions):,} rows, first in "
        f"row{'s' if len(rows) > 1 else ''} {first}; if they are logits, set the scale to logit"
    )


def scale_error(name: str, numbers: AbstractSet[float]) -> TabularError | None:
    """Return the error for a column by whose name and distinct numbers it has predictions on another scale."""
    if not numbers:
        return None
    if is_log_probability(name) and max(numbers) <= 0.0 > min(numbers):
        return logarithms(name)
    if is_percentage(name) and min(numbers) >= 0.0 and _FEW < max(numbers) <= _WHOLE:
        return percentages(span([name]))
    return None


def percentages(what: str, or_: str = "") -> LooksLikePercent:
    """Return the error for columns of percentages."""
    return LooksLikePercent(
        f"values of {what} are above 1 but not above 100; they look like percentages{or_}; if so, set the scale to "
        "percent",
        offer=("percent",),
    )


def logarithms(name: str) -> LooksLikeLogits:
    """Return the error for a column of logarithms of probabilities."""
    return LooksLikeLogits(
        f"column {quoted(name)} has logarithms of probabilities, which are not logits; save their exponential, such as "
        "np.exp(logprob), in a column 'p'",
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
