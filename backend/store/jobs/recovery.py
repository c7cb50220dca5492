"""Recovery: find jobs that no worker runs any more, and run them again.

Any number of supervisors may do this concurrently: each finding is verified in a transaction. All of them check leases
and delays. One of them, the leader, also checks the lines of all tenants and occasionally all jobs, because that is
expensive and rarely finds anything. When the leader ends, another one takes over within seconds.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar, cast

from redis import Redis

from backend.store.clock import seconds_of
from backend.store.errors import StorageError
from backend.store.jobs.leases import ALIVE_SECONDS, LOST_SECONDS, RENEWAL_SECONDS, Lease, read_leases, serves
from backend.store.jobs.queues import FITS, GPU_FITS, Message, TenantLine, forget_worker, lines, missing, read_workers
from backend.store.jobs.runs import DELAYS, RunStore, part_id, read_job
from backend.store.keyspace import Keyspace, Shared, job_field, read_job_field
from backend.store.server.connection import Script
from schemas.jobs import JobRecord

log = logging.getLogger(__name__)

#: Seconds between two checks.
LOOK_SECONDS = RENEWAL_SECONDS
#: Seconds after which a message that is neither queued nor claimed counts as lost.
MISSING_SECONDS = 1.0
#: Seconds between two audits by one leader.
AUDIT_SECONDS = 30.0
#: Seconds that a leader remains one after its last renewal.
_LEADER_SECONDS = 2
_LEAD = Script("recovery/lead")
#: Number of jobs that an audit reads at once.
_CHUNK = 500


Thing = TypeVar("Thing", bound=Hashable)
Result = TypeVar("Result")


class UnchangedThings:
    """Tracks unchanged things: a thing is reported once it has been observed for ``seconds``.

    A pause between two checks, for example while the store was down, counts as at most twice the normal interval.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._seen: dict[Hashable, float] = {}
        self._looked = clock()

    def look(self, things: Iterable[Thing]) -> list[Thing]:
        """Return those of ``things`` that have been present long enough."""
        moment = self._clock()
        passed = min(moment - self._looked, 2 * LOOK_SECONDS)
        self._looked = moment
        self._seen = {thing: self._seen[thing] + passed if thing in self._seen else 0.0 for thing in things}
        return cast(list[Thing], [thing for thing, seconds in self._seen.items() if seconds >= self._seconds])


