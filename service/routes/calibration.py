"""The route that applies a stored map to predictions."""

from __future__ import annotations

from fastapi import Request, Response

from schemas.maps import (
    CalibrateAnswer,
    CalibrateBody,
    CalibrateDistributionAnswer,
    CalibrateDistributionBody,
    InOrderAnswer,
    InOrderBody,
    PredictionSetsAnswer,
)
from service.calls import OF_FORECASTS, OF_ROWS, Call, Calls, rows
from service.context import context_of
from service.formats.answers import OF_MAPS
from service.formats.catalogue import WRITERS
from service.formats.media import JSON
from service.scoring import calibrate as score

calls = Calls("calibrate", direct=True)


@calls.add(
    Call(
        "POST",
        "/calibrate",
        access="maps:read",
        from_memory=True,
        body=rows(CalibrateBody, CalibrateDistributionBody, InOrderBody),
        answer=CalibrateAnswer | PredictionSetsAnswer | CalibrateDistributionAnswer | InOrderAnswer,
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

    Returns calibrated probabilities, prediction sets or forecasts in the format that ``Accept`` prefers.
    """
    return await score(request, await context_of(request))
