"""Lists: the query parameters of pages, and lists without pages."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document, Instant


class PageQuery(Document):
    """Which page of a list to return, newest first, and from which time."""

    created_after: Instant | None = Field(None, description="created at this time or later")
    created_before: Instant | None = Field(None, description="created before this time")
    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200, description="the `next` of the previous page")


class WholeList(Document):
    """A list without pages; its ``items`` are those of a page."""

    next: str | None = Field(None, description="always null: the list has no further page")
