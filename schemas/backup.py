"""The lines of a backup, in the order of their kinds: a header, documents behind those they refer to, and the end."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Document
from schemas.keys import Tenant

Life = Annotated[int, Field(ge=1, description="milliseconds that it was still to be kept")]


MonitorUid = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]


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
    """The next bytes of a field of a batch, whose own line follows after the last of them."""

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


class MonitorPartLine(Document):
    """What stands at one key of a monitor, or more of it, whose own line follows after the last of it."""

    kind: Literal["monitor-part"] = "monitor-part"
    tenant: Tenant
    uid: MonitorUid
    name: str = Field(description="of the key, among those of the monitor")
    type: Literal["hash", "list", "zset", "string"]
    items: list[str] = Field(
        min_length=1, description="base64; of a hash fields and values, of a zset members and scores"
    )
    generation: int | None = Field(description="of a list of tallies")
    life: Life | None


class MonitorIdsLine(Document):
    """Ids of rows that a monitor knows, and their entries."""

    kind: Literal["monitor-ids"] = "monitor-ids"
    tenant: Tenant
    uid: MonitorUid
    slot: int = Field(description="of time, in which they arrived")
    ids: str = Field(description="base64")
    entries: str = Field(description="base64")


class MonitorLine(Document):
    """The definition of a monitor, with the secrets of its hooks."""

    kind: Literal["monitor"] = "monitor"
    tenant: Tenant
    record: dict[str, Any]


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


MonitorLines = MonitorPartLine | MonitorIdsLine | MonitorLine
Line = KeyLine | PieceLine | BatchLine | MapLine | AliasLine | VersionLine | MonitorLines | AnswerLine | JobLine

LINE: TypeAdapter[Line | End] = TypeAdapter(Annotated[Line | End, Field(discriminator="kind")])
