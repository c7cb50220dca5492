"""A schedule of faults in random order at random times."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

#: Seconds that a kind needs.
_LASTS = {"store paused": 10.0, "disk full": 5.0}
_SHORTEST_GAP = 0.02


def shuffled(times: Mapping[str, int], numbers: random.Random) -> list[str]:
    """Every kind with its count, in random order."""
    kinds = [kind for kind, count in times.items() for _ in range(count)]
    numbers.shuffle(kinds)
    return kinds


def paced(
    kinds: Sequence[str], seconds: float, numbers: random.Random, *, now: Callable[[], float] = time.monotonic
) -> Iterator[tuple[float, str]]:
    """Each kind and the seconds to wait before it: exponential, with mean remaining time / remaining faults.

    Ends early if the time is over.
    """
    deadline = now() + seconds
    for i, kind in enumerate(kinds):
        left = deadline - now()
        if left <= 0:
            return
        rest = kinds[i:]
        mean = max(0.0, left - sum(_LASTS.get(other, 0.0) for other in rest)) / len(rest)
        yield min(max(_SHORTEST_GAP, numbers.expovariate(1 / mean) if mean else 0.0), left), kind
