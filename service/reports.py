"""HTML reports over HTTP: computed directly or as a job, as one self-contained file."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fastapi import Response

import calibrant
from backend.batches import Arrays
from backend.evaluations import report_or_queue
from backend.store.errors import UnknownBatch
from calibrant.core.batch import Scale
from calibrant.reports.panel import ReportSubject
from schemas.evaluate import EvaluateDistributionOptions, EvaluateDistributionSpec, EvaluateOptions, EvaluateSpec
from schemas.jobs import JobRecord
from service.context import Context
from service.formats.media import HTML
from service.html import SEALED
from service.jobs import settle
from service.threads import run_in_thread

#: Evaluation options that suffice to reproduce the report.
_OPTIONS = ("batch", "reduction", "classes", "map", "measures", "diagrams", "interval", "resamples", "seed")


class Whole(NamedTuple):
    """A full report and its subject."""

    report: dict[str, Any]
    subject: ReportSubject

    def html(self) -> str:
        """The report as one HTML file."""
        from calibrant.reports import forecasts, html

        return (forecasts.standalone if self.is_regression else html.standalone)(self.report, self.subject)

    def fragment(self) -> str:
        """The report as a part of a page."""
        from calibrant.reports import forecasts, html

        return (forecasts.fragment if self.is_regression else html.fragment)(self.report, self.subject)

    @property
    def is_regression(self) -> bool:
        """Whether it is a report of predictive distributions of a number."""
        return self.report.get("prediction_kind") == "regression"


def report_at_once(
    here: Context, arrays: Arrays, options: EvaluateOptions | EvaluateDistributionOptions
) -> Whole | JobRecord:
    """Evaluate the full report of one batch, or create a job for it."""
    if isinstance(options, EvaluateDistributionOptions):
        from backend import distributions

        found = distributions.report_or_queue(here, arrays, options)
        if isinstance(found, JobRecord):
            return found
        weights = found.weights_kind if "weights" in found.columns else None
        return Whole(
            found.report, _subject_of_forecasts(found.report, options, found.kind, found.columns, weights=weights)
        )
    made = report_or_queue(here, arrays, options)
    if isinstance(made, JobRecord):
        return made
    subject = subject_of(made.spec, weights=made.weights_kind, scale=made.scale, classes=made.class_names)
    return Whole(made.report, subject)


async def report_response(
    here: Context, arrays: Arrays, options: EvaluateOptions | EvaluateDistributionOptions
) -> Response:
    """The full report of one batch as HTML, or the response of its job."""
    made = await run_in_thread(report_at_once, here, arrays, options)
    if isinstance(made, Whole):
        return await report_page(here, made)

    async def as_page(record: JobRecord) -> Response:
        return await report_page(here, await run_in_thread(whole_of, here, record))

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


def _subject_of_forecasts(
    report: dict[str, Any],
    spec: EvaluateDistributionOptions | EvaluateDistributionSpec,
    kind: str,
    columns: Collection[str],
    *,
    weights: str | None,
    when: datetime | None = None,
) -> ReportSubject:
    from calibrant.reports import forecasts

    used = [name for name in ("weights", "groups", "clusters", "by") if name in columns]
    return ReportSubject(
        name="the submitted rows" if spec.batch is None else spec.batch,
        version=calibrant.__version__,
        when=when or datetime.now(UTC),
        options=forecasts.report_options(kind, used, spec.seed),
        weights=weights,
        map=report["map"],
        origin="submitted with the request" if spec.batch is None else f"those of the batch {spec.batch}",
    )


def has_report(record: JobRecord) -> bool:
    """Whether the result of a job is the report of one batch; of forecasts, if a report was requested."""
    report = (record.result or {}).get("report", {})
    return "measures" in report and (report.get("prediction_kind") != "regression" or bool(record.spec.get("report")))


def whole_of(here: Context, record: JobRecord) -> Whole:
    """The report of a job that evaluated one batch."""
    when = None if record.finished_at is None else datetime.fromisoformat(record.finished_at)
    if record.spec.get("prediction_kind") == "regression":
        return _whole_of_forecasts(here, record, when)
    spec = EvaluateSpec.model_validate(record.spec)
    weights, scale, names = _reading(here, spec.batch)
    subject = subject_of(spec, weights=weights, scale=scale, classes=names, when=when)
    return Whole((record.result or {})["report"], subject)


def _whole_of_forecasts(here: Context, record: JobRecord, when: datetime | None) -> Whole:
    spec, report = EvaluateDistributionSpec.model_validate(record.spec), (record.result or {})["report"]
    kind, columns, weights = report["kind"], list[str](), None
    try:
        batch = here.store.batches.record(spec.batch)
    except UnknownBatch:
        pass
    else:
        columns, weights = batch.arrays, batch.weights_kind if "weights" in batch.arrays else None
        kind = kind if batch.forecasts is None else batch.forecasts.kind
    return Whole(report, _subject_of_forecasts(report, spec, kind, columns, weights=weights, when=when))


async def report_page(here: Context, made: Whole) -> Response:
    """The report as one HTML file; its diagrams are drawn when it is their turn."""
    text = await here.draw(made.html)
    return Response(text, headers={**SEALED, "Vary": "Accept"}, media_type=HTML)


def _reading(here: Context, batch_id: str | None) -> tuple[str | None, Scale, tuple[str, ...] | None]:
    """The meaning of a batch's weights (None without weights), scale and class names; defaults if the batch is gone."""
    try:
        record = here.store.batches.record(batch_id or "")
    except UnknownBatch:
        return None, "probability", None
    names = None if record.class_names is None else tuple(record.class_names)
    return record.weights_kind if "weights" in record.arrays else None, record.scale or "probability", names
