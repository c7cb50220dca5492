"""Waiting for a store that is away, with pauses that grow and are never the same for two who wait."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from backend.store.server.connection import UNAVAILABLE

Result = TypeVar("Result")

#: Seconds of the first pause and of the longest.
PAUSES = (0.05, 2.0)


def patiently(call: Callable[[], Result]) -> Result:
    """The result of ``call``, which is made again for as long as the store is away.

    Whoever waits here is ended from outside: a task by its time limit, a worker by its supervisor.
    """
    pause, longest = PAUSES
    while True:
        try:
            return call()
        except UNAVAILABLE:
            time.sleep(jittered(pause))
            pause = min(2.0 * pause, longest)


def jittered(seconds: float) -> float:
    """Between half of the seconds and one and a half times them."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
