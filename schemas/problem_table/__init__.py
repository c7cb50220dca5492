"""The one table of problems: for each code its status, title, cause and remedy.

The service's answers, the problems of jobs, the pages of ``GET /problems``, docs/reference/problems.md and the errors
of the OpenAPI document are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from schemas.problem_table.of_numbers import OF_NUMBERS
from schemas.problem_table.of_requests import OF_REQUESTS
from schemas.problem_table.of_the_service import OF_THE_SERVICE
from schemas.problem_table.row import ProblemRow
from schemas.problems import Problem, ProblemError

__all__ = ["PREFIX", "TABLE", "ProblemRow", "problem"]

#: What a problem's ``type`` begins with; the code follows. Relative to the service, which answers it.
PREFIX = "/problems/"

TABLE: Mapping[str, ProblemRow] = MappingProxyType({**OF_REQUESTS, **OF_NUMBERS, **OF_THE_SERVICE})


def problem(code: str, detail: str, errors: Sequence[ProblemError] = ()) -> Problem:
    """Build the document of a code of ``TABLE``."""
    row = TABLE[code]
    return Problem(type=PREFIX + code, title=row.title, status=row.status, detail=detail, errors=list(errors))
