"""The clients of Redis for all rooms: redis-py's, with the errors of ``storage.server.unavailable``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from redis import ConnectionPool, Redis
from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.client import Pipeline as AsyncPipeline
from redis.asyncio.client import PubSub as AsyncPubSub
from redis.client import Pipeline
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from storage.server.unavailable import StoreRefuses, refusal_of

T = TypeVar("T")
#: Raises where no command should be sent.
Gate: TypeAlias = Callable[[], None]


class StoreRedis(Redis):
    """A client that raises ``StoreRefuses``, and asks its ``gate`` before it sends anything."""

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
        """Close the connections, those to sentinels too."""
        super().close()
        sentinels = getattr(self.connection_pool, "sentinel_manager", None)
        if sentinels is not None:
            sentinels.close()

    def _gated(self, pipeline: StorePipeline) -> StorePipeline:
        pipeline.gate = self.gate
        return pipeline


class StorePipeline(Pipeline):
    """A pipeline that raises ``StoreRefuses``, and whose errors do not repeat its commands."""

    gate: Gate | None = None

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send what is queued."""
        if self.gate is not None:
            self.gate()
        try:
            return super().execute(raise_on_error)
        except ResponseError as error:
            _raise_refusal(error, self.connection_pool)
            raise

    def immediate_execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command that is not queued: a WATCH, and what is read under it."""
        if self.gate is not None:
            self.gate()
        try:
            return super().immediate_execute_command(*args, **options)  # type: ignore[no-untyped-call]
        except ResponseError as error:
            _raise_refusal(error, self.connection_pool)
            raise

    def annotate_exception(self, exception: Exception, number: int, command: Any) -> None:
        """Leave an error as the server worded it: a command holds names and data of callers."""


class AsyncStoreRedis(AsyncRedis):
    """The same for an event loop, without a gate."""

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
        """Close the connections, those to sentinels too."""
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
    """Tries again after a connection is lost; not after a silence, which has taken its time already.

    What failed is told first: that drops the connection, on which the late answer would be taken for the next one's.
    """

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Call ``do`` until it succeeds, is silent, or has failed too often."""

        def told(error: Exception, *count: int) -> None:
            fail(error, *count)
            if isinstance(error, RedisTimeoutError | TimeoutError):
                raise error

        return super().call_with_retry(do, told, is_retryable, with_failure_count)


def _raise_refusal(error: ResponseError, pool: ConnectionPool | None = None) -> None:
    """Raise the refusal that an error is, if it is one; the words of a server are not repeated."""
    refusal: StoreRefuses | None = refusal_of(error)
    if refusal is None:
        return
    if refusal.kind == "READONLY" and pool is not None:
        # What a name stands for may have become another server: connect anew.
        pool.disconnect(inuse_connections=False)
    raise refusal from None
