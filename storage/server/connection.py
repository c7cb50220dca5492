"""Connecting to Redis, and refusing one that could lose what is stored."""

from __future__ import annotations

import logging
from typing import Any, cast

from redis import ConnectionPool, Redis
from redis.asyncio import ConnectionPool as AsyncConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import SSLConnection as AsyncSSLConnection
from redis.asyncio import UnixDomainSocketConnection as AsyncUnixConnection
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import SSLConnection, UnixDomainSocketConnection
from redis.exceptions import ResponseError

from storage.errors import UnsuitableStore
from storage.server.client import AsyncStoreRedis, Gate, RetryUnlessSilent, StoreRedis
from storage.server.redis_url import RedisUrl, read_url, safe_url
from storage.server.sentinel import async_master_pool, master_pool
from storage.server.traced import TracedRedis
from storage.server.unavailable import UNAVAILABLE, StoreRefuses, kind_of

__all__ = [
    "UNAVAILABLE",
    "AsyncRedis",
    "check_durability",
    "check_master",
    "connect",
    "connect_async",
    "kind_of",
    "safe_url",
]

log = logging.getLogger(__name__)

#: appendfsync -> what of the append-only file may not have reached the disk.
_UNSYNCED = {"everysec": "about the last second", "no": "whatever the system had not written yet"}


def connect(url: str, *, timeout: float = 5.0, traced: bool = False, gate: Gate | None = None) -> Redis:
    """Open a lazy connection pool; nothing is sent until the first command. Raises ``UnreadableUrl``.

    ``timeout`` is how long the server may be silent: a blocking command must wait for less. ``traced`` makes spans
    of the commands; ``gate`` is asked before each, and raises where the store is known to be away.
    """
    place = read_url(url)
    options = _options(place, timeout) | {
        "health_check_interval": 30,
        "retry": RetryUnlessSilent(ExponentialWithJitterBackoff(base=0.01, cap=0.2), retries=2),
    }
    pool: ConnectionPool
    if place.service is not None:
        pool = master_pool(place, options)
    elif place.scheme == "unix":
        pool = ConnectionPool(connection_class=UnixDomainSocketConnection, path=place.path, **options)
    else:
        host, port = place.hosts[0]
        kind: dict[str, Any] = {"connection_class": SSLConnection, **place.tls} if place.is_tls else {}
        pool = ConnectionPool(host=host, port=port, **kind, **options)
    client = cast(StoreRedis, (TracedRedis if traced else StoreRedis).from_pool(pool))
    client.gate = gate
    return client


def connect_async(url: str, *, timeout: float = 5.0) -> AsyncRedis:
    """Open a lazy pool for an event loop, which retries nothing: its callers know better when to."""
    place = read_url(url)
    options = _options(place, timeout) | {"health_check_interval": 10, "retry": None}
    pool: AsyncConnectionPool
    if place.service is not None:
        pool = async_master_pool(place, options)
    elif place.scheme == "unix":
        pool = AsyncConnectionPool(connection_class=AsyncUnixConnection, path=place.path, **options)
    else:
        host, port = place.hosts[0]
        kind: dict[str, Any] = {"connection_class": AsyncSSLConnection, **place.tls} if place.is_tls else {}
        pool = AsyncConnectionPool(host=host, port=port, **kind, **options)
    return AsyncStoreRedis.from_pool(pool)


def _options(place: RedisUrl, timeout: float) -> dict[str, Any]:
    return {"db": place.db, **place.login, "socket_connect_timeout": timeout, "socket_timeout": timeout}


def check_durability(redis: Redis) -> None:
    """Refuse a Redis that evicts keys, and warn of one that would lose some of what it has acknowledged."""
    names = ("maxmemory-policy", "appendonly", "appendfsync")
    try:
        policy, append_only, synced = (redis.config_get(name).get(name) for name in names)
    except ResponseError:  # managed servers hide CONFIG
        policy = append_only = None
    except StoreRefuses as refusal:  # or forbid it to the user
        if refusal.kind != "NOPERM":
            raise
        policy = append_only = None
    if policy is None:
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


def check_master(redis: Redis) -> None:
    """Raise ``StoreRefuses`` where the server is a replica, which would refuse every write."""
    try:
        role = cast(Any, redis.execute_command)("ROLE")[0]
    except (ResponseError, StoreRefuses):  # as CONFIG
        return
    if role not in (b"master", "master"):
        raise StoreRefuses("READONLY")
