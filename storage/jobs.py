"""Jobs: one record each, changed by transactions, and their place in RQ's queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from redis import Redis
from redis.client import Pipeline
from rq import Queue, Retry
from rq.command import send_stop_job_command
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from schemas.jobs import FINAL, JobRecord, Kind, Progress
from schemas.problem_table import problem
from schemas.problems import Problem
from storage.clock import seconds, stamp
from storage.errors import JobFinal, UnknownJob
from storage.formats import read_stored
from storage.job_events import EventName, JobEvent, read_events, write_job
from storage.keyspace import Keyspace, Shared
from storage.pages import Asked, Page, read_page
from storage.transactions import transact
from telemetry.observed import carried

#: The queue of fits.
FITS = "fits"
#: Kind of job -> the task that does it, by its import path. RQ runs nothing else.
TASKS: dict[Kind, str] = {"fit": "workers.tasks.fit", "evaluate": "workers.tasks.evaluate"}
#: How often a job whose worker was lost is run again.
RETRIES = 3


class TaskJob(Job):
    """An RQ job that can only be one of ``TASKS``: whoever can write to Redis cannot name a function to run."""

    @property
    def func(self) -> Callable[..., Any]:
        """The task's function; raises ``PermissionError`` for any other."""
        if self.func_name not in TASKS.values() or self.instance:
            raise PermissionError("this job names a function that is no task")
        return cast(Callable[..., Any], super().func)


def fits_queue(redis: Redis, name: str = FITS) -> Queue:
    """The RQ queue of that name, with JSON messages."""
    return Queue(name, connection=redis, job_class=TaskJob, serializer=JSONSerializer)


