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

#: KEYS: fronts, work, and those of one line. ``settle`` makes the first message of a line stand in its queue; one that
#: goes ahead of another takes over its turn.
_COMMON = """
local fronts, work, line, taken, queue, wake = unpack(KEYS)
local MESSAGE = 'rq:job:'
local function rouse(wake)
  if redis.call('EXISTS', wake) == 0 then redis.call('RPUSH', wake, '') end
end
local function settle(of, line, taken, queue, wake)
  local first, front = redis.call('ZRANGE', line, 0, 0)[1], redis.call('HGET', fronts, of)
  local stands = front and redis.call('LPOS', queue, front)
  if not first then
    if redis.call('SCARD', taken) == 0 then redis.call('HDEL', fronts, of) else redis.call('HSET', fronts, of, '') end
    if stands then redis.call('LREM', queue, 1, front) end
    return
  end
  redis.call('HSET', fronts, of, first)
  if first == front and stands then return end
  if stands then
    redis.call('HSET', MESSAGE .. first, 'turn', redis.call('HGET', MESSAGE .. front, 'turn') or 0)
    redis.call('LINSERT', queue, 'BEFORE', front, first)
    redis.call('LREM', queue, 1, front)
  elseif not redis.call('LPOS', queue, first) then
    redis.call('HSET', MESSAGE .. first, 'turn', redis.call('GET', work) or 0)
    redis.call('RPUSH', queue, first)
  end
  rouse(wake)
end
"""

#: ARGV: message, field of ``fronts``, tenant, estimated seconds, whether at the front of the line. Each message counts
#: as a microsecond of work, so that messages with equal estimates keep their order.
_ENTER = (
    _COMMON
    + """
if redis.call('SISMEMBER', taken, ARGV[1]) == 1 or redis.call('ZSCORE', line, ARGV[1]) then return 0 end
local rank = redis.call('INCRBYFLOAT', work, '0.000001') + ARGV[4]
redis.call('HSET', MESSAGE .. ARGV[1], 'tenant', ARGV[3], 'seconds', ARGV[4])
redis.call('ZADD', line, ARGV[5] == '1' and '-inf' or rank, ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
return 1
"""
)

#: ARGV: message, field of ``fronts``.
_LEAVE = (
    _COMMON
    + """
redis.call('SREM', taken, ARGV[1])
redis.call('ZREM', line, ARGV[1])
redis.call('LREM', queue, 0, ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
"""
)

#: A message that was taken but not claimed, or is first in its line but not in the queue, was lost.
_REPLACE = (
    _COMMON
    + """
if redis.call('SREM', taken, ARGV[1]) == 0 and not redis.call('ZSCORE', line, ARGV[1]) then return 0 end
redis.call('ZADD', line, '-inf', ARGV[1])
settle(ARGV[2], line, taken, queue, wake)
return 1
"""
)

#: KEYS: fronts, work, workers, tenants of workers, API keys. ARGV: the worker; groups of queues separated by
#: ``|``, of which the first with a message counts, and queues by commas; all its queues; prefix of queues and of wakes;
#: the parts of a key of a line, and of taken messages, around the tenant.
_TAKE = (
    _COMMON
    + """
local workers, tenants, keys = unpack(KEYS, 3)
local me, groups, mine, queues, wakes = unpack(ARGV, 1, 5)
local function pairs_of(key)
  local flat, found = redis.call('HGETALL', key), {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end
redis.call('HDEL', tenants, me)
redis.call('HSETNX', workers, me, mine .. ' 0')
local barred = {}
if redis.call('HLEN', keys) > 0 then
  local all, runs = pairs_of(workers), pairs_of(tenants)
  for name in string.gmatch(mine, '[^,]+') do
    local is_free, busy = false, {}
    for worker, value in pairs(all) do
      local served = ',' .. string.match(value, '^%S*') .. ','
      if worker ~= me and string.find(served, ',' .. name .. ',', 1, true) then
        if runs[worker] then busy[runs[worker]] = true else is_free = true end
      end
    end
    if not is_free then
      for tenant in pairs(busy) do barred[tenant] = true end
    end
  end
end
for group in string.gmatch(groups, '[^|]+') do
  local best
  for name in string.gmatch(group, '[^,]+') do
    for _, id in ipairs(redis.call('LRANGE', queues .. name, 0, -1)) do
      local tenant, seconds, turn = unpack(redis.call('HMGET', MESSAGE .. id, 'tenant', 'seconds', 'turn'))
      local rank = (turn or 0) + (seconds or 0)
      if not (tenant and barred[tenant]) and (not best or rank < best.rank) then
        best = {id = id, name = name, rank = rank, tenant = tenant, seconds = seconds or 0}
      end
    end
  end
  if best then
    local queue = queues .. best.name
    redis.call('LREM', queue, 1, best.id)
    redis.call('INCRBYFLOAT', work, best.seconds)
    if best.tenant then
      local line, taken = ARGV[6] .. best.tenant .. ARGV[7] .. best.name, ARGV[6] .. best.tenant .. ARGV[8] .. best.name
      redis.call('HSET', tenants, me, best.tenant)
      redis.call('ZREM', line, best.id)
      redis.call('SADD', taken, best.id)
      settle(best.tenant .. ':' .. best.name, line, taken, queue, wakes .. best.name)
    end
    for name in string.gmatch(mine, '[^,]+') do
      if redis.call('LLEN', queues .. name) > 0 then rouse(wakes .. name) end
    end
    return {best.name, best.id}
  end
end
return false
"""
)


class Line:
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

    def _call(self, client: Redis | Pipeline, script: str, message_id: str, *more: str) -> object:
        own = (self._line, self._taken, queue_key(self._queue), Shared.wake(self._queue))
        field = f"{self._keys.tenant}:{self._queue}"
        return client.eval(script, 2 + len(own), Shared.fronts(), Shared.work(), *own, message_id, field, *more)


def lines(redis: Redis) -> list[tuple[str, str]]:
    """Tenant and queue of every line with messages that wait or were taken and not yet claimed."""
    members = cast(list[bytes], redis.hkeys(Shared.fronts()))
    found = (member.decode().rpartition(":") for member in members)
    return sorted((tenant, queue) for tenant, _, queue in found)


def missing(redis: Redis, found: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Tenant, queue and id of messages that are first in their line but not in the queue, or taken but not claimed.

    They are being claimed, or lost. One round trip for any number of lines.
    """
    queues = sorted({queue for _, queue in found})
    with redis.pipeline() as pipe:
        for tenant, queue in found:
            pipe.smembers(Keyspace(tenant).taken(queue))
            pipe.zrange(Keyspace(tenant).line(queue), 0, 0)
        for queue in queues:
            pipe.lrange(queue_key(queue), 0, -1)
        answers = pipe.execute()
    queued = dict(zip(queues, map(set, answers[2 * len(found) :]), strict=True))
    return [
        (tenant, queue, message.decode())
        for (tenant, queue), taken, first in zip(found, answers[0::2], answers[1::2], strict=False)
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
    taken = redis.eval(_TAKE, len(keys), *keys, worker, *names, before, after_line, after_taken)
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
