"""The changes of a job as Server-Sent Events, from where a caller left off to the job's end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from backend.store.errors import UnknownJob
from backend.store.jobs.events import JobEvent, is_event_id
from backend.store.server.connection import UNAVAILABLE
from schemas.jobs import FINAL
from service.context import Context
from service.errors import InvalidField
from service.waiting import LOOK_SECONDS

#: Some events in a row as the stream tells them.
Write = Callable[[Sequence[JobEvent]], Awaitable[bytes]]
#: A comment: proxies close what is silent for long.
_HEARTBEAT = b": still here\n\n"


class EventStream(StreamingResponse):
    """A stream that counts among those of its caller from here to its end."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], here: Context) -> None:
        super().__init__(content, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        here.streams.take(here.caller)
        self._here = here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._here.streams.give_back(self._here.caller)


def read_last_id(text: str | None) -> str | None:
    """The event after which to go on, as ``Last-Event-ID`` says."""
    if text is not None and not is_event_id(text):
        raise InvalidField("the header Last-Event-ID must be the id of an event of this job")
    return text


async def as_json(events: Sequence[JobEvent]) -> bytes:
    """Every event, its data the job as JSON."""
    return b"".join(
        f"id: {event.id}\nevent: {event.name}\ndata: {event.job.model_dump_json()}\n\n".encode() for event in events
    )


async def changes(here: Context, job_id: str, last: str | None, write: Write = as_json) -> AsyncIterator[bytes]:
    """Events after ``last`` as ``write`` tells them, heartbeats between them.

    Ends with the job, or when the store or the service does. A caller who comes again with the last id that it saw
    misses nothing.
    """
    jobs, watcher = here.store.jobs, here.watcher
    with watcher.waiting(jobs.key(job_id)) as changed:
        while not watcher.closed:
            changed.clear()
            try:
                events = await run_in_threadpool(jobs.events, job_id, last)
                if not events and (await run_in_threadpool(jobs.get, job_id)).status in FINAL:
                    # What ended it may have been written between the two looks, or by the second.
                    events = await run_in_threadpool(jobs.events, job_id, last)
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
