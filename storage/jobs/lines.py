"""Taking turns: each tenant's jobs wait in a line of its own, and few of them at a time stand in RQ's queue.

A message that is claimed makes room for the next of its tenant, at the queue's end. So a tenant with a thousand jobs
delays another's first by as many as have a place, however the workers are many or few.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from redis import Redis
from redis.client import Pipeline

from schemas.jobs import JobRecord
from storage.jobs.queues import Message, message_key, queue_key, write_message
from storage.keyspace import Keyspace, Shared

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
