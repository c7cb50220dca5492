"""Calibration: a stored map applied to predictions."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from calibrant.batch import read_predictions
from calibrant.cells import Floats
from calibrant.maps.calibration_map import load
from schemas.maps import CalibrateAnswer, CalibrateBody, CalibrateOptions
from service.context import Here, answer, body_of
from service.errors import InvalidField
from service.formats.body import read_payload
from service.formats.media import NPZ
from service.formats.options import read_options
from service.formats.payload import Payload
from service.rows import find_arrays
from storage.store import Store

router = APIRouter(tags=["calibrate"])


class Calibrated(NamedTuple):
    """The id of the map applied, and what came out: ``predictions``, and the bounds where they were asked for."""

    map_id: str
    arrays: dict[str, Floats]


@router.post("/calibrate", response_model=CalibrateAnswer, openapi_extra=body_of(CalibrateBody))
async def calibrate(request: Request, here: Here) -> Response:
    """Apply a map: calibrated probabilities of its event, as JSON or, if that is accepted, as NPZ."""
    payload = await read_payload(request, here.settings)
    options = read_options(payload, CalibrateOptions)
    calibrated = await run_in_threadpool(run, here.store, payload, options)
    if request.headers.get("accept") == NPZ:
        return Response(await run_in_threadpool(_npz, calibrated), media_type=NPZ)
    return answer({"map": calibrated.map_id, **calibrated.arrays})


def run(store: Store, payload: Payload, options: CalibrateOptions) -> Calibrated:
    """Apply the map that a request names to its predictions, or to its batch's."""
    record = store.maps.get(options.map)
    fitted = load(record.document)
    arrays, scale, _ = find_arrays(store, payload, options)
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
    return Calibrated(record.id, found)


def _npz(calibrated: Calibrated) -> bytes:
    out = io.BytesIO()
    np.savez(out, allow_pickle=False, **calibrated.arrays)
    return out.getvalue()
