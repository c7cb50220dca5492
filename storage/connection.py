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

__all__ = ["UNAVAILABLE", "AsyncRedis", "check_durability", "connect", "connect_async", "safe_url"]

log = logging.getLogger(__name__)

#: What redis-py raises while the server is away.
UNAVAILABLE = (RedisConnectionError, RedisTimeoutError)


def connect(url: str, *, timeout: float = 5.0) -> Redis:
    """Open a lazy connection pool; nothing is sent until the first command."""
    return Redis.from_url(
        url,
        socket_connect_timeout=timeout,
        socket_timeout=timeout,
        health_check_interval=30,
        retry=Retry(ExponentialWithJitterBackoff(base=0.01, cap=0.2), retries=2),
    )


def connect_async(url: str, *, timeout: float = 5.0) -> AsyncRedis:
    """Open a lazy pool for an event loop, which retries nothing: its callers know better when to."""
    return AsyncRedis.from_url(url, socket_connect_timeout=timeout, socket_timeout=timeout)


def check_durability(redis: Redis) -> None:
    """Refuse a Redis that evicts keys, and warn of one that does not persist."""
    try:
        policy = redis.config_get("maxmemory-policy").get("maxmemory-policy")
        append_only = redis.config_get("appendonly").get("appendonly")
    except ResponseError:  # managed servers hide CONFIG
        log.warning("store: CONFIG is not available; its durability could not be checked")
        return
    if policy != "noeviction":
        raise UnsuitableStore(
            f"Redis evicts keys when its memory is full (maxmemory-policy {policy}); set maxmemory-policy noeviction"
        )
    if append_only != "yes":
        log.warning("store: appendonly is off, so maps would be lost when Redis stops; set appendonly yes")


def safe_url(url: str) -> str:
    """Give the URL without its credentials, for logs and messages."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path}"
