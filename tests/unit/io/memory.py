"""The memory that a call takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pyarrow as pa


def peak_of(call: Callable[[], object]) -> int:
    """The most bytes that Python and pyarrow held at once during a call."""
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
