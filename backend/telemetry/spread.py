"""Numbers counted by size, as a histogram of Prometheus holds them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Spread:
    """How many numbers fell into each bucket, and their sum. ``ends`` are the buckets' upper ends, with them."""

    __slots__ = ("counts", "ends", "total")

    def __init__(self, ends: Sequence[float]) -> None:
        self.ends = ends
        #: A bucket an end, and one for what is larger than all.
        self.counts = [0] * (len(ends) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a number."""
        self.counts[bisect_left(self.ends, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[str, float]]:
        """Each end with the numbers up to it, as Prometheus writes them."""
        return list(zip([*map(str, self.ends), "+Inf"], accumulate(self.counts), strict=True))
