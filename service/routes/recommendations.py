"""The route of the recommended map."""

from __future__ import annotations

from fastapi import Request, Response

from backend.recommendations import recommend_or_queue
from schemas.recommendations import RecommendBody, RecommendOptions
from service.calls import LABELS, OF_ENDED_JOBS, OF_QUEUED_ROWS, PREDICTIONS, Call, Calls, ClientMethod, Sample, rows
from service.context import Here
from service.jobs import respond_on_rows

calls = Calls("evaluate")


@calls.add(
    Call(
        "POST",
        "/recommendations",
        access="maps:read",
        body=rows(RecommendBody),
        answer="RecommendationAnswer",
        queues="A job, if the estimated total exceeds 2 s",
        problems=(*OF_QUEUED_ROWS, *OF_ENDED_JOBS, "unknown-reduction", "prediction-kind-mismatch"),
        client=(ClientMethod("recommend"),),
        samples=(Sample("few-rows", "Twelve rows, too few for a map", {"predictions": PREDICTIONS, "labels": LABELS}),),
    )
)
async def post_recommendations(request: Request, here: Here) -> Response:
    """Recommend a calibration map, or none: what a report recommends, with its reasons.

    Fast methods are compared by cross-fitting. Of those whose log loss improves significantly, and whose Brier score
    does not become significantly worse, it is the simplest within one standard error of the best. A comparison that is
    estimated to take more than 2 s runs as a job.

    Examples
    --------
    >>> result = client.recommend([0.1, 0.4, 0.6, 0.9] * 30, [0, 1, 0, 1] * 30)
    >>> result.method, len(result.candidates)
    ('spline', 5)
    """
    return await respond_on_rows(request, here, RecommendOptions, recommend_or_queue)
