"""Which buckets a window, or any span of time, is made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from schemas.monitors import MINUTE, MonitorBody, MonitorRecord, WindowSpec


@dataclass(frozen=True)
class Span:
    """The time buckets from ``first`` to ``last``, both included, of ``bucket`` seconds each."""

    first: int
    last: int
    bucket: int

    @property
    def start(self) -> float:
        """When it begins, in seconds since 1970."""
        return float(self.first * self.bucket)

    @property
    def end(self) -> float:
        """When it ends."""
        return float((self.last + 1) * self.bucket)


def bucket_seconds(record: MonitorRecord) -> int:
    """The length of a monitor's time buckets."""
    return record.bucket or MINUTE


def window_span(record: MonitorRecord, seconds: int, now: float) -> Span:
    """The buckets of the last ``seconds``: the one in which they begin is taken whole.

    Rows may be stamped by ``skew`` later than now.
    """
    bucket = bucket_seconds(record)
    return Span(_floor(now - seconds, bucket), _floor(now + record.skew, bucket), bucket)


def time_span(record: MonitorRecord, start: float, end: float) -> Span:
    """The buckets that touch the time from ``start`` up to, but without, ``end``."""
    bucket = bucket_seconds(record)
    first = _floor(start, bucket)
    return Span(first, max(first, math.ceil(end / bucket) - 1), bucket)


def kept_span(record: MonitorRecord, now: float) -> Span:
    """All buckets that are kept."""
    return window_span(record, record.retention, now)


def window_named(record: MonitorBody, name: str | None) -> WindowSpec | None:
    """The window of a name; the first where there is no name; None where no window is called so."""
    if name is None:
        return record.windows[0]
    return next((window for window in record.windows if window.name == name), None)


def _floor(moment: float, bucket: int) -> int:
    return math.floor(moment / bucket)
