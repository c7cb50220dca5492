"""Counts of all jobs that ever ended, by kind and outcome: kept in the store, since workers come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from redis.client import Pipeline

from schemas.jobs import JobRecord
from storage.clock import seconds
from storage.keyspace import Shared
from telemetry.spread import Spread

#: Upper ends of the buckets of a job's seconds; what is longer falls into the last one, without an end.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

_ENDED = "ended"
_SECONDS = "seconds"
#: Beside ``_ENDED``: a field a bucket, with the jobs of this bucket alone.
_NAMES = (*(f"le:{end:g}" for end in BUCKETS), "le:+Inf")


@dataclass
class Ended:
    """The jobs of one kind and outcome: how many, and the seconds of those that ran."""

    number: int = 0
    seconds: Spread = field(default_factory=lambda: Spread(BUCKETS))


def count(pipe: Pipeline, record: JobRecord) -> None:
    """Count a job that ends, in the transaction that ends it. One that never ran has no duration."""
    hashed, prefix = Shared.job_counts(), f"{record.kind}:{record.status}"
    pipe.hincrby(hashed, f"{prefix}:{_ENDED}", 1)
    if record.started_at is not None and record.finished_at is not None:
        took = max(0.0, seconds(record.finished_at) - seconds(record.started_at))
        pipe.hincrbyfloat(hashed, f"{prefix}:{_SECONDS}", took)
        pipe.hincrby(hashed, f"{prefix}:{_NAMES[bisect_left(BUCKETS, took)]}", 1)


def read_counts(fields: Mapping[bytes, bytes]) -> dict[tuple[str, str], Ended]:
    """The hash of counts, by kind and outcome."""
    counts: dict[tuple[str, str], Ended] = {}
    for name, value in fields.items():
        kind, outcome, what = name.decode().split(":", 2)
        ended = counts.setdefault((kind, outcome), Ended())
        if what == _ENDED:
            ended.number = int(value)
        elif what == _SECONDS:
            ended.seconds.total = float(value)
        elif what in _NAMES:
            ended.seconds.counts[_NAMES.index(what)] = int(value)
    return counts
