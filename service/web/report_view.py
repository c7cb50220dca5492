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
from schemas.jobs import FINAL, JobRecord
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
        return method if isinstance(method, str) and method in METHODS else _FIRST

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
    made = _made_already(here, batch_id, upload if map_ref is None else None, job_id)
    if made is None:
        made = run_or_queue(here, Payload({}, {}, from_query=False), options)
        if isinstance(made, JobRecord) and upload is not None and map_ref is None:
            here.store.uploads.remember_report(batch_id, upload, made.id)
    if isinstance(made, JobRecord):
        return made
    query = "".join(f"?{name}={value}" for name, value in (("job", job_id), ("map", map_ref)) if value)
    return ReportView(batch, made, _subject(batch, upload, options), query)


def _made_already(
    here: Context, batch_id: str, upload: UploadRecord | None, job_id: str | None
) -> dict[str, Any] | JobRecord | None:
    """The report that a job made, or the job while it is at work; None for a report that is to be made."""
    known = job_id if job_id is not None else None if upload is None else upload.report_job
    if known is None:
        return None
    try:
        job = here.store.jobs.get(known)
    except UnknownJob:
        if job_id is not None:
            raise
        return None
    if job.kind != "evaluate" or job.spec.get("batch") != batch_id:
        raise NotFound("this job makes no report of this batch")
    if job.status == "succeeded" and job.result is not None:
        report: dict[str, Any] = job.result["report"]
        return report
    return None if job.status in FINAL and job_id is None else job


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
