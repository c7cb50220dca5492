"""The store's commands as spans of the request or task that sends them."""

from __future__ import annotations

from typing import Any

from storage.server.client import StorePipeline, StoreRedis
from telemetry.observed import span

#: Names of the standard's conventions. Keys are not told: they hold names that callers chose.
_SYSTEM, _OPERATION = "db.system.name", "db.operation.name"


class TracedRedis(StoreRedis):
    """A client whose commands, and whose pipelines as a whole, are spans."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""
        with span("store", **{_SYSTEM: "redis", _OPERATION: str(args[0])}):
            return super().execute_command(*args, **options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> StorePipeline:
        """A pipeline; its sending is one span."""
        return self._gated(_TracedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint))


class _TracedPipeline(StorePipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with span("store", **{_SYSTEM: "redis", _OPERATION: "PIPELINE"}):
            return super().execute(raise_on_error)
