"""Jobs as callers see them: submitted, listed, watched, cancelled and deleted."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.client import Pipeline
from rq.command import send_command

from backend.store.clock import seconds, stamp
from backend.store.errors import JobFinal, UnknownJob
from backend.store.jobs.backlog import begin
from backend.store.jobs.leases import read_leases
from backend.store.jobs.queues import Message, TenantLine
from backend.store.jobs.runs import (
    StoredJobEvent,
    batches_of,
    end_whole,
    find,
    hold,
    parts_of,
    read_events,
    read_job,
    write_job,
)
from backend.store.keyspace import Keyspace, Shared, job_field
from backend.store.pages import Page, PageRequest, read_page
from backend.store.server.connection import UNAVAILABLE, error_name, transact
from schemas.jobs import FINAL, JobRecord

# --- Jobs for callers; what workers do is in ``runs``


class JobStore:
    """The jobs of one tenant; a finished job is deleted after its own time to live."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def submit(self, record: JobRecord) -> JobRecord:
        """Store and queue a job, atomically.

        An existing job is kept unchanged, so a job that is submitted twice runs once.
        """
        key = self._keys.job(record.id)

        def write(pipe: Pipeline) -> JobRecord:
            stored = pipe.get(key)
            pipe.multi()
            if stored is not None:
                return self._read(stored)
            parts = parts_of(record)
            for part in parts:
                write_job(pipe, self._keys, part)
            for piece in parts or [record]:
                TenantLine(self._redis, self._keys, record.queue).enter(pipe, piece)
            pipe.sadd(Shared.tenants(), self._keys.tenant)
            begin(pipe, self._keys, record)
            pipe.zadd(self._keys.jobs(), {record.id: seconds(record.created_at)})
            hold(pipe, self._keys, record.id, batches_of(record.spec), record.own_batches)
            write_job(pipe, self._keys, record)
            return record

        return transact(self._redis, write, key)

    def page(self, request: PageRequest, keep: Callable[[JobRecord], bool]) -> Page[JobRecord]:
        """A page of the jobs for which ``keep`` returns true, newest first."""

        def read(ids: Sequence[str]) -> list[JobRecord | None]:
            stored = cast(list[bytes | None], self._redis.mget([self._keys.job(job_id) for job_id in ids]))
            return [None if data is None else self._read(data) for data in stored]

        return read_page(self._redis, self._keys.jobs(), request, read, keep)

    def events(self, job_id: str, after: str | None) -> list[StoredJobEvent]:
        """The first stored changes of a job after the one with this id; empty for an unknown job."""
        return read_events(self._redis, self._keys, job_id, after)

    def key(self, job_id: str) -> str:
        """The message on the channel of changes when this job changes."""
        return self._keys.job(job_id)

    def get(self, job_id: str) -> JobRecord:
        """The current record of a job; raises ``UnknownJob``."""
        return self._known(read_job(self._redis.get(self._keys.job(job_id))))

    def cancel(self, job_id: str) -> JobRecord:
        """End a queued or running job; idempotent.

        From now on nothing of it is stored. Its worker is stopped; a worker that misses the message notices at its next
        renewal that the lease is gone. Raises ``JobFinal`` for a job that has ended otherwise.
        """
        self.get(job_id)

        def write(pipe: Pipeline) -> tuple[JobRecord, list[str]]:
            looked = find(pipe, self._keys, job_id)
            record = self._known(looked.whole)
            pipe.multi()
            if record.status in FINAL:
                return record, []
            if record.status == "queued" and record.parts == 1:
                message = Message.next_of(self._keys.tenant, record)
                TenantLine(self._redis, self._keys, record.queue).leave(pipe, message.id)
                pipe.zrem(Shared.delayed(), job_field(self._keys.tenant, job_id))
            changes = {"status": "cancelled", "finished_at": stamp()}
            end_whole(pipe, self._redis, self._keys, looked, changes)
            return record.model_copy(update=changes), [job.id for job in (record, *looked.parts)]

        # Read the worker before the lease ends.
        held = {lease.job_id: lease.owner for lease in read_leases(self._redis) if lease.tenant == self._keys.tenant}
        record, pieces = transact(self._redis, write, self._keys.job(job_id))
        if record.status != "cancelled":
            raise JobFinal(f"the job has {record.status}")
        for piece in pieces:
            if piece in held:
                send_command(self._redis, held[piece], "stop-job", job_id=piece)
        return record

    def delete(self, job_id: str) -> JobRecord:
        """Delete an ended job with its result and its events; a job that has not ended is kept. Returns the job."""
        key = self._keys.job(job_id)

        def write(pipe: Pipeline) -> JobRecord:
            record = self._known(read_job(pipe.get(key)))
            pipe.multi()
            if record.status in FINAL:
                pipe.delete(key, self._keys.job_events(job_id))
                pipe.zrem(self._keys.jobs(), job_id)
            return record

        return transact(self._redis, write, key)

    def before(self, record: JobRecord) -> int | None:
        """The number of the tenant's runs that wait ahead of a job in its queue.

        None for a job that is not in the queue, and for a job with parts, which wait individually.
        """
        if record.status != "queued" or record.parts > 1:
            return None
        message = Message.next_of(self._keys.tenant, record)
        return TenantLine(self._redis, self._keys, record.queue).before(message.id)

    def status(self, job_id: str) -> str:
        """The status of a job, ``forgotten`` if there is none."""
        record = read_job(self._redis.get(self._keys.job(job_id)))
        return "forgotten" if record is None else record.status

    @staticmethod
    def _known(record: JobRecord | None) -> JobRecord:
        if record is None or record.parent is not None:
            raise UnknownJob("there is no job with this id, or it has expired")
        return record

    @staticmethod
    def _read(data: object) -> JobRecord:
        return JobStore._known(read_job(data))


# --- Waiting for changes of jobs: one subscription per process, without a thread per waiting request

log = logging.getLogger(__name__)

#: Seconds after which a lost subscription is retried.
_AGAIN_SECONDS = 0.5
#: Seconds without messages after which the connection is checked.
_LISTEN_SECONDS = 0.2


class Watcher:
    """Notifies tasks that wait for a key of ``Shared.job_changes``.

    After an interruption of the subscription, all of them are notified.
    """

    def __init__(self, redis: AsyncRedis) -> None:
        self._redis = redis
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self.closed = False

    async def run(self) -> None:
        """Receive notifications until closed or cancelled."""
        while not self.closed:
            try:
                await self._listen()
            except UNAVAILABLE as error:
                # The link to the store logs the outage once; here it would be logged at every attempt.
                log.debug("watch: store unavailable: %s", error_name(error))
            if not self.closed:
                await asyncio.sleep(_AGAIN_SECONDS)

    def close(self) -> None:
        """Notify all tasks for the last time; ``closed`` makes them stop waiting."""
        self.closed = True
        self._wake_all()

    @contextlib.contextmanager
    def waiting(self, key: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change of ``key``; enter before the first read, so that no change is missed."""
        event = asyncio.Event()
        events = self._waiting.setdefault(key, set())
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events and self._waiting.get(key) is events:
                del self._waiting[key]

    async def pause(self, changed: asyncio.Event, seconds: float) -> None:
        """Wait until ``changed`` is set, up to ``seconds``."""
        if not self.closed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), seconds)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(Shared.job_changes())
            self._wake_all()
            while not self.closed:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_LISTEN_SECONDS)
                if message is not None:
                    for event in self._waiting.get(message["data"].decode(), ()):
                        event.set()

    def _wake_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()
