"""Jobs: one record each, changed by transactions, and their place in RQ's queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from redis import Redis
from redis.client import Pipeline
from rq import Queue, Retry
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer

from schemas.jobs import FINAL, JobRecord, Kind, Progress
from schemas.problem_table import problem
from schemas.problems import Problem
from storage.clock import stamp
from storage.errors import UnknownJob
from storage.keyspace import Keyspace, Shared
from storage.tally import count, count_once
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

    def submit(self, record: JobRecord, *, timeout: int) -> None:
        """Store a job and queue it, both or neither; ``timeout`` seconds is what one run may take."""
        with self._redis.pipeline() as pipe:
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
            pipe.set(self._keys.job(record.id), record.model_dump_json())
            pipe.execute()

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
        return self._change(job_id, lambda r: {"progress": progress} if r.status == "running" else {})

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

    def settle(self, job_id: str) -> str:
        """Count a job that ended in another transaction than this store's; its status, ``forgotten`` without one."""
        return count_once(self._redis, self._keys, job_id)

    @staticmethod
    def _done(record: JobRecord, result: dict[str, Any]) -> dict[str, Any]:
        progress = record.progress.model_copy(update={"done": record.progress.total, "stage": "done"})
        return {"status": "succeeded", "finished_at": stamp(), "result": result, "progress": progress}

    def _change(self, job_id: str, changes: Callable[[JobRecord], dict[str, Any]]) -> JobRecord:
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> JobRecord:
            record = self._read(pipe.get(key))
            pipe.multi()
            if record.status in FINAL:
                return record
            changed = record.model_copy(update=changes(record))
            pipe.set(key, changed.model_dump_json(), ex=record.ttl if changed.status in FINAL else None)
            if changed.status in FINAL:
                count(pipe, self._keys, changed)
            return changed

        return transact(self._redis, write, key)

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
        return JobRecord.model_validate_json(cast(bytes, data))


#: What is told of a job that ended without a word of its worker.
WORKER_LOST = problem(
    "worker-lost",
    f"the job's worker was lost, and so were those of its {RETRIES} further runs; post the request again",
)
