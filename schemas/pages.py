"""The query parameters of every list."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from schemas.base import Document


class PageQuery(Document):
    """Which page of a list to return, newest first, and from which time."""

    created_after: AwareDatetime | None = Field(None, description="created at this time or later")
    created_before: AwareDatetime | None = Field(None, description="created before this time")
    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200, description="the `next` of the previous page")
