"""Errors of the client: problem responses, failed and unfinished jobs, and invalid rows."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from calibrant.client.answers import Mismatch, Problem, decode
from calibrant.client.steps import Answer


class ProblemResponse(Exception):
    """An error response of the server, an RFC 9457 problem document.

    Attributes
    ----------
    problem : Problem
        The problem document.
    request_id : str or None
        Id of the request in the log of the server.
    """

    def __init__(self, problem: Problem, request_id: str | None = None) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem
        self.request_id = request_id

    @property
    def code(self) -> str:
        """The stable code of the problem, such as ``unknown-map``; docs/reference/problems.md describes all codes."""
        return self.problem.type.rpartition("/")[2]

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status


class JobFailed(ProblemResponse):
    """A job failed or was cancelled."""


class JobTimeout(TimeoutError):
    """A job has not ended within the timeout. It continues: wait for ``job_id`` again, or cancel it."""

    def __init__(self, job_id: str, status: str, seconds: float) -> None:
        super().__init__(f"job {job_id} is still {status} after {seconds:g} s; it continues on the server")
        self.job_id = job_id


def problem_of(answer: Answer) -> ProblemResponse:
    """Return the error for an unsuccessful response."""
    request_id = answer.headers.get("X-Request-Id")
    try:
        problem = decode(Problem, orjson.loads(answer.content))
    except ValueError:
        return ProblemResponse(_without_document(answer), request_id)
    refusal = ProblemResponse(problem, request_id)
    if refusal.status == HTTPStatus.UNAUTHORIZED and problem.type != "/problems/invalid-token":
        refusal.add_note("pass the key as api_key, or set CALIBRANT_API_KEY")
    return refusal


def unreadable(answer: Answer, error: Exception | None = None) -> ProblemResponse:
    """Return the error for a successful response with unexpected content."""
    detail = "check that the URL is that of a Calibrant server of the same version as the client"
    if isinstance(error, Mismatch):
        detail = f"{error}; {detail}"
    problem = Problem(type="about:blank", title="Unexpected response", status=answer.status, detail=detail)
    return ProblemResponse(problem, answer.headers.get("X-Request-Id"))


def _without_document(answer: Answer) -> Problem:
    known = answer.status in HTTPStatus._value2member_map_
    detail = HTTPStatus(answer.status).phrase if known else "an unknown status"
    if 300 <= answer.status < 400:
        detail += "; redirects are not followed, to protect the API key"
    return Problem(type="about:blank", title="Error without a problem document", status=answer.status, detail=detail)
