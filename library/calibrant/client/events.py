"""The events of a job, with reconnection after broken connections."""

from __future__ import annotations

import time
from typing import NamedTuple

import orjson
from httpx import RemoteProtocolError, TransportError

from calibrant.client.answers import JobSummary, decode
from calibrant.client.errors import problem_of, unreadable
from calibrant.client.retries import Patience, backoff, pause_of
from calibrant.client.steps import Answer, Item, Items, NextLine, Open, Pause, Request
from calibrant.core.choices import FINAL

#: Seconds without data after which a stream counts as broken; the server sends a heartbeat every 5 s.
_SILENCE_SECONDS = 15.0


class JobEvent(NamedTuple):
    """A change of a job.

    Attributes
    ----------
    id : str
        Id of the event.
    name : {"status", "progress"}
        What changed.
    job : JobSummary
        The job after the change.
    """

    id: str
    name: str
    job: JobSummary


class EventReader:
    """Parser of server-sent events, line by line."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def read(self, line: str) -> JobEvent | None:
        """Read a line; returns an event if the line completes one. Raises ``ValueError`` for an invalid event.

        >>> reader = EventReader()
        >>> [reader.read(line) for line in (": still here", "id: 1-0", "event: status")]
        [None, None, None]
        """
        if line:
            name, _, value = line.partition(":")
            self._fields[name] = value.removeprefix(" ")
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        if not {"id", "event"} <= fields.keys():
            raise ValueError("an event must have an id and a name")
        return JobEvent(fields["id"], fields["event"], decode(JobSummary, orjson.loads(fields["data"])))


def follow(patience: Patience, path: str, last: str | None, *, until: float | None = None) -> Items[JobEvent]:
    """Yield the events after ``last``, each once, until the job ends or the monotonic clock passes ``until``.

    A broken stream is resumed after the last event. If it breaks repeatedly without an event, this raises
    ``httpx.TransportError``; if the server refuses the stream, ``ProblemResponse``.
    """
    failures = 0
    while True:
        failures += 1
        pause = backoff(failures)
        try:
            answer: Answer = yield Open(_request(path, last), _silence(patience, until))
            if not answer.is_success:
                if answer.status != 503 or failures >= patience.tries:
                    raise problem_of(answer)
                pause = min(pause_of(answer, failures), patience.seconds)
            elif answer.status == 204:
                return
            reader = EventReader()
            while answer.is_success and (line := (yield NextLine())) is not None:
                if (event := _event(reader, line, answer)) is not None:
                    yield Item(event)
                    last = event.id
                failures = 0 if event is not None or line.startswith(":") else failures
                if _is_over(event, until):
                    return
            if failures >= patience.tries:
                raise RemoteProtocolError("the stream of events ended before its first event")
        except TransportError:
            if failures >= patience.tries:
                raise
        yield Pause(pause)


def _event(reader: EventReader, line: str, answer: Answer) -> JobEvent | None:
    try:
        return reader.read(line)
    except ValueError as error:
        raise unreadable(answer, error) from error


def _is_over(event: JobEvent | None, until: float | None) -> bool:
    ended = event is not None and event.job.status in FINAL
    return ended or (until is not None and time.monotonic() >= until)


def _request(path: str, last: str | None) -> Request:
    headers = {"Accept": "text/event-stream"}
    return Request("GET", path, headers=headers if last is None else {**headers, "Last-Event-ID": last}, reads=True)


def _silence(patience: Patience, until: float | None) -> float:
    left = _SILENCE_SECONDS if until is None else max(until - time.monotonic(), 0.1)
    return min(_SILENCE_SECONDS, patience.seconds, left)
