"""Timing: medians of interleaved runs, so that all candidates share the load of the machine."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping


def medians(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int = 9, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each candidate over ``rounds`` rounds, by ``clock``, after a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()
    for _ in range(rounds):
        for name, run in contenders.items():
            began = clock()
            run()
            seconds[name].append(clock() - began)
    return {name: statistics.median(taken) for name, taken in seconds.items()}


def machine() -> str:
    """A short description of the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {cores} cores"
