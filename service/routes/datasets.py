"""The route of data sets: batch scoring of files in a source."""

from __future__ import annotations

from fastapi import Request, Response

from backend.references import queue_scoring
from schemas.sources import DatasetOptions, ScoredAnswer
from service.calls import OF_ENDED_JOBS, OF_SOURCES, Call, Calls, ClientMethod, fields
from service.context import Here
from service.formats.body import read_fields
from service.jobs import settle
from service.threads import run_in_thread

calls = Calls("calibrate")


@calls.add(
    Call(
        "POST",
        "/datasets",
        body=fields(DatasetOptions),
        answer=ScoredAnswer,
        status=201,
        queues="Always a job",
        client=(
            ClientMethod(
                "calibrate_source",
                summary="Apply a map to the rows of files in a source, and write them with the calibrated columns.",
            ),
        ),
        problems=(
            *OF_ENDED_JOBS,
            *OF_SOURCES,
            "scale-mismatch",
            "prediction-kind-mismatch",
            "too-many-jobs",
            "queue-full",
        ),
    )
)
async def post_dataset(request: Request, here: Here) -> Response:
    """Apply a map to the rows of files in a source, and write them with the calibrated columns as a Parquet data set.

    Always a job. It stages the files under a hidden name, so that the data set appears when it is whole, and continues
    after an interruption. A target that exists is refused.

    Examples
    --------
    >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": {"predictions": "score"}}
    >>> client.calibrate_source("spam", source, {"source": "scores", "path": "scored"})  # doctest: +SKIP
    """
    options = await read_fields(request, here.settings, DatasetOptions)
    return await settle(here, await run_in_thread(queue_scoring, here, options))
