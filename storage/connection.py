"""Connecting to Redis, and refusing one that could lose what is stored."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from storage.errors import UnsuitableStore
from storage.traced import TracedRedis

__all__ = ["UNAVAILABLE", "AsyncRedis", "check_durability", "connect", "connect_async", "safe_url"]

log = logging.getLogger(__name__)

#: What redis-py raises while the server is away.
UNAVAILABLE = (RedisConnectionError, RedisTimeoutError)
#: appendfsync -> what of the append-only file may not have reached the disk.
_UNSYNCED = {"everysec": "about the last second", "no": "whatever the system had not written yet"}


def connect(url: str, *, timeout: float = 5.0, traced: bool = False) -> Redis:
    """Open a lazy connection pool; nothing is sent until the first command. ``traced`` makes spans of its commands."""
    return (TracedRedis if traced else Redis).from_url(
        url,
        socket_connect_timeout=timeout,
        socket_timeout=timeout,
        health_check_interval=30,
        retry=Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.2), retries=2),
    )


def connect_async(url: str, *, timeout: float = 5.0) -> AsyncRedis:
    """Open a lazy pool for an event loop, which retries nothing: its callers know better when to."""
    return AsyncRedis.from_url(
        url, socket_connect_timeout=timeout, socket_timeout=timeout, health_check_interval=10, retry=None
    )


def check_durability(redis: Redis) -> None:
    """Refuse a Redis that evicts keys, and warn of one that would lose some of what it has acknowledged."""
    names = ("maxmemory-policy", "appendonly", "appendfsync")
    try:
        policy, append_only, synced = (redis.config_get(name).get(name) for name in names)
    except ResponseError:  # managed servers hide CONFIG
        log.warning("store: CONFIG is not available; its durability could not be checked")
        return
    if policy != "noeviction":
        raise UnsuitableStore(
            f"Redis evicts keys when its memory is full (maxmemory-policy {policy}); set maxmemory-policy noeviction"
        )
    if append_only != "yes":
        log.warning(
            "store: appendonly is off, so what was acknowledged would be lost when Redis stops; "
            "set appendonly yes and appendfsync always"
        )
    elif synced != "always":
        log.warning(
            "store: appendfsync is %s, so %s of what was acknowledged would be lost when its machine stops; "
            "set appendfsync always",
            synced,
            _UNSYNCED.get(str(synced), "some"),
        )


def safe_url(url: str) -> str:
    """Give the URL without its credentials, for logs and messages."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"
