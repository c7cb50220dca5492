"""The routes of segments of features: the search for segments, and the multicalibration error."""

from __future__ import annotations

from fastapi import Request, Response

from backend.segments import multicalibration, search_segments
from schemas.segments import (
    MulticalibrationBody,
    MulticalibrationOptions,
    SegmentsBody,
    SegmentsOptions,
)
from service.calls import LABELS, OF_ROWS, PREDICTIONS, Call, Calls, ClientMethod, Sample, rows
from service.context import Here
from service.jobs import respond_on_rows

calls = Calls("segments")

_PROBLEMS = (*OF_ROWS, "too-few-rows", "unknown-reduction", "unknown-batch-reference", "prediction-kind-mismatch")
_SAMPLE = {"predictions": PREDICTIONS, "labels": LABELS, "features": {"device": ["phone"] * 6 + ["desktop"] * 6}}


@calls.add(
    Call(
        "POST",
        "/segments",
        access="maps:read",
        body=rows(SegmentsBody),
        answer="SegmentsAnswer",
        problems=_PROBLEMS,
        client=(ClientMethod("find_segments"),),
        samples=(Sample("two-devices", "Twelve rows of two devices", {**_SAMPLE, "min_rows": 10, "max_order": 1}),),
    )
)
async def post_segments(request: Request, here: Here) -> Response:
    """Find segments of features in which the mean label differs from the mean prediction.

    All segments of up to ``max_order`` features are tested, and with the ``confidence`` none is listed in which the
    predictions are calibrated. A listed segment has a gap that the segments before it do not explain.

    Examples
    --------
    >>> result = client.find_segments([0.5] * 400, [0, 1] * 100 + [1, 1, 1, 0] * 50,
    ...                               features={"site": ["a"] * 200 + ["b"] * 200})
    >>> [(segment.conditions[0].category, segment.gap) for segment in result.segments]
    [('b', 0.25)]
    """
    return await respond_on_rows(request, here, SegmentsOptions, search_segments)


@calls.add(
    Call(
        "POST",
        "/multicalibration",
        access="maps:read",
        body=rows(MulticalibrationBody),
        answer="MulticalibrationAnswer",
        problems=_PROBLEMS,
        client=(ClientMethod("multicalibration_error"),),
        samples=(Sample("two-devices", "Twelve rows of two devices", {**_SAMPLE, "min_rows": 6, "resamples": 200}),),
    )
)
async def post_multicalibration(request: Request, here: Here) -> Response:
    """Measure the largest miscalibration over segments of features, in units of its deviation under calibration.

    The value and ``uncorrected_p_value`` are those of MCGrad 0.1.5. ``p_value`` is from labels drawn from the
    predictions, for all segments together.

    Examples
    --------
    >>> result = client.multicalibration_error([0.5] * 40, [0, 1] * 10 + [1] * 20,
    ...                                        features={"site": ["a"] * 20 + ["b"] * 20})
    >>> result.segment, round(result.value, 3)
    ({'site': 'b'}, 4.472)
    """
    return await respond_on_rows(request, here, MulticalibrationOptions, multicalibration)
