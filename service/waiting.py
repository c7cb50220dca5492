"""Answering with a job, or with its result if it ends while the caller waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import Response
from starlette.concurrency import run_in_threadpool

from schemas.jobs import FINAL, JobRecord
from schemas.problem_table import problem
from schemas.problems import Problem
from service.context import Context, answer, queued
from service.problems import respond

#: Makes the answer of a job that has succeeded.
Told = Callable[[JobRecord], Awaitable[Response]]

#: Seconds after which a job is looked at though nothing was told of it: its worker may be lost.
LOOK_SECONDS = 5.0


async def settle(here: Context, record: JobRecord, told: Told | None = None) -> Response:
    """The 202 of a job; for a caller who prefers to wait, what it came to, as if it had been done at once.

    ``told`` makes the answer of one that has succeeded, by default its result.
    """
    record = await until_final(here, record)
    if record.status in FINAL and here.prefer.wait:
        if told is not None and record.result is not None:
            made = await told(record)
        else:
            made = await run_in_threadpool(_result, here, record)
    else:
        made = await run_in_threadpool(queued, here, record)
    return applied(here, made, made_job=True)


async def until_final(here: Context, record: JobRecord) -> JobRecord:
    """The job when it has ended, or as it is after the seconds that the caller prefers to wait, within the limit."""
    here.process.places.give_back(here.scope)  # a request that waits does no heavy work
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(here.prefer.wait or 0, here.settings.max_wait)
    jobs, watcher = here.store.jobs, here.watcher
    with watcher.waiting(jobs.key(record.id)) as changed:
        while record.status not in FINAL and not watcher.closed and (left := deadline - loop.time()) > 0:
            await watcher.pause(changed, min(left, LOOK_SECONDS))
            changed.clear()
            record = await run_in_threadpool(jobs.get, record.id)
    return record


def applied(here: Context, response: Response, *, made_job: bool = False) -> Response:
    """Tell which preferences were followed."""
    told = ["respond-async"] if made_job and here.prefer.respond_async else []
    if here.prefer.wait:
        told.append(f"wait={min(here.prefer.wait, here.settings.max_wait)}")
    if told:
        response.headers["Preference-Applied"] = ", ".join(told)
    return response


def _result(here: Context, record: JobRecord) -> Response:
    if record.result is None:
        return respond(failure(record))
    if record.kind == "evaluate":
        return answer(record.result["report"])
    made = here.store.maps.get(record.result["map"])
    return answer(made.model_dump(), 201, {"Location": f"/maps/{made.id}"})


def failure(record: JobRecord) -> Problem:
    """Why a job that has ended has no result."""
    return record.problem or problem("job-cancelled", "the job was cancelled before it had a result")
