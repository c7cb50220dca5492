"""The budget of the store, and the quotas of its tenants."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Literal, cast

import orjson
from redis import Redis
from redis.client import Pipeline
from redis.exceptions import RedisError

from backend.store.audit import AuditBounds
from backend.store.errors import QuotaExceeded, StoreFull
from backend.store.keyspace import Keyspace, Shared
from backend.store.server.connection import AsyncRedis, Script, StoreRefuses, connect, connect_async, error_name

# --- The budget of the store: the share of its memory that requests may fill, and the share of one tenant
#
# Every process reads the memory usage of the store once a second and adds what it has admitted since. The bytes of each
# tenant are measured from the keys themselves, so they are correct for all kinds of data and after deletion, expiry and
# restarts. No tenant can have half of the budget before the store holds half of it, so nothing is measured until then.
# From then on one process at a time scans all keys, for at most a fifth of the time, and the others read its result.
#
# Only requests are limited by the budget. Workers are not: the remaining memory is for the results of accepted jobs.

log = logging.getLogger(__name__)

#: Why a store that responds is degraded.
Reason = Literal["store-full", "store-disk-full", "store-cannot-save"]

#: Seconds between two checks of the store's memory, and the minimum.
LOOK_SECONDS, _SOONEST_SECONDS = 1.0, 0.1
#: The share of the budget that one tenant may have.
SHARE = 0.5
#: Bytes of the volume that stay free for what is not counted, such as results of jobs.
_SPARE = 64 << 20
#: Bytes of a map, for the number of maps that a share has room for; the usual map takes a quarter.
_MAP_BYTES = 64 * 1024
#: The fraction of the budget at which the store counts as full, because the rest is too small for many requests.
_FULL = 0.95
#: The bytes of tenants are measured only above this fraction of the budget.
_MEASURED_FROM = 0.4
#: Seconds after which another process may start a measurement, and for which a result is kept.
_MEASURING_SECONDS, _KEPT_SECONDS = 60, 3600
#: A measurement is followed by a pause of this many times its duration.
_REST = 4
#: Timeout of the store in seconds.
_TIMEOUT = 5.0
#: Number of keys measured per call.
_KEYS = 500

_MEASURE = Script("budget/measure")


def budget_of(memory: Mapping[str, Any], part: float) -> int:
    """The budget in bytes: a fraction of the store's ``maxmemory``, or of its machine's memory if that is not set.

    ``memory`` is what the store tells about its memory; 0 means no budget.
    """
    return int((int(memory.get("maxmemory", 0)) or int(memory.get("total_system_memory", 0))) * part)


def default_maps(budget: int) -> int:
    """The maximum number of maps of a tenant, if none is set: as many as its share of the budget has room for."""
    return int(budget * SHARE) // _MAP_BYTES


class Budget:
    """The budget of one store, as known to one process.

    ``shared`` returns whether there are several tenants. ``volume`` is a folder on the volume of the append-only file,
    or the size of the volume in bytes, or empty: a store that syncs every write ends when its volume is full.
    """

    def __init__(self, url: str, part: float, shared: Callable[[], bool], volume: str = "") -> None:
        self._url = url
        self._part = part
        self._shared = shared
        self._volume = volume
        #: Bytes of the volume that may be filled; None while unknown.
        self._room: int | None = None
        #: The fraction of the volume that is used, or needed to rewrite the append-only file; 0 while unknown.
        self.volume_ratio = 0.0
        self._shares: dict[str, int] = {}
        self._read = b""
        #: The checks of the store that still count, and the bytes admitted after each, by tenant.
        self._let_in: list[tuple[float, Counter[str]]] = [(0.0, Counter())]
        self._counting = Lock()
        self._limit = 0
        self._cannot_save = self._closed = self._was_full = False
        self._failure: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        #: Bytes of the budget and bytes used by the store; 0 while unknown.
        self.bytes = self.used = 0

    @property
    def reason(self) -> Reason | None:
        """Why the store rejects writes, or soon will; None if it is healthy."""
        if self._limit and self.used >= self._limit:
            return "store-full"
        if self._room is not None and self._room <= 0:
            return "store-disk-full"
        return "store-cannot-save" if self._cannot_save else None

    def check(self, tenant: str, more: int = 0) -> None:
        """Raise ``StoreFull`` if ``more`` bytes would exceed the volume, the budget or the tenant's share of it."""
        # What is stored is in the append-only file once, and once more when it is rewritten.
        if self._room is not None and 2 * (self._let_in[-1][1].total() + more) >= self._room:
            raise StoreFull("the volume of the store is too full for its append-only file")
        if not self.bytes:
            return
        let_in = self._let_in
        if self.used + let_in[-1][1].total() + max(more, 1) > self.bytes:
            raise StoreFull("the data of all tenants has reached the budget of the store")
        share = int(self.bytes * SHARE)
        of_tenant = self._shares.get(tenant, 0) + sum(since[tenant] for _, since in let_in)
        if self._shared() and of_tenant + max(more, 1) > share:
            raise StoreFull(f"this tenant may store {share} bytes; delete data, or wait until it expires")

    def claim(self, tenant: str, more: int) -> None:
        """Check bytes that will be stored next, and count them immediately."""
        self.check(tenant, more)
        if not self.bytes:
            return
        with self._counting:
            looked, let_in = self._let_in[-1]
            let_in[tenant] += more
            used = self.used + let_in.total()
        # The shares of tenants are needed immediately.
        needed = self._shared() and not self._read and used > self.bytes * _MEASURED_FROM
        if needed and self._loop is not None and time.monotonic() - looked > _SOONEST_SECONDS:
            self._loop.call_soon_threadsafe(self._wake.set)

    async def run(self) -> None:
        """Check the store until closed or cancelled."""
        redis = connect_async(self._url, timeout=_TIMEOUT)
        self._loop = asyncio.get_running_loop()
        try:
            while not self._closed:
                try:
                    await self._look(redis)
                except (RedisError, OSError) as error:
                    self._fail(error_name(error))
                else:
                    self._failure = None
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
                self._wake.clear()
        finally:
            self._loop = None
            await redis.aclose()

    def close(self) -> None:
        """Make ``run`` end."""
        self._closed = True
        self._wake.set()

    async def _look(self, redis: AsyncRedis) -> None:
        began = time.monotonic()
        with self._counting:
            # A check is dropped if nothing was admitted after it, so the list does not grow while the store is down.
            checks = self._let_in if self._let_in[-1][1] else self._let_in[:-1]
            self._let_in = [*checks, (began, Counter())]
        info: dict[str, Any] = await redis.info("memory", "persistence")
        most = int(info.get("maxmemory", 0))
        # The memory that the server compares with maxmemory.
        self.used = max(0, int(info["used_memory"]) - int(info.get("mem_not_counted_for_evict", 0)))
        self.bytes = budget_of(info, self._part)
        self._limit = int(self.bytes * _FULL) or most
        self._cannot_save = "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status"))
        if self._volume and info.get("aof_enabled"):
            await self._look_at_volume(redis, info)
        if not self._shared() or self.used < self.bytes * _MEASURED_FROM:
            self._shares, self._read = {}, b""
            self._forget(began)
        else:
            await self._share(redis)
        self._report()

    async def _look_at_volume(self, redis: AsyncRedis, info: Mapping[str, Any]) -> None:
        written, is_rewriting = int(info["aof_current_size"]), bool(info["aof_rewrite_in_progress"])
        if self._volume.isdecimal():
            size, free, needed = int(self._volume), int(self._volume) - written, self.used
        else:
            size, _, free = await asyncio.to_thread(shutil.disk_usage, self._volume)
            needed = 0 if is_rewriting else self.used
        self._room = free - needed - _SPARE
        self.volume_ratio = 1 - max(self._room, 0) / size
        # The server rewrites a file that has doubled, which it cannot while writes are refused.
        if self._room <= 0 and written > 2 * self.used and not is_rewriting:
            await redis.bgrewriteaof()

    async def _share(self, redis: AsyncRedis) -> None:
        """Measure if it is time, and read the result of the last measurement."""
        try:
            turn = bool(await redis.set(Shared.measuring(), b"", nx=True, ex=_MEASURING_SECONDS))
        except StoreRefuses:  # out of memory, so nothing is admitted anyway
            return
        if turn:
            began = time.monotonic()
            sizes = await asyncio.to_thread(self._measure)
            took = time.monotonic() - began
            shares = orjson.dumps({"at": time.time(), "took": took, "bytes": sizes})
            await redis.set(Shared.shares(), shares, ex=_KEPT_SECONDS)
            await redis.pexpire(Shared.measuring(), round(1000 * max(LOOK_SECONDS, _REST * took)))
        stored = cast(bytes | None, await redis.get(Shared.shares()))
        if stored is not None and stored != self._read:
            read = orjson.loads(stored)
            self._read, self._shares = stored, read["bytes"]
            self._forget(time.monotonic() - read["took"] - LOOK_SECONDS)

    def _measure(self) -> dict[str, int]:
        with connect(self._url, timeout=_TIMEOUT) as redis:
            return measure(redis)

    def _forget(self, moment: float) -> None:
        """Stop counting bytes admitted before the last check before ``moment``, because they have been measured."""
        with self._counting:
            looks = [since for since, _ in self._let_in]
            first = max((i for i, since in enumerate(looks) if since <= moment), default=0)
            self._let_in = self._let_in[first:]

    def _fail(self, kind: str) -> None:
        """Log once per cause why the memory usage is unknown; the link logs an unavailable store."""
        if kind != self._failure:
            log.info("store: memory usage unknown (%s)", kind)
        self._failure = kind

    def _report(self) -> None:
        """Log once when the budget is reached, and once when it no longer is."""
        full = self.reason in ("store-full", "store-disk-full")
        if full and not self._was_full:
            log.warning("store: full (%s), using %d bytes of a budget of %d", self.reason, self.used, self.bytes)
        elif self._was_full and not full:
            log.info("store: no longer full, using %d bytes of a budget of %d", self.used, self.bytes)
        self._was_full = full