class Recovery:
    """The state of one supervisor between its checks; ``clock`` is monotonic, in seconds."""

    def __init__(self, redis: Redis, clock: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._clock = clock
        self._id = secrets.token_hex(8)
        self._audited = float("-inf")
        self._leases = UnchangedThings(LOST_SECONDS, clock)
        self._workers = UnchangedThings(ALIVE_SECONDS, clock)
        self._missing = UnchangedThings(MISSING_SECONDS, clock)
        self._stranded = UnchangedThings(LOST_SECONDS, clock)

    def look(self) -> None:
        """Check once, and recover what was lost; raises the errors of redis-py while the store is down."""
        for lease, _ in self._leases.look(read_leases(self._redis).items()):
            log.warning("job %s: its lease was not renewed; it will run again", lease.job_id)
            _with_readable(lease.job_id, self._runs(lease.tenant).lose, lease)
        for worker, _ in self._workers.look(read_workers(self._redis).items()):
            forget_worker(self._redis, worker)
        for tenant, job_id in self._due():
            _with_readable(job_id, self._runs(tenant).enqueue, job_id)
        if _LEAD.run(self._redis, [Shared.leader()], self._id, _LEADER_SECONDS):
            waiting = lines(self._redis)
            self._replace(waiting)
            self._free_from_gpu([tenant for tenant, queue in waiting if queue == GPU_FITS])
            if self._clock() - self._audited >= AUDIT_SECONDS:
                self._audited = self._clock()
                self._audit()

    def worker_ended(self, owner: str, *, killed: bool) -> None:
        """Recover the job of an ended worker: lost if the worker died, or returned if it was stopped."""
        forget_worker(self._redis, owner)
        for lease in read_leases(self._redis):
            if lease.owner == owner:
                runs = self._runs(lease.tenant)
                if killed:
                    log.warning("job %s: its worker ended; it will run again", lease.job_id)
                    _with_readable(lease.job_id, partial(runs.lose, killed=True), lease)
                else:
                    _with_readable(lease.job_id, runs.release, lease)

    def _runs(self, tenant: str) -> RunStore:
        return RunStore(self._redis, Keyspace(tenant))

    def _due(self) -> list[tuple[str, str]]:
        """Jobs whose delay is over, or longer than any delay, which means that Redis's clock was set back."""
        moment = seconds_of(self._redis.time())
        with self._redis.pipeline() as pipe:
            pipe.zrangebyscore(Shared.delayed(), "-inf", moment)
            pipe.zrangebyscore(Shared.delayed(), moment + 2 * max(DELAYS), "+inf")
            over, never = pipe.execute()
        return [read_job_field(field) for field in (*over, *never)]

    def _replace(self, waiting: list[tuple[str, str]]) -> None:
        """Queue messages again that were taken but not claimed, or are missing in their queue."""
        for tenant, queue, message in self._missing.look(missing(self._redis, waiting)):
            if self._line(tenant, queue).replace(message):
                log.warning("message %s was lost; queued it again", message)

    def _free_from_gpu(self, tenants: list[str]) -> None:
        """Move messages from the GPU queue to the CPU queue if no GPU worker is left."""
        if not tenants or serves(self._redis, GPU_FITS):
            tenants = []
        for tenant in self._stranded.look(tenants):
            for message in self._line(tenant, GPU_FITS).messages():
                job_id = message.rpartition("-")[0]
                _with_readable(job_id, self._runs(tenant).move, job_id, FITS)

    def _line(self, tenant: str, queue: str) -> TenantLine:
        return TenantLine(self._redis, Keyspace(tenant), queue)

    def _audit(self) -> None:
        """Recover jobs that neither wait nor run, such as those of an earlier version.

        It is safe if a job changes between the reads of its parts, because every action checks its record again.
        """
        for tenant in sorted(cast(set[bytes], self._redis.smembers(Shared.tenants()))):
            self._audit_tenant(tenant.decode())

    def _audit_tenant(self, tenant: str) -> None:
        for record in self._unended(tenant):
            if not self._is_stray(tenant, record):
                continue
            log.warning("job %s was %s but neither queued nor leased; it will run again", record.id, record.status)
            if record.status == "queued":
                self._runs(tenant).enqueue(record.id)
            else:
                self._runs(tenant).lose(Lease(tenant, record.id, record.run, ""))

    def _is_stray(self, tenant: str, record: JobRecord) -> bool:
        """Whether a job should wait or run but does neither, verified by reading its record again.

        All state changes happen in transactions that change the record: if it is unchanged, the job was really nowhere.
        """
        known = self._waits if record.status == "queued" else self._has_lease
        if record.status not in ("queued", "running") or known(tenant, record):
            return False
        again = self._read(tenant, [record.id])
        return [(job.status, job.run) for job in again] == [(record.status, record.run)]

    def _unended(self, tenant: str) -> Iterator[JobRecord]:
        """The unfinished jobs, and the parts of jobs with parts."""
        ids = sorted(cast(set[bytes], self._redis.smembers(Keyspace(tenant).unended_jobs())))
        for i in range(0, len(ids), _CHUNK):
            for record in self._read(tenant, [job_id.decode() for job_id in ids[i : i + _CHUNK]]):
                if record.parts == 1:
                    yield record
                else:
                    yield from self._read(tenant, [part_id(record.id, part) for part in range(record.parts + 1)])

    def _read(self, tenant: str, ids: Sequence[str]) -> list[JobRecord]:
        keys = Keyspace(tenant)
        stored = cast(list[bytes | None], self._redis.mget([keys.job(job_id) for job_id in ids]))
        records = (_with_readable(job_id, read_job, data) for job_id, data in zip(ids, stored, strict=True))
        return [record for record in records if record is not None]

    def _has_lease(self, tenant: str, record: JobRecord) -> bool:
        return bool(self._redis.hexists(Shared.leases(), job_field(tenant, record.id)))

    def _waits(self, tenant: str, record: JobRecord) -> bool:
        delayed = self._redis.zscore(Shared.delayed(), job_field(tenant, record.id))
        return delayed is not None or self._line(tenant, record.queue).has(Message.next_of(tenant, record).id)


def _with_readable(job_id: str, act: Callable[..., Result], *args: object) -> Result | None:
    """The result of ``act``; a job that this version cannot read is skipped and left to another supervisor."""
    try:
        return act(*args)
    except StorageError as error:
        log.warning("job %s: %s", job_id, error.detail)
        return None
