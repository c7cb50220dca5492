"""Connections to Redis: pools, Sentinel, errors of an unavailable store, atomic steps, traces, and server checks."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from redis import ConnectionPool, Redis
from redis.asyncio import ConnectionPool as AsyncConnectionPool
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio import sentinel as asynchronous
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.asyncio.client import PubSub as AsyncPubSub
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.client import Pipeline
from redis.connection import SSLConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection

from backend.store.errors import UnsuitableStore
from backend.store.server.redis_url import RedisUrl, read_url, safe_url
from backend.telemetry.observed import span

# --- Connection pools that query the sentinels for the master at every new connection
#
# When a server becomes a replica, the sentinels close the connections of its clients, so that all query again.

#: Seconds to wait for a sentinel before the next one is queried.
_SENTINEL_SECONDS = 0.5


class MasterConnection(SentinelManagedConnection):
    """A connection that is dropped if a reply was not read completely, like redis-py's other connections."""

    def read_response(
        self, disable_decoding: bool = False, *, disconnect_on_error: bool | None = True, **options: Any
    ) -> Any:
        """Read one reply."""
        return super().read_response(disable_decoding, disconnect_on_error=disconnect_on_error, **options)


class MasterTlsConnection(MasterConnection, SSLConnection):
    """The same over TLS."""


def master_pool(place: RedisUrl, options: Mapping[str, Any]) -> ConnectionPool:
    """A pool of connections to the master of ``place``."""
    sentinels: Any = cast(Any, Sentinel)(list(place.hosts), sentinel_kwargs=_of_sentinels(place, Retry(NoBackoff(), 0)))
    kind = MasterTlsConnection if place.is_tls else MasterConnection
    return cast(
        ConnectionPool,
        cast(Any, SentinelConnectionPool)(place.service, sentinels, connection_class=kind, **place.options, **options),
    )


def async_master_pool(place: RedisUrl, options: Mapping[str, Any]) -> AsyncConnectionPool:
    """The same for asyncio."""
    sentinels: Any = cast(Any, asynchronous.Sentinel)(list(place.hosts), sentinel_kwargs=_of_sentinels(place, None))
    return cast(
        AsyncConnectionPool,
        cast(Any, asynchronous.SentinelConnectionPool)(
            place.service, sentinels, ssl=place.is_tls, **place.options, **options
        ),
    )


def _of_sentinels(place: RedisUrl, retry: Retry | None) -> dict[str, Any]:
    return {
        **place.sentinel_options,
        **({"ssl": True} if place.is_tls else {}),
        "socket_connect_timeout": _SENTINEL_SECONDS,
        "socket_timeout": _SENTINEL_SECONDS,
        "retry": retry,
    }


# --- Errors of an unavailable store: the server is unreachable, unresponsive, or temporarily rejects commands
#
# Redis also reports temporary conditions as command errors: its disk or memory is full, it has become a replica, or the
# user lacks permissions. The clients of ``backend.store.server.connection`` raise these as ``StoreRefuses``.

#: First words of errors that do not concern the command: it is impossible now, or on this server.
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
        "MOVED",  # Redis Cluster, which Calibrant does not support
        "ASK",
        "BUSY",  # with a script
        "UNBLOCKED",  # a blocking command, by a failover
        "NOAUTH",
        "WRONGPASS",
        "NOPERM",
        "DENIED",  # protected mode
    }
)


class StoreUnavailable(RedisConnectionError):
    """A command that was not sent, because the store is known to be unavailable."""


class StoreRefuses(RedisConnectionError):
    """A reply that means "not now"; ``kind`` is its first word, as in ``CANNOT_NOW``."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"Redis returned {kind}")
        self.kind = kind


#: Errors while the store is unavailable. ``InvalidResponse``: the server is not Redis.
UNAVAILABLE = (RedisConnectionError, RedisTimeoutError, InvalidResponse)


def refusal_of(error: ResponseError) -> StoreRefuses | None:
    """Convert a command error to ``StoreRefuses``; None if it concerns the command."""
    kind = error.status_code or str(error).partition(" ")[0]
    return StoreRefuses(kind) if kind in CANNOT_NOW else None


def error_name(error: BaseException) -> str:
    """The name of an error for a log line: its kind and the system's message, never the message of a server."""
    if isinstance(error, StoreRefuses):
        return error.kind
    kind = getattr(error, "status_code", None) or type(error).__name__
    cause = error.__cause__ or error.__context__
    reason = getattr(cause, "strerror", None) or getattr(error, "strerror", None)
    return f"{kind}: {reason}" if reason else kind


# --- Waiting for an unavailable store, with increasing pauses and jitter

Result = TypeVar("Result")

#: First and longest pause in seconds.
PAUSES = (0.05, 2.0)


