"""How fast jobs end: measured on the last ends of each queue, by the clock of the store.

An end takes the time since the one before it, or since its own job was queued where that was later: so while there is
no work no time passes, and while work waits this is what the workers get done together. A job that was cancelled
before it ran tells nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from redis.client import Pipeline

from schemas.jobs import JobRecord
from storage.clock import seconds
from storage.keyspace import Shared

#: So many ends of a queue are kept.
KEPT = 64
#: No end takes less: clocks are no finer, and those of two machines may differ.
_LEAST = 0.001

_ENDED = """
local now = redis.call('TIME')
redis.call('LPUSH', KEYS[1], string.format('%d.%06d %s', now[1], now[2], ARGV[1]))
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
"""


class End(NamedTuple):
    """When a job ended, and when it was queued; seconds since 1970."""

    moment: float
    queued: float


class Pace(NamedTuple):
    """So many jobs ended in so many seconds in which there was work, the last of them at a moment."""

    ends: int
    busy: float
    last: float

    def per_second(self) -> float:
        """Jobs that end in a second while there is work; 0 where none has ended yet."""
        return self.ends / self.busy if self.ends else 0.0

    def seconds(self, jobs: float, *, since: float, now: float) -> float | None:
        """Seconds until so many more have ended, where there has been work ``since`` a moment; None if unknown.

        The time since the last end counts too: workers that have come to a stop are told as slow.
        """
        silent = max(0.0, now - max(self.last, since))
        return jobs * (self.busy + silent) / self.ends if self.ends else None


def ended(pipe: Pipeline, record: JobRecord) -> None:
    """Queue: note the end of a job that ran."""
    if record.started_at is not None:
        pipe.eval(_ENDED, 1, Shared.ends(record.queue), repr(seconds(record.created_at)), KEPT)


def read_ends(stored: Iterable[bytes]) -> list[End]:
    """The ends as they are kept."""
    return [End(*map(float, entry.split())) for entry in stored]


def pace_of(ends: Sequence[End]) -> Pace:
    """The pace of the last of these ends, of one queue or of several, in any order."""
    last = sorted(ends)[-KEPT:]
    # Of the first of many it is not known what was before: it is where the measurement begins.
    before = last[0].moment if len(last) == KEPT else 0.0
    counted = last[1:] if len(last) == KEPT else last
    busy = 0.0
    for end in counted:
        busy += max(_LEAST, end.moment - max(before, end.queued))
        before = end.moment
    return Pace(len(counted), busy, before)
