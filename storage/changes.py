"""The word that something changed which processes keep in memory: published with the change, in its transaction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import orjson
from redis.client import Pipeline

from storage.keyspace import Shared

What = Literal["keys", "map"]


@dataclass(frozen=True)
class Change:
    """What changed: the API keys; or, of a tenant, what a ``name`` stands for or the map of an ``id``."""

    what: What
    tenant: str | None = None
    name: str | None = None
    id: str | None = None


def announce(pipe: Pipeline, change: Change) -> None:
    """Queue the word of a change on the transaction that makes it."""
    pipe.publish(Shared.changes(), orjson.dumps(change))


def read_change(data: bytes) -> Change | None:
    """The change that a message tells; None for one of a later version that is not understood."""
    try:
        return Change(**orjson.loads(data))
    except (orjson.JSONDecodeError, TypeError):
        return None
