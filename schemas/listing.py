"""``GET /maps``: filters, and pages of summaries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from schemas.base import Document
from schemas.batches import Scale
from schemas.maps import MapSummary

_Word = Annotated[str, Field(min_length=1, max_length=200)]


class MapQuery(Document):
    """The query of ``GET /maps``: filters, all of which must hold, and the page."""

    name: _Word | None = None
    method: _Word | None = None
    reduction: _Word | None = None
    scale: Scale | None = None
    alias: _Word | None = Field(None, description="maps at which this alias of their name points")
    tag: list[Annotated[str, Field(min_length=1, max_length=330)]] = Field(
        [], max_length=8, description="name, or name=value; may be repeated"
    )
    created_by: _Word | None = None
    n_classes: int | None = Field(None, ge=2)
    limit: int = Field(50, ge=1, le=100, description="maps of a page, at most")
    cursor: Annotated[str, Field(max_length=400)] | None = Field(None, description="`next` of the page before")


class ListedMap(MapSummary):
    """A map in a list, with the aliases that point at it."""

    aliases: list[str] = Field([])


class MapPage(Document):
    """The answer of ``GET /maps``: newest first; ``next`` is the cursor of the page that follows, null on the last."""

    items: list[ListedMap]
    next: str | None = None
