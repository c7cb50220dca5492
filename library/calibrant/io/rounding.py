"""Rows of probabilities that were rounded when they were written."""

from __future__ import annotations

import numpy as np

from calibrant.batch import TOLERANCE
from calibrant.io.table import Floats

#: How far from 1 the sum of a row may be if its softmax was computed in half precision.
_HALF = 2e-3


def without_rounding(predictions: Floats) -> tuple[Floats, tuple[str, ...]]:
    """Divide rows of several classes by their sum if rounding explains why it is not 1.

    The numbers have two to six decimals, or half precision.

    Returns the rows and a note; other rows are returned unchanged.
    """
    if predictions.ndim == 1:
        return predictions, ()
    sums = predictions.sum(axis=1)
    away = float(np.abs(sums - 1).max())
    for decimals in range(2, 7):
        if not np.array_equal(np.round(predictions, decimals), predictions):
            continue
        bound = 0.5 * 10.0**-decimals * predictions.shape[1]
        if TOLERANCE < away <= bound * (1 + 1e-9) and sums.min() > 0.5:
            note = f"predictions: rounded to {decimals} decimals; each row is divided by its sum"
            return predictions / sums[:, None], (note,)
        break
    if TOLERANCE < away <= _HALF and _are_half(predictions):
        note = "predictions: of half precision (float16); each row is divided by its sum"
        return predictions / sums[:, None], (note,)
    return predictions, ()


def _are_half(values: Floats) -> bool:
    """Whether all numbers of [0, 1] are of half precision, also as written with the fewest digits."""
    halves = np.arange(int(np.float16(1.0).view(np.uint16)) + 1, dtype=np.uint16).view(np.float16)
    written = np.array([float(str(half)) for half in halves])
    if values.min() < 0.0:
        return False
    near = np.abs(values).astype(np.float16)  # -0.0 too
    return bool(np.all((near == values) | (written[near.view(np.uint16)] == values)))
