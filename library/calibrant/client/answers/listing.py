"""Generated from schemas/listing.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field

from calibrant.client.answers.document import WireAnswer
from calibrant.client.answers.maps import MapSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedMap(MapSummary):
    """A map in a list, with the aliases that point at it."""

    aliases: list[str] = field(default_factory=list)  # aliases that point at this version


@dataclass(frozen=True, slots=True, kw_only=True)
class MapPage(WireAnswer):
    """The response of ``GET /maps``, newest first; ``next`` is the cursor of the next page, None on the last page."""

    items: list[ListedMap]  # entries of this page
    next: str | None = None  # cursor of the next page; None on the last
