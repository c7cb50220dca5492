"""Whether numbers can be what they are said to be: probabilities, and neither percent nor logits."""

from __future__ import annotations

import numpy as np

from calibrant.batch import TOLERANCE
from tabular.errors import LooksLikeLogits, LooksLikePercent, OutOfRange
from tabular.sheet import Floats, Scale
from tabular.told import row_of

_WHOLE = 100.0


def check_scale(predictions: Floats, scale: Scale, what: str) -> tuple[str, ...]:
    """Raise the error of predictions that are no probabilities; what is within 1e-4 of one is left as it is.

    ``what`` names the columns. Gives what is to be said of numbers that look like something else.
    """
    low, high = float(predictions.min()), float(predictions.max())
    inside = low >= -TOLERANCE and high <= 1 + TOLERANCE
    if scale == "logit":
        return (f"predictions: read as logits, as asked, though all numbers of {what} are in [0, 1]",) if inside else ()
    if inside:
        return (f"predictions: {what} says 0 or 1 only, as predicted classes do",) if _are_whole(predictions) else ()
    if low < -TOLERANCE:
        raise LooksLikeLogits(
            f"numbers of {what} are negative, as no probability is: if these are logits, say so by the scale",
            field="scale",
            offer=("logit",),
        )
    if high <= _WHOLE * (1 + TOLERANCE) and _sums_to_hundred(predictions):
        classes = ", or like predicted classes, which are no probabilities" if _are_whole(predictions) else ""
        raise LooksLikePercent(
            f"numbers of {what} are above 1 and none above 100: these look like percent: divide by 100{classes}",
            field="predictions",
        )
    row = int(np.argmax((predictions > 1 + TOLERANCE).reshape(len(predictions), -1).any(axis=1)))
    raise OutOfRange(
        f"numbers of {what} are outside [0, 1], first in {row_of(row)}: "
        "probabilities are asked for; if these are logits, say so by the scale",
        field="predictions",
    )


def _sums_to_hundred(predictions: Floats) -> bool:
    """Whether the rows of several classes are hundreds; one column has no sum to look at."""
    if predictions.ndim == 1:
        return True
    return bool(abs(float(np.median(predictions.sum(axis=1))) - _WHOLE) <= 1)


def _are_whole(predictions: Floats) -> bool:
    """Whether one column holds whole numbers alone."""
    return predictions.ndim == 1 and bool(np.all(predictions == np.floor(predictions)))
