"""Optimistic transactions: read under WATCH, write under MULTI, retried after a conflicting write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from redis import Redis
from redis.client import Pipeline

Result = TypeVar("Result")


def transact(redis: Redis, write: Callable[[Pipeline], Result], *keys: str) -> Result:
    """Run ``write`` until no other client changes ``keys`` between its reads and its writes.

    ``write`` reads from the pipeline, then calls ``multi`` and queues its writes.
    """
    run = cast(Callable[..., Any], redis.transaction)
    return cast(Result, run(write, *keys, value_from_callable=True))
