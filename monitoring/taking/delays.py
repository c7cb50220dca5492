"""Label delays, counted in a fixed number of places."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from calibrant.cells import Floats

#: Places of delays: the first is below a second; each later one reaches a third further than the one before.
PLACES = 64
_RATIO = 4 / 3


def delay_places(seconds: Floats) -> npt.NDArray[np.int64]:
    """The place of each delay, ``(n,)``, 0 to ``PLACES`` - 1; what is below 0 counts as 0.

    Examples
    --------
    >>> delay_places(np.array([-3.0, 0.5, 1.0, 1.5, 60.0, 1e9])).tolist()
    [0, 0, 1, 2, 15, 63]
    """
    steps = np.log(np.maximum(seconds, 1.0)) / math.log(_RATIO)
    # A border belongs to the place above it, whatever the rounding of its logarithm.
    found = np.where(seconds < 1.0, 0.0, 1.0 + np.floor(steps + 1e-9))
    return np.minimum(found, PLACES - 1).astype(np.int64)


def delay_borders() -> Floats:
    """Where the places begin, in seconds: ``(PLACES,)``; the last has no end.

    Examples
    --------
    >>> delay_borders()[:4].round(3).tolist()
    [0.0, 1.0, 1.333, 1.778]
    """
    found: Floats = np.concatenate([[0.0], _RATIO ** np.arange(PLACES - 1.0)])
    return found
