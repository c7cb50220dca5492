"""The changes of a job: each is written with its record, in one transaction, and told to who waits."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, cast

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import FINAL, JobRecord, JobSummary
from storage.formats import check_format
from storage.jobs.holds import batches_of, release
from storage.jobs.leases import end_lease
from storage.jobs.tally import count
from storage.jobs.throughput import ended
from storage.jobs.unended import end
from storage.keyspace import Keyspace, Shared

#: About so many changes of a job are kept: a progress that is left out is told by the next.
MOST_KEPT = 1000
#: The format of the changes that are written; one that names none is of format 1.
FORMAT = 1
#: Changes that are read at once.
_CHUNK = 200

EventName = Literal["status", "progress"]
_ID = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")


class JobEvent(NamedTuple):
    """One change: its place in the order of all, what changed, and the job after it."""

    id: str
    name: EventName
    job: JobSummary


def is_event_id(text: str) -> bool:
    """Whether this can be the id of a change."""
    return _ID.fullmatch(text) is not None


def write_job(
    pipe: Pipeline, keys: Keyspace, record: JobRecord, name: EventName | None = "status", *, measured: bool = True
) -> None:
    """Queue the writes of a changed job: its record and, where the change has a ``name``, its event and word of it.

    One that does not run has no lease. One that ends is counted, lets go of its batches and its place, and tells how
    fast jobs end, unless it ended long ago and is not ``measured``.
    """
    ttl = record.ttl if record.status in FINAL else None
    key, events = keys.job(record.id), keys.job_events(record.id)
    pipe.set(key, record.model_dump_json(), ex=ttl)
    if record.status != "running":
        end_lease(pipe, keys.tenant, record.id)
    if record.parent is not None or name is None:  # of a part, callers are told by the whole
        return
    summary = record.summary().model_dump_json()
    pipe.xadd(events, {"format": FORMAT, "name": name, "job": summary}, maxlen=MOST_KEPT, approximate=True)
    if ttl is not None:
        pipe.expire(events, ttl)
        count(pipe, record)
        release(pipe, keys, record.id, batches_of(record.spec))
        if measured:
            ended(pipe, record)
        end(pipe, keys, record)
    pipe.publish(Shared.job_changes(), key)


def read_events(redis: Redis, keys: Keyspace, job_id: str, after: str | None) -> list[JobEvent]:
    """The first changes that are kept after the one of that id, or of all."""
    low = "-" if after is None else f"({after}"
    found = redis.xrange(keys.job_events(job_id), min=low, count=_CHUNK)
    return [_event(event_id, fields) for event_id, fields in cast(list[tuple[bytes, dict[bytes, bytes]]], found)]


def _event(event_id: bytes, fields: dict[bytes, bytes]) -> JobEvent:
    check_format(int(fields.get(b"format", b"1")), FORMAT)
    job = JobSummary.model_validate_json(fields[b"job"])
    return JobEvent(event_id.decode(), cast(EventName, fields[b"name"].decode()), job)
