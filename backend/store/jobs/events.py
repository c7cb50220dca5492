"""The changes of a job, each written in one transaction with its record; held batches, and counts of ended jobs."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from backend.store.clock import seconds
from backend.store.formats import check_format
from backend.store.jobs.backlog import end, ended
from backend.store.jobs.leases import end_lease
from backend.store.keyspace import Keyspace, Shared
from backend.store.server.connection import Script
from backend.telemetry.observed import Spread
from schemas.jobs import FINAL, JobRecord, JobSummary

# --- Counts of all ended jobs by kind and outcome, kept in the store because they outlive workers

#: Upper bounds of the buckets of a job's seconds; longer jobs are in the last, unbounded bucket.
BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)

_ENDED = "ended"
_SECONDS = "seconds"
#: One more field per bucket, with the jobs in this bucket only.
_NAMES = (*(f"le:{end:g}" for end in BUCKETS), "le:+Inf")


@dataclass
class Ended:
    """The jobs of one kind and outcome: their number, and the durations of those that ran."""

    number: int = 0
    seconds: Spread = field(default_factory=lambda: Spread(BUCKETS))


def count(pipe: Pipeline, record: JobRecord) -> None:
    """Count an ending job, in the transaction that ends it; a job that never ran has no duration."""
    hashed, prefix = Shared.job_counts(), f"{record.kind}:{record.status}"
    pipe.hincrby(hashed, f"{prefix}:{_ENDED}", 1)
    if record.started_at is not None and record.finished_at is not None:
        took = max(0.0, seconds(record.finished_at) - seconds(record.started_at))
        pipe.hincrbyfloat(hashed, f"{prefix}:{_SECONDS}", took)
        pipe.hincrby(hashed, f"{prefix}:{_NAMES[bisect_left(BUCKETS, took)]}", 1)


def read_counts(fields: Mapping[bytes, bytes]) -> dict[tuple[str, str], Ended]:
    """Parse the hash of counts, by kind and outcome."""
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


# --- Holds: a batch does not expire while an unfinished job needs it
#
# Holds are queued in the transaction that submits a job, releases in the one that ends it, as scripts that use the
# state at that time. A held batch has no expiry; its hash contains the previous time of expiry. A batch stored before
# holds existed is held like any other, and a job queued before holds and releases none.

#: The field of a held batch with its previous time of expiry, in milliseconds since 1970.
HELD_EXPIRES = "expires"
#: A time of expiry that has passed.
_AT_RELEASE = "1"

_HOLD, _RELEASE = Script("events/hold"), Script("events/release")


def batches_of(spec: Mapping[str, Any]) -> list[str]:
    """The ids of the batches that a job with this spec needs."""
    return list(spec.get("batches") or filter(None, [spec.get("batch"), *(spec.get("against") or ())]))


def hold(pipe: Pipeline, keys: Keyspace, job_id: str, batch_ids: Iterable[str], temporary: Sequence[str] = ()) -> None:
    """Queue the commands that keep batches from expiring until the job releases them; missing batches are skipped.

    A repeated hold by the same job has no effect. Those that are ``temporary`` are deleted by their last release.
    """
    for batch_id in batch_ids:
        expires = _AT_RELEASE if batch_id in temporary else ""
        _HOLD.run(pipe, (keys.batch(batch_id), keys.batch_holds(batch_id)), job_id, HELD_EXPIRES, expires)


def release(pipe: Pipeline, keys: Keyspace, job_id: str, batch_ids: Iterable[str]) -> None:
    """Queue the commands that release batches; the last release restores the time of expiry of a batch.

    If that time has passed, the batch expires immediately. Without a hold this has no effect.
    """
    for batch_id in batch_ids:
        _RELEASE.run(pipe, (keys.batch(batch_id), keys.batch_holds(batch_id)), job_id, HELD_EXPIRES)


# --- The changes of a job, each written in one transaction with its record, and published

#: Approximate number of changes kept per job; progress that is dropped is included in later changes.
MOST_KEPT = 1000
#: The format of changes; a change without a format has format 1.
FORMAT = 1
#: Number of changes read at once.
_CHUNK = 200

EventName = Literal["status", "progress"]
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


class StoredJobEvent(NamedTuple):
    """One change: its id, its kind, and the job after it."""

    id: str
    name: EventName
    job: JobSummary


def is_event_id(text: str) -> bool:
    """Whether a text has the form of a change id."""
    return _ID.fullmatch(text) is not None


def write_job(
    pipe: Pipeline, keys: Keyspace, record: JobRecord, name: EventName | None = "status", *, measured: bool = True
) -> None:
    """Queue the writes of a changed job: its record and, if the change has a ``name``, its event and notification.

    A job that does not run has no lease. An ending job is counted, releases its batches and its place, deletes its
    temporary batches, and is used to measure throughput, unless it is restored (not ``measured``).
    """
    ttl = record.ttl if record.status in FINAL else None
    key, events = keys.job(record.id), keys.job_events(record.id)
    pipe.set(key, record.model_dump_json(), ex=ttl)
    if record.status != "running":
        end_lease(pipe, keys.tenant, record.id)
    if record.parent is not None or name is None:  # parts are not visible to callers
        return
    summary = record.summary().model_dump_json()
    pipe.xadd(events, {"format": FORMAT, "name": name, "job": summary}, maxlen=MOST_KEPT, approximate=True)
    if ttl is not None:
        pipe.expire(events, ttl)
        count(pipe, record)
        release(pipe, keys, record.id, batches_of(record.spec))
        for batch_id in record.own_batches:
            pipe.zrem(keys.batches(), batch_id)
            pipe.hdel(keys.batch_bytes(), batch_id)
        if measured:
            ended(pipe, record)
        end(pipe, keys, record)
    pipe.publish(Shared.job_changes(), key)


def read_events(redis: Redis, keys: Keyspace, job_id: str, after: str | None) -> list[StoredJobEvent]:
    """The first stored changes after the one with this id, or from the start."""
    low = "-" if after is None else f"({after}"
    entries = redis.xrange(keys.job_events(job_id), min=low, count=_CHUNK)
    return [_event(event_id, fields) for event_id, fields in cast(list[tuple[bytes, dict[bytes, bytes]]], entries)]


def _event(event_id: bytes, fields: dict[bytes, bytes]) -> StoredJobEvent:
    check_format(int(fields.get(b"format", b"1")), FORMAT)
    job = JobSummary.model_validate_json(fields[b"job"])
    return StoredJobEvent(event_id.decode(), cast(EventName, fields[b"name"].decode()), job)
