"""Aliases: names that point at one version of a map."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Document, Timestamp
from schemas.pages import WholeList


class AliasOptions(Document):
    """The body of ``PUT /maps/{name}/aliases/{alias}``."""

    version: int = Field(
        ge=1, le=999_999_999, examples=[3], description="version of the map that the alias is to point at"
    )


class AliasRecord(Document):
    """The version that an alias points at, and who set it."""

    name: str = Field(description="name of the map")
    alias: str = Field(description="name of the alias")
    version: int = Field(description="version that it points at")
    map: str = Field(description="id of that version's map")
    revision: int = Field(description="number of times the alias has been set")
    updated_at: Timestamp = Field(description="when the alias was last set")
    updated_by: str | None = Field(None, description="name of the API key")


class StoredAlias(AliasRecord):
    """An alias as it is stored."""

    format: int = 1

    @classmethod
    def of(cls, record: AliasRecord) -> StoredAlias:
        """Create the stored document of a record."""
        return cls(**record.model_dump())

    def record(self) -> AliasRecord:
        """The record in the stored document."""
        return AliasRecord(**self.model_dump(exclude={"format"}))


class Aliases(WholeList):
    """The response of ``GET /maps/{name}/aliases``."""

    items: list[AliasRecord] = Field(description="aliases of the name")
