"""The pages of reports: the stored batches, the report of one with maps, its downloads, and the form to fit a map."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any, Literal

import orjson
from fastapi import Depends, Query, Response

from backend.fits import fit_or_queue
from backend.grades import grade_tests
from backend.store.errors import UnknownJob
from backend.store.pages import Page, PageRequest
from calibrant.calibrators import METHODS, Method
from calibrant.core.batch import MAX_NAME
from calibrant.core.errors import CalibrationError, InvalidOption, Offence
from calibrant.core.reductions import MANY, is_decided
from calibrant.distributions.calibrators import DISTRIBUTION_METHODS, DistributionMethod
from calibrant.io.errors import InvalidField
from schemas.batches import BatchRecord, UploadRecord
from schemas.evaluations import CompareOptions, EvaluateDistributionOptions, EvaluateOptions
from schemas.grades import GradesOptions
from schemas.jobs import FINAL, JobRecord
from schemas.listing import ListedMap, MapQuery
from schemas.maps import FitDistributionOptions, FitOptions, MapRecord
from service.calls import Call
from service.context import Context
from service.errors import NotFound
from service.formats.format import Payload
from service.formats.options import read_options, read_options_of_kind
from service.html import SEALED
from service.reports import FullReport, makes_report, report_at_once, whole_of
from service.threads import run_in_thread
from service.web.forms import Form, page_calls, text_of
from service.web.maps import reference_of
from service.web.visit import Visit, Visiting, query_of, redirect_to

# --- The report as shown on the page

#: The preselected method if no map is recommended.
_FIRST = "averaged"
#: Number of batches on a page, and of maps to choose from.
_OFFERED = 50
#: Measures by which maps are compared: both proper scores, and two calibration errors.
_COMPARED = ("log-loss", "brier", "ece", "ks")
#: References of the maps that a report compares.
MapRefs = Annotated[list[str], Query(default_factory=list)]
#: Whether the groups are rating grades, whose PDs the report tests.
GradesOf = Annotated[Literal["yes"] | None, Query()]
#: Costs of a false positive and of a false negative.
CostsQuery = Annotated[list[float], Query(default_factory=list)]
#: Criteria of a threshold by name.
Criteria = Mapping[str, Any]
#: The batches of the other models that a report compares.
ModelBatches = Annotated[list[str], Query(default_factory=list)]


@dataclass(frozen=True)
class ReportView:
    """A report, its batch, the newest maps of its kind of predictions by reference, and the query of the page.

    ``models`` are the batches of the compared models by name, and ``has_event`` whether decisions have a probability.
    """

    batch: BatchRecord
    made: FullReport
    maps: Sequence[tuple[str, ListedMap]]
    query: str
    models: Mapping[str, str] = field(default_factory=dict)
    has_event: bool = True

    @property
    def gradable(self) -> bool:
        """Whether the groups may be rating grades, which the report does not test yet."""
        has_grades = self.batch.n_classes is None and {"groups", "labels"} <= {*self.batch.arrays}
        has_map = self.made.report.get("after") is not None
        return has_grades and not has_map and not self.models and "grades" not in self.made.report

    @property
    def decidable(self) -> bool:
        """Whether the report may show the decisions at a threshold."""
        report = self.made.report
        has_map = report.get("after") is not None or bool(self.compared)
        if self.batch.forecasts is not None or has_map or report["reduction"] in MANY:
            return False
        return not self.models or report["comparison"]["rank_by"] is not None  # else each model has its own event

    @property
    def criterion(self) -> Mapping[str, Any]:
        """The criterion of the threshold of the decisions that the report shows; empty without."""
        decisions = self.made.report.get("decisions")
        return {} if decisions is None else {decisions["criterion"]: decisions["value"]}

    @property
    def compared(self) -> list[str]:
        """The references of the maps that the report compares."""
        contestants = (self.made.report.get("comparison") or {}).get("contestants", ())
        return [contestant["name"] for contestant in contestants if contestant["map"] is not None]

    @property
    def methods(self) -> list[Method] | list[DistributionMethod]:
        """The methods that improve rows like these, by default options; the recommended one first."""
        if self.batch.forecasts is not None:
            return sorted(
                (m for m in DISTRIBUTION_METHODS.values() if self.batch.forecasts.kind in m.kinds),
                key=lambda m: m.name != self._recommended,
            )
        is_vector = self.batch.n_classes is not None and self.reduction is None
        usable = [m for m in METHODS.values() if m.improves and (is_vector or m.event is not None)]
        return sorted(usable, key=lambda m: m.name != self._recommended)

    @property
    def _recommended(self) -> str | None:
        return (self.made.report.get("recommendation") or {}).get("recommended")

    @property
    def reduction(self) -> str | None:
        """The event that the compared maps calibrate; None for whole vectors, and without a comparison."""
        recommended: str | None = (self.made.report.get("recommendation") or {}).get("reduction")
        return None if recommended in ("canonical", "classwise") else recommended

    @property
    def advised(self) -> str | None:
        """The recommended method; None if no map improves the predictions for certain."""
        return self._recommended if self._recommended in {m.name for m in self.methods} else None

    @property
    def first(self) -> str:
        """The preselected method."""
        return self.advised or _FIRST


def report_or_job(
    here: Context,
    batch_id: str,
    map_ref: str | None,
    refs: Sequence[str],
    job_id: str | None,
    others: Sequence[str] = (),
    criteria: Criteria = MappingProxyType({}),
) -> ReportView | JobRecord:
    """The report of a batch, before and after a map, or with a comparison of maps; or the job that creates it.

    With ``others``, the batches of other models on the same rows, it is their comparison; with ``criteria``, it shows
    the decisions at the threshold. Raises ``UnknownBatch`` and the errors of ``POST /evaluate`` and ``POST /compare``.
    """
    batch = here.store.batches.record(batch_id)
    if others:
        if refs or map_ref is not None:
            raise InvalidField.at("/models", "cannot be combined with maps")
        return _models_or_job(here, batch, [batch_id, *others], job_id, criteria)
    map_ids = [here.store.maps.get(ref).id for ref in refs or ([] if map_ref is None else [map_ref])]
    applied = [*(["comparison"] if refs else []), *map_ids, *_known_by(criteria)]
    upload = here.store.uploads.get(batch_id)
    report = _made_already(here, batch_id, here.store.uploads.report_job(batch_id, applied), job_id)
    if report is None:
        fields: dict[str, Any] = {"prediction_kind": batch.prediction_kind, "batch": batch_id, "map": map_ref}
        fields |= {"maps": list(refs), "measures": list(_COMPARED)} if refs else {}
        fields |= criteria
        payload = Payload({}, fields, from_query=False)
        options = read_options_of_kind(payload, EvaluateOptions, EvaluateDistributionOptions)
        try:
            report = report_at_once(here, {}, options)
        except CalibrationError as error:
            raise _naming(refs, error) from error
        if isinstance(report, JobRecord):
            here.store.uploads.remember_report(batch_id, report.id, applied, ttl=here.settings.batch_ttl)
    if isinstance(report, JobRecord):
        return report
    page = here.store.listing.page(MapQuery(limit=_OFFERED))
    offered = [(reference_of(m), m) for m in page.items if m.prediction_kind == batch.prediction_kind]
    query = [("job", job_id), ("map", map_ref), *(("maps", ref) for ref in refs), *_query_of(criteria)]
    has_event = is_decided(upload.reduction, batch.n_classes)
    return ReportView(batch, _named(report, upload), offered, query_of(query), has_event=has_event)


def _known_by(criteria: Criteria) -> list[str]:
    """By what the job of a report with these criteria is known, beside its maps and models."""
    return [text for name, value in _query_of(criteria) for text in (name, value)]


def _query_of(criteria: Criteria) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, of in criteria.items() for value in (of if isinstance(of, list) else [of])]


def _models_or_job(
    here: Context, batch: BatchRecord, ids: Sequence[str], job_id: str | None, criteria: Criteria
) -> ReportView | JobRecord:
    """The comparison of models on the same rows, each stored as a batch, or the job that creates it."""
    from calibrant.comparison import MAX_MAPS

    if len(set(ids)) < len(ids):
        raise InvalidField.at("/models", "must be different batches")
    if len(ids) > MAX_MAPS:
        raise InvalidField.at("/models", f"must be at most {MAX_MAPS - 1} batches")
    uploads = {batch_id: here.store.uploads.get(batch_id) for batch_id in ids}
    columns = {batch_id: upload.model for batch_id, upload in uploads.items()}
    names = set(columns.values()) - {None, ""}
    usable = len(names) == len(ids) and all(len(name or "") <= MAX_NAME for name in names)
    models = {(columns[batch_id] or "") if usable else batch_id: batch_id for batch_id in ids}
    applied = ["models", *ids, *_known_by(criteria)]
    known = here.store.uploads.report_job(batch.id, applied)
    report = _made_already(here, batch.id, known, job_id, ids)
    if report is None:
        fields = {"batches": models, **criteria}
        options = read_options(Payload({}, fields, from_query=False), CompareOptions)
        report = report_at_once(here, {}, options)
        if isinstance(report, JobRecord):
            here.store.uploads.remember_report(batch.id, report.id, applied, ttl=here.settings.batch_ttl)
    if isinstance(report, JobRecord):
        return report
    query = query_of([("job", job_id), *(("models", other) for other in ids[1:]), *_query_of(criteria)])
    named = uploads[batch.id].model_copy(update={"model": None})
    has_event = is_decided(named.reduction, batch.n_classes)
    return ReportView(batch, _named(report, named), [], query, models, has_event)


def _naming(refs: Sequence[str], error: CalibrationError) -> CalibrationError:
    """The same error about compared maps, with their references instead of their places."""

    def named(pointer: str) -> str:
        return re.sub(r"^/maps/(\d+)", lambda place: f"/the map {refs[int(place[1])]}:", pointer)

    return type(error)(error.detail, [Offence(named(o.pointer), o.detail) for o in error.offences])


def _made_already(
    here: Context, batch_id: str, known: str | None, requested: str | None, models: Sequence[str] | None = None
) -> FullReport | JobRecord | None:
    """The report of a job, or the job while it runs; None if there is no report yet.

    ``models`` are the batches of a comparison.
    ``known`` is the stored id of the report's job; ``requested`` is the id in the query, which must exist.
    """
    try:
        job = None if (requested or known) is None else here.store.jobs.get(requested or known or "")
    except UnknownJob:
        if requested is not None:
            raise
        return None
    if job is None:
        return None
    ids = [batch_id] if models is None else list(models)
    if not makes_page(job) or batches_of_page(job) != ids:
        raise NotFound("the job has no report of this batch")
    if job.status == "succeeded":
        return whole_of(here, job)
    return None if job.status in FINAL and requested is None else job


def makes_page(job: JobRecord) -> bool:
    """Whether a job evaluates one batch, or compares models, in a way that this page can show."""
    if job.kind != "evaluate" or not batches_of_page(job) or job.spec.get("picture"):
        return False
    return makes_report(job)


def batches_of_page(job: JobRecord) -> list[str]:
    """The batch of the report of a job, or those of the compared models; empty for other jobs."""
    if job.spec.get("models"):
        return list(job.spec.get("batches") or ())
    return [] if job.spec.get("batch") is None else [job.spec["batch"]]


def _named(report: FullReport, upload: UploadRecord) -> FullReport:
    """Add the name of the uploaded file, and what was inferred from it, to a report."""
    if upload.file is None:
        return report
    classes = None if upload.classes is None else tuple(upload.classes)
    origin = f"from the file {upload.file} (upload it again), or {report.subject.origin}"
    named = replace(
        report.subject, name=upload.title or upload.file, inferred=tuple(upload.said), classes=classes, origin=origin
    )
    return report._replace(subject=named)


# --- The pages

calls = page_calls()


@calls.add(Call("GET", "/ui/reports"))
async def reports(visit: Visiting, maps: MapRefs, cursor: str | None = None) -> Response:
    """The stored batches that have a report; those with labels to compare maps on them, if maps are chosen."""
    page, files = await run_in_thread(_stored_batches, visit.here, cursor)
    needed = {"labels"} if maps else {"labels", "observed"}
    chosen = [("maps", ref) for ref in maps]
    return visit.page(
        "reports.html",
        batches=[(batch, file) for batch, file in zip(page.items, files, strict=True) if needed & {*batch.arrays}],
        chosen=maps,
        query=query_of(chosen),
        cursor=cursor,
        following=None if page.next is None else query_of([*chosen, ("cursor", page.next)]),
    )


def _stored_batches(here: Context, cursor: str | None) -> tuple[Page[BatchRecord], list[str | None]]:
    page = here.store.batches.page(PageRequest(_OFFERED, cursor))
    return page, here.store.uploads.files([batch.id for batch in page.items])


def _criteria(
    costs: CostsQuery, capacity: float | None = None, precision: float | None = None, recall: float | None = None
) -> Criteria:
    """The criteria of a threshold in the query, of which a report accepts one."""
    criteria = {"costs": costs or None, "capacity": capacity, "precision": precision, "recall": recall}
    return {name: value for name, value in criteria.items() if value is not None}


async def _requested(
    batch_id: str,
    visit: Visiting,
    maps: MapRefs,
    models: ModelBatches,
    criteria: Annotated[Criteria, Depends(_criteria)],
    map: str | None = None,
    job: str | None = None,
    grades: GradesOf = None,
) -> ReportView | JobRecord:
    view = await run_in_thread(report_or_job, visit.here, batch_id, map, maps, job, models, criteria)
    if grades is None or isinstance(view, JobRecord):
        return view
    return await run_in_thread(_with_grades, visit.here, view)


def _with_grades(here: Context, view: ReportView) -> ReportView:
    """The report with the tests of its groups as rating grades; raises as ``POST /grades``."""
    if view.made.report.get("after") is not None:
        raise InvalidOption.at("/grades", "are tested with the PDs of the batch; leave out map")
    options = read_options(Payload({}, {"batch": view.batch.id}, from_query=False), GradesOptions)
    graded = view.made._replace(report={**view.made.report, "grades": grade_tests(here, {}, options)})
    return replace(view, made=graded, query=f"{view.query}{'&' if view.query else '?'}grades=yes")


Requested = Annotated[ReportView | JobRecord, Depends(_requested)]


def _to_job(visit: Visit, job: JobRecord) -> Response:
    """Redirect to the job that creates the report; its page links to the report with the same tests of grades."""
    return redirect_to(visit, f"/ui/jobs/{job.id}{query_of([('grades', visit.request.query_params.get('grades'))])}")


@calls.add(Call("GET", "/ui/reports/{batch_id}"))
async def report(visit: Visiting, view: Requested) -> Response:
    """The report and the fit form; redirects to the job that creates the report, if there is one."""
    if isinstance(view, JobRecord):
        return _to_job(visit, view)
    return visit.page("report.html", view=view, body=await visit.here.draw(view.made.fragment))


@calls.add(Call("GET", "/ui/reports/{batch_id}/report.html"))
async def report_file(batch_id: str, visit: Visiting, view: Requested) -> Response:
    """The report as one self-contained file."""
    if isinstance(view, JobRecord):
        return _to_job(visit, view)
    text = await visit.here.draw(view.made.html)
    return _download(text.encode(), "text/html; charset=utf-8", f"{batch_id}.html")


@calls.add(Call("GET", "/ui/reports/{batch_id}/report.json"))
async def report_data(batch_id: str, visit: Visiting, view: Requested) -> Response:
    """The data of the report, as ``POST /evaluate`` returns them."""
    if isinstance(view, JobRecord):
        return _to_job(visit, view)
    return _download(
        orjson.dumps(view.made.report, option=orjson.OPT_SERIALIZE_NUMPY), "application/json", f"{batch_id}.json"
    )


@calls.add(Call("POST", "/ui/reports/{batch_id}/fit"))
async def post_fit(batch_id: str, visit: Visiting, form: Form) -> Response:
    """Fit a map to the rows of the report, directly or as a job."""
    fields: dict[str, str | bool | None] = {
        "batch": batch_id,
        "method": text_of(form, "method"),
        "name": text_of(form, "name") or None,
        "allow_shape_change": text_of(form, "allow_shape_change") == "yes",
    }
    if reduction := text_of(form, "reduction"):
        fields["reduction"] = reduction
    fitted = await run_in_thread(_fit, visit.here, batch_id, fields)
    if isinstance(fitted, MapRecord):
        return redirect_to(visit, f"/ui/maps/{fitted.id}")
    return redirect_to(visit, f"/ui/jobs/{fitted.id}")


def _fit(here: Context, batch_id: str, fields: dict[str, str | bool | None]) -> MapRecord | JobRecord:
    batch = here.store.batches.record(batch_id)
    method = METHODS.get(str(fields["method"]))
    is_of_vectors = batch.n_classes is not None and here.store.uploads.get(batch_id).reduction is None
    if "reduction" not in fields and is_of_vectors and method is not None and method.vector is None:
        fields = {**fields, "reduction": "classwise"}  # as compared in the report
    payload = Payload({}, {**fields, "prediction_kind": batch.prediction_kind}, from_query=False)
    options = read_options_of_kind(payload, FitOptions, FitDistributionOptions)
    return fit_or_queue(here, {}, options)


def _download(body: bytes, kind: str, name: str) -> Response:
    headers = {**SEALED, "Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(body, headers=headers, media_type=kind)
