"""What one map gains on another, on the same rows, from their cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from calibrant.errors import TooFewRows
from calibrant.maps.curves import Curve
from calibrant.measures.improvement import improvement
from calibrant.reductions import Event
from calibrant.tallies.tally import Tally


@dataclass(frozen=True)
class Gain:
    """Mean log loss of the champion less that of the challenger, in nats a row, and an interval of it.

    Above 0 the challenger is the better one. ``rows`` is how many it was computed from.
    """

    value: float
    low: float
    high: float
    rows: int


def gain(tally: Tally, champion: Curve | None, challenger: Curve, level: float) -> Gain:
    """The gain of one curve over another, None for the predictions as they are, on rows that neither has seen.

    The interval is that of a mean of paired differences, one a row (Student 1908), of this two-sided ``level`` in
    (0, 1). Each row counts with the mean prediction of its cell. Raises ``TooFewRows`` for less than two. O(cells).
    """
    event, rows = tally.pooled().event(), len(tally)
    if rows < 2:
        raise TooFewRows("a comparison needs more than one row")
    value, influence = improvement(_mapped(event, champion), _mapped(event, challenger), "log-loss")
    variance = float(event.w @ influence**2) / (rows - 1) if event.w is not None else 0.0
    reach = float(stdtrit(rows - 1, (1.0 + level) / 2.0)) * math.sqrt(variance / rows)
    return Gain(value, value - reach, value + reach, rows)


def _mapped(event: Event, curve: Curve | None) -> Event:
    return event if curve is None else Event(np.clip(curve(event.p), 0.0, 1.0), event.y, event.w)
