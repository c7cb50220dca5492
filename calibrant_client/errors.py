"""What a server refused."""

from __future__ import annotations

from schemas.problems import Problem


class ProblemResponse(Exception):
    """A response that is a problem document; ``problem`` holds it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.status} {problem.title}: {problem.detail}")
        self.problem = problem


class JobFailed(ProblemResponse):
    """A job that ended without a result."""
