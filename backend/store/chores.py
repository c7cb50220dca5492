"""Background tasks ("chores") of monitors and data sets: scheduled work that any worker runs, at least once.

A due task has one message in the queue of its kind, even if it is requested several times. A worker acquires it with a
lease and renews the lease while it runs. A task is removed only when it is done: if it fails, or its worker ends, it
runs again after an increasing pause. A task that is requested while it runs then runs once more.

Tenants take turns: each has at most one message in a queue. Its other due tasks of that kind wait in a line, and the
next one enters at the end of the queue when the one before begins. With API keys, a tenant runs at most as many tasks
of a kind as there are supervisors, which is half of the workers for it. Deliveries run side by side, so each target of
a tenant has a line of its own, and the number of running deliveries is limited for each target and each tenant.
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
from backend.store.server.connection import Script

Kind = Literal["look", "deliver", "recalibrate", "estimate", "discard"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Duration of a lease, and time between two renewals, in seconds.
LEASE_SECONDS, RENEWAL_SECONDS = 30.0, 5.0
#: First and longest pause after a failure in seconds, each with a jitter of half its length.
PAUSES = (1.0, 300.0)
#: Maximum number of due tasks moved per check, and of messages checked for loss.
_MOST, _MOST_LOST = 1000, 20
#: Maximum number of deliveries of one tenant that run at the same time: to one target, and in all.
MOST_TO_TARGET, MOST_OF_TENANT = 2, 4
#: The function in messages; RQ runs no other.
_FUNCTION = "workers.chores.do"
#: Each kind has a queue and workers of its own, so that a slow receiver or a long fit does not delay checks.
_QUEUE_PREFIX = "chores-"
#: Maximum number of workers of a supervisor for each kind.
WORKERS_OF_KIND = 2


@dataclass(frozen=True)
class Chore:
    """A task: a check of a monitor, a delivery, a recalibration, an estimate or a removal, of one tenant.

    The id of a delivery is ``target/monitor/delivery``; ``target`` is hexadecimal.
    """

    kind: Kind
    tenant: str
    id: str

    @property
    def field(self) -> str:
        """Its name among all tasks."""
        return f"{self.kind}:{self.tenant}:{self.id}"

    @property
    def message(self) -> str:
        """The id of its message, hexadecimal because RQ allows only letters, digits and dashes."""
        return self.field.encode().hex()

    @classmethod
    def read(cls, message: str) -> Chore | None:
        """The task of a message id; None for an unknown one."""
        try:
            kind, rest = bytes.fromhex(message).decode().split(":", 1)
        except ValueError:
            return None
        tenant, _, name = rest.rpartition(":")
        return cls(kind, tenant, name) if kind in KINDS and tenant and name else None


class ChoreJob(Job):
    """An RQ job limited to background tasks, so that write access to Redis does not allow running any function."""

    @property
    def func(self) -> Callable[..., Any]:
        """The only allowed function; raises ``PermissionError`` for any other."""
        if self.func_name != _FUNCTION or self.instance:
            raise PermissionError("this job names a function that is not allowed")
        return cast(Callable[..., Any], super().func)


_ASK, _FORGET, _QUEUE, _BEGIN = (
    Script("chores/common", f"chores/{name}") for name in ("ask", "forget", "queue", "begin")
)
#: Scripts of the owner of a task.
_RENEW, _DONE, _LATER = (
    Script("chores/common", "chores/owned", f"chores/{name}") for name in ("renew", "done", "later")
)


def schedule(client: Redis | Pipeline, chore: Chore, after: float = 0.0) -> None:
    """Schedule a task in ``after`` seconds, unless it is already due sooner; ``client`` may be a pipeline."""
    _call(client, _ASK, chore.field, after)


def forget(client: Redis | Pipeline, chore: Chore) -> None:
    """Cancel a scheduled task; a running one continues."""
    _call(client, _FORGET, chore.field)


def queue_due(redis: Redis) -> list[Kind]:
    """Queue the due tasks, and those whose worker or message was lost; returns the kinds with waiting tasks."""
    _queue_due(redis)
    with redis.pipeline(transaction=False) as pipe:
        for kind in KINDS:
            pipe.llen(queue_key(queue_of(kind)))
        return [kind for kind, waiting in zip(KINDS, pipe.execute(), strict=True) if waiting]


def _queue_due(client: Redis | Pipeline) -> None:
    template = ChoreJob.create(
        _FUNCTION,
        connection=client,
        timeout=-1,
        result_ttl=0,
        status=JobStatus.QUEUED,
        description="chore",
        serializer=JSONSerializer,
    )
    template.enqueued_at = now()
    fields = [part for pair in template.to_dict().items() for part in pair]
    names = (_QUEUE_PREFIX, message_key(""), queue_key(""), Queue.redis_queues_keys)
    bounds = (MOST_TO_TARGET, MOST_OF_TENANT, Shared.supervisor(""))
    _call(client, _QUEUE, LEASE_SECONDS, _MOST, _MOST_LOST, *PAUSES, _jitter(), *names, *bounds, *fields)


def begin(redis: Redis, chore: Chore, owner: str) -> int:
    """Acquire the lease of a task for ``owner``, and replace its message by the tenant's next; returns the attempt.

    Returns 0 if the task is not scheduled, or belongs to another worker.
    """
    with redis.pipeline() as pipe:
        _call(pipe, _BEGIN, chore.field, owner, LEASE_SECONDS, message_key(chore.message))
        _queue_due(pipe)
        return int(pipe.execute()[0])


def renew(redis: Redis, chore: Chore, owner: str) -> bool:
    """Renew the lease of a task; returns False if the owner has lost it."""
    return bool(_call(redis, _RENEW, chore.field, owner, LEASE_SECONDS))


def done(redis: Redis, chore: Chore, owner: str, again: float | None = None) -> bool:
    """End a task, optionally to run again in ``again`` seconds, and queue what waited for it.

    Returns False if the owner has lost it.
    """
    with redis.pipeline() as pipe:
        _call(pipe, _DONE, chore.field, owner, "" if again is None else again)
        _queue_due(pipe)
        return bool(pipe.execute()[0])


def later(redis: Redis, chore: Chore, owner: str) -> bool:
    """Return a failed task for a pause that grows with its attempts; returns False if the owner has lost it."""
    return bool(_call(redis, _LATER, chore.field, owner, *PAUSES, _jitter()))


def owner_ended(redis: Redis, owner: str) -> list[str]:
    """Return the tasks of an ended worker; returns their names."""
    held = cast(dict[bytes, bytes], redis.hgetall(Shared.chore_owners()))
    lost = [field.decode() for field, name in held.items() if name == owner.encode()]
    for field in lost:
        _call(redis, _LATER, field, owner, *PAUSES, _jitter())
    return lost


def read_owners(redis: Redis) -> set[str]:
    """The workers that run tasks."""
    return {name.decode() for name in cast(list[bytes], redis.hvals(Shared.chore_owners()))}


def chore_queue(redis: Redis, kind: Kind) -> Queue:
    """The RQ queue of a kind of task, with JSON messages."""
    return MessageQueue(queue_of(kind), connection=redis, job_class=ChoreJob, serializer=JSONSerializer)


def queue_of(kind: Kind) -> str:
    """The name of the queue of a kind of task."""
    return _QUEUE_PREFIX + kind


def read_chore_counts(fields: Mapping[bytes, bytes]) -> dict[tuple[str, str], int]:
    """Parse the hash of counts: how often tasks of a kind were ``done`` or ``failed``, including lost workers."""
    counts: dict[tuple[str, str], int] = {}
    for field, number in fields.items():
        kind, _, outcome = field.decode().partition(":")
        counts[kind, outcome] = int(number)
    return counts


def _call(client: Redis | Pipeline, script: Script, *arguments: str | bytes | float) -> object:
    of_one = (Shared.chores_held(), Shared.chore_owners(), Shared.chore_tries())
    shared = (Shared.chore_counts(), Shared.chores_placed(), Shared.chore_lines(), Shared.queued_at())
    keys = (Shared.chores_due(), *of_one, *shared, Shared.api_keys(), Shared.supervisors())
    return script.run(client, keys, *arguments)


def _jitter() -> float:
    return random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret
