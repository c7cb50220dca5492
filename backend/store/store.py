"""One tenant's view of the store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from redis import Redis

from backend.store.audit import SERVICE, AuditTrail
from backend.store.batches import BatchStore, UploadStore
from backend.store.budget import NO_QUOTAS, Charges, Quotas
from backend.store.idempotency import IdempotencyStore
from backend.store.jobs.backlog import JobPlaces
from backend.store.jobs.runs import RunStore
from backend.store.jobs.store import JobStore
from backend.store.keyspace import DEFAULT_TENANT, Keyspace
from backend.store.registry.aliases import AliasStore
from backend.store.registry.listing import Listing
from backend.store.registry.maps import MapStore
from schemas.audit import Author

if TYPE_CHECKING:
    from backend.store.monitors.definitions import Definitions


@dataclass(frozen=True)
class Store:
    """Batches, maps, aliases, jobs, monitors and idempotency keys of one tenant, with a shared connection pool.

    Changes are by ``author`` in the audit log.

    Each part is created on first use, because every request creates a view, and most need at most one part.
    """

    redis: Redis
    keys: Keyspace
    quotas: Quotas
    author: Author = SERVICE

    @classmethod
    def of(
        cls, redis: Redis, tenant: str = DEFAULT_TENANT, quotas: Quotas = NO_QUOTAS, author: Author = SERVICE
    ) -> Store:
        """Create the view of ``tenant``."""
        return cls(redis, Keyspace(tenant), quotas, author)

    def by(self, author: Author) -> Store:
        """The same view for the changes of another author."""
        return replace(self, author=author)

    @cached_property
    def audit(self) -> AuditTrail:
        """The audit log."""
        return AuditTrail(self.redis, self.keys, self.author, self.quotas.audit)

    @cached_property
    def batches(self) -> BatchStore:
        """The batches."""
        return BatchStore(self.redis, self.keys, self.quotas)

    @cached_property
    def uploads(self) -> UploadStore:
        """Records of uploaded files."""
        return UploadStore(self.redis, self.keys)

    @cached_property
    def maps(self) -> MapStore:
        """The maps."""
        return MapStore(self.redis, self.keys, self.audit)

    @cached_property
    def aliases(self) -> AliasStore:
        """The aliases of maps."""
        return AliasStore(self.redis, self.keys, self.audit)

    @cached_property
    def listing(self) -> Listing:
        """The list of maps."""
        return Listing(self.redis, self.keys)

    @cached_property
    def jobs(self) -> JobStore:
        """The jobs."""
        return JobStore(self.redis, self.keys)

    @cached_property
    def runs(self) -> RunStore:
        """The runs of jobs."""
        return RunStore(self.redis, self.keys)

    @cached_property
    def places(self) -> JobPlaces:
        """The places for unfinished jobs."""
        return JobPlaces(self.redis, self.keys, self.quotas)

    @cached_property
    def monitors(self) -> Definitions:
        """The definitions of monitors, whose models are imported on first use."""
        from backend.store.monitors.definitions import Definitions

        return Definitions(self.redis, self.keys, self.quotas, self.audit)

    @cached_property
    def idempotency(self) -> IdempotencyStore:
        """The idempotency keys."""
        return IdempotencyStore(self.redis, self.keys)

    @cached_property
    def charges(self) -> Charges:
        """The usage of quotas."""
        return Charges(self.redis, self.keys, self.quotas)
