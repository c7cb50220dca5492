"""What tells that the store is away, in one tuple: the server is gone, silent, or answers that it cannot now.

Redis also says "cannot now" by an error of a command: its disk or its memory is full, it has become a replica, or
the user has no right to the command. The clients of ``storage.server.client`` raise these as ``StoreRefuses``.
"""

from __future__ import annotations

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

#: First words of errors that say nothing of the command, only that it cannot be done now or here.
CANNOT_NOW = frozenset(
    {
        "MISCONF",  # the append-only file or a snapshot cannot be written
        "OOM",
        "NOREPLICAS",  # fewer replicas than min-replicas-to-write
        "READONLY",  # a replica
        "MASTERDOWN",
        "LOADING",
        "CLUSTERDOWN",
        "TRYAGAIN",
        "MOVED",  # a cluster, which Calibrant does not speak to
        "ASK",
        "BUSY",  # with a script
        "UNBLOCKED",  # a blocking command, by a failover
        "NOAUTH",
        "WRONGPASS",
        "NOPERM",
        "DENIED",  # protected mode
    }
)


class StoreAway(RedisConnectionError):
    """A command that was not sent, since the store is known to be away."""


class StoreRefuses(RedisConnectionError):
    """An answer that means "cannot now"; ``kind`` is its first word, as in ``CANNOT_NOW``."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the store answered {kind}")
        self.kind = kind


#: What is raised while the store is away. ``InvalidResponse``: what listens there is no Redis.
UNAVAILABLE = (RedisConnectionError, RedisTimeoutError, InvalidResponse)


def refusal_of(error: ResponseError) -> StoreRefuses | None:
    """The refusal that an error of a command is; None for one that concerns the command."""
    kind = error.status_code or str(error).partition(" ")[0]
    return StoreRefuses(kind) if kind in CANNOT_NOW else None


def kind_of(error: BaseException) -> str:
    """What to call an error in a log line: its kind and what the system said, never the words of a server."""
    if isinstance(error, StoreRefuses):
        return error.kind
    kind = getattr(error, "status_code", None) or type(error).__name__
    cause = error.__cause__ or error.__context__
    reason = getattr(cause, "strerror", None) or getattr(error, "strerror", None)
    return f"{kind}: {reason}" if reason else kind
