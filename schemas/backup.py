"""The lines of a backup, in the order of their kinds: a header, documents behind those they refer to, and the end."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Document
from schemas.keys import Tenant

Life = Annotated[int, Field(ge=1, description="milliseconds that it was still to be kept")]


class Header(Document):
    """The first line."""

    kind: Literal["calibrant-backup"] = "calibrant-backup"
    format: int = 1
    version: str = Field(description="of Calibrant")
    created_at: str


class KeyLine(Document):
    """An API key, with the digests of its secrets."""

    kind: Literal["key"] = "key"
    record: dict[str, Any]


class PieceLine(Document):
    """The next bytes of a field of a batch, whose own line follows when all of them have been told."""

    kind: Literal["piece"] = "piece"
    tenant: Tenant
    batch: str
    field: str
    data: str = Field(description="base64")


class BatchLine(Document):
    """A batch without its arrays."""

    kind: Literal["batch"] = "batch"
    tenant: Tenant
    record: dict[str, Any]
    life: Life | None


class MapLine(Document):
    """A map."""

    kind: Literal["map"] = "map"
    tenant: Tenant
    record: dict[str, Any]


class AliasLine(Document):
    """Where an alias points."""

    kind: Literal["alias"] = "alias"
    tenant: Tenant
    record: dict[str, Any]


class VersionLine(Document):
    """The newest version number that a name was ever given, though its map may be deleted."""

    kind: Literal["version"] = "version"
    tenant: Tenant
    name: str
    version: int


class AnswerLine(Document):
    """An idempotency key, by the SHA-256 of its text, with what its request was answered."""

    kind: Literal["answer"] = "answer"
    tenant: Tenant
    digest: str
    record: dict[str, Any]
    life: Life | None


class JobLine(Document):
    """A job; one that has ended has a time to live."""

    kind: Literal["job"] = "job"
    tenant: Tenant
    record: dict[str, Any]
    life: Life | None


class End(Document):
    """The last line: how many there were of each kind, and the SHA-256 of all lines before it."""

    kind: Literal["end"] = "end"
    counts: dict[str, int]
    sha256: str


Line = KeyLine | PieceLine | BatchLine | MapLine | AliasLine | VersionLine | AnswerLine | JobLine

LINE: TypeAdapter[Line | End] = TypeAdapter(Annotated[Line | End, Field(discriminator="kind")])
