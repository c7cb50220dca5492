"""Lists: the query parameters of pages, and lists without pages."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from schemas.base import Document

#: RFC 3339, section 5.6; pydantic also accepts seconds since 1970 and times without seconds.
_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def _in_rfc_3339(value: Any) -> Any:
    if isinstance(value, str) and not _RFC_3339.fullmatch(value):
        raise PydanticCustomError("time", "must be a time in RFC 3339 with offset, such as 2026-01-31T12:00:00Z")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_in_rfc_3339)]


class PageQuery(Document):
    """Which page of a list to return, newest first, and from which time."""

    created_after: Time | None = Field(None, description="created at this time or later")
    created_before: Time | None = Field(None, description="created before this time")
    limit: int = Field(20, ge=1, le=100)
    cursor: str | None = Field(None, max_length=200, description="the `next` of the previous page")


class WholeList(Document):
    """A list without pages; its ``items`` are those of a page."""

    next: str | None = Field(None, description="always null: the list has no further page")
