"""The report of a stored batch as the page shows it: made at once, or by a job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from backend.store.errors import UnknownJob
from calibrant.calibrators import METHODS, Method
from schemas.batches import BatchRecord, UploadRecord
from schemas.evaluate import EvaluateOptions
from schemas.jobs import FINAL, JobRecord
from service.context import Context
from service.errors import NotFound
from service.formats.options import read_options
from service.formats.payload import Payload
from service.reporting import Whole, whole_of
from service.routes.evaluate import report_or_queue

#: What is offered first where no map is recommended, since none surely gains.
_FIRST = "averaged"
_KEEPING = "identity"


@dataclass(frozen=True)
class ReportView:
    """A report, the batch that it is of, and the query that leads to it."""

    batch: BatchRecord
    made: Whole
    query: str

    @property
    def methods(self) -> list[Method]:
        """The calibrators that can be fitted to such rows, but for the one that changes nothing."""
        is_vector = self.batch.n_classes is not None
        return [m for m in METHODS.values() if m.name != _KEEPING and (is_vector or m.event is not None)]

    @property
    def advised(self) -> str | None:
        """The calibrator that these rows recommend; None where none surely gains."""
        method = (self.made.report.get("recommendation") or {}).get("recommended")
        return method if method in METHODS and method != _KEEPING else None

    @property
    def first(self) -> str:
        """The calibrator that is offered first."""
        return self.advised or _FIRST


def report_or_job(here: Context, batch_id: str, map_ref: str | None, job_id: str | None) -> ReportView | JobRecord:
    """The report of a batch, with a map before and after it; or the job that makes it.

    Raises ``UnknownBatch``, and what ``POST /evaluate`` raises.
    """
    batch = here.store.batches.record(batch_id)
    map_id = None if map_ref is None else here.store.maps.get(map_ref).id
    upload = here.store.uploads.get(batch_id)
    made = _made_already(here, batch_id, here.store.uploads.report_job(batch_id, map_id), job_id)
    if made is None:
        options = read_options(Payload({}, {"batch": batch_id, "map": map_ref}, from_query=False), EvaluateOptions)
        made = report_or_queue(here, Payload({}, {}, from_query=False), options)
        if isinstance(made, JobRecord):
            here.store.uploads.remember_report(batch_id, made.id, map_id, ttl=here.settings.batch_ttl)
    if isinstance(made, JobRecord):
        return made
    query = urlencode({name: value for name, value in (("job", job_id), ("map", map_ref)) if value is not None})
    return ReportView(batch, _named(made, upload), f"?{query}" if query else "")


def _made_already(here: Context, batch_id: str, known: str | None, asked: str | None) -> Whole | JobRecord | None:
    """The report that a job made, or the job while it is at work; None for a report that is to be made.

    ``known`` is the job that is remembered, ``asked`` the one that the query names, which must be there.
    """
    try:
        job = None if (asked or known) is None else here.store.jobs.get(asked or known or "")
    except UnknownJob:
        if asked is not None:
            raise
        return None
    if job is None:
        return None
    if job.kind != "evaluate" or job.spec.get("batch") != batch_id or job.spec.get("picture"):
        raise NotFound("this job makes no report of this batch")
    if job.status == "succeeded":
        return whole_of(here, job)
    return None if job.status in FINAL and asked is None else job


def _named(made: Whole, upload: UploadRecord) -> Whole:
    """A report under the name of its file, with what was guessed of it."""
    if upload.file is None:
        return made
    classes = None if upload.classes is None else tuple(upload.classes)
    origin = f"those of {upload.file}, to be dropped on the page again, or {made.subject.origin}"
    named = replace(made.subject, name=upload.file, said=tuple(upload.said), classes=classes, origin=origin)
    return made._replace(subject=named)
