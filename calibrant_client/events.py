"""The changes of a job as they come, across broken connections."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import httpx

from calibrant_client.sending import PAUSE, TRIES, pause_of
from schemas.jobs import FINAL, JobSummary


class Event(NamedTuple):
    """One change: its id, what changed (``status`` or ``progress``), and the job after it."""

    id: str
    name: str
    job: JobSummary


class Refused(Exception):
    """A stream that the server does not give."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def follow(http: httpx.Client, path: str, last: str | None) -> Iterator[Event]:
    """The events behind ``last`` to the job's end, none twice; raises ``Refused``.

    A stream that breaks is taken up where it broke; one that breaks again and again without an event is given up.
    """
    failures = 0
    while True:
        headers = {} if last is None else {"Last-Event-ID": last}
        pause = PAUSE
        try:
            with http.stream("GET", path, headers=headers) as response:
                if response.status_code == httpx.codes.NO_CONTENT:
                    return
                if response.is_success:
                    for event in _events(response.iter_lines()):
                        yield event
                        last, failures = event.id, 0
                        if event.job.status in FINAL:
                            return
                else:
                    response.read()
                    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or failures + 1 >= TRIES:
                        raise Refused(response)
                    pause = pause_of(response)
        except httpx.TransportError:
            if failures + 1 >= TRIES:
                raise
        failures += 1
        time.sleep(pause)


def _events(lines: Iterable[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if line:
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            yield Event(fields["id"], fields["event"], JobSummary.model_validate_json(fields["data"]))
            fields = {}
