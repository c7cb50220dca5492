"""The runs of jobs, as workers see them: claimed, and ended by a result, a problem, or a loss.

Every change is one transaction that looks at the job's record first. What a run writes counts only while the job is
running and has that run's number, so a run that was taken away changes nothing, however late it comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import JobRecord, Progress
from schemas.problem_table import problem
from schemas.problems import Problem
from storage.clock import stamp
from storage.errors import RunLost
from storage.formats import read_stored
from storage.job_events import EventName, write_job
from storage.keyspace import Keyspace, Shared, job_field
from storage.leases import Lease, grant
from storage.lines import Line
from storage.queues import FITS, GPU_FITS, Message
from storage.transactions import transact

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
    """One run of a job. Its methods raise ``RunLost`` once the job has been cancelled or taken away."""

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
        self._store.change(self.job.id, self.job.run, lambda _: {"progress": progress}, "progress")

    def succeed(self, result: dict[str, Any]) -> None:
        """End the job with its result; done before, as by a write whose answer was lost, it stays done."""
        self._store.change(self.job.id, self.job.run, lambda record: done(record, result), again=True)

    def fail(self, problem: Problem) -> None:
        """End the job with its problem."""
        ended = {"status": "failed", "finished_at": stamp(), "problem": problem}
        self._store.change(self.job.id, self.job.run, lambda _: ended, again=True)

    def lose(self, *, killed: bool = False) -> None:
        """Have the job run again, after a while that grows, or end it where that has been done often enough."""
        self._store.lose(self.lease, killed=killed)

    def release(self) -> None:
        """Give the job back to the front of its line, as if it had not been begun."""
        self._store.release(self.lease)


class RunStore:
    """The runs of one tenant's jobs."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def claim(self, message: Message, owner: str, queue: str) -> Run | None:
        """Begin the run that a message of ``queue`` speaks of; None where the job wants no such run any more.

        Either way the message is gone, and the next of its tenant has its place.
        """
        key, line = self._keys.job(message.job_id), Line(self._redis, self._keys, queue)
        lease = Lease(message.tenant, message.job_id, message.run, owner)

        def write(pipe: Pipeline) -> Run | None:
            record = read_job(pipe.get(key))
            pipe.multi()
            line.leave(pipe, message.id)
            if record is None or record.status != "queued" or record.run + 1 != message.run:
                return None
            begun = {"status": "running", "run": message.run, "started_at": record.started_at or stamp()}
            record = record.model_copy(update=begun)
            write_job(pipe, self._keys, record)
            grant(pipe, lease)
            return Run(self, record, lease)

        return transact(self._redis, write, key)

    def lose(self, lease: Lease, *, killed: bool) -> None:
        """Take a run away that was lost with its process; nothing changes where it is not the job's run any more.

        A job that was lost on a GPU is run on a CPU.
        """
        moment = float(self._redis.time()[0])

        def lost(record: JobRecord, pipe: Pipeline) -> None:
            losses, kills = record.losses + 1, record.kills + killed
            queue = FITS if record.queue == GPU_FITS else record.queue
            known = {"losses": losses, "kills": kills, "queue": queue}
            if losses > len(DELAYS) or kills >= MOST_KILLS:
                ended = {"status": "failed", "finished_at": stamp(), "problem": WORKER_LOST}
                write_job(pipe, self._keys, record.model_copy(update=known | ended))
                return
            waiting = record.model_copy(update=known | {"status": "queued", "progress": Progress()})
            write_job(pipe, self._keys, waiting)
            delay = DELAYS[losses - 1]
            if delay:
                pipe.zadd(Shared.delayed(), {job_field(self._keys.tenant, record.id): moment + delay})
            else:
                Line(self._redis, self._keys, queue).enter(pipe, waiting, front=True)

        self._take_away(lease, lost)

    def release(self, lease: Lease) -> None:
        """Take a run away whose worker was told to stop: the job waits at the front of its line."""

        def released(record: JobRecord, pipe: Pipeline) -> None:
            waiting = record.model_copy(update={"status": "queued", "progress": Progress()})
            write_job(pipe, self._keys, waiting)
            Line(self._redis, self._keys, record.queue).enter(pipe, waiting, front=True)

        self._take_away(lease, released)

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

    def change(
        self,
        job_id: str,
        run: int,
        changes: Callable[[JobRecord], dict[str, Any]],
        name: EventName = "status",
        *,
        again: bool = False,
    ) -> None:
        """Change a job that is in its ``run``-th run; raises ``RunLost`` where it is not.

        ``again`` passes over a job that has ended in that run, as it does where the word of its end was lost.
        """
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            if is_run(record, run):
                write_job(pipe, self._keys, record.model_copy(update=changes(record)), name)
            elif not (again and record is not None and record.run == run and record.status in ("succeeded", "failed")):
                raise RunLost("the job has been cancelled or taken away")

        transact(self._redis, write, key)

    def _take_away(self, lease: Lease, write_change: Callable[[JobRecord, Pipeline], None]) -> None:
        key = self._keys.job(lease.job_id)

        def write(pipe: Pipeline) -> None:
            record = read_job(pipe.get(key))
            pipe.multi()
            if is_run(record, lease.run):
                write_change(record, pipe)
            elif record is None or record.run <= lease.run:
                pipe.hdel(Shared.leases(), lease.field)

        transact(self._redis, write, key)


def done(record: JobRecord, result: dict[str, Any]) -> dict[str, Any]:
    """What changes of a job that succeeds."""
    progress = record.progress.model_copy(update={"done": record.progress.total, "stage": "done"})
    return {"status": "succeeded", "finished_at": stamp(), "result": result, "progress": progress}


def is_run(record: JobRecord | None, run: int) -> TypeGuard[JobRecord]:
    """Whether a job is in its ``run``-th run."""
    return record is not None and record.status == "running" and record.run == run


def read_job(data: object) -> JobRecord | None:
    """The job of a stored record; None where there is none."""
    return None if data is None else read_stored(JobRecord, data)