def patiently(call: Callable[[], Result]) -> Result:
    """Return the result of ``call``, which is repeated while the store is unavailable.

    The caller must be stopped from outside: a task by its time limit, a worker by its supervisor.
    """
    pause, longest = PAUSES
    while True:
        try:
            return call()
        except UNAVAILABLE:
            time.sleep(jittered(pause))
            pause = min(2.0 * pause, longest)


def jittered(seconds: float) -> float:
    """A random value between half and one and a half times ``seconds``."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - jitter, not a secret


# --- Atomic steps: optimistic transactions, and the Lua scripts in ``lua/MODULE/NAME.lua``

SCRIPTS = Path(__file__).parents[1] / "lua"


class Script:
    """The text of one or several files in order, without lines of comments, because every run sends it."""

    def __init__(self, *names: str) -> None:
        lines = [line for name in names for line in (SCRIPTS / f"{name}.lua").read_text("utf-8").splitlines()]
        self.text = "\n".join(line for line in lines if not line.lstrip().startswith("--"))

    def run(self, client: Redis | Pipeline, keys: Sequence[str], *arguments: str | bytes | float) -> Any:
        """Return what the script returns, or queue it if ``client`` is a pipeline."""
        return client.eval(self.text, len(keys), *keys, *arguments)


def transact(redis: Redis, write: Callable[[Pipeline], Result], *keys: str) -> Result:
    """Run ``write`` until no other client changes ``keys`` between its reads and its writes.

    ``write`` reads from the pipeline, then calls ``multi`` and queues its writes.
    """
    run = cast(Callable[..., Any], redis.transaction)
    return cast(Result, run(write, *keys, value_from_callable=True))


# --- redis-py clients that raise the errors above

T = TypeVar("T")
#: Raises an error if no command should be sent.
Gate: TypeAlias = Callable[[], None]


class StoreRedis(Redis):
    """A client that raises ``StoreRefuses``, and calls its ``gate`` before sending."""

    gate: Gate | None = None

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""
        if self.gate is not None:
            self.gate()
        try:
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            _raise_refusal(error, self.connection_pool)
            raise

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """A pipeline with the same gate."""
        return self._gated(StorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint))

    def close(self) -> None:
        """Close all connections, including those to sentinels."""
        super().close()
        sentinels = getattr(self.connection_pool, "sentinel_manager", None)
        if sentinels is not None:
            sentinels.close()

    def _gated(self, pipeline: StorePipeline) -> StorePipeline:
        pipeline.gate = self.gate
        return pipeline


class StorePipeline(Pipeline):
    """A pipeline that raises ``StoreRefuses``, and whose errors do not contain its commands."""

    gate: Gate | None = None

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send the queued commands."""
        if self.gate is not None:
            self.gate()
        try:
            return super().execute(raise_on_error)
        except ResponseError as error:
            _raise_refusal(error, self.connection_pool)
            raise

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command immediately: a WATCH, or a read under it."""
        if self.gate is not None:
            self.gate()
        try:
            return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            _raise_refusal(error, self.connection_pool)
            raise

    def annotate_exception(self, exception: Exception, number: int, command: Any) -> None:
        """Keep the error of the server unchanged: commands contain names and data of callers."""


class AsyncStoreRedis(AsyncRedis):
    """The same for asyncio, without a gate."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            _raise_refusal(error)
            raise

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> AsyncPipeline:
        """A pipeline."""
        return _AsyncStorePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def pubsub(self, **options: Any) -> AsyncPubSub:
        """A subscription."""
        return _AsyncStorePubSub(self.connection_pool, **options)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close all connections, including those to sentinels."""
        await super().aclose(close_connection_pool)
        sentinels = getattr(self.connection_pool, "sentinel_manager", None)
        if sentinels is not None:
            await sentinels.aclose()


class _AsyncStorePipeline(AsyncPipeline):
    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        try:
            return await super().execute(raise_on_error)
        except ResponseError as error:
            _raise_refusal(error)
            raise

    def annotate_exception(self, exception: Exception, number: int, command: Any) -> None:
        pass


class _AsyncStorePubSub(AsyncPubSub):
    async def parse_response(self, block: bool = True, timeout: float = 0) -> Any:
        try:
            return await super().parse_response(block, timeout)
        except ResponseError as error:
            _raise_refusal(error)
            raise


class RetryUnlessSilent(Retry):
    """Retries after a lost connection, but not after a timeout, which has already taken long enough.

    The failure is reported first, which drops the connection: a late reply would be taken for that of the next command.
    """

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Call ``do`` until it succeeds, times out, or has failed too often."""

        def on_failure(error: Exception, *count: int) -> None:
            fail(error, *count)
            if isinstance(error, RedisTimeoutError | TimeoutError):
                raise error

        return super().call_with_retry(do, on_failure, is_retryable, with_failure_count)


