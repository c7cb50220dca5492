"""The queues and the messages in them: RQ's, and in each only that a job is to be run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from rq import Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import import_attribute, now

from schemas.jobs import JobRecord, Kind

#: Fits, those of them that are worth a GPU while one is there, and evaluations.
FITS, GPU_FITS, EVALUATIONS = "fits", "fits-gpu", "evaluations"
QUEUES = (GPU_FITS, FITS, EVALUATIONS)
#: The queue of a kind of job, where nothing else is said.
QUEUE_OF: dict[Kind, str] = {"fit": FITS, "evaluate": EVALUATIONS}
#: Kind of job -> the task that does it, by its import path. RQ runs nothing else.
TASKS: dict[Kind, str] = {"fit": "workers.tasks.fit", "evaluate": "workers.tasks.evaluate"}


class TaskJob(Job):
    """An RQ job that can only be one of ``TASKS``: whoever can write to Redis cannot name a function to run."""

    @property
    def func(self) -> Callable[..., Any]:
        """The task's function; raises ``PermissionError`` for any other."""
        if self.func_name not in TASKS.values() or self.instance:
            raise PermissionError("this job names a function that is no task")
        return cast(Callable[..., Any], super().func)


def task_of(kind: Kind) -> Callable[..., Any]:
    """The function that does jobs of a kind."""
    return import_attribute(TASKS[kind])


class Message(NamedTuple):
    """The word that a job is to be run, for the ``run``-th time."""

    tenant: str
    job_id: str
    run: int

    @property
    def id(self) -> str:
        """Its id, one for each run: a job that is run again is queued by a message of its own."""
        return f"{self.job_id}-{self.run}"

    @classmethod
    def next_of(cls, tenant: str, record: JobRecord) -> Message:
        """The message of a job's next run."""
        return cls(tenant, record.id, record.run + 1)

    @classmethod
    def read(cls, job: Job) -> Message | None:
        """What an RQ job says; None where it is none of our messages."""
        given = job.kwargs or {}
        tenant, job_id, run = given.get("tenant"), given.get("job_id"), given.get("run")
        if isinstance(tenant, str) and isinstance(job_id, str) and isinstance(run, int):
            return cls(tenant, job_id, run)
        return None


class MessageQueue(Queue):
    """A queue whose messages leave it when they are taken.

    RQ keeps those of a single queue in a list beside it until registries of its own, which we do not keep, are cleaned.
    """

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        """The next message."""
        return cls.lpop([queue_key], timeout, connection=connection)


def rq_queue(redis: Redis, name: str) -> Queue:
    """The RQ queue of that name, with JSON messages."""
    return MessageQueue(name, connection=redis, job_class=TaskJob, serializer=JSONSerializer)


def queue_key(name: str) -> str:
    """The list of the messages that an RQ queue holds."""
    return f"{Queue.redis_queue_namespace_prefix}{name}"


def message_key(message_id: str) -> str:
    """The hash of a message."""
    return f"{TaskJob.redis_job_namespace_prefix}{message_id}"


def write_message(pipe: Pipeline, redis: Redis, tenant: str, record: JobRecord) -> None:
    """Queue the write of the message of a job's next run; whoever claims the job takes it away again."""
    message = Message.next_of(tenant, record)
    job = TaskJob.create(
        TASKS[record.kind],
        kwargs=message._asdict(),
        id=message.id,
        connection=redis,
        timeout=-1,
        result_ttl=0,
        origin=record.queue,
        status=JobStatus.QUEUED,
        description=record.kind,
        meta=record.carried,
        serializer=JSONSerializer,
    )
    job.enqueued_at = now()
    pipe.sadd(Queue.redis_queues_keys, queue_key(record.queue))
    job.save(pipeline=pipe)
