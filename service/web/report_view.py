"""The report of a stored batch as the page shows it: measured at once, or by a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import calibrant
from calibrant.methods import METHODS, Method
from reports.panel import full
from reports.subject import Subject
from schemas.batches import BatchRecord
from schemas.evaluate import EvaluateOptions
from schemas.jobs import JobRecord
from schemas.uploads import UploadRecord
from service.context import Context
from service.errors import NotFound
from service.formats.payload import Payload
from service.routes.evaluate import run_or_queue
from storage.clock import now
from storage.errors import UnknownJob

#: The method that is offered first where none is recommended.
_FIRST = "averaged"


@dataclass(frozen=True)
class ReportView:
    """A report, what it is of, and what can be done next."""

    batch: BatchRecord
    report: dict[str, Any]
    about: Subject
    query: str

    @property
    def methods(self) -> list[Method]:
        """The calibrators that can be fitted to such rows."""
        return [m for m in METHODS.values() if self.batch.n_classes is not None or m.event is not None]

    @property
    def recommended(self) -> str:
        """The calibrator that is offered first."""
        advice = self.report.get("recommendation") or {}
        method = advice.get("method")
        return method if method in METHODS else _FIRST

    @property
    def is_advised(self) -> bool:
        """Whether that is a recommendation, made of these rows."""
        return bool(self.report.get("recommendation"))


def report_or_job(here: Context, batch_id: str, map_ref: str | None, job_id: str | None) -> ReportView | JobRecord:
    """The report of a batch, with a map before and after it; or the job that makes it.

    Raises ``UnknownBatch``, and what ``POST /evaluate`` raises.
    """
    batch = here.store.batches.record(batch_id)
    upload = here.store.uploads.get(batch_id)
    options = EvaluateOptions(batch=batch_id, map=map_ref, **full(batch.n, batch.n_classes))
    known = job_id if job_id is not None or map_ref is not None or upload is None else upload.report_job
    made = None if known is None else _of_job(here, known, batch_id, asked=job_id is not None)
    if made is None:
        made = run_or_queue(here, Payload({}, {}, from_query=False), options)
    if isinstance(made, JobRecord):
        if upload is not None and map_ref is None:
            here.store.uploads.remember_report(batch_id, upload, made.id)
        if made.status != "succeeded":
            return made
        made = (made.result or {})["report"]
    query = "".join(f"?{name}={value}" for name, value in (("job", job_id), ("map", map_ref)) if value)
    return ReportView(batch, made, _subject(batch, upload, options), query)


def _of_job(here: Context, job_id: str, batch_id: str, *, asked: bool) -> JobRecord | None:
    """The job that makes the report of a batch; None for one that is to be made anew."""
    try:
        job = here.store.jobs.get(job_id)
    except UnknownJob:
        if asked:
            raise
        return None
    if job.kind != "evaluate" or job.spec.get("batch") != batch_id:
        raise NotFound("this job makes no report of this batch")
    return None if job.status in ("failed", "cancelled") and not asked else job


def _subject(batch: BatchRecord, upload: UploadRecord | None, options: EvaluateOptions) -> Subject:
    return Subject(
        name=batch.id if upload is None else upload.file,
        version=calibrant.__version__,
        when=now(),
        said=() if upload is None else tuple(upload.said),
        options=options.model_dump(exclude_none=True, exclude_defaults=True),
        classes=None if upload is None or upload.classes is None else tuple(upload.classes),
        weights=batch.weights_kind if "weights" in batch.arrays else None,
        map=options.map,
    )
