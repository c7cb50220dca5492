"""Evaluation, computed at once."""

from __future__ import annotations

import dataclasses
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from calibrant.evaluation import Evaluation, Report
from calibrant.maps.calibration_map import CalibrationMap, load
from calibrant.measures.catalogue import MeasureResult, read_requests
from calibrant.measures.intervals import Resampling
from schemas.evaluate import EvaluateBody, EvaluateOptions, ReportAnswer
from service.context import Here, answer, body_of
from service.formats.body import read_payload
from service.formats.options import read_options
from service.formats.payload import Payload
from service.rows import find_arrays, labelled
from storage.store import Store

router = APIRouter(tags=["evaluate"])


@router.post("/evaluate", response_model=ReportAnswer, openapi_extra=body_of(EvaluateBody))
async def evaluate(request: Request, here: Here) -> Response:
    """Measure the calibration of a batch; with ``map``, before and after it."""
    payload = await read_payload(request, here.settings)
    options = read_options(payload, EvaluateOptions)
    return answer(await run_in_threadpool(run, here.store, payload, options))


def run(store: Store, payload: Payload, options: EvaluateOptions) -> dict[str, Any]:
    """Evaluate what a request asks for."""
    requests = read_requests(options.measures)
    resampling = Resampling.read(options.interval, options.resamples, options.seed)
    record = None if options.map is None else store.maps.get(options.map)
    fitted: CalibrationMap | None = None if record is None else load(record.document)
    arrays, scale, kind = find_arrays(store, payload, options)
    if options.batch is None and options.scale is None and fitted is not None:
        scale = fitted.scale
    batch, groups = labelled(arrays, scale, kind)
    report = Evaluation(requests, options.reduction, fitted, resampling).run(batch, groups)
    return to_answer(report, None if record is None else record.id)


def to_answer(report: Report, map_id: str | None) -> dict[str, Any]:
    """The report as it goes over the wire."""
    body: dict[str, Any] = {
        "n": report.n,
        "reduction": report.reduction,
        "clipped": report.clipped,
        "renormalised": report.renormalised,
        "measures": _measures(report.measures),
    }
    if report.after is not None:
        body |= {"map": map_id, "after": {"measures": _measures(report.after)}}
    if report.groups is not None:
        body["groups"] = {
            name: {"n": group.n, "measures": _measures(group.measures)}
            | ({} if group.after is None else {"after": {"measures": _measures(group.after)}})
            for name, group in report.groups.items()
        }
    return body


def _measures(results: Any) -> dict[str, Any]:
    return {key: _measure(result) for key, result in results.items()}


def _measure(result: MeasureResult) -> dict[str, Any]:
    return {f.name: getattr(result, f.name) for f in dataclasses.fields(result)} | {
        "definition": dict(result.definition)
    }
