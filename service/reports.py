"""HTML reports over HTTP: computed directly or as a job, as one self-contained file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from fastapi import Response
from starlette.concurrency import run_in_threadpool

import calibrant
from backend.batches import Arrays
from backend.evaluations import report_or_queue
from backend.store.errors import UnknownBatch
from calibrant.batch import Scale
from calibrant.reports.html import standalone
from calibrant.reports.panel import ReportSubject
from schemas.evaluate import EvaluateOptions, EvaluateSpec
from schemas.jobs import JobRecord
from service.context import Context
from service.formats.media import HTML
from service.html import SEALED
from service.jobs import settle

#: Evaluation options that suffice to reproduce the report.
_OPTIONS = ("batch", "reduction", "classes", "map", "measures", "diagrams", "interval", "resamples", "seed")


class Whole(NamedTuple):
    """A full report and its subject."""

    report: dict[str, Any]
    subject: ReportSubject


def report_at_once(here: Context, arrays: Arrays, options: EvaluateOptions) -> Whole | JobRecord:
    """Evaluate the full report of one batch, or create a job for it."""
    made = report_or_queue(here, arrays, options)
    if isinstance(made, JobRecord):
        return made
    subject = subject_of(made.spec, weights=made.weights_kind, scale=made.scale, classes=made.class_names)
    return Whole(made.report, subject)


async def report_response(here: Context, arrays: Arrays, options: EvaluateOptions) -> Response:
    """The full report of one batch as HTML, or the response of its job."""
    made = await run_in_threadpool(report_at_once, here, arrays, options)
    if isinstance(made, Whole):
        return await report_page(here, made)

    async def as_page(record: JobRecord) -> Response:
        return await report_page(here, await run_in_threadpool(whole_of, here, record))

    response = await settle(here, made, as_page)
    response.headers["Vary"] = "Accept"
    return response


def subject_of(
    spec: EvaluateSpec,
    *,
    weights: str | None,
    scale: Scale = "probability",
    classes: tuple[str, ...] | None = None,
    when: datetime | None = None,
) -> ReportSubject:
    """The subject of the report of an evaluation, and the options that reproduce it."""
    options = {name: getattr(spec, name) for name in _OPTIONS}
    options["maps"] = None if spec.maps is None else [contestant.name for contestant in spec.maps]
    return ReportSubject(
        name="the submitted rows" if spec.batch is None else spec.batch,
        version=calibrant.__version__,
        when=when or datetime.now(UTC),
        options={name: value for name, value in options.items() if value is not None},
        classes=classes,
        weights=weights,
        map=spec.map,
        scale=scale,
        origin="submitted with the request" if spec.batch is None else f"those of the batch {spec.batch}",
    )


def has_report(record: JobRecord) -> bool:
    """Whether the result of a job is the report of one batch of a classifier."""
    report = (record.result or {}).get("report", {})
    return "measures" in report and report.get("prediction_kind") != "regression"


def whole_of(here: Context, record: JobRecord) -> Whole:
    """The report of a job that evaluated one batch."""
    spec = EvaluateSpec.model_validate(record.spec)
    when = None if record.finished_at is None else datetime.fromisoformat(record.finished_at)
    weights, scale, names = _reading(here, spec.batch)
    subject = subject_of(spec, weights=weights, scale=scale, classes=names, when=when)
    return Whole((record.result or {})["report"], subject)


async def report_page(here: Context, made: Whole) -> Response:
    """The report as one HTML file; its diagrams are drawn when it is their turn."""
    text = await here.draw(partial(standalone, *made))
    return Response(text, headers={**SEALED, "Vary": "Accept"}, media_type=HTML)


def _reading(here: Context, batch_id: str | None) -> tuple[str | None, Scale, tuple[str, ...] | None]:
    """The meaning of a batch's weights (None without weights), scale and class names; defaults if the batch is gone."""
    try:
        record = here.store.batches.record(batch_id or "")
    except UnknownBatch:
        return None, "probability", None
    names = None if record.class_names is None else tuple(record.class_names)
    return record.weights_kind if "weights" in record.arrays else None, record.scale or "probability", names
