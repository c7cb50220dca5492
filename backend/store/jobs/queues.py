"""The queues: RQ messages, and the line of each tenant in front of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast, get_args

from redis import Redis
from redis.client import Pipeline
from rq import Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import import_attribute, now

from backend.store.keyspace import Keyspace, Shared
from backend.store.server.connection import Script
from schemas.jobs import JobKind, JobRecord

# --- RQ queues and their messages, each of which contains only the id of a job

#: Queues for fits, for fits that benefit from a GPU, and for evaluations.
FITS, GPU_FITS, EVALUATIONS = "fits", "fits-gpu", "evaluations"
QUEUES = (GPU_FITS, FITS, EVALUATIONS)
#: The default queue of each kind of job.
QUEUE_OF: dict[JobKind, str] = {kind: FITS if kind == "fit" else EVALUATIONS for kind in get_args(JobKind)}
#: Kind of job -> import path of its task, a function with its name; RQ runs nothing else.
TASKS: dict[JobKind, str] = {kind: f"workers.tasks.{kind}" for kind in get_args(JobKind)}


class TaskJob(Job):
    """An RQ job limited to ``TASKS``, so that write access to Redis does not allow running any function."""

    @property
    def func(self) -> Callable[..., Any]:
        """The task's function; raises ``PermissionError`` for any other."""
        if self.func_name not in TASKS.values() or self.instance:
            raise PermissionError("this job names a function that is not a task")
        return cast(Callable[..., Any], super().func)


def task_of(kind: JobKind) -> Callable[..., Any]:
    """The function for a kind of job."""
    return import_attribute(TASKS[kind])


class Message(NamedTuple):
    """The message that a job is to run, for the ``run``-th time."""

    tenant: str
    job_id: str
    run: int

    @property
    def id(self) -> str:
        """The message id; each run of a job has its own message."""
        return f"{self.job_id}-{self.run}"

    @classmethod
    def next_of(cls, tenant: str, record: JobRecord) -> Message:
        """The message for a job's next run."""
        return cls(tenant, record.id, record.run + 1)

    @classmethod
    def read(cls, job: Job) -> Message | None:
        """Parse an RQ job; None if it is not one of our messages."""
        arguments = job.kwargs or {}
        tenant, job_id, run = arguments.get("tenant"), arguments.get("job_id"), arguments.get("run")
        if isinstance(tenant, str) and isinstance(job_id, str) and isinstance(run, int):
            return cls(tenant, job_id, run)
        return None


class MessageQueue(Queue):
    """A queue whose messages are removed when they are received.

    RQ would keep messages of a single queue in a second list until its registries, which are not used here, are
    cleaned.
    """

    @classmethod
    def lmove(cls, connection: Redis, queue_key: str, timeout: int | None) -> Any:
        """Receive the next message."""
        return cls.lpop([queue_key], timeout, connection=connection)


def rq_queue(redis: Redis, name: str) -> Queue:
    """The RQ queue with this name, with JSON messages."""
    return MessageQueue(name, connection=redis, job_class=TaskJob, serializer=JSONSerializer)


def queue_key(name: str) -> str:
    """The key of the list of messages in an RQ queue."""
    return f"{Queue.redis_queue_namespace_prefix}{name}"


def message_key(message_id: str) -> str:
    """The key of a message."""
    return f"{TaskJob.redis_job_namespace_prefix}{message_id}"


def write_message(pipe: Pipeline, redis: Redis, tenant: str, record: JobRecord) -> None:
    """Queue the write of the message for a job's next run; it is deleted when the job is claimed."""
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


# --- Fair queueing
#
# The waiting messages of a tenant are in a line, and the first one of each line is in the RQ queue. A free worker takes
# one of these in a script that decides for all workers:
#
# - With two workers or more for a queue, the last free one starts no job of a tenant that already runs one on the
#   others. So a tenant finds a worker that another tenant has not filled. A service without API keys has one tenant,
#   which may use all workers.
# - Shorter jobs go first, by their estimated seconds. A message lets shorter ones pass until as much work as that was
#   taken since its tenant's turn began or, in its line, since it came. No clock is involved: work is the sum of the
#   estimates of all messages taken so far.

#: Maximum seconds of estimated work for which a waiting message lets shorter ones pass.
MOST_SECONDS_AHEAD = 60.0

_ENTER, _LEAVE, _REPLACE, _TAKE = (
    Script("queues/common", f"queues/{name}") for name in ("enter", "leave", "replace", "take")
)


