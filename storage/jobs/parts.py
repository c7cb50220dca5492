"""Jobs in parts: one job for its callers, and for the queue as many as it has parts, and one more that joins them.

A part is a record beside the job's, under an id of its own, and is claimed, lost, given back and run again as any job
is. The job itself is never queued: it runs from its first part's claim on, counts down the parts that are left, and
the transaction that ends the last of them queues the join. Whatever ends the job takes all that is left of it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from schemas.jobs import FINAL, JobRecord, Progress
from storage.errors import RunLost
from storage.formats import read_stored
from storage.jobs.events import write_job
from storage.jobs.lines import Line
from storage.jobs.queues import Message
from storage.keyspace import Keyspace, Shared, job_field

#: A job in parts tells its progress in thousandths, of which the join is the last few.
_UNITS, _JOIN_UNITS = 1000, 50
#: Milliseconds between two updates of such a job, whichever of its parts makes them.
_GATE_MS = 200


#: KEYS: the part's record, shares, gate. ARGV: run, part, share, milliseconds.
_NOTE = """
local record = redis.call('GET', KEYS[1])
if not record or cjson.decode(record).run ~= tonumber(ARGV[1]) then return false end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
if not redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[4]) then return {} end
return redis.call('HVALS', KEYS[2])
"""


def is_join(record: JobRecord) -> bool:
    """Whether a part is the one that joins all others."""
    return record.part == record.parts


def parts_of(job: JobRecord) -> list[JobRecord]:
    """The records of a job's parts as they are queued; none where it is done in one piece."""
    return [] if job.parts == 1 else [_part(job, part) for part in range(job.parts)]


def _part(job: JobRecord, part: int) -> JobRecord:
    begun: dict[str, Any] = {"id": part_id(job.id, part), "parent": job.id, "part": part, "status": "queued"}
    none = {"run": 0, "losses": 0, "kills": 0, "left": 0, "progress": Progress(), "started_at": None}
    return job.model_copy(update=begun | none)


def part_id(job_id: str, part: int) -> str:
    """The id of a part's record."""
    return f"{job_id}-p{part}"


def is_part(job_id: str) -> bool:
    """Whether an id is that of a part's record."""
    return "-" in job_id


@dataclass(frozen=True)
class Found:
    """What a transaction read of a job or of a part of one: ``whole`` is the job itself, with all its ``parts``."""

    record: JobRecord | None = None
    whole: JobRecord | None = None
    parts: Sequence[JobRecord] = field(default_factory=list)

    def runs(self, run: int) -> bool:
        """Whether it is in its ``run``-th run."""
        record, whole = self.record, self.whole
        going = whole is not None and whole.status not in FINAL
        return going and record is not None and record.status == "running" and record.run == run


def find(pipe: Pipeline, keys: Keyspace, job_id: str) -> Found:
    """Read a job or a part, which is watched, with all that belongs to it."""
    record = read_job(pipe.get(keys.job(job_id)))
    if record is None or record.parts == 1:
        return Found(record, record)
    whole = record
    if record.parent is not None:
        pipe.watch(keys.job(record.parent))  # type: ignore[no-untyped-call]
        found = read_job(pipe.get(keys.job(record.parent)))
        if found is None:
            return Found(record, None)
        whole = found
    ids = [part_id(whole.id, part) for part in range(whole.parts + 1)]
    stored = cast(list[bytes | None], pipe.mget([keys.job(each) for each in ids]))
    return Found(record, whole, [part for part in map(read_job, stored) if part is not None])


def end_whole(pipe: Pipeline, redis: Redis, keys: Keyspace, found: Found, changes: dict[str, Any]) -> None:
    """Queue the writes that end a job, and take away what is left of its parts.

    A part that is claimed at this moment finds no record when it is to write its result.
    """
    if found.whole is None:
        return
    write_job(pipe, keys, found.whole.model_copy(update=changes))
    for part in found.parts:
        Line(redis, keys, part.queue).leave(pipe, Message.next_of(keys.tenant, part).id)
        field = job_field(keys.tenant, part.id)
        pipe.zrem(Shared.delayed(), field)
        pipe.hdel(Shared.leases(), field)
        pipe.delete(keys.job(part.id))
    if found.whole.parts > 1:
        pipe.delete(keys.part_results(found.whole.id), keys.part_progress(found.whole.id))


def end_part(pipe: Pipeline, redis: Redis, keys: Keyspace, found: Found, result: dict[str, Any]) -> None:
    """Queue the writes that end a part with its result; the last one queues the join."""
    record, whole = found.record, found.whole
    if record is None or whole is None:
        return
    pipe.hset(keys.part_results(whole.id), str(record.part), orjson.dumps(result))
    pipe.hset(keys.part_progress(whole.id), str(record.part), "1")
    pipe.hdel(Shared.leases(), job_field(keys.tenant, record.id))
    pipe.delete(keys.job(record.id))
    left = whole.left - 1
    write_job(pipe, keys, whole.model_copy(update={"left": left}), None)
    if not left:
        # Where its parts went: there may be no worker left for the queue that the job was first in.
        join = _part(whole.model_copy(update={"queue": record.queue}), whole.parts)
        write_job(pipe, keys, join)
        Line(redis, keys, join.queue).enter(pipe, join, front=True)


def read_results(redis: Redis, keys: Keyspace, record: JobRecord) -> list[dict[str, Any]]:
    """What the parts of a job came to, in order; ``record`` is its join."""
    stored = cast(dict[bytes, bytes], redis.hgetall(keys.part_results(record.parent or "")))
    return [orjson.loads(stored[b"%d" % part]) for part in range(record.parts)]


def note_progress(redis: Redis, keys: Keyspace, record: JobRecord, progress: Progress) -> Progress | None:
    """Note how far a part is; gives how far the whole job is, where it is time to tell.

    Raises ``RunLost`` where the run is the part's no more.
    """
    job_id = record.parent or ""
    share = progress.done / progress.total if progress.total else 0.0
    names = keys.job(record.id), keys.part_progress(job_id), keys.part_gate(job_id)
    found = redis.eval(_NOTE, 3, *names, str(record.run), str(record.part), str(share), str(_GATE_MS))
    if found is None:
        raise RunLost("the job has been cancelled or taken away")
    shares = cast(list[bytes], found)
    if not shares:
        return None
    if is_join(record):
        return Progress(done=round(_UNITS - _JOIN_UNITS * (1.0 - share)), total=_UNITS, stage=f"join: {progress.stage}")
    done = (_UNITS - _JOIN_UNITS) * sum(map(float, shares)) / record.parts
    stage = f"{record.parts} parts; part {(record.part or 0) + 1}: {progress.stage}"
    return Progress(done=round(done), total=_UNITS, stage=stage)


def read_job(data: object) -> JobRecord | None:
    """The job of a stored record; None where there is none."""
    return None if data is None else read_stored(JobRecord, data)
