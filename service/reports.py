"""HTML reports over HTTP: computed directly or as a job, as one self-contained file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from fastapi import Response

import calibrant
from backend.evaluations import ReportOptions, WholeReport, report_or_queue, stored_report
from backend.kinds import Arrays, kind_of
from calibrant.reports.panel import ReportSubject
from schemas.evaluations import (
    EvaluateDistributionSpec,
    EvaluateSpec,
)
from schemas.jobs import JobRecord
from service.context import Context
from service.formats.media import HTML
from service.html import SEALED
from service.jobs import settle
from service.threads import run_in_thread


class FullReport(NamedTuple):
    """A full report and its subject."""

    report: dict[str, Any]
    subject: ReportSubject

    def html(self) -> str:
        """The report as one HTML file."""
        from calibrant.reports.html import standalone

        return standalone(self.report, self.subject)

    def fragment(self) -> str:
        """The report as a part of a page."""
        from calibrant.reports.html import fragment

        return fragment(self.report, self.subject)


def report_at_once(here: Context, arrays: Arrays, options: ReportOptions) -> FullReport | JobRecord:
    """Evaluate the full report of one batch or of several models, or create a job for it."""
    evaluated = report_or_queue(here, arrays, options)
    return (
        evaluated if isinstance(evaluated, JobRecord) else _whole(evaluated, options.prediction_kind, datetime.now(UTC))
    )


async def report_response(here: Context, arrays: Arrays, options: ReportOptions) -> Response:
    """The full report of one batch or of several models as HTML, or the response of its job."""
    report = await run_in_thread(report_at_once, here, arrays, options)
    if isinstance(report, FullReport):
        return await report_page(here, report)

    async def as_page(record: JobRecord) -> Response:
        return await report_page(here, await run_in_thread(whole_of, here, record))

    response = await settle(here, report, as_page)
    response.headers["Vary"] = "Accept"
    return response


def _whole(evaluated: WholeReport, kind: str, when: datetime) -> FullReport:
    """A full report with its subject, and the options that reproduce it."""
    report, spec, batch = evaluated
    weights, scale, names = None, None, None
    if batch is not None:
        weights = batch.weights_kind if "weights" in batch.arrays else None
        scale, names = batch.scale, batch.class_names
    subject = ReportSubject(
        name=spec.batch or "the submitted rows",
        version=calibrant.__version__,
        when=when,
        options=kind_of(kind).report_options(cast(Any, spec), report, batch),
        classes=None if names is None else tuple(names),
        weights=weights,
        map=spec.map,
        scale=scale or "probability",
        origin=_origin(spec),
    )
    return FullReport(report, subject)


def _origin(spec: EvaluateSpec | EvaluateDistributionSpec) -> str:
    if spec.batch:
        return f"those of the batch {spec.batch}"
    stored = isinstance(spec, EvaluateSpec) and spec.batches
    return "those of the batches above" if stored else "submitted with the request"


def makes_report(record: JobRecord) -> bool:
    """Whether what a job evaluates has a page: of forecasts, if a report was requested."""
    return record.spec.get("prediction_kind") != "regression" or bool(record.spec.get("report"))


def has_report(record: JobRecord) -> bool:
    """Whether the result of a job is the report of one batch."""
    return "measures" in (record.result or {}).get("report", {}) and makes_report(record)


def whole_of(here: Context, record: JobRecord) -> FullReport:
    """The report of a job that evaluated one batch."""
    when = datetime.now(UTC) if record.finished_at is None else datetime.fromisoformat(record.finished_at)
    kind = record.spec.get("prediction_kind", "classification")
    return _whole(stored_report(here.store, record), kind, when)


async def report_page(here: Context, report: FullReport) -> Response:
    """The report as one HTML file; its diagrams are drawn when it is their turn."""
    text = await here.draw(report.html)
    return Response(text, headers={**SEALED, "Vary": "Accept"}, media_type=HTML)