class JobStore:
    """The jobs of one tenant. A finished job is forgotten after its own time to live."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def submit(self, record: JobRecord, *, timeout: int) -> JobRecord:
        """Store a job and queue it, both or neither; ``timeout`` seconds is what one run may take.

        A job that is there already stays as it is: one that is submitted twice runs once.
        """
        key = self._keys.job(record.id)

        def write(pipe: Pipeline) -> JobRecord:
            stored = pipe.get(key)
            if stored is not None:
                pipe.multi()
                return self._read(stored)
            # RQ begins the transaction itself, so it comes first.
            fits_queue(self._redis).enqueue_call(
                TASKS[record.kind],
                kwargs={"tenant": self._keys.tenant, "job_id": record.id},
                job_id=record.id,
                timeout=timeout,
                result_ttl=0,
                failure_ttl=record.ttl,
                retry=Retry(max=RETRIES),
                description=record.kind,
                meta=carried(),
                pipeline=pipe,
            )
            pipe.sadd(Shared.tenants(), self._keys.tenant)
            pipe.sadd(self._keys.unended_jobs(), record.id)
            pipe.zadd(self._keys.jobs(), {record.id: seconds(record.created_at)})
            write_job(pipe, self._keys, record)
            return record

        return transact(self._redis, write, key)

    def page(self, asked: Asked, keep: Callable[[JobRecord], bool]) -> Page[JobRecord]:
        """A page of the jobs that ``keep`` holds true, newest first."""

        def read(ids: Sequence[str]) -> list[JobRecord | None]:
            stored = cast(list[bytes | None], self._redis.mget([self._keys.job(job_id) for job_id in ids]))
            return [None if data is None else self._read(data) for data in stored]

        return read_page(self._redis, self._keys.jobs(), asked, read, keep)

    def events(self, job_id: str, after: str | None) -> list[JobEvent]:
        """What is kept of the job's changes after the one of that id, the first of them; none for an unknown job."""
        return read_events(self._redis, self._keys, job_id, after)

    def key(self, job_id: str) -> str:
        """What the channel of changes says when this job has changed."""
        return self._keys.job(job_id)

    def get(self, job_id: str) -> JobRecord:
        """The job as it stands; raises ``UnknownJob``.

        A job whose worker was lost for good, and so could not say that it failed, is told as failed.
        """
        record = self._read(self._redis.get(self._keys.job(job_id)))
        if record.status not in FINAL and self._is_lost(job_id):
            return self.fail(job_id, WORKER_LOST)
        return record

    def start(self, job_id: str) -> JobRecord:
        """Mark a job as running; a final one is left as it is."""
        return self._change(job_id, lambda r: {"status": "running", "started_at": r.started_at or stamp()})

    def report(self, job_id: str, progress: Progress) -> JobRecord:
        """Note how far a running job is."""
        return self._change(job_id, lambda r: {"progress": progress} if r.status == "running" else {}, "progress")

    def cancel(self, job_id: str) -> JobRecord:
        """End a job that is queued or running; one that was cancelled before stays so.

        From here on nothing of it is stored. Its worker is told to stop, and one that does not hear writes nothing.
        Raises ``JobFinal`` for a job that has ended otherwise.
        """
        before = self.get(job_id)
        record = self._change(job_id, lambda _: {"status": "cancelled", "finished_at": stamp()})
        if record.status != "cancelled":
            raise JobFinal(f"the job has {record.status}")
        if before.status not in FINAL:
            self._withdraw(job_id)
        return record

    def fail(self, job_id: str, problem: Problem) -> JobRecord:
        """End a job with its problem."""
        return self._change(job_id, lambda _: {"status": "failed", "finished_at": stamp(), "problem": problem})

    def succeed(self, job_id: str, result: dict[str, Any]) -> JobRecord:
        """End a job with its result."""
        return self._change(job_id, lambda r: self._done(r, result))

    def succeeded(self, job_id: str, result: dict[str, Any]) -> JobRecord:
        """The record of this job as succeeded, for the transaction that writes its result."""
        record = self._read(self._redis.get(self._keys.job(job_id)))
        return record.model_copy(update=self._done(record, result))

    def status(self, job_id: str) -> str:
        """The status of a job, ``forgotten`` where there is none."""
        stored = self._redis.get(self._keys.job(job_id))
        return "forgotten" if stored is None else self._read(stored).status

    @staticmethod
    def _done(record: JobRecord, result: dict[str, Any]) -> dict[str, Any]:
        progress = record.progress.model_copy(update={"done": record.progress.total, "stage": "done"})
        return {"status": "succeeded", "finished_at": stamp(), "result": result, "progress": progress}

    def _change(
        self, job_id: str, changes: Callable[[JobRecord], dict[str, Any]], name: EventName = "status"
    ) -> JobRecord:
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> JobRecord:
            record = self._read(pipe.get(key))
            pipe.multi()
            changed = record if record.status in FINAL else record.model_copy(update=changes(record))
            if changed != record:
                write_job(pipe, self._keys, changed, name)
            return changed

        return transact(self._redis, write, key)

    def _withdraw(self, job_id: str) -> None:
        """Take a job out of RQ's hands: out of the queue, or from the worker that runs it."""
        try:
            job = TaskJob.fetch(job_id, connection=self._redis, serializer=JSONSerializer)
            if job.worker_name:
                send_stop_job_command(self._redis, job_id, serializer=JSONSerializer)
            else:
                job.delete()
        except (NoSuchJobError, InvalidJobOperation):
            pass  # it has just ended, and found its record final

    def _is_lost(self, job_id: str) -> bool:
        try:
            status = TaskJob.fetch(job_id, connection=self._redis, serializer=JSONSerializer).get_status()
        except NoSuchJobError:
            # Between a task's last write and RQ's own clean-up the record is final already.
            return self._read(self._redis.get(self._keys.job(job_id))).status not in FINAL
        return status in (JobStatus.FAILED, JobStatus.STOPPED, JobStatus.CANCELED)

    @staticmethod
    def _read(data: object) -> JobRecord:
        if data is None:
            raise UnknownJob("there is no such job, or it has expired")
        return read_stored(JobRecord, data)


#: What is told of a job that ended without a word of its worker.
WORKER_LOST = problem(
    "worker-lost",
    f"the job's worker was lost, and so were those of its {RETRIES} further runs; post the request again",
)
