"""Calibration: a stored map applied to predictions."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from calibrant.batch import read_predictions
from calibrant.cells import Floats
from schemas.maps import CalibrateAnswer, CalibrateBody, CalibrateOptions
from service.context import Context, Here, body_of
from service.errors import InvalidField
from service.formats.answers import choose_type, respond
from service.formats.body import read_payload
from service.formats.options import read_options
from service.formats.payload import Payload
from service.rows import find_arrays

router = APIRouter(tags=["calibrate"])


class Calibrated(NamedTuple):
    """The id of the map applied, and what came out: ``predictions``, and the bounds where they were asked for."""

    map_id: str
    arrays: dict[str, Floats]


@router.post("/calibrate", response_model=CalibrateAnswer, openapi_extra=body_of(CalibrateBody))
async def calibrate(request: Request, here: Here) -> Response:
    """Apply a map: calibrated probabilities of its event, as JSON, NPZ or Arrow, whichever is accepted."""
    kind = choose_type(request)
    payload = await read_payload(request, here.settings)
    options = read_options(payload, CalibrateOptions)
    calibrated = await run_in_threadpool(run, here, payload, options)
    return await respond(kind, {"map": calibrated.map_id}, calibrated.arrays)


def run(here: Context, payload: Payload, options: CalibrateOptions) -> Calibrated:
    """Apply the map that a request names to its predictions, or to its batch's."""
    held = here.find_map(options.map)
    fitted = held.map
    arrays, scale, _ = find_arrays(here.store, payload, options)
    for name in payload.arrays:
        if name != "predictions":
            raise InvalidField.at(f"/{name}", "is not a field of this request")
    if "predictions" not in arrays:
        raise InvalidField.at("/predictions", "is missing")
    if options.batch is None and options.scale is None:
        scale = fitted.scale
    checked = read_predictions(arrays["predictions"], scale=scale)
    found = {"predictions": fitted.apply_checked(checked)}
    if options.bounds:
        found["p0"], found["p1"] = fitted.bounds_checked(checked)
    return Calibrated(held.id, found)
