"""The route that applies a stored map to predictions."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response

from backend.calibration import calibrate as apply_map
from backend.calibration import calibrate_in_order
from backend.kinds import Calibrated
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
from service.context import context_of
from service.formats.answers import OF_MAPS, choose_type, respond
from service.formats.body import read_payload
from service.formats.catalogue import WRITERS
from service.formats.media import JSON
from service.formats.options import read_options, read_options_of_kind
from service.short_bodies import calibrate_short
from service.threads import run_in_thread

calls = Calls("calibrate", direct=True)

#: Requests with at most this many numbers are computed on the event loop.
_FEW = 256


@calls.add(
    Call(
        "POST",
        "/calibrate",
        access="reads",
        from_memory=True,
        body=rows(CalibrateBody, CalibrateDistributionBody, InOrderBody),
        answer=CalibrateAnswer | CalibrateDistributionAnswer | InOrderAnswer,
        media=tuple(kind for kind in WRITERS if kind != JSON),
        sends={
            OF_MAPS["map"]: {"description": "id of the map that was applied", "schema": {"type": "string"}},
            OF_MAPS["version"]: {"description": "its version, if it has a name", "schema": {"type": "integer"}},
        },
        problems=(
            *OF_ROWS,
            *OF_FORECASTS,
            "unknown-batch-reference",
            "unknown-map-reference",
            "scale-mismatch",
            "not-acceptable",
        ),
    )
)
async def calibrate(request: Request) -> Response:
    """Apply a map, or recalibrate forecasts in the order of time.

    Returns calibrated probabilities or forecasts in the format that ``Accept`` prefers.
    """
    here = await context_of(request)
    short = await calibrate_short(request, here)
    if isinstance(short, Response):
        return short
    request = short
    kind = choose_type(request)
    payload = await read_payload(request, here.settings)
    if "in_order" in payload.options:
        ordered = read_options(payload, InOrderOptions)
        found = await run_in_thread(calibrate_in_order, here, payload.arrays, ordered)
        return await respond(request, kind, *_parts(found))
    options = read_options_of_kind(payload, CalibrateOptions, CalibrateDistributionOptions)
    few = sum(array.size for array in payload.arrays.values()) <= _FEW
    held = here.held_map(options.map)
    if held is None or options.batch is not None:
        await here.process.reach()
    if held is not None and held.is_fast and few and options.batch is None:  # cheaper than the switch to a thread
        found = apply_map(here, payload.arrays, options, held)
    else:
        found = await run_in_thread(apply_map, here, payload.arrays, options, held)
    return await respond(request, kind, *_parts(found))


def _parts(found: Calibrated) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields and arrays of a response."""
    fields, arrays = dict(found.fields), dict(found.arrays)
    level = arrays.pop("level", None)
    return fields if level is None else fields | {"level": level}, arrays
