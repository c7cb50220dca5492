"""The interface between use cases and the request that they serve."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from backend.held_map import HeldMap
from backend.store.keyspace import Kind

if TYPE_CHECKING:  # scoring needs no store
    from backend.store.store import Store


class ScorerLimits(Protocol):
    """The settings that limit applications of maps."""

    @property
    def max_unpacked_bytes(self) -> int: ...  # noqa: D102


class Scorer(Protocol):
    """The caller of a use case that applies maps."""

    @property
    def store(self) -> Store:
        """The tenant's view of the store."""

    @property
    def settings(self) -> ScorerLimits:
        """The limits of the service."""

    def find_map(self, ref: str) -> HeldMap:
        """The map of a reference; raises ``UnknownMap``."""

    def take_slot(self, seconds: float = math.inf) -> None:
        """Take one of the slots for heavy work if the estimate is long enough.

        If none is free, the use case ends here, and is repeated when the request has one: so it must have no effect
        before.
        """

    def reserve(self, size: int) -> None:
        """Reserve the memory that the work on the request needs at one time; raises ``Busy`` and ``TooLarge``."""


class RequesterLimits(ScorerLimits, Protocol):
    """The settings that limit use cases."""

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
    @property
    def sources(self) -> str: ...  # noqa: D102
    @property
    def dask_scheduler(self) -> str: ...  # noqa: D102


class Requester(Scorer, Protocol):
    """The caller of a use case and the limits of the request; the service's ``Context`` implements it."""

    @property
    def settings(self) -> RequesterLimits:
        """The limits of the service."""

    @property
    def who(self) -> str | None:
        """The name of the API key; None without keys."""

    @property
    def seed(self) -> str | None:
        """Seed of the ids of a request with an idempotency key; None without such a key."""

    @property
    def prefers_job(self) -> bool:
        """Whether the caller prefers a job over an immediate response."""

    def new_id(self, kind: Kind, number: int = 0) -> str:
        """Create the id of an object that this request creates; with a ``number`` if there are several of a kind."""

    def check_room(self) -> None:
        """Raise ``StoreFull`` if the tenant may not store more."""

    def go_on(self) -> None:
        """Raise ``DeadlineExceeded`` if the request has already timed out."""
