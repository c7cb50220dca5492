"""Counts of all jobs that ever ended, by kind and outcome: kept in the store, since workers come and go."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import FINAL, JobRecord
from storage.clock import seconds
from storage.keyspace import Keyspace, Shared
from storage.transactions import transact
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


def count(pipe: Pipeline, keys: Keyspace, record: JobRecord) -> None:
    """Count a job that ends, in the transaction that ends it. One that never ran has no duration."""
    hashed, prefix = Shared.job_counts(), f"{record.kind}:{record.status}"
    pipe.set(keys.counted(record.id), "", ex=record.ttl)
    pipe.hincrby(hashed, f"{prefix}:{_ENDED}", 1)
    if record.started_at is not None and record.finished_at is not None:
        took = max(0.0, seconds(record.finished_at) - seconds(record.started_at))
        pipe.hincrbyfloat(hashed, f"{prefix}:{_SECONDS}", took)
        pipe.hincrby(hashed, f"{prefix}:{_NAMES[bisect_left(BUCKETS, took)]}", 1)


def count_once(redis: Redis, keys: Keyspace, job_id: str) -> str:
    """Count a job that has ended and is not counted yet, however often this is called; its status."""
    job, counted = keys.job(job_id), keys.counted(job_id)

    def write(pipe: Pipeline) -> str:
        data, known = pipe.get(job), pipe.exists(counted)
        pipe.multi()
        if data is None:
            return "forgotten"
        record = JobRecord.model_validate_json(cast(bytes, data))
        if record.status in FINAL and not known:
            count(pipe, keys, record)
        return record.status

    return transact(redis, write, job, counted)


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
