"""Which numbers a measure has, of those that a rule may compare: read off rows on which every one is defined."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from calibrant.measures.measure import MeasureRequest
from calibrant.tallies.tally import Tally, tally_of
from monitoring.readings import event_of, measured

#: Many, so that bins are not empty though a measure has many.
_ROWS = 20_000
_GOLDEN = 0.6180339887498949


def numbers_of(request: MeasureRequest, reduction: str, level: float | None) -> list[str]:
    """Those of ``value``, ``lower`` and ``debiased`` that a measure gives; ``level`` is that of the interval."""
    told = measured([request], event_of(_calibrated(), reduction), level)[request.key]
    found = {
        "value": told.value is not None,
        "lower": told.interval is not None,
        "debiased": told.debiased is not None,
    }
    return [name for name, there in found.items() if there]


@lru_cache(maxsize=1)
def _calibrated() -> Tally:
    """Rows all over the predictions, of which as many come true as they say."""
    i = np.arange(_ROWS)
    p = (i + 0.5) / _ROWS
    one = np.zeros(_ROWS, dtype=np.int64)
    return tally_of(p, ((i * _GOLDEN) % 1.0 < p).astype(np.int8), one, one)
