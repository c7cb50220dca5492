"""The stored jobs: their changes, each in one transaction, and their runs, claimed and ended by workers."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, cast

import orjson
from redis import Redis
from redis.client import Pipeline

from backend.store.clock import seconds, seconds_of, stamp
from backend.store.errors import RunLost
from backend.store.formats import check_format, read_stored
from backend.store.jobs.backlog import end, ended
from backend.store.jobs.leases import Lease, end_lease, grant, holds
from backend.store.jobs.queues import FITS, GPU_FITS, Message, TenantLine
from backend.store.keyspace import Keyspace, Shared, job_field
from backend.store.server.connection import Script, transact
from backend.telemetry.observed import Spread
from schemas.jobs import FINAL, JobRecord, JobSummary, Progress
from schemas.problem_table import problem
from schemas.problems import Problem

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

_HOLD, _RELEASE = Script("runs/hold"), Script("runs/release")


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


def read_job(data: object) -> JobRecord | None:
    """Parse a stored job; None if there is none."""
    return None if data is None else read_stored(JobRecord, data)


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


# --- Jobs with parts: one job for callers; in the queue one job per part, and one that joins the parts
#
# A part has a record with an id of its own, and is claimed, lost, returned and repeated like any job. The job itself is
# never queued: it runs from the first claim of a part on, counts the remaining parts, and the transaction that ends the
# last part queues the join. Ending the job removes everything that is left of it.

#: A job with parts reports progress in thousandths; the join accounts for the last ones.
_UNITS, _JOIN_UNITS = 1000, 50
#: Minimum milliseconds between two progress updates of such a job, from any of its parts.
_GATE_MS = 200
_NOTE = Script("runs/note")


def parts_of(job: JobRecord) -> list[JobRecord]:
    """The records of a job's parts when queued; empty for a job without parts."""
    return [] if job.parts == 1 else [_part(job, part) for part in range(job.parts)]


def _part(job: JobRecord, part: int) -> JobRecord:
    begun: dict[str, Any] = {"id": part_id(job.id, part), "parent": job.id, "part": part, "status": "queued"}
    begun["seconds"] = job.seconds / job.parts
    none = {"run": 0, "losses": 0, "kills": 0, "left": 0, "progress": Progress(), "started_at": None}
    return job.model_copy(update=begun | none)


def part_id(job_id: str, part: int) -> str:
    """The id of a part."""
    return f"{job_id}-p{part}"


def is_part(job_id: str) -> bool:
    """Whether an id is that of a part."""
    return "-" in job_id


@dataclass(frozen=True)
class Found:
    """A job or part as read in a transaction; ``whole`` is the job itself, with all its ``parts``."""

    record: JobRecord | None = None
    whole: JobRecord | None = None
    parts: Sequence[JobRecord] = field(default_factory=list)

    def runs(self, run: int) -> bool:
        """Whether it is in run number ``run``."""
        record, whole = self.record, self.whole
        going = whole is not None and whole.status not in FINAL
        return going and record is not None and record.status == "running" and record.run == run


def find(pipe: Pipeline, keys: Keyspace, job_id: str) -> Found:
    """Read and watch a job or a part, with everything that belongs to it."""
    record = read_job(pipe.get(keys.job(job_id)))
    if record is None or record.parts == 1:
        return Found(record, record)
    whole = record
    if record.parent is not None:
        pipe.watch(keys.job(record.parent))  # type: ignore[no-untyped-call]
        parent = read_job(pipe.get(keys.job(record.parent)))
        if parent is None:
            return Found(record, None)
        whole = parent
    ids = [part_id(whole.id, part) for part in range(whole.parts + 1)]
    stored = cast(list[bytes | None], pipe.mget([keys.job(piece) for piece in ids]))
    return Found(record, whole, [part for part in map(read_job, stored) if part is not None])


