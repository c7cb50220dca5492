"""Jobs over HTTP: the 202 response, waiting with ``Prefer: wait``, and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from fastapi import Request, Response
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from backend.kinds import Arrays
from backend.store.errors import UnknownJob
from backend.store.jobs.backlog import wait_for_job
from backend.store.jobs.runs import StoredJobEvent, is_event_id
from backend.store.server.connection import UNAVAILABLE
from schemas.base import Document
from schemas.jobs import FINAL, JobRecord
from schemas.problem_table import problem
from schemas.problems import Problem
from service.context import Context, answer
from service.errors import InvalidField, of_header
from service.formats.body import read_payload
from service.formats.media import EVENT_STREAM
from service.formats.options import read_options
from service.problems import respond
from service.threads import run_in_thread

Options = TypeVar("Options", bound=Document)

# --- The response to a request that may create a job

#: Seconds after which a job is checked even without a notification, in case its worker is lost.
LOOK_SECONDS = 5.0


async def respond_on_rows(
    request: Request,
    here: Context,
    model: type[Options],
    work: Callable[[Context, Arrays, Options], dict[str, Any] | JobRecord],
) -> Response:
    """Read rows and their options, and respond with what ``work`` returns for them, or with the job that it queues."""
    payload = await read_payload(request, here.settings)
    options = read_options(payload, model)
    return await respond_with_answer(here, await run_in_thread(work, here, payload.arrays, options))


async def respond_with_answer(here: Context, result: dict[str, Any] | JobRecord) -> Response:
    """The response with an answer, or that of the job which creates it."""
    return await settle(here, result) if isinstance(result, JobRecord) else answer(result)


async def settle(
    here: Context, record: JobRecord, respond_with: Callable[[JobRecord], Awaitable[Response]] | None = None
) -> Response:
    """The 202 response for a job; if the caller prefers to wait and the job ends, the response for its result.

    ``respond_with`` creates the response for a successful job, by default from its result.
    """
    record = await until_final(here, record)
    if record.status in FINAL and here.prefer.wait:
        if respond_with is not None and record.result is not None:
            response = await respond_with(record)
        else:
            response = await run_in_thread(_result, here, record)
    else:
        response = await run_in_thread(_accepted, here, record)
    return applied(here, response, made_job=True)


async def until_final(here: Context, record: JobRecord) -> JobRecord:
    """Wait for a job to end, up to the preferred number of seconds and the limit; return its last state."""
    here.pause()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + min(here.prefer.wait or 0, here.settings.max_wait)
    jobs, watcher = here.store.jobs, here.watcher
    with watcher.waiting(jobs.key(record.id)) as changed:
        while record.status not in FINAL and not watcher.closed and (left := deadline - loop.time()) > 0:
            await watcher.pause(changed, min(left, LOOK_SECONDS))
            changed.clear()
            record = await run_in_thread(jobs.get, record.id)
    return record


def applied(here: Context, response: Response, *, made_job: bool = False) -> Response:
    """List the preferences that were honoured in ``Preference-Applied``."""
    followed = ["respond-async"] if made_job and here.prefer.respond_async else []
    if here.prefer.wait:
        followed.append(f"wait={min(here.prefer.wait, here.settings.max_wait)}")
    if followed:
        response.headers["Preference-Applied"] = ", ".join(followed)
    return response


def located(here: Context, record: JobRecord) -> dict[str, str]:
    """Headers for a job that has not ended: its path, and when to check it again."""
    seconds = wait_for_job(here.store.redis, here.store.keys, record)
    return {"Location": f"/jobs/{record.id}", "Retry-After": str(seconds)}


def failure(record: JobRecord) -> Problem:
    """The reason why an ended job has no result."""
    return record.problem or problem("job-cancelled", "the job was cancelled before it had a result")


def _accepted(here: Context, record: JobRecord) -> Response:
    return answer(record.answer().model_dump(), 202, located(here, record))


def _result(here: Context, record: JobRecord) -> Response:
    if record.result is None:
        return respond(failure(record))
    if record.kind == "evaluate":
        return answer(record.result["report"])
    if record.kind == "fit":
        stored = here.store.maps.get(record.result["map"])
        return answer(stored.model_dump(), 201, {"Location": f"/maps/{stored.id}"})
    return answer(record.result, 201 if record.kind == "score" else 200)


# --- The changes of a job as Server-Sent Events, until its end

#: Serializes several events for the stream.
Write = Callable[[Sequence[StoredJobEvent]], Awaitable[bytes]]
#: A comment, sent because proxies close idle connections.
_HEARTBEAT = b": still here\n\n"


class EventStream(StreamingResponse):
    """An event stream that counts towards its caller's limit until it ends; a revoked key receives nothing more."""

    media_type = EVENT_STREAM

    def __init__(self, content: AsyncGenerator[bytes, None], here: Context) -> None:
        super().__init__(
            _while_admitted(content, here), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
        here.streams.take(here.caller)
        self._here = here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._here.streams.give_back(self._here.caller)


async def _while_admitted(content: AsyncGenerator[bytes, None], here: Context) -> AsyncGenerator[bytes, None]:
    """Yield the parts of a stream until the caller's key is revoked or expires."""
    async with aclosing(content):
        async for part in content:
            if not here.process.keyring.admits(here.caller):
                return
            yield part


def read_last_id(text: str | None) -> str | None:
    """Read the event id in ``Last-Event-ID``."""
    if text is not None and not is_event_id(text):
        raise of_header(InvalidField, "Last-Event-ID", "must be the id of an event of this job")
    return text


async def as_json(events: Sequence[StoredJobEvent]) -> bytes:
    """Serialize events with the job as JSON."""
    return b"".join(
        f"id: {event.id}\nevent: {event.name}\ndata: {event.job.model_dump_json()}\n\n".encode() for event in events
    )


async def changes(here: Context, job_id: str, last: str | None, write: Write = as_json) -> AsyncGenerator[bytes, None]:
    """Yield the events after ``last``, serialized by ``write``, with heartbeats in between.

    Ends when the job ends, or when the store or the service stops. A client that reconnects with the last id that it
    received misses nothing.
    """
    jobs, watcher = here.store.jobs, here.watcher
    with watcher.waiting(jobs.key(job_id)) as changed:
        while not watcher.closed:
            changed.clear()
            try:
                events = await run_in_thread(jobs.events, job_id, last)
                if not events and (await run_in_thread(jobs.get, job_id)).status in FINAL:
                    # The final event may have been written between the two reads, or by the second one.
                    events = await run_in_thread(jobs.events, job_id, last)
                    if not events:
                        return
            except (*UNAVAILABLE, UnknownJob):
                return
            if events:
                yield await write(events)
                last = events[-1].id
                if events[-1].job.status in FINAL:
                    return
            else:
                await watcher.pause(changed, LOOK_SECONDS)
                if not changed.is_set():
                    yield _HEARTBEAT