def _raise_refusal(error: ResponseError, pool: ConnectionPool | None = None) -> None:
    """Raise ``StoreRefuses`` if the error is one; the message of the server is not repeated."""
    refusal: StoreRefuses | None = refusal_of(error)
    if refusal is None:
        return
    if refusal.kind == "READONLY" and pool is not None:
        # The name may now resolve to another server, so reconnect.
        pool.disconnect(inuse_connections=False)
    raise refusal from None


# --- The store's commands as spans of the request or task that sends them

#: Attribute names of the OpenTelemetry conventions. Keys are left out, because they contain names from callers.
_SYSTEM, _OPERATION = "db.system.name", "db.operation.name"


class TracedRedis(StoreRedis):
    """A client that records each command, and each pipeline as a whole, as a span."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""
        with span("store", **{_SYSTEM: "redis", _OPERATION: str(args[0])}):
            return super().execute_command(*args, **options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """A pipeline; its execution is one span."""
        return self._gated(_TracedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint))


class _TracedPipeline(StorePipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with span("store", **{_SYSTEM: "redis", _OPERATION: "PIPELINE"}):
            return super().execute(raise_on_error)


# --- Connecting to Redis, and rejecting a server that could lose data

__all__ = [
    "UNAVAILABLE",
    "AsyncRedis",
    "check_durability",
    "check_master",
    "connect",
    "connect_async",
    "error_name",
    "safe_url",
]

log = logging.getLogger(__name__)

#: appendfsync -> the part of the append-only file that may not have reached the disk.
_UNSYNCED = {"everysec": "about the last second", "no": "the part that the system has not written yet"}


def connect(url: str, *, timeout: float = 5.0, traced: bool = False, gate: Gate | None = None) -> Redis:
    """Open a lazy connection pool; nothing is sent until the first command. Raises ``UnreadableUrl``.

    ``timeout`` is the maximum time without a reply, so blocking commands must use a shorter one. ``traced`` records
    commands as spans. ``gate`` is called before each command, and raises if the store is known to be unavailable.
    """
    place = read_url(url)
    options = _timeouts(timeout) | {
        "health_check_interval": 30,
        "retry": RetryUnlessSilent(ExponentialWithJitterBackoff(base=0.01, cap=0.2), retries=2),
    }
    pool = ConnectionPool.from_url(place.url, **options) if place.service is None else master_pool(place, options)
    client = cast(StoreRedis, (TracedRedis if traced else StoreRedis).from_pool(pool))
    client.gate = gate
    return client


def connect_async(url: str, *, timeout: float = 5.0, connect_timeout: float | None = None) -> AsyncRedis:
    """Open a lazy pool for asyncio, without retries: its callers decide when to retry."""
    place = read_url(url)
    options = _timeouts(timeout) | {"health_check_interval": 10, "retry": None}
    if connect_timeout is not None:
        options["socket_connect_timeout"] = connect_timeout
    if place.service is not None:
        return AsyncStoreRedis.from_pool(async_master_pool(place, options))
    return AsyncStoreRedis.from_pool(AsyncConnectionPool.from_url(place.url, **options))


def _timeouts(seconds: float) -> dict[str, Any]:
    return {"socket_connect_timeout": seconds, "socket_timeout": seconds}


def check_durability(redis: Redis) -> None:
    """Reject a Redis that evicts keys or is a cluster, and warn about one that could lose acknowledged data."""
    names = ("maxmemory-policy", "appendonly", "appendfsync")
    is_cluster, policy, append_only = False, None, None
    try:
        is_cluster = bool(redis.info("cluster").get("cluster_enabled"))
        policy, append_only, synced = (redis.config_get(name).get(name) for name in names)
    except ResponseError:  # managed servers disable CONFIG
        pass
    except StoreRefuses as refusal:  # or deny it to the user
        if refusal.kind != "NOPERM":
            raise
    if is_cluster:
        raise UnsuitableStore("Redis runs in cluster mode, which is not supported; use one with cluster-enabled no")
    if policy is None:
        log.warning("store: CONFIG is not available, so durability could not be checked")
        return
    if policy != "noeviction":
        raise UnsuitableStore(
            f"Redis would evict keys when its memory is full (maxmemory-policy {policy}); set maxmemory-policy "
            f"noeviction"
        )
    if append_only != "yes":
        log.warning(
            "store: appendonly is off, so acknowledged data is lost when Redis stops; "
            "set appendonly yes and appendfsync always"
        )
    elif synced != "always":
        log.warning(
            "store: appendfsync is %s, so %s of the acknowledged data is lost when the machine stops; "
            "set appendfsync always",
            synced,
            _UNSYNCED.get(str(synced), "some"),
        )


def check_master(redis: Redis) -> None:
    """Raise ``StoreRefuses`` if the server is a replica, which rejects all writes."""
    try:
        role = cast(Any, redis.execute_command)("ROLE")[0]
    except (ResponseError, StoreRefuses):  # like CONFIG
        return
    if role not in (b"master", "master"):
        raise StoreRefuses("READONLY")