def measure(redis: Redis) -> dict[str, int]:
    """The bytes of each tenant, from the prefixes of the keys. O(keys)."""
    sizes = Counter[str]()
    count = redis.register_script(_MEASURE.text)
    cursor = b"0"
    while True:
        cursor, *counted = cast(list[bytes], count(args=[cursor, _KEYS]))
        for tenant, size in zip(counted[::2], counted[1::2], strict=True):
            sizes[tenant.decode()] += int(size)
        if cursor == b"0":
            break
    sizes.pop("", None)  # keys without a tenant
    return dict(sizes)


# --- Quotas: the bytes of batches, maps and monitors that a tenant may store
#
# ``Quotas`` also limits the number of unfinished jobs, which ``backlog`` enforces.
#
# A quota is checked before a write, and charged with the write, so it can be exceeded by concurrent writes, but not by
# later ones.


@dataclass(frozen=True)
class Quotas:
    """The quotas of every tenant, and ``all_jobs``, the limit for the jobs of all tenants; 0 means no limit.

    ``budget`` is that of the store; None for callers that it does not limit. ``maps`` is None if it follows from it.
    ``audit`` bounds the audit log; None: as in the environment of the process.
    """

    stored_bytes: int = 0
    maps: int | None = 0
    queued_jobs: int = 0
    all_jobs: int = 0
    monitors: int = 0
    budget: Budget | None = None
    audit: AuditBounds | None = None

    @property
    def most_maps(self) -> int:
        """The maximum number of maps of a tenant."""
        return self.maps if self.maps is not None else default_maps(0 if self.budget is None else self.budget.bytes)


