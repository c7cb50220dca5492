"""What an API process keeps on its disk, to score after a restart without the store."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from schemas.base import Document
from schemas.keys import KeyRecord


class MapOrigin(NamedTuple):
    """What determines a stored map beside its id, which stays the same if the map is stored again."""

    name: str | None
    version: int | None
    created_at: str


class CachedMap(Document):
    """A map in memory. Its document is a file of its own, whose name is the SHA-256 of its content."""

    tenant: str
    id: str
    name: str | None
    version: int | None
    created_at: str
    references: list[str] = Field(description="the name and the aliases that led to it")
    digest: str


class CachedKeys(Document):
    """The public keys of the issuer of bearer tokens, as read at ``as_of``, in seconds since 1970."""

    issuer: str
    as_of: float
    keys: list[dict[str, str]]


class CachedState(Document):
    """The API keys and the maps in memory as they were in the store at ``as_of``, in seconds since 1970."""

    format: Literal[1] = 1
    store: str = Field(description="SHA-256 of the URL of the store, without its credentials")
    as_of: float
    keys: list[KeyRecord]
    maps: list[CachedMap]
    issuer: CachedKeys | None = None
