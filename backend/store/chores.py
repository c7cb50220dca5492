"""Chores: scheduled work that any worker does, at least once.

A chore that is due is put into the queue of its kind by one message, however often it is requested and however long no
worker comes. Who begins it has it by a lease, which is renewed while it is done. It leaves only when it is done: one
that fails, or whose worker ends, is done again after a pause that grows. One that is requested while it is done is done
once more afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from redis import Redis
from redis.client import Pipeline
from rq import Queue
from rq.job import Job, JobStatus
from rq.serializers import JSONSerializer
from rq.utils import now

from backend.store.jobs.queues import MessageQueue, message_key, queue_key
from backend.store.keyspace import Shared

Kind = Literal["look", "deliver", "recalibrate"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Seconds that a lease lasts, and between two renewals.
LEASE_SECONDS, RENEWAL_SECONDS = 30.0, 5.0
#: Seconds of the first pause after a failure and of the longest, each give or take half of them.
PAUSES = (1.0, 300.0)
#: Chores that one look queues at most, and messages of which it is looked whether they are lost.
_MOST, _MOST_LOST = 200, 20
#: What a message of a chore names; RQ runs nothing else.
_FUNCTION = "workers.chores.do"
#: Every kind has a queue, and so a worker, of its own: a slow receiver holds up no look, and a long fit neither.
_QUEUE_PREFIX = "chores-"


@dataclass(frozen=True)
class Chore:
    """A look at a monitor, a delivery or a recalibration: what of which tenant."""

    kind: Kind
    tenant: str
    id: str

    @property
    def field(self) -> str:
        """Its name among all chores."""
        return f"{self.kind}:{self.tenant}:{self.id}"

    @property
    def message(self) -> str:
        """The id of its message: RQ has letters, digits and dashes alone in it."""
        return self.field.encode().hex()

    @classmethod
    def read(cls, message: str) -> Chore | None:
        """The chore of a message's id; None where it is none of ours."""
        try:
            kind, rest = bytes.fromhex(message).decode().split(":", 1)
        except ValueError:
            return None
        tenant, _, name = rest.rpartition(":")
        return cls(kind, tenant, name) if kind in KINDS and tenant and name else None


class ChoreJob(Job):
    """An RQ job that can only be a chore: whoever can write to Redis cannot name a function to run."""

    @property
    def func(self) -> Callable[..., Any]:
        """The one function; raises ``PermissionError`` for any other."""
        if self.func_name != _FUNCTION or self.instance:
            raise PermissionError("this job names a function that is no chore")
        return cast(Callable[..., Any], super().func)


_COMMON = """
local due, held, owners, tries, counts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local function ask(field, after) redis.call('ZADD', due, 'LT', now + after, field) end
local function leave(field)
  redis.call('ZREM', held, field)
  redis.call('HDEL', owners, field)
end
local function count(field, outcome)
  redis.call('HINCRBY', counts, string.match(field, '^[^:]+') .. ':' .. outcome, 1)
end
local function fail(field, first, longest, jitter)
  local times = tonumber(redis.call('HGET', tries, field) or '1')
  leave(field)
  count(field, 'failed')
  ask(field, math.min(tonumber(longest), first * 2 ^ math.min(times - 1, 30)) * jitter)
end
"""
_ASK = _COMMON + "ask(ARGV[1], ARGV[2])"
#: A lease without an owner is that of a message, which is lost where it is not in its queue any more.
_QUEUE = (
    _COMMON
    + """
local lease, most, most_lost, first, longest, jitter = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local function message(field)
  return (string.gsub(field, '.', function(c) return string.format('%02x', string.byte(c)) end))
end
local function queue(field) return ARGV[7] .. string.match(field, '^[^:]+') end
local function push(field)
  local id, name = message(field), queue(field)
  redis.call('HSET', ARGV[8] .. id, 'origin', name, unpack(ARGV, 11))
  redis.call('SADD', ARGV[10], ARGV[9] .. name)
  redis.call('RPUSH', ARGV[9] .. name, id)
end
for _, field in ipairs(redis.call('ZRANGEBYSCORE', held, '-inf', now, 'LIMIT', 0, most_lost)) do
  if redis.call('HEXISTS', owners, field) == 1 then
    fail(field, first, longest, jitter)
  else
    if not redis.call('LPOS', ARGV[9] .. queue(field), message(field)) then push(field) end
    redis.call('ZADD', held, now + lease, field)
  end
end
local looked = most + redis.call('HLEN', owners)
for _, field in ipairs(redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, looked)) do
  if redis.call('HEXISTS', owners, field) == 0 then
    if not redis.call('ZSCORE', held, field) then
      push(field)
      redis.call('ZADD', held, now + lease, field)
    end
    redis.call('ZREM', due, field)
  end
end
"""
)
_BEGIN = (
    _COMMON
    + """
redis.call('DEL', KEYS[6])
if not redis.call('ZSCORE', held, ARGV[1]) or redis.call('HEXISTS', owners, ARGV[1]) == 1 then return 0 end
redis.call('HSET', owners, ARGV[1], ARGV[2])
redis.call('ZADD', held, now + ARGV[3], ARGV[1])
return redis.call('HINCRBY', tries, ARGV[1], 1)
"""
)
_OWNED = _COMMON + "if redis.call('HGET', owners, ARGV[1]) ~= ARGV[2] then return 0 end "
_RENEW = _OWNED + "redis.call('ZADD', held, now + ARGV[3], ARGV[1]) return 1"
_DONE = (
    _OWNED
    + """
leave(ARGV[1])
count(ARGV[1], 'done')
redis.call('HDEL', tries, ARGV[1])
if ARGV[3] ~= '' then ask(ARGV[1], ARGV[3]) end
return 1
"""
)
_LATER = _OWNED + "fail(ARGV[1], ARGV[3], ARGV[4], ARGV[5]) return 1"


