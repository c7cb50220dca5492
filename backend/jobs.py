"""Jobs: long work of a request, queued for the workers, and the list of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from backend.requester import Requester
from backend.store.clock import stamp
from backend.store.jobs.events import batches_of
from backend.store.jobs.leases import serves
from backend.store.jobs.queues import GPU_FITS, QUEUE_OF
from backend.store.pages import Page, PageRequest
from backend.store.server.connection import UNAVAILABLE
from backend.store.store import Store
from backend.telemetry.observed import carried
from schemas.jobs import FINAL, JobRecord, JobsQuery, Kind

#: Work that is estimated to take longer is a job.
INLINE_SECONDS = 2.0
#: Seconds that a batch is kept at least when a job is requested for it; then the job holds it.
_QUEUEING_SECONDS = 10


def runs_inline(requester: Requester, seconds: float) -> bool:
    """Whether work of so many seconds is done in the request, which then has a slot for it; raises ``Busy``."""
    if seconds > INLINE_SECONDS or requester.prefers_job:
        return False
    requester.take_slot(seconds)
    return True


@contextlib.contextmanager
def place_for_job(requester: Requester) -> Iterator[str]:
    """Reserve a place for a job, to be queued within, and give its id; raises ``TooManyJobs`` and ``QueueFull``.

    The place is taken before anything of the request is stored. Raises ``StoreFull`` if nothing more may be.
    """
    requester.check_room()
    job_id, places = requester.new_id("job"), requester.store.places
    places.take(job_id)
    try:
        yield job_id
    except BaseException:
        with contextlib.suppress(*UNAVAILABLE):  # then the place is free again in a while
            places.give_back(job_id)
        raise


def queue(
    requester: Requester, kind: Kind, job_id: str, spec: dict[str, Any], *, pieces: int = 1, gpu: bool = False
) -> JobRecord:
    """Queue a job that has a place, on the batches that its spec names, as they are now; raises ``UnknownBatch``.

    It goes to the workers in so many ``pieces``, and to a worker with a GPU if it is worth one and one is alive.
    """
    store, settings = requester.store, requester.settings
    ids = batches_of(spec)
    for batch_id in ids:
        store.batches.keep(batch_id, _QUEUEING_SECONDS)
    parts = [store.batches.record(batch_id).parts for batch_id in ids]
    record = JobRecord(
        id=job_id,
        kind=kind,
        status="queued",
        created_at=stamp(),
        ttl=settings.job_ttl,
        spec=spec | {"parts": parts[0]},
        queue=GPU_FITS if gpu and serves(store.redis, GPU_FITS) else QUEUE_OF[kind],
        timeout=settings.fit_timeout if kind == "fit" else settings.evaluate_timeout,
        carried=carried(),
        parts=pieces,
        left=pieces,
    )
    return store.jobs.submit(record)


def find_jobs(store: Store, page: PageRequest, query: JobsQuery) -> Page[JobRecord]:
    """The page of the jobs that pass the filters of a query."""

    def keep(record: JobRecord) -> bool:
        wanted = {"status": query.status, "kind": query.kind}
        fits = all(value is None or getattr(record, name) == value for name, value in wanted.items())
        return fits and (query.batch is None or record.spec.get("batch") == query.batch)

    return store.jobs.page(page, keep)


def has_no_more_events(store: Store, job_id: str, last: str | None) -> bool:
    """Whether a job has ended and no event follows ``last``; raises ``UnknownJob``."""
    record = store.jobs.get(job_id)
    return record.status in FINAL and not store.jobs.events(job_id, last)