def end_whole(pipe: Pipeline, redis: Redis, keys: Keyspace, looked: Found, changes: dict[str, Any]) -> None:
    """Queue the writes that end a job and remove its remaining parts.

    A part that is claimed at the same time finds no record when it writes its result.
    """
    if looked.whole is None:
        return
    write_job(pipe, keys, looked.whole.model_copy(update=changes))
    for part in looked.parts:
        TenantLine(redis, keys, part.queue).leave(pipe, Message.next_of(keys.tenant, part).id)
        field = job_field(keys.tenant, part.id)
        pipe.zrem(Shared.delayed(), field)
        pipe.hdel(Shared.leases(), field)
        pipe.delete(keys.job(part.id))
    if looked.whole.parts > 1:
        pipe.delete(keys.part_results(looked.whole.id), keys.part_progress(looked.whole.id))


def end_part(pipe: Pipeline, redis: Redis, keys: Keyspace, looked: Found, result: dict[str, Any]) -> None:
    """Queue the writes that end a part with its result; the last part queues the join."""
    record, whole = looked.record, looked.whole
    if record is None or whole is None:
        return
    pipe.hset(keys.part_results(whole.id), str(record.part), orjson.dumps(result))
    pipe.hset(keys.part_progress(whole.id), str(record.part), "1")
    pipe.hdel(Shared.leases(), job_field(keys.tenant, record.id))
    pipe.delete(keys.job(record.id))
    left = whole.left - 1
    write_job(pipe, keys, whole.model_copy(update={"left": left}), None)
    if not left:
        # The queue of the parts: the job's original queue may have no workers left.
        join = _part(whole.model_copy(update={"queue": record.queue}), whole.parts)
        write_job(pipe, keys, join)
        TenantLine(redis, keys, join.queue).enter(pipe, join, front=True)


def note_progress(redis: Redis, keys: Keyspace, record: JobRecord, progress: Progress) -> Progress | None:
    """Record the progress of a part; returns the progress of the whole job if it is time to report it.

    Raises ``RunLost`` if the run no longer owns the part.
    """
    job_id = record.parent or ""
    share = progress.done / progress.total if progress.total else 0.0
    names = keys.job(record.id), keys.part_progress(job_id), keys.part_gate(job_id)
    shares: list[bytes] | None = _NOTE.run(redis, names, record.run, str(record.part), share, _GATE_MS)
    if shares is None:
        raise RunLost("the job was cancelled or assigned to another worker")
    if not shares:
        return None
    if record.is_join:
        return Progress(done=round(_UNITS - _JOIN_UNITS * (1.0 - share)), total=_UNITS, stage=f"join: {progress.stage}")
    done = (_UNITS - _JOIN_UNITS) * sum(map(float, shares)) / record.parts
    stage = f"{record.parts} parts; part {(record.part or 0) + 1}: {progress.stage}"
    return Progress(done=round(done), total=_UNITS, stage=stage)


# --- The runs of jobs
#
# Every change is a transaction that first checks the job's record. The writes of a run only count while the job is
# running with that run's number, so a run that was replaced has no effect, however late it writes.

Result = TypeVar("Result")

#: Seconds that a job waits after each loss; one more loss ends it.
DELAYS = (0.0, 1.0, 3.0)
#: Number of runs that may have killed their process after which the job fails.
MOST_KILLS = 3

#: The problem of a job that was lost too often.
WORKER_LOST = problem(
    "worker-lost",
    f"the workers of the job's runs were lost: {MOST_KILLS} were killed, or {len(DELAYS) + 1} were lost in all",
)


