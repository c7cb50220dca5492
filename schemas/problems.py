"""Problem documents (RFC 9457)."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document


class ProblemError(Document):
    """One location of an error in the request."""

    pointer: str = Field(description="JSON Pointer into the body; for binary bodies, into the arrays and options")
    detail: str


class Problem(Document):
    """What went wrong and where; never contains the data of the request."""

    type: str = Field(examples=["/problems/out-of-range"], description="path of the description of the problem")
    title: str = Field(description="short text, the same for every problem with this code")
    status: int = Field(description="HTTP status")
    detail: str
    errors: list[ProblemError] = Field(default_factory=list, description="up to five invalid places")
