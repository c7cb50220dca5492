"""The route that applies a stored map to predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from fastapi import Request, Response

from backend.batches import Arrays, find_rows
from backend.held_maps import HeldMap
from backend.telemetry.observed import traced
from calibrant.core.batch import read_predictions
from calibrant.core.cells import Floats
from schemas.maps import (
    CalibrateAnswer,
    CalibrateBody,
    CalibrateDistributionAnswer,
    CalibrateDistributionBody,
    CalibrateDistributionOptions,
    CalibrateOptions,
    InOrderAnswer,
    InOrderBody,
    InOrderOptions,
)
from service.calls import OF_FORECASTS, OF_ROWS, Call, Calls, rows
from service.context import Context, context_of
from service.errors import InvalidField
from service.formats.answers import choose_type, respond
from service.formats.body import read_payload
from service.formats.media import ARROW, NPZ
from service.formats.options import read_options, read_options_of_kind
from service.formats.payload import Payload
from service.threads import run_in_thread

if TYPE_CHECKING:
    from backend.distributions import CalibratedForecasts

calls = Calls("calibrate", direct=True)

#: Requests with at most this many numbers are computed on the event loop.
_FEW = 256


class Calibrated(NamedTuple):
    """The id of the applied map and its output: ``predictions``, and ``p0`` and ``p1`` if bounds were requested."""

    map_id: str
    arrays: dict[str, Floats]


@calls.add(
    Call(
        "POST",
        "/calibrate",
        access="reads",
        body=rows(CalibrateBody, CalibrateDistributionBody, InOrderBody),
        answer=CalibrateAnswer | CalibrateDistributionAnswer | InOrderAnswer,
        media=(NPZ, ARROW),
        problems=(*OF_ROWS, *OF_FORECASTS, "unknown-batch", "unknown-map", "scale-mismatch", "not-acceptable"),
    )
)
async def calibrate(request: Request) -> Response:
    """Apply a map, or recalibrate forecasts in the order of time.

    Returns calibrated probabilities or forecasts as JSON, NPZ or Arrow, depending on ``Accept``.
    """
    here = await context_of(request)
    kind = choose_type(request)
    payload = await read_payload(request, here.settings)
    if "in_order" in payload.options:
        ordered = read_options(payload, InOrderOptions)
        found = await run_in_thread(_calibrate_in_order, here, payload.arrays, ordered)
        return await respond(request, kind, *_parts(found, kind))
    options = read_options_of_kind(payload, CalibrateOptions, CalibrateDistributionOptions)
    if isinstance(options, CalibrateDistributionOptions):
        found = await run_in_thread(_calibrate_forecasts, here, payload.arrays, options)
        return await respond(request, kind, *_parts(found, kind))
    few = sum(array.size for array in payload.arrays.values()) <= _FEW
    held = here.held_map(options.map) if few and options.batch is None else None
    if held is not None:  # cheaper than the switch to a thread
        calibrated = run(here, payload, options, held)
    else:
        calibrated = await run_in_thread(run, here, payload, options)
    return await respond(request, kind, {"map": calibrated.map_id}, calibrated.arrays)


def _calibrate_in_order(here: Context, arrays: Arrays, options: InOrderOptions) -> CalibratedForecasts:
    from backend import distributions

    return distributions.calibrate_in_order(here, arrays, options)


def _calibrate_forecasts(here: Context, arrays: Arrays, options: CalibrateDistributionOptions) -> CalibratedForecasts:
    from backend import distributions

    return distributions.calibrate(here, arrays, options)


def _parts(found: CalibratedForecasts, kind: str) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The fields and arrays of a response with forecasts; an Arrow stream has one column per level."""
    from backend.forecasts import fields_of

    forecasts = found.forecasts
    fields: dict[str, Any] = {} if found.map_id is None else {"map": found.map_id}
    fields["n_repaired"] = found.n_repaired
    arrays: dict[str, Any] = {**fields_of(forecasts), **found.corrections}
    level = arrays.pop("level", None)
    if kind == ARROW:
        if "levels" in arrays:
            columns = zip(arrays["levels"].tolist(), arrays["quantiles"].T, strict=True)
            arrays = {f"q{tau:.9g}": column for tau, column in columns} | dict(found.corrections)
        return {name: str(value) for name, value in (fields | {"level": level}).items() if value is not None}, arrays
    if level is not None:
        (arrays if kind == NPZ else fields)["level"] = np.array([level]) if kind == NPZ else level
    return fields, arrays


@traced("work")
def run(here: Context, payload: Payload, options: CalibrateOptions, held: HeldMap | None = None) -> Calibrated:
    """Apply the map of a request (``held`` if already loaded) to its predictions or its batch."""
    held = held or here.find_map(options.map)
    fitted = held.map
    arrays, scale, *_ = find_rows(here, payload.arrays, options)
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
