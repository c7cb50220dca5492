"""Generated from schemas/problems.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemError(WireAnswer):
    """One location of an error in the request: in its body, a parameter or a header."""

    pointer: str | None = None  # JSON Pointer into the body; for binary bodies, into the arrays
    parameter: str | None = None  # name of the parameter in the path or the query; empty for the query as a whole
    header: str | None = None  # name of the header
    detail: str  # what is wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(WireAnswer):
    """What went wrong and where; never contains the data of the request."""

    type: str  # path of the description of the problem
    title: str  # short text, the same for every problem with this code
    status: int  # HTTP status
    detail: str  # what is wrong
    errors: list[ProblemError] = field(default_factory=list)  # up to five invalid places
