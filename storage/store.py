"""One tenant's view of the store."""

from __future__ import annotations

from dataclasses import dataclass

from redis import Redis

from calibrant.maps.calibration_map import CalibrationMap
from schemas.maps import FitSpec, MapRecord
from storage.batches import BatchStore
from storage.clock import stamp
from storage.idempotency import IdempotencyStore
from storage.jobs import JobStore
from storage.keyspace import DEFAULT_TENANT, Keyspace
from storage.maps import MapStore


@dataclass(frozen=True)
class Store:
    """Batches, maps, jobs and idempotency keys of one tenant, on one connection pool."""

    redis: Redis
    batches: BatchStore
    maps: MapStore
    jobs: JobStore
    idempotency: IdempotencyStore

    @classmethod
    def of(cls, redis: Redis, tenant: str = DEFAULT_TENANT) -> Store:
        """Build the view of ``tenant``."""
        keys = Keyspace(tenant)
        return cls(
            redis, BatchStore(redis, keys), MapStore(redis, keys), JobStore(redis, keys), IdempotencyStore(redis, keys)
        )


def map_record(map_id: str, spec: FitSpec, fitted: CalibrationMap, *, n: int) -> MapRecord:
    """The record of a map fitted as ``spec`` says to ``n`` rows; storing it gives it its version."""
    return MapRecord(
        id=map_id,
        name=spec.name,
        version=None,
        method=spec.method,
        options=spec.options,
        reduction=fitted.reduction,
        scale=fitted.scale,
        n_classes=fitted.n_classes,
        n=n,
        seed=spec.seed,
        created_at=stamp(),
        document=fitted.to_document(),
    )
