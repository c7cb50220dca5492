"""The queues: RQ messages, and the line of each tenant in front of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from redis import Redis
from redis.client import Pipeline
from rq import Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import import_attribute, now

from backend.store.keyspace import Keyspace, Shared
from schemas.jobs import JobRecord, Kind

# --- RQ queues and their messages, each of which contains only the id of a job

#: Queues for fits, for fits that benefit from a GPU, and for evaluations.
FITS, GPU_FITS, EVALUATIONS = "fits", "fits-gpu", "evaluations"
QUEUES = (GPU_FITS, FITS, EVALUATIONS)
#: The default queue of each kind of job.
QUEUE_OF: dict[Kind, str] = {"fit": FITS, "evaluate": EVALUATIONS}
#: Kind of job -> import path of its task; RQ runs nothing else.
TASKS: dict[Kind, str] = {"fit": "workers.tasks.fit", "evaluate": "workers.tasks.evaluate"}


class TaskJob(Job):
    """An RQ job limited to ``TASKS``, so that write access to Redis does not allow running any function."""

    @property
    def func(self) -> Callable[..., Any]:
        """The task's function; raises ``PermissionError`` for any other."""
        if self.func_name not in TASKS.values() or self.instance:
            raise PermissionError("this job names a function that is not a task")
        return cast(Callable[..., Any], super().func)


def task_of(kind: Kind) -> Callable[..., Any]:
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
        given = job.kwargs or {}
        tenant, job_id, run = given.get("tenant"), given.get("job_id"), given.get("run")
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


# --- Fair queueing: each tenant's jobs wait in a line of their own, and only a few at a time enter the RQ queue
#
# A claimed message makes room for the next one of its tenant, at the end of the queue. So a tenant with a thousand jobs
# delays the first job of another only by its few messages in the queue, regardless of the number of workers.

#: Maximum messages of one tenant in a queue. With one, workers would wait for each other's claims.
PLACES = 2

#: KEYS: queue, line, placed, lines. ARGV: message, member of lines, places, whether at the front of the line.
_ENTER = """
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 1 or redis.call('LPOS', KEYS[2], ARGV[1]) then return 0 end
redis.call('SADD', KEYS[4], ARGV[2])
if redis.call('SCARD', KEYS[3]) < tonumber(ARGV[3]) then
  redis.call('SADD', KEYS[3], ARGV[1])
  redis.call('RPUSH', KEYS[1], ARGV[1])
elseif ARGV[4] == '1' then
  redis.call('LPUSH', KEYS[2], ARGV[1])
else
  redis.call('RPUSH', KEYS[2], ARGV[1])
end
return 1
"""

#: KEYS and ARGV as above, except for the last.
_LEAVE = """
if redis.call('SREM', KEYS[3], ARGV[1]) == 1 then
  redis.call('LREM', KEYS[1], 0, ARGV[1])
else
  redis.call('LREM', KEYS[2], 1, ARGV[1])
end
while redis.call('SCARD', KEYS[3]) < tonumber(ARGV[3]) do
  local follower = redis.call('LPOP', KEYS[2])
  if not follower then break end
  redis.call('SADD', KEYS[3], follower)
  redis.call('RPUSH', KEYS[1], follower)
end
if redis.call('SCARD', KEYS[3]) == 0 then redis.call('SREM', KEYS[4], ARGV[2]) end
"""

#: A placed message that is not in the queue was lost before it was claimed.
_REPLACE = """
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 0 or redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
"""


class Line:
    """The line of one tenant for one queue."""

    def __init__(self, redis: Redis, keys: Keyspace, queue: str) -> None:
        self._redis = redis
        self._keys = keys
        self._queue = queue
        self._names = (queue_key(queue), keys.line(queue), keys.placed(queue), Shared.lines())

    def enter(self, pipe: Pipeline, record: JobRecord, *, front: bool = False) -> None:
        """Queue the commands that add a job's next run to the end or the ``front`` of its tenant's line.

        A message that already waits keeps its position.
        """
        write_message(pipe, self._redis, self._keys.tenant, record)
        self._call(pipe, _ENTER, Message.next_of(self._keys.tenant, record).id, "1" if front else "0")

    def leave(self, pipe: Pipeline, message_id: str) -> None:
        """Queue the commands that remove a claimed or withdrawn message and let the tenant's next message enter."""
        pipe.delete(message_key(message_id))
        self._call(pipe, _LEAVE, message_id)

    def replace(self, message_id: str) -> bool:
        """Queue a lost message again; returns False if it was claimed in the meantime."""
        return bool(self._call(self._redis, _REPLACE, message_id))

    def has(self, message_id: str) -> bool:
        """Whether a message waits here."""
        with self._redis.pipeline() as pipe:
            pipe.sismember(self._names[2], message_id)
            pipe.lpos(self._names[1], message_id)
            placed, at = pipe.execute()
        return bool(placed) or at is not None

    def before(self, message_id: str) -> int | None:
        """The number of the tenant's messages ahead of this one; None if it does not wait here."""
        queue, line, placed, _ = self._names
        with self._redis.pipeline() as pipe:
            pipe.smembers(placed)
            pipe.lrange(queue, 0, -1)
            pipe.lpos(line, message_id)
            own, queued, at = pipe.execute()
        if at is not None:
            return len(own) + int(at)
        ahead = [message for message in queued if message in own]
        return ahead.index(message_id.encode()) if message_id.encode() in ahead else None

    def messages(self) -> list[str]:
        """All messages that wait here."""
        with self._redis.pipeline() as pipe:
            pipe.smembers(self._names[2])
            pipe.lrange(self._names[1], 0, -1)
            placed, waiting = pipe.execute()
        return [message.decode() for message in (*placed, *waiting)]

    def _call(self, client: Redis | Pipeline, script: str, message_id: str, *more: str) -> object:
        member = f"{self._keys.tenant}:{self._queue}"
        return client.eval(script, len(self._names), *self._names, message_id, member, str(PLACES), *more)


def lines(redis: Redis) -> list[tuple[str, str]]:
    """Tenant and queue of every non-empty line."""
    members = cast(set[bytes], redis.smembers(Shared.lines()))
    found = (member.decode().rpartition(":") for member in members)
    return sorted((tenant, queue) for tenant, _, queue in found)


def missing(redis: Redis, found: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Tenant, queue and id of placed messages that are not in the queue: being claimed, or lost.

    One round trip for any number of lines.
    """
    queues = sorted({queue for _, queue in found})
    with redis.pipeline() as pipe:
        for tenant, queue in found:
            pipe.smembers(Keyspace(tenant).placed(queue))
        for queue in queues:
            pipe.lrange(queue_key(queue), 0, -1)
        answers = pipe.execute()
    queued = dict(zip(queues, map(set, answers[len(found) :]), strict=True))
    return [
        (tenant, queue, message.decode())
        for (tenant, queue), placed in zip(found, answers, strict=False)
        for message in placed - queued[queue]
    ]
