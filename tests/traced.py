"""Peaks of memory, measured in a process of their own.

CPython 3.11 may crash where ``tracemalloc.stop`` meets an allocation of another thread (python/cpython#128679), and
pyarrow's threads still read ahead when a file has been refused. So tracing ends here with the process alone.
"""

from __future__ import annotations

import multiprocessing
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec

P = ParamSpec("P")
PeakOf = Callable[..., int]


def _peak(call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> int:
    if not tracemalloc.is_tracing():  # the module of the function has been imported, which tracing would slow down
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    call(*args, **kwargs)
    return tracemalloc.get_traced_memory()[1] - before


@contextmanager
def tracing() -> Iterator[PeakOf]:
    """Yield ``peak_of(function, *args)``: the bytes that a function of a module took at most while it ran.

    What the function raises is raised here; ``BrokenProcessPool`` where it ended its process.
    """
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield lambda call, *args, **kwargs: pool.submit(_peak, call, *args, **kwargs).result()