#: No limits.
NO_QUOTAS = Quotas()


class Charges:
    """One tenant's usage of its quotas."""

    def __init__(self, redis: Redis, keys: Keyspace, quotas: Quotas) -> None:
        self._redis = redis
        self._keys = keys
        self._quotas = quotas

    def stored_bytes(self) -> int:
        """The bytes of batches that have not expired. O(batches)."""
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
        """The number of maps. O(1)."""
        return self._redis.zcard(self._keys.maps())

    def monitors(self) -> int:
        """The number of monitors. O(1)."""
        return self._redis.zcard(self._keys.monitors())

    def queued_jobs(self) -> int:
        """The number of queued and running jobs. O(1)."""
        return self._redis.scard(self._keys.unended_jobs())

    def check_bytes(self, more: int) -> None:
        """Raise ``QuotaExceeded`` or ``StoreFull`` if ``more`` bytes would be too many."""
        self._check_quota(more)
        if self._quotas.budget is not None:
            self._quotas.budget.claim(self._keys.tenant, more)

    def _check_quota(self, more: int) -> None:
        quota = self._quotas.stored_bytes
        if not quota:
            return
        if more > quota:
            raise QuotaExceeded(f"the batches of this tenant may have at most {quota} bytes in total")
        # Expired batches are counted until the sum is near the quota, which is rare.
        counted = sum(map(int, self._redis.hvals(self._keys.batch_bytes())))
        if counted + more > quota and self.stored_bytes() + more > quota:
            raise QuotaExceeded(
                f"the batches of this tenant may have at most {quota} bytes in total; delete some, or wait until they "
                f"expire"
            )

    def check_maps(self) -> None:
        """Raise ``QuotaExceeded`` if the maximum number of maps is reached."""
        most = self._quotas.most_maps
        if most and self.maps() >= most:
            raise QuotaExceeded(f"this tenant may have at most {most} maps; delete some")

    def charge(self, pipe: Pipeline, batch_id: str, size: int) -> None:
        """Charge the bytes of a batch, in the transaction that stores them."""
        pipe.hincrby(self._keys.batch_bytes(), batch_id, size)

    def release(self, pipe: Pipeline, batch_id: str) -> None:
        """Release the bytes of a batch, in the transaction that deletes it."""
        pipe.hdel(self._keys.batch_bytes(), batch_id)