def ask(client: Redis | Pipeline, chore: Chore, after: float = 0.0) -> None:
    """Ask for a chore in so many seconds, or sooner where it is due sooner; queued where ``client`` is a pipeline."""
    client.eval(_ASK, 5, *_keys(), chore.field, str(after))


def forget(client: Redis | Pipeline, chore: Chore) -> None:
    """Ask no longer for a chore; one that is being done goes on."""
    client.zrem(Shared.chores_due(), chore.field)
    client.hdel(Shared.chore_tries(), chore.field)


def queue_due(redis: Redis) -> list[Kind]:
    """Queue the chores that are due, and those whose worker or message was lost; the kinds of which any wait."""
    template = ChoreJob.create(
        _FUNCTION,
        connection=redis,
        timeout=-1,
        result_ttl=0,
        status=JobStatus.QUEUED,
        description="chore",
        serializer=JSONSerializer,
    )
    template.enqueued_at = now()
    fields = [part for pair in template.to_dict().items() for part in pair]
    names = (_QUEUE_PREFIX, message_key(""), queue_key(""), Queue.redis_queues_keys)
    numbers = (LEASE_SECONDS, _MOST, _MOST_LOST, *PAUSES, _jitter())
    redis.eval(_QUEUE, 5, *_keys(), *map(str, numbers), *names, *fields)
    with redis.pipeline(transaction=False) as pipe:
        for kind in KINDS:
            pipe.llen(queue_key(queue_of(kind)))
        return [kind for kind, waiting in zip(KINDS, pipe.execute(), strict=True) if waiting]


def begin(redis: Redis, chore: Chore, owner: str) -> int:
    """Take the lease of a chore for ``owner``: the how-manieth try it is; 0 where it is not to be done, or another's.

    Its message is gone thereby.
    """
    given = (chore.field, owner, str(LEASE_SECONDS))
    return int(cast(int, redis.eval(_BEGIN, 6, *_keys(), message_key(chore.message), *given)))


def renew(redis: Redis, chore: Chore, owner: str) -> bool:
    """Renew the lease of a chore; False where it is the owner's no more."""
    return bool(redis.eval(_RENEW, 5, *_keys(), chore.field, owner, str(LEASE_SECONDS)))


def done(redis: Redis, chore: Chore, owner: str, again: float | None = None) -> bool:
    """End a chore that is done, to be done ``again`` in so many seconds; False where it is the owner's no more."""
    return bool(redis.eval(_DONE, 5, *_keys(), chore.field, owner, "" if again is None else str(again)))


def later(redis: Redis, chore: Chore, owner: str) -> bool:
    """Give back a chore that failed, for a while that grows with its tries; False where it is the owner's no more."""
    return bool(redis.eval(_LATER, 5, *_keys(), chore.field, owner, *map(str, PAUSES), str(_jitter())))


def owner_ended(redis: Redis, owner: str) -> list[str]:
    """Give back the chores of a worker that has ended; their names."""
    held = cast(dict[bytes, bytes], redis.hgetall(Shared.chore_owners()))
    lost = [field.decode() for field, name in held.items() if name == owner.encode()]
    for field in lost:
        redis.eval(_LATER, 5, *_keys(), field, owner, *map(str, PAUSES), str(_jitter()))
    return lost


def chore_queue(redis: Redis, kind: Kind) -> Queue:
    """The RQ queue of a kind of chore, with JSON messages."""
    return MessageQueue(queue_of(kind), connection=redis, job_class=ChoreJob, serializer=JSONSerializer)


def queue_of(kind: Kind) -> str:
    """The name of the queue of a kind of chore."""
    return _QUEUE_PREFIX + kind


def read_chore_counts(fields: Mapping[bytes, bytes]) -> dict[tuple[str, str], int]:
    """The hash of counts: how often chores of a kind came to ``done`` or ``failed``, those whose worker ended too."""
    counts: dict[tuple[str, str], int] = {}
    for field, number in fields.items():
        kind, _, outcome = field.decode().partition(":")
        counts[kind, outcome] = int(number)
    return counts


def _keys() -> tuple[str, str, str, str, str]:
    of_one = (Shared.chores_held(), Shared.chore_owners(), Shared.chore_tries())
    return Shared.chores_due(), *of_one, Shared.chore_counts()


def _jitter() -> float:
    return random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
