"""What a tenant may keep: bytes of batches, maps and monitors.

How many jobs may be under way stands in ``Quotas`` too; ``unended`` sees to that.

A quota is looked at before something is written, and the charge is made with the write. So it may be passed by
what is written at the same moment, never by what comes after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from redis import Redis
from redis.client import Pipeline

from storage.budget import Budget
from storage.errors import QuotaExceeded
from storage.keyspace import Keyspace


@dataclass(frozen=True)
class Quotas:
    """The quotas of every tenant, and ``all_jobs``, the jobs of all tenants together; 0 is none.

    ``budget`` is the store's; None for those who are not held to it.
    """

    stored_bytes: int = 0
    maps: int = 0
    queued_jobs: int = 0
    all_jobs: int = 0
    monitors: int = 0
    budget: Budget | None = None


#: Of a store that keeps what it is given.
NO_QUOTAS = Quotas()


class Charges:
    """What one tenant has taken of its quotas."""

    def __init__(self, redis: Redis, keys: Keyspace, quotas: Quotas) -> None:
        self._redis = redis
        self._keys = keys
        self._quotas = quotas

    def stored_bytes(self) -> int:
        """Bytes of the batches that have not expired. O(batches)."""
        sizes = cast(dict[bytes, bytes], self._redis.hgetall(self._keys.batch_bytes()))
        with self._redis.pipeline(transaction=False) as pipe:
            for batch_id in sizes:
                pipe.exists(self._keys.batch(batch_id.decode()))
            there = dict(zip(sizes, pipe.execute(), strict=True))
        gone = [batch_id for batch_id, exists in there.items() if not exists]
        if gone:
            self._redis.hdel(self._keys.batch_bytes(), *cast(list[str], gone))
        return sum(int(size) for batch_id, size in sizes.items() if there[batch_id])

    def maps(self) -> int:
        """Maps. O(1)."""
        return self._redis.zcard(self._keys.maps())

    def monitors(self) -> int:
        """Monitors. O(1)."""
        return self._redis.zcard(self._keys.monitors())

    def queued_jobs(self) -> int:
        """Jobs that are queued or running. O(1)."""
        return self._redis.scard(self._keys.unended_jobs())

    def check_bytes(self, more: int) -> None:
        """Raise ``QuotaExceeded`` or ``StoreFull`` where so many bytes more would be too many."""
        self._check_quota(more)
        if self._quotas.budget is not None:
            self._quotas.budget.claim(self._keys.tenant, more)

    def _check_quota(self, more: int) -> None:
        quota = self._quotas.stored_bytes
        if not quota:
            return
        if more > quota:
            raise QuotaExceeded(f"batches of this tenant may take {quota} bytes in all")
        # What has expired is counted until the sum is near the quota, which is seldom.
        counted = sum(map(int, self._redis.hvals(self._keys.batch_bytes())))
        if counted + more > quota and self.stored_bytes() + more > quota:
            raise QuotaExceeded(
                f"batches of this tenant may take {quota} bytes in all; delete some, or let them expire"
            )

    def check_maps(self) -> None:
        """Raise ``QuotaExceeded`` where there are as many maps as there may be."""
        if self._quotas.maps and self.maps() >= self._quotas.maps:
            raise QuotaExceeded(f"this tenant may have {self._quotas.maps} maps; delete some")

    def charge(self, pipe: Pipeline, batch_id: str, size: int) -> None:
        """Charge a batch's bytes, in the transaction that stores them."""
        pipe.hincrby(self._keys.batch_bytes(), batch_id, size)

    def release(self, pipe: Pipeline, batch_id: str) -> None:
        """Give a batch's bytes back, in the transaction that forgets it."""
        pipe.hdel(self._keys.batch_bytes(), batch_id)