class Run:
    """One run of a job or part; its methods raise ``RunLost`` once it was cancelled or replaced."""

    def __init__(self, redis: Redis, keys: Keyspace, job: JobRecord, lease: Lease) -> None:
        self._redis = redis
        self._keys = keys
        self.job = job
        self.lease = lease

    @property
    def tenant(self) -> str:
        """The tenant of the job."""
        return self.lease.tenant

    def report(self, progress: Progress) -> None:
        """Record the progress of the job."""
        job, noted = self.job, progress
        if job.parent is not None:
            of_whole = note_progress(self._redis, self._keys, job, progress)
            if of_whole is None:
                return
            noted = of_whole

        def write(pipe: Pipeline) -> None:
            looked = self.look(pipe)
            pipe.multi()
            if looked.whole is None or not looked.runs(job.run):
                raise _lost()
            done = max(noted.done, looked.whole.progress.done if job.parent is not None else 0)
            change = {"progress": noted.model_copy(update={"done": done})}
            write_job(pipe, self._keys, looked.whole.model_copy(update=change), "progress")

        self._transact(write)

    def succeed(self, result: dict[str, Any]) -> None:
        """End the job, or this part of it, with a result; idempotent, because an earlier reply may have been lost."""
        job = self.job

        def write(pipe: Pipeline) -> None:
            looked = self.look(pipe)
            pipe.multi()
            if not looked.runs(job.run):
                _check_done(looked.record, job)
            elif job.parent is not None and not job.is_join:
                end_part(pipe, self._redis, self._keys, looked, result)
            else:
                self.finish(pipe, looked, result)

        self._transact(write)

    def fail(self, why: Problem) -> None:
        """End the job with a problem, even if only a part failed; idempotent."""

        def write(pipe: Pipeline) -> None:
            looked = self.look(pipe)
            pipe.multi()
            if looked.runs(self.job.run):
                end_whole(pipe, self._redis, self._keys, looked, _failed(why))
            else:
                _check_done(looked.record, self.job)

        self._transact(write)

    def lose(self, *, killed: bool = False) -> None:
        """Schedule another run after an increasing delay, or end the job after too many."""
        RunStore(self._redis, self._keys).lose(self.lease, killed=killed)

    def release(self) -> None:
        """Return the job to the front of its line, as if it had not started."""
        RunStore(self._redis, self._keys).release(self.lease)

    def results(self) -> list[dict[str, Any]]:
        """The results of the parts that this run joins, in order."""
        stored = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.part_results(self.job.parent or "")))
        return [orjson.loads(stored[b"%d" % part]) for part in range(self.job.parts)]

    def look(self, pipe: Pipeline) -> Found:
        """Read and watch what belongs to the job, in a transaction that may end it."""
        return find(pipe, self._keys, self.job.id)

    def finish(self, pipe: Pipeline, looked: Found, result: dict[str, Any]) -> None:
        """Queue the writes that end the job, in a transaction that has called ``look``."""
        if looked.whole is not None:
            progress = looked.whole.progress.model_copy(update={"done": looked.whole.progress.total, "stage": "done"})
            changes = {"status": "succeeded", "finished_at": stamp(), "result": result, "progress": progress}
            end_whole(pipe, self._redis, self._keys, looked, changes)

    def _transact(self, write: Callable[[Pipeline], None]) -> None:
        transact(self._redis, write, self._keys.job(self.job.id))


