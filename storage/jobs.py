"""Jobs as their callers see them: submitted, listed, looked at and cancelled. What workers do is in ``runs``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from redis import Redis
from redis.client import Pipeline
from rq.command import send_command

from schemas.jobs import FINAL, JobRecord
from storage.clock import seconds, stamp
from storage.errors import JobFinal, UnknownJob
from storage.formats import read_stored
from storage.job_events import JobEvent, read_events, write_job
from storage.keyspace import Keyspace, Shared, job_field
from storage.leases import owner_of
from storage.lines import Line
from storage.pages import Asked, Page, read_page
from storage.queues import Message
from storage.transactions import transact


class JobStore:
    """The jobs of one tenant. A finished job is forgotten after its own time to live."""

    def __init__(self, redis: Redis, keys: Keyspace) -> None:
        self._redis = redis
        self._keys = keys

    def submit(self, record: JobRecord) -> JobRecord:
        """Store a job and queue it, both or neither.

        A job that is there already stays as it is: one that is submitted twice runs once.
        """
        key = self._keys.job(record.id)

        def write(pipe: Pipeline) -> JobRecord:
            stored = pipe.get(key)
            pipe.multi()
            if stored is not None:
                return self._read(stored)
            Line(self._redis, self._keys, record.queue).enter(pipe, record)
            pipe.sadd(Shared.tenants(), self._keys.tenant)
            pipe.sadd(self._keys.unended_jobs(), record.id)
            pipe.zadd(self._keys.jobs(), {record.id: seconds(record.created_at)})
            write_job(pipe, self._keys, record)
            return record

        return transact(self._redis, write, key)

    def page(self, asked: Asked, keep: Callable[[JobRecord], bool]) -> Page[JobRecord]:
        """A page of the jobs that ``keep`` holds true, newest first."""

        def read(ids: Sequence[str]) -> list[JobRecord | None]:
            stored = cast(list[bytes | None], self._redis.mget([self._keys.job(job_id) for job_id in ids]))
            return [None if data is None else self._read(data) for data in stored]

        return read_page(self._redis, self._keys.jobs(), asked, read, keep)

    def events(self, job_id: str, after: str | None) -> list[JobEvent]:
        """What is kept of the job's changes after the one of that id, the first of them; none for an unknown job."""
        return read_events(self._redis, self._keys, job_id, after)

    def key(self, job_id: str) -> str:
        """What the channel of changes says when this job has changed."""
        return self._keys.job(job_id)

    def get(self, job_id: str) -> JobRecord:
        """The job as it stands; raises ``UnknownJob``."""
        return self._read(self._redis.get(self._keys.job(job_id)))

    def cancel(self, job_id: str) -> JobRecord:
        """End a job that is queued or running; one that was cancelled before stays so.

        From here on nothing of it is stored. Its worker is told to stop; one that does not hear it finds at its next
        renewal that it has no lease. Raises ``JobFinal`` for a job that has ended otherwise.
        """
        key, told = self._keys.job(job_id), owner_of(self._redis, self._keys.tenant, job_id)

        def write(pipe: Pipeline) -> JobRecord:
            record = self._read(pipe.get(key))
            pipe.multi()
            if record.status in FINAL:
                return record
            if record.status == "queued":
                message = Message.next_of(self._keys.tenant, record)
                Line(self._redis, self._keys, record.queue).leave(pipe, message.id)
                pipe.zrem(Shared.delayed(), job_field(self._keys.tenant, job_id))
            record = record.model_copy(update={"status": "cancelled", "finished_at": stamp()})
            write_job(pipe, self._keys, record)
            return record

        record = transact(self._redis, write, key)
        if record.status != "cancelled":
            raise JobFinal(f"the job has {record.status}")
        if told is not None:
            send_command(self._redis, told, "stop-job", job_id=job_id)
        return record

    def status(self, job_id: str) -> str:
        """The status of a job, ``forgotten`` where there is none."""
        stored = self._redis.get(self._keys.job(job_id))
        return "forgotten" if stored is None else self._read(stored).status

    @staticmethod
    def _read(data: object) -> JobRecord:
        if data is None:
            raise UnknownJob("there is no such job, or it has expired")
        return read_stored(JobRecord, data)
