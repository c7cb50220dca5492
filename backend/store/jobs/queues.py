"""The queues: RQ's messages, and the line of each tenant before them."""

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

# --- RQ's queues and their messages, each of which holds the id of a job and no more

#: Fits, those of them that are worth a GPU while one is there, and evaluations.
FITS, GPU_FITS, EVALUATIONS = "fits", "fits-gpu", "evaluations"
QUEUES = (GPU_FITS, FITS, EVALUATIONS)
#: The default queue of each kind of job.
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


# --- Fair queueing: each tenant's jobs wait in a line of its own, and few of them at a time enter RQ's queue
#
# A message that is claimed makes room for the next of its tenant, at the queue's end. So a tenant with a thousand
# jobs delays another's first by as many as have a place, however the workers are many or few.

#: Messages of one tenant that stand in a queue at once. With one, workers would wait for each other's claims.
PLACES = 2

#: KEYS: queue, line, placed, lines. ARGV: message, member of lines, places, whether at the line's front.
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

#: KEYS and ARGV as above, but for the last.
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

#: A message with a place that is not in the queue was lost on its way to a claim.
_REPLACE = """
if redis.call('SISMEMBER', KEYS[3], ARGV[1]) == 0 or redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[1])
return 1
"""


class Line:
    """The line of one tenant before one queue."""

    def __init__(self, redis: Redis, keys: Keyspace, queue: str) -> None:
        self._redis = redis
        self._keys = keys
        self._queue = queue
        self._names = (queue_key(queue), keys.line(queue), keys.placed(queue), Shared.lines())

    def enter(self, pipe: Pipeline, record: JobRecord, *, front: bool = False) -> None:
        """Queue the writes by which a job's next run begins to wait, behind all of its tenant or before them.

        One that waits already stays where it is.
        """
        write_message(pipe, self._redis, self._keys.tenant, record)
        self._call(pipe, _ENTER, Message.next_of(self._keys.tenant, record).id, "1" if front else "0")

    def leave(self, pipe: Pipeline, message_id: str) -> None:
        """Queue the writes by which a message is claimed or withdrawn, and the next of its tenant takes its place."""
        pipe.delete(message_key(message_id))
        self._call(pipe, _LEAVE, message_id)

    def replace(self, message_id: str) -> bool:
        """Queue a message again that was lost; False where it was claimed meanwhile."""
        return bool(self._call(self._redis, _REPLACE, message_id))

    def has(self, message_id: str) -> bool:
        """Whether a message waits here."""
        with self._redis.pipeline() as pipe:
            pipe.sismember(self._names[2], message_id)
            pipe.lpos(self._names[1], message_id)
            placed, at = pipe.execute()
        return bool(placed) or at is not None

    def before(self, message_id: str) -> int | None:
        """How many messages of the tenant come before this one; None for one that does not wait here."""
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
        """All that wait here."""
        with self._redis.pipeline() as pipe:
            pipe.smembers(self._names[2])
            pipe.lrange(self._names[1], 0, -1)
            placed, waiting = pipe.execute()
        return [message.decode() for message in (*placed, *waiting)]

    def _call(self, client: Redis | Pipeline, script: str, message_id: str, *more: str) -> object:
        member = f"{self._keys.tenant}:{self._queue}"
        return client.eval(script, len(self._names), *self._names, message_id, member, str(PLACES), *more)


def lines(redis: Redis) -> list[tuple[str, str]]:
    """Tenant and queue of every line in which a job waits."""
    members = cast(set[bytes], redis.smembers(Shared.lines()))
    found = (member.decode().rpartition(":") for member in members)
    return sorted((tenant, queue) for tenant, _, queue in found)


def missing(redis: Redis, found: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Tenant, queue and id of the messages with a place that are not in the queue: on their way to a claim, or lost.

    One round trip, whatever the number of lines.
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
