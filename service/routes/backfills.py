"""The route of backfills: a monitor ingests files of a source."""

from __future__ import annotations

from fastapi import Request, Response

from backend.monitors.backfills import queue_backfill
from schemas.backfills import BackfillAnswer, BackfillOptions
from service.calls import OF_ENDED_JOBS, OF_SOURCES, Call, Calls, fields
from service.context import Here
from service.formats.body import read_fields
from service.jobs import settle
from service.threads import run_in_thread

calls = Calls("monitors", reads="monitors:read", writes="monitors:write")


@calls.add(
    Call(
        "POST",
        "/monitors/{name}/backfill",
        body=fields(BackfillOptions),
        answer=BackfillAnswer,
        queues="Always a job",
        client="backfill",
        problems=(
            *OF_ENDED_JOBS,
            *OF_SOURCES,
            "unknown-monitor",
            "monitor-full",
            "wrong-shape",
            "scale-mismatch",
            "prediction-kind-mismatch",
            "too-many-jobs",
            "queue-full",
        ),
    )
)
async def post_monitor_backfill(name: str, request: Request, here: Here) -> Response:
    """Ingest rows, predictions or labels from files in a source.

    Always a job, whose progress has the rows and bytes read. The columns decide what is ingested: with ``predictions``
    and ``labels`` labelled rows, with one of them predictions or labels, which are joined by id. After an interruption
    it continues, and counts every row once. An invalid row is refused and listed in the response; an error about a
    whole column ends the job. What was counted before the job failed or was cancelled stays counted: another job counts
    rows with ids only once, and rows without ids again.

    Examples
    --------
    >>> columns = {"ids": "request", "predictions": "score", "labels": "outcome"}
    >>> source = {"source": "scores", "path": "2026-11/*.parquet", "columns": columns}
    >>> client.backfill("inbox", source).accepted  # doctest: +SKIP
    """
    options = await read_fields(request, here.settings, BackfillOptions)
    return await settle(here, await run_in_thread(queue_backfill, here, name, options))
