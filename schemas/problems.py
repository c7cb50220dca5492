"""Problem documents (RFC 9457)."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class ProblemError(Document):
    """One place that is wrong."""

    pointer: str = Field(description="JSON Pointer into the request, for binary bodies into its arrays and options")
    detail: str


class Problem(Document):
    """What went wrong and where; never the data itself."""

    type: str = Field(examples=["/problems/out-of-range"])
    title: str
    status: int
    detail: str
    errors: list[ProblemError] = Field(default_factory=list)
