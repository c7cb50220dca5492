"""Holds: while a job that has not ended needs a batch, the batch does not expire.

Each hold is queued on the transaction that submits a job, each release on the one that ends it, as scripts, so that
they decide on what is there when that transaction runs. A batch that is held has no expiry; the moment that it had
before stands in its hash, where it goes when the batch goes. A batch that was stored before there were holds is held
like any other, and a job that was queued before holds none and lets go of none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redis.client import Pipeline

from storage.keyspace import Keyspace

#: The field of a held batch that keeps the moment when it would have expired, in milliseconds since 1970.
HELD_EXPIRES = "expires"

_HOLD = """
if redis.call('EXISTS', KEYS[1]) == 0 then return end
redis.call('SADD', KEYS[2], ARGV[1])
local expires = redis.call('PEXPIRETIME', KEYS[1])
if expires > 0 then
    redis.call('HSET', KEYS[1], ARGV[2], string.format('%.0f', expires))
    redis.call('PERSIST', KEYS[1])
end
"""

# What expires at a moment that is past is gone at once.
_RELEASE = """
if redis.call('SREM', KEYS[2], ARGV[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 1 then return end
local expires = redis.call('HGET', KEYS[1], ARGV[2])
if expires then
    redis.call('HDEL', KEYS[1], ARGV[2])
    redis.call('PEXPIREAT', KEYS[1], expires)
end
"""


def batches_of(spec: Mapping[str, Any]) -> list[str]:
    """The ids of the batches that a job of this spec needs."""
    return list(spec.get("batches") or filter(None, [spec.get("batch")]))


def hold(pipe: Pipeline, keys: Keyspace, job_id: str, batch_ids: Iterable[str]) -> None:
    """Queue: let these batches not expire before the job lets go of them. One that does not exist is not held.

    A job that holds a batch already goes on holding it once.
    """
    _each(pipe, _HOLD, keys, job_id, batch_ids)


def release(pipe: Pipeline, keys: Keyspace, job_id: str, batch_ids: Iterable[str]) -> None:
    """Queue: let go of these batches; the last job that does gives a batch the moment back when it expires.

    Where that is past, it expires now. A job that holds a batch no longer, or never did, changes nothing.
    """
    _each(pipe, _RELEASE, keys, job_id, batch_ids)


def _each(pipe: Pipeline, script: str, keys: Keyspace, job_id: str, batch_ids: Iterable[str]) -> None:
    for batch_id in batch_ids:
        pipe.eval(script, 2, keys.batch(batch_id), keys.batch_holds(batch_id), job_id, HELD_EXPIRES)
