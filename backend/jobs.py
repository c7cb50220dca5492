"""Jobs: long-running work of a request, queued for the workers, and their list."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from backend.batches import JobOptions, batch_for_job
from backend.kinds import Work, inline_bytes
from backend.requester import Requester
from backend.store.clock import stamp
from backend.store.jobs.leases import serves
from backend.store.jobs.queues import GPU_FITS, QUEUE_OF
from backend.store.jobs.runs import batches_of
from backend.store.pages import Page, PageRequest
from backend.store.server.connection import UNAVAILABLE
from backend.store.store import Store
from backend.telemetry.observed import carried
from calibrant.core.progress import reporting
from calibrant.io.errors import TooLarge
from schemas.jobs import FINAL, JobKind, JobRecord, JobsQuery

#: Work with a longer estimate runs as a job.
INLINE_SECONDS = 2.0
#: Work in a request that takes more processor time, because its estimate was wrong, is abandoned and runs as a job.
OVERDUE_SECONDS = 10.0
#: Minimum seconds that a batch is kept when a job is requested for it; afterwards the job keeps it.
_QUEUEING_SECONDS = 10


class _Overdue(Exception):
    """Work has taken much longer than its estimate."""


def run_inline(requester: Requester, work: Work) -> Any | None:
    """Run work in the request, which takes a slot and then holds memory; raises ``Busy``.

    It must store nothing, and report its progress. Returns None if it is to run as a job: it needs a long fit, the
    estimate is too long, the caller prefers a job, the request would need more memory than it may use, or the work has
    taken ``OVERDUE_SECONDS``.
    """
    if not work.inline or work.seconds > INLINE_SECONDS or requester.prefers_job:
        return None
    requester.take_slot(work.seconds)
    try:
        requester.reserve(inline_bytes(work.n, work.size))
    except TooLarge:  # for a worker it is not
        return None
    end = time.thread_time() + OVERDUE_SECONDS

    def go_on(_done: int, _total: int, _stage: str) -> None:
        if time.thread_time() > end:
            raise _Overdue

    try:
        with reporting(go_on):
            return work.run()
    except _Overdue:
        return None


@contextlib.contextmanager
def place_for_job(requester: Requester) -> Iterator[str]:
    """Reserve a place in the queue for a job and yield its id; raises ``TooManyJobs`` and ``QueueFull``.

    The place is reserved before anything of the request is stored. Raises ``StoreFull`` if nothing more may be stored.
    """
    requester.check_room()
    job_id, places = requester.new_id("job"), requester.store.places
    places.take(job_id)
    try:
        yield job_id
    except BaseException:
        with contextlib.suppress(*UNAVAILABLE):  # the reservation then expires
            places.give_back(job_id)
        raise


def queue(
    requester: Requester,
    kind: JobKind,
    job_id: str,
    spec: dict[str, Any],
    *,
    seconds: float,
    pieces: int = 1,
    gpu: bool = False,
    temporary: bool = False,
) -> JobRecord:
    """Queue a job with a reserved place, for the current state of the batches in its spec; raises ``UnknownBatch``.

    ``seconds`` is an estimate; shorter jobs run first. The job is split into ``pieces``; with ``gpu`` it goes to a GPU
    worker if one is running. If ``temporary``, its batches are deleted when the job ends.
    """
    store, settings = requester.store, requester.settings
    timeout = settings.fit_timeout if kind == "fit" else settings.evaluate_timeout
    ids = batches_of(spec)
    for batch_id in ids:
        store.batches.keep(batch_id, _QUEUEING_SECONDS)
    batches = [store.batches.record(batch_id) for batch_id in ids]
    record = JobRecord(
        id=job_id,
        kind=kind,
        status="queued",
        created_at=stamp(),
        created_by=requester.who,
        ttl=settings.job_ttl,
        spec=spec | ({"parts": batches[0].parts} if batches else {}),
        queue=GPU_FITS if gpu and serves(store.redis, GPU_FITS) else QUEUE_OF[kind],
        timeout=timeout,
        seconds=min(seconds, timeout),
        carried=carried(),
        parts=pieces,
        left=pieces,
        temporary_batch=ids[0] if temporary and spec["batch"] is not None else None,
        temporary_batches=ids if temporary and spec["batch"] is None else [],
        author=store.author,
        rows=batches[0] if kind == "evaluate" and batches and (spec["batch"] or spec.get("models")) else None,
    )
    return store.jobs.submit(record)


def queue_work(requester: Requester, kind: JobKind, work: Work, options: JobOptions) -> JobRecord:
    """Queue a job for work, with its rows as a batch if they are not stored; raises as ``queue``."""
    with place_for_job(requester) as job_id:
        batch_id, temporary = (None, False) if work.rows is None else batch_for_job(requester, work.rows, options)
        return queue(
            requester,
            kind,
            job_id,
            work.spec.model_copy(update={"batch": batch_id}).model_dump(),
            seconds=work.seconds,
            pieces=work.pieces,
            gpu=work.gpu,
            temporary=temporary,
        )


def find_jobs(store: Store, page: PageRequest, query: JobsQuery) -> Page[JobRecord]:
    """The page of jobs that match the filters of a query."""

    def keep(record: JobRecord) -> bool:
        wanted = {"status": query.status, "kind": query.kind}
        fits = all(value is None or getattr(record, name) == value for name, value in wanted.items())
        return fits and (query.batch is None or record.spec.get("batch") == query.batch)

    return store.jobs.page(page, keep)


def has_no_more_events(store: Store, job_id: str, last: str | None) -> bool:
    """Whether a job has ended and has no event after ``last``; raises ``UnknownJob``."""
    record = store.jobs.get(job_id)
    return record.status in FINAL and not store.jobs.events(job_id, last)
