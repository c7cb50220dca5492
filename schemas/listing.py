"""``GET /maps``: filters and pages of summaries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from schemas.base import Document
from schemas.batches import Scale
from schemas.maps import MapSummary

_Word = Annotated[str, Field(min_length=1, max_length=200)]


class MapQuery(Document):
    """The query of ``GET /maps``: the page, and filters that are combined with AND."""

    name: _Word | None = Field(None, description="only maps with this name")
    method: _Word | None = Field(None, description="only maps of this method")
    reduction: _Word | None = Field(None, description="only maps of this reduction")
    scale: Scale | None = Field(None, description="only maps of predictions on this scale")
    alias: _Word | None = Field(None, description="only maps that this alias of their name points at")
    tag: list[Annotated[str, Field(min_length=1, max_length=330)]] = Field(
        [], max_length=8, description="name, or name=value; may be repeated"
    )
    created_by: Annotated[str, Field(min_length=1, max_length=260)] | None = Field(
        None, description="only maps that the API key with this name, or `oidc:` and this subject, created"
    )
    n_classes: int | None = Field(None, ge=2, description="only maps of this number of classes")
    limit: int = Field(50, ge=1, le=100, description="maximum number of maps on a page")
    cursor: Annotated[str, Field(max_length=400)] | None = Field(None, description="`next` of the previous page")


#: Filters of the list: of the value that a field of the summary must have, and all of them.
FACETS = tuple(name for name in MapQuery.model_fields if name in MapSummary.model_fields)
FILTERS = tuple(name for name in MapQuery.model_fields if name not in ("limit", "cursor"))


class ListedMap(MapSummary):
    """A map in a list, with the aliases that point at it."""

    aliases: list[str] = Field([], description="aliases that point at this version")


class MapPage(Document):
    """The response of ``GET /maps``, newest first; ``next`` is the cursor of the next page, null on the last page."""

    items: list[ListedMap]
    next: str | None = Field(None, description="cursor of the next page; null on the last")