class RunStore:
    """The runs of one tenant's jobs."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def claim(self, message: Message, owner: str, queue: str) -> Run | None:
        """Start the run of a message of ``queue``; None if the job no longer needs this run.

        In both cases the message is removed.
        """
        line = TenantLine(self._redis, self._keys, queue)
        lease = Lease(message.tenant, message.job_id, message.run, owner)

        def write(pipe: Pipeline) -> Run | None:
            looked = find(pipe, self._keys, message.job_id)
            held = holds(pipe, lease)
            pipe.multi()
            line.leave(pipe, message.id)
            record, whole = looked.record, looked.whole
            if record is None or whole is None or whole.status in FINAL:
                return None
            if held:  # already claimed, by a write whose reply was lost
                return Run(self._redis, self._keys, record, lease)
            if record.status != "queued" or record.run + 1 != message.run:
                return None
            begun = {"status": "running", "started_at": record.started_at or stamp()}
            record = record.model_copy(update=begun | {"run": message.run})
            write_job(pipe, self._keys, record)
            if whole.id != record.id and whole.status == "queued":
                write_job(pipe, self._keys, whole.model_copy(update=begun))
            grant(pipe, lease)
            return Run(self._redis, self._keys, record, lease)

        return self._transact(message.job_id, write)

    def drop(self, message: Message, queue: str) -> None:
        """Remove a message whose job cannot be read."""
        with self._redis.pipeline() as pipe:
            TenantLine(self._redis, self._keys, queue).leave(pipe, message.id)
            pipe.execute()

    def lose(self, lease: Lease, *, killed: bool = False) -> None:
        """Take back a run that was lost with its process; has no effect if it is no longer the job's run.

        A job that was lost on a GPU runs on a CPU next.
        """
        moment = seconds_of(self._redis.time())

        def write(pipe: Pipeline) -> None:
            looked = find(pipe, self._keys, lease.job_id)
            pipe.multi()
            record = looked.record
            if record is None or not looked.runs(lease.run):
                self._forget(pipe, lease, record)
                return
            losses, kills = record.losses + 1, record.kills + killed
            if losses > len(DELAYS) or kills >= MOST_KILLS:
                end_whole(pipe, self._redis, self._keys, looked, _failed(WORKER_LOST))
                return
            queue = FITS if record.queue == GPU_FITS else record.queue
            waiting = _waiting(record, losses=losses, kills=kills, queue=queue)
            write_job(pipe, self._keys, waiting)
            delay = DELAYS[losses - 1]
            if delay:
                pipe.zadd(Shared.delayed(), {job_field(self._keys.tenant, record.id): moment + delay})
            else:
                TenantLine(self._redis, self._keys, queue).enter(pipe, waiting, front=True)

        self._transact(lease.job_id, write)

    def release(self, lease: Lease) -> None:
        """Take back the run of a stopped worker: the job waits at the front of its line."""

        def write(pipe: Pipeline) -> None:
            looked = find(pipe, self._keys, lease.job_id)
            pipe.multi()
            if looked.record is None or not looked.runs(lease.run):
                self._forget(pipe, lease, looked.record)
                return
            waiting = _waiting(looked.record)
            write_job(pipe, self._keys, waiting)
            TenantLine(self._redis, self._keys, waiting.queue).enter(pipe, waiting, front=True)

        self._transact(lease.job_id, write)

    def move(self, job_id: str, queue: str) -> None:
        """Move a waiting job to another queue."""
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            if record is None or record.status != "queued" or record.queue == queue:
                return
            message = Message.next_of(self._keys.tenant, record)
            TenantLine(self._redis, self._keys, record.queue).leave(pipe, message.id)
            moved = record.model_copy(update={"queue": queue})
            write_job(pipe, self._keys, moved)
            TenantLine(self._redis, self._keys, queue).enter(pipe, moved)

        transact(self._redis, write, key)

    def enqueue(self, job_id: str) -> None:
        """Queue a job that should wait but does not, or whose delay is over."""
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            pipe.zrem(Shared.delayed(), job_field(self._keys.tenant, job_id))
            if record is not None and record.status == "queued":
                TenantLine(self._redis, self._keys, record.queue).enter(pipe, record)

        transact(self._redis, write, key)

    def _transact(self, job_id: str, write: Callable[[Pipeline], Result]) -> Result:
        return transact(self._redis, write, self._keys.job(job_id))

    def _forget(self, pipe: Pipeline, lease: Lease, record: JobRecord | None) -> None:
        """Queue the end of a lease that has outlived its run."""
        if record is None or record.status != "running" or record.run <= lease.run:
            pipe.hdel(Shared.leases(), lease.field)


def _waiting(record: JobRecord, **changes: Any) -> JobRecord:
    return record.model_copy(update={"status": "queued", "progress": Progress()} | changes)


def _failed(why: Problem) -> dict[str, Any]:
    return {"status": "failed", "finished_at": stamp(), "problem": why}


def _check_done(record: JobRecord | None, job: JobRecord) -> None:
    """Accept a job that has already ended in this run, because the reply of that write may have been lost."""
    if record is None or record.run != job.run or record.status not in ("succeeded", "failed"):
        raise _lost()


def _lost() -> RunLost:
    return RunLost("the job was cancelled or assigned to another worker")
