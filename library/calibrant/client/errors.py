"""Errors of the client: a server's problem, a failed or late job, and rows that cannot be sent."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from calibrant.client.answers import Mismatch, Problem, decode
from calibrant.client.steps import Answer


class ProblemResponse(Exception):
    """A response that is a problem document; ``problem`` holds it, ``request_id`` what the server's log calls it."""

    def __init__(self, problem: Problem, request_id: str | None = None) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem
        self.request_id = request_id

    @property
    def code(self) -> str:
        """The stable name of the problem, such as ``unknown-map``; docs/reference/problems.md explains each."""
        return self.problem.type.rpartition("/")[2]

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status


class JobFailed(ProblemResponse):
    """A job that ended without a result."""


class JobTimeout(TimeoutError):
    """A job that has not ended in the time that the caller had. It goes on: wait for ``job_id`` again, or cancel it."""

    def __init__(self, job_id: str, status: str, seconds: float) -> None:
        super().__init__(f"job {job_id} is still {status} after {seconds:g} s; it goes on")
        self.job_id = job_id


class UnusableRows(ValueError):
    """Rows that cannot be sent as they are: something is missing in them, or is no number."""


def problem_of(answer: Answer) -> ProblemResponse:
    """The error of an answer that is no success."""
    request_id = answer.headers.get("X-Request-Id")
    try:
        problem = decode(Problem, orjson.loads(answer.content))
    except ValueError:
        return ProblemResponse(_without_document(answer), request_id)
    return ProblemResponse(problem, request_id)


def unreadable(answer: Answer, error: Exception | None = None) -> ProblemResponse:
    """The error of an answer that is a success, but not one of this service; names the field if ``error`` does."""
    detail = "is this the address of a Calibrant server, and is it of the client's version?"
    if isinstance(error, Mismatch):
        detail = f"{error}; {detail}"
    problem = Problem(type="about:blank", title="The answer cannot be read", status=answer.status, detail=detail)
    return ProblemResponse(problem, answer.headers.get("X-Request-Id"))


def _without_document(answer: Answer) -> Problem:
    known = answer.status in HTTPStatus._value2member_map_
    detail = HTTPStatus(answer.status).phrase if known else "an unknown status"
    if 300 <= answer.status < 400:
        detail += "; redirects are not followed, since the API key would go with them"
    return Problem(type="about:blank", title="No problem document", status=answer.status, detail=detail)
