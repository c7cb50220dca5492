"""What a use case needs of the request that it serves."""

from __future__ import annotations

import math
from typing import Protocol

from backend.held_maps import HeldMap
from backend.store.keyspace import Kind
from backend.store.store import Store


class Limits(Protocol):
    """The settings that use cases obey."""

    @property
    def batch_ttl(self) -> int: ...  # noqa: D102
    @property
    def max_batch_rows(self) -> int: ...  # noqa: D102
    @property
    def job_ttl(self) -> int: ...  # noqa: D102
    @property
    def fit_timeout(self) -> int: ...  # noqa: D102
    @property
    def evaluate_timeout(self) -> int: ...  # noqa: D102
    @property
    def gpu_seconds(self) -> float: ...  # noqa: D102


class Requester(Protocol):
    """Whose data a use case works on, and what the request may take. The service's ``Context`` is one."""

    @property
    def store(self) -> Store:
        """The tenant's view of the store."""

    @property
    def settings(self) -> Limits:
        """The limits of the service."""

    @property
    def who(self) -> str | None:
        """The name of the API key; None without keys."""

    @property
    def seed(self) -> str | None:
        """What the ids of a request with an idempotency key are derived from; None without such a key."""

    @property
    def prefers_job(self) -> bool:
        """Whether the caller prefers a job over an answer at once."""

    def new_id(self, kind: Kind) -> str:
        """An id for what this request makes; at most one of a kind."""

    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference; raises ``UnknownMap``."""

    def take_slot(self, seconds: float = math.inf) -> None:
        """Take one of the few slots for heavy work, unless it takes a moment only; raises ``Busy``."""

    def check_room(self) -> None:
        """Raise ``StoreFull`` if the tenant may store nothing more."""

    def go_on(self) -> None:
        """Raise ``DeadlineExceeded`` if the request has been answered without this work."""
