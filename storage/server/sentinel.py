"""Pools of connections to whichever server the sentinels say is the master, asked at every new connection.

A server that is made a replica has its clients' connections cut by the sentinels, so that all ask again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis import ConnectionPool
from redis.asyncio import ConnectionPool as AsyncConnectionPool
from redis.asyncio import sentinel as asynchronous
from redis.backoff import NoBackoff
from redis.connection import SSLConnection
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection

from storage.server.redis_url import RedisUrl

#: Seconds that a sentinel may take to answer: the next one is asked then.
_SENTINEL_SECONDS = 0.5


class MasterConnection(SentinelManagedConnection):
    """A connection that is dropped wherever an answer was not read to its end, as redis-py's other ones are."""

    def read_response(
        self, disable_decoding: bool = False, *, disconnect_on_error: bool | None = True, **options: Any
    ) -> Any:
        """Read one answer."""
        return super().read_response(disable_decoding, disconnect_on_error=disconnect_on_error, **options)


class MasterTlsConnection(MasterConnection, SSLConnection):
    """The same over TLS."""


def master_pool(place: RedisUrl, options: Mapping[str, Any]) -> ConnectionPool:
    """A pool of connections to the master of ``place``."""
    sentinels: Any = cast(Any, Sentinel)(list(place.hosts), sentinel_kwargs=_of_sentinels(place, Retry(NoBackoff(), 0)))
    kind = MasterTlsConnection if place.is_tls else MasterConnection
    return cast(
        ConnectionPool,
        cast(Any, SentinelConnectionPool)(place.service, sentinels, connection_class=kind, **place.tls, **options),
    )


def async_master_pool(place: RedisUrl, options: Mapping[str, Any]) -> AsyncConnectionPool:
    """The same for an event loop."""
    sentinels: Any = cast(Any, asynchronous.Sentinel)(list(place.hosts), sentinel_kwargs=_of_sentinels(place, None))
    return cast(
        AsyncConnectionPool,
        cast(Any, asynchronous.SentinelConnectionPool)(
            place.service, sentinels, ssl=place.is_tls, **place.tls, **options
        ),
    )


def _of_sentinels(place: RedisUrl, retry: Retry | None) -> dict[str, Any]:
    return {
        **place.sentinel_login,
        **({"ssl": True, **place.tls} if place.is_tls else {}),
        "socket_connect_timeout": _SENTINEL_SECONDS,
        "socket_timeout": _SENTINEL_SECONDS,
        "retry": retry,
    }
