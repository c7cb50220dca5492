"""Generated from schemas/aliases.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant.client.answers.document import WireAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRecord(WireAnswer):
    """The version that an alias points at, and who set it."""

    name: str  # name of the map
    alias: str  # name of the alias
    version: int  # version that it points at
    map: str  # id of that version's map
    revision: int  # number of times the alias has been set
    updated_at: str  # when the alias was last set
    updated_by: str | None = None  # name of the API key


@dataclass(frozen=True, slots=True, kw_only=True)
class Aliases(WireAnswer):
    """The response of ``GET /maps/{name}/aliases``."""

    next: str | None = None  # always None: the list has no further page
    items: list[AliasRecord]  # aliases of the name
