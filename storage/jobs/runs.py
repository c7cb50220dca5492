"""The runs of jobs, as workers see them: claimed, and ended by a result, a problem, or a loss.

Every change is one transaction that looks at the job's record first. What a run writes counts only while the job is
running and has that run's number, so a run that was taken away changes nothing, however late it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import FINAL, JobRecord, Progress
from schemas.problem_table import problem
from schemas.problems import Problem
from storage.clock import seconds_of, stamp
from storage.errors import RunLost
from storage.jobs.events import write_job
from storage.jobs.leases import Lease, grant, holds
from storage.jobs.lines import Line
from storage.jobs.parts import Found, end_part, end_whole, find, is_join, note_progress, read_job, read_results
from storage.jobs.queues import FITS, GPU_FITS, Message
from storage.keyspace import Keyspace, Shared, job_field
from storage.transactions import transact

Result = TypeVar("Result")

#: Seconds that a job waits after each of its losses; one more ends it.
DELAYS = (0.0, 1.0, 3.0)
#: So many runs that may have ended their process end the job.
MOST_KILLS = 3

#: What is told of a job that was lost too often.
WORKER_LOST = problem(
    "worker-lost",
    f"the job's worker was lost, and so were those of its next runs, {MOST_KILLS} killed or {len(DELAYS) + 1} in all",
)


class Run:
    """One run of a job, or of a part of one. Its methods raise ``RunLost`` once that was cancelled or taken away."""

    def __init__(self, store: RunStore, job: JobRecord, lease: Lease) -> None:
        self._store = store
        self.job = job
        self.lease = lease

    @property
    def tenant(self) -> str:
        """Whose job it is."""
        return self.lease.tenant

    def report(self, progress: Progress) -> None:
        """Note how far the job is."""
        self._store.report(self.job, progress)

    def succeed(self, result: dict[str, Any]) -> None:
        """End the job, or this part of it, with its result."""
        self._store.succeed(self.job, result)

    def fail(self, why: Problem) -> None:
        """End the job with a problem, whichever part has it."""
        self._store.fail(self.job, why)

    def lose(self, *, killed: bool = False) -> None:
        """Have the job run again, after a while that grows, or end it where that has been done often enough."""
        self._store.lose(self.lease, killed=killed)

    def release(self) -> None:
        """Give the job back to the front of its line, as if it had not been begun."""
        self._store.release(self.lease)

    def results(self) -> list[dict[str, Any]]:
        """What the parts came to that this run joins, in order."""
        return self._store.results(self.job)

    def look(self, pipe: Pipeline) -> Found:
        """What belongs to the job, read and watched by a transaction that may end it."""
        return self._store.look(pipe, self.job.id)

    def finish(self, pipe: Pipeline, found: Found, result: dict[str, Any]) -> None:
        """Queue the writes that end the job, on a transaction that has looked."""
        self._store.finish(pipe, found, result)


class RunStore:
    """The runs of one tenant's jobs."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def claim(self, message: Message, owner: str, queue: str) -> Run | None:
        """Begin the run that a message of ``queue`` speaks of; None where the job wants no such run any more.

        Either way the message is gone, and the next of its tenant has its place.
        """
        line = Line(self._redis, self._keys, queue)
        lease = Lease(message.tenant, message.job_id, message.run, owner)

        def write(pipe: Pipeline) -> Run | None:
            found = self.look(pipe, message.job_id)
            held = holds(pipe, lease)
            pipe.multi()
            line.leave(pipe, message.id)
            record, whole = found.record, found.whole
            if record is None or whole is None or whole.status in FINAL:
                return None
            if held:  # claimed before, by a write whose answer was lost
                return Run(self, record, lease)
            if record.status != "queued" or record.run + 1 != message.run:
                return None
            begun = {"status": "running", "started_at": record.started_at or stamp()}
            record = record.model_copy(update=begun | {"run": message.run})
            write_job(pipe, self._keys, record)
            if whole.id != record.id and whole.status == "queued":
                write_job(pipe, self._keys, whole.model_copy(update=begun))
            grant(pipe, lease)
            return Run(self, record, lease)

        return self._transact(message.job_id, write)

    def drop(self, message: Message, queue: str) -> None:
        """Take a message away whose job cannot be read."""
        with self._redis.pipeline() as pipe:
            Line(self._redis, self._keys, queue).leave(pipe, message.id)
            pipe.execute()

    def report(self, job: JobRecord, progress: Progress) -> None:
        """Note how far a run is."""
        told: Progress | None = progress
        if job.parent is not None:
            told = note_progress(self._redis, self._keys, job, progress)
        if told is None:
            return

        def write(pipe: Pipeline) -> None:
            found = self.look(pipe, job.id)
            pipe.multi()
            if found.whole is None or not found.runs(job.run):
                raise _lost()
            done = max(told.done, found.whole.progress.done if job.parent is not None else 0)
            change = {"progress": told.model_copy(update={"done": done})}
            write_job(pipe, self._keys, found.whole.model_copy(update=change), "progress")

        self._transact(job.id, write)

    def succeed(self, job: JobRecord, result: dict[str, Any]) -> None:
        """End a run with its result; done before, as by a write whose answer was lost, it stays done."""

        def write(pipe: Pipeline) -> None:
            found = self.look(pipe, job.id)
            pipe.multi()
            if not found.runs(job.run):
                _check_done(found.record, job)
            elif job.parent is not None and not is_join(job):
                end_part(pipe, self._redis, self._keys, found, result)
            else:
                self.finish(pipe, found, result)

        self._transact(job.id, write)

    def finish(self, pipe: Pipeline, found: Found, result: dict[str, Any]) -> None:
        """Queue the writes that end a job with its result."""
        if found.whole is not None:
            progress = found.whole.progress.model_copy(update={"done": found.whole.progress.total, "stage": "done"})
            changes = {"status": "succeeded", "finished_at": stamp(), "result": result, "progress": progress}
            end_whole(pipe, self._redis, self._keys, found, changes)

    def fail(self, job: JobRecord, why: Problem) -> None:
        """End a job with the problem of a run; ended in that run before, it stays as it is."""

        def write(pipe: Pipeline) -> None:
            found = self.look(pipe, job.id)
            pipe.multi()
            if found.runs(job.run):
                end_whole(pipe, self._redis, self._keys, found, _failed(why))
            else:
                _check_done(found.record, job)

        self._transact(job.id, write)

    def lose(self, lease: Lease, *, killed: bool = False) -> None:
        """Take a run away that was lost with its process; nothing changes where it is not the job's run any more.

        A job that was lost on a GPU is run on a CPU.
        """
        moment = seconds_of(self._redis.time())

        def write(pipe: Pipeline) -> None:
            found = self.look(pipe, lease.job_id)
            pipe.multi()
            record = found.record
            if record is None or not found.runs(lease.run):
                self._forget(pipe, lease, record)
                return
            losses, kills = record.losses + 1, record.kills + killed
            if losses > len(DELAYS) or kills >= MOST_KILLS:
                end_whole(pipe, self._redis, self._keys, found, _failed(WORKER_LOST))
                return
            queue = FITS if record.queue == GPU_FITS else record.queue
            waiting = _waiting(record, losses=losses, kills=kills, queue=queue)
            write_job(pipe, self._keys, waiting)
            delay = DELAYS[losses - 1]
            if delay:
                pipe.zadd(Shared.delayed(), {job_field(self._keys.tenant, record.id): moment + delay})
            else:
                Line(self._redis, self._keys, queue).enter(pipe, waiting, front=True)

        self._transact(lease.job_id, write)

    def release(self, lease: Lease) -> None:
        """Take a run away whose worker was told to stop: the job waits at the front of its line."""

        def write(pipe: Pipeline) -> None:
            found = self.look(pipe, lease.job_id)
            pipe.multi()
            if found.record is None or not found.runs(lease.run):
                self._forget(pipe, lease, found.record)
                return
            waiting = _waiting(found.record)
            write_job(pipe, self._keys, waiting)
            Line(self._redis, self._keys, waiting.queue).enter(pipe, waiting, front=True)

        self._transact(lease.job_id, write)

    def move(self, job_id: str, queue: str) -> None:
        """Have a job that waits wait in another queue."""
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            if record is None or record.status != "queued" or record.queue == queue:
                return
            message = Message.next_of(self._keys.tenant, record)
            Line(self._redis, self._keys, record.queue).leave(pipe, message.id)
            moved = record.model_copy(update={"queue": queue})
            write_job(pipe, self._keys, moved)
            Line(self._redis, self._keys, queue).enter(pipe, moved)

        transact(self._redis, write, key)

    def enqueue(self, job_id: str) -> None:
        """Have a job wait in its line that should and does not, or whose delay is over."""
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            pipe.zrem(Shared.delayed(), job_field(self._keys.tenant, job_id))
            if record is not None and record.status == "queued":
                Line(self._redis, self._keys, record.queue).enter(pipe, record)

        transact(self._redis, write, key)

    def results(self, job: JobRecord) -> list[dict[str, Any]]:
        """What the parts of a job came to, which the run of its join has."""
        return read_results(self._redis, self._keys, job)

    def look(self, pipe: Pipeline, job_id: str) -> Found:
        """Read a job or a part, with all that belongs to it."""
        return find(pipe, self._keys, job_id)

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
    """Pass over a job that has ended in this run, as it does where the word of its end was lost."""
    if record is None or record.run != job.run or record.status not in ("succeeded", "failed"):
        raise _lost()


def _lost() -> RunLost:
    return RunLost("the job has been cancelled or taken away")