class TenantLine:
    """The line of one tenant for one queue."""

    def __init__(self, redis: Redis, keys: Keyspace, queue: str) -> None:
        self._redis = redis
        self._keys = keys
        self._queue = queue
        self._line, self._taken = keys.line(queue), keys.taken(queue)

    def enter(self, pipe: Pipeline, record: JobRecord, *, front: bool = False) -> None:
        """Queue the commands that add a job's next run to its tenant's line, by its estimate or at the ``front``.

        A message that already waits keeps its position.
        """
        write_message(pipe, self._redis, self._keys.tenant, record)
        seconds = f"{min(record.seconds, MOST_SECONDS_AHEAD):.6f}"
        message = Message.next_of(self._keys.tenant, record).id
        self._call(pipe, _ENTER, message, self._keys.tenant, seconds, "1" if front else "0")

    def leave(self, pipe: Pipeline, message_id: str) -> None:
        """Queue the commands that remove a claimed or withdrawn message."""
        pipe.delete(message_key(message_id))
        self._call(pipe, _LEAVE, message_id)

    def replace(self, message_id: str) -> bool:
        """Queue a lost message again; returns False if it was claimed in the meantime."""
        return bool(self._call(self._redis, _REPLACE, message_id))

    def has(self, message_id: str) -> bool:
        """Whether a message waits here, or was taken and not yet claimed."""
        with self._redis.pipeline() as pipe:
            pipe.sismember(self._taken, message_id)
            pipe.zscore(self._line, message_id)
            taken, rank = pipe.execute()
        return bool(taken) or rank is not None

    def before(self, message_id: str) -> int | None:
        """The number of the tenant's messages ahead of this one; None if it does not wait here."""
        return cast(int | None, self._redis.zrank(self._line, message_id))

    def messages(self) -> list[str]:
        """All messages that wait here, or were taken and not yet claimed."""
        with self._redis.pipeline() as pipe:
            pipe.smembers(self._taken)
            pipe.zrange(self._line, 0, -1)
            taken, waiting = pipe.execute()
        return [message.decode() for message in (*taken, *waiting)]

    def _call(self, client: Redis | Pipeline, script: Script, message_id: str, *more: str) -> object:
        own = (self._line, self._taken, queue_key(self._queue), Shared.wake(self._queue))
        field = f"{self._keys.tenant}:{self._queue}"
        return script.run(client, (Shared.fronts(), Shared.work(), *own), message_id, field, *more)


def lines(redis: Redis) -> list[tuple[str, str]]:
    """Tenant and queue of every line with messages that wait or were taken and not yet claimed."""
    members = cast(list[bytes], redis.hkeys(Shared.fronts()))
    parts = (member.decode().rpartition(":") for member in members)
    return sorted((tenant, queue) for tenant, _, queue in parts)


def missing(redis: Redis, tenant_lines: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Tenant, queue and id of messages that are first in their line but not in the queue, or taken but not claimed.

    They are being claimed, or lost. One round trip for any number of lines.
    """
    queues = sorted({queue for _, queue in tenant_lines})
    with redis.pipeline() as pipe:
        for tenant, queue in tenant_lines:
            pipe.smembers(Keyspace(tenant).taken(queue))
            pipe.zrange(Keyspace(tenant).line(queue), 0, 0)
        for queue in queues:
            pipe.lrange(queue_key(queue), 0, -1)
        answers = pipe.execute()
    queued = dict(zip(queues, map(set, answers[2 * len(tenant_lines) :]), strict=True))
    return [
        (tenant, queue, message.decode())
        for (tenant, queue), taken, first in zip(tenant_lines, answers[0::2], answers[1::2], strict=False)
        for message in taken | set(first) - queued[queue]
    ]


# --- Workers, which take messages
#
# A worker is known from its first attempt to take a message. Its supervisor renews it with a counter, and removes it
# when it ends. Other supervisors remove workers that are not renewed for some seconds of their own clocks.

#: Seconds after which a worker that found no message looks again, even if nothing wakes it.
_WAIT_SECONDS = 1.0


def take(redis: Redis, worker: str, queues: Sequence[str]) -> tuple[str, str] | None:
    """Take a message for an idle worker of these queues, GPU work first; returns its queue and id, None if none fits.

    The message is taken, and the worker counts as one that runs a job of its tenant, until its next attempt.
    """
    groups = [queue for queue in queues if queue == GPU_FITS], [queue for queue in queues if queue != GPU_FITS]
    names = ("|".join(map(",".join, groups)), ",".join(queues), queue_key(""), Shared.wake(""))
    before, after_line = Keyspace("*").line("").split("*")
    after_taken = Keyspace("*").taken("").removeprefix(f"{before}*")
    keys = (Shared.fronts(), Shared.work(), Shared.workers(), Shared.tenants_of_workers(), Shared.api_keys())
    taken = _TAKE.run(redis, keys, worker, *names, before, after_line, after_taken)
    if taken is None:
        return None
    queue, message = cast(list[bytes], taken)
    return queue.decode(), message.decode()


def await_message(redis: Redis, queues: Sequence[str]) -> None:
    """Wait until a message of these queues can perhaps be taken, for up to a second."""
    redis.blpop([Shared.wake(queue) for queue in queues], timeout=_WAIT_SECONDS)


def renew_workers(pipe: Pipeline, workers: Sequence[str], queues: Sequence[str], times: int) -> None:
    """Queue the renewal of the workers of a supervisor, for the ``times``-th time."""
    if workers:
        pipe.hset(Shared.workers(), mapping={worker: f"{','.join(queues)} {times}" for worker in workers})


def read_workers(redis: Redis) -> dict[str, str]:
    """Every known worker, with a value that changes at each renewal."""
    stored = cast(dict[bytes, bytes], redis.hgetall(Shared.workers()))
    return {worker.decode(): value.decode() for worker, value in stored.items()}


def forget_worker(redis: Redis, worker: str) -> None:
    """Remove a worker that ended."""
    with redis.pipeline() as pipe:
        pipe.hdel(Shared.workers(), worker)
        pipe.hdel(Shared.tenants_of_workers(), worker)
        pipe.execute()
