"""The lines of a backup: a header, documents (each after those that it refers to), and an end line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from schemas.base import Document
from schemas.keys import Tenant

Life = Annotated[int, Field(ge=1, description="remaining lifetime in milliseconds")]


MonitorUid = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]


class Header(Document):
    """The first line."""

    kind: Literal["calibrant-backup"] = "calibrant-backup"
    format: int = 1
    version: str = Field(description="version of Calibrant")
    created_at: str


class KeyLine(Document):
    """An API key, with the digests of its secrets."""

    kind: Literal["key"] = "key"
    record: dict[str, Any]


class PieceLine(Document):
    """The next bytes of a field of a batch; the line of the batch follows its last piece."""

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
    """The newest version number ever assigned to a name; its map may have been deleted."""

    kind: Literal["version"] = "version"
    tenant: Tenant
    name: str
    version: int


class MonitorPartLine(Document):
    """The value of one key of a monitor, or a part of it; the line of the monitor follows its last part."""

    kind: Literal["monitor-part"] = "monitor-part"
    tenant: Tenant
    uid: MonitorUid
    name: str = Field(description="name of the key within the monitor")
    type: Literal["hash", "list", "zset", "string"]
    items: list[str] = Field(
        min_length=1, description="base64; for a hash fields and values, for a zset members and scores"
    )
    generation: int | None = Field(description="for a list of tallies")
    life: Life | None


class MonitorIdsLine(Document):
    """Ids of rows that a monitor stores, and their entries."""

    kind: Literal["monitor-ids"] = "monitor-ids"
    tenant: Tenant
    uid: MonitorUid
    slot: int = Field(description="time slot in which the ids arrived")
    ids: str = Field(description="base64")
    entries: str = Field(description="base64")


class MonitorLine(Document):
    """The definition of a monitor, with the secrets of its hooks."""

    kind: Literal["monitor"] = "monitor"
    tenant: Tenant
    record: dict[str, Any]


class AnswerLine(Document):
    """An idempotency key, identified by the SHA-256 of its text, and the response to its request."""

    kind: Literal["answer"] = "answer"
    tenant: Tenant
    digest: str
    record: dict[str, Any]
    life: Life | None


class JobLine(Document):
    """A job; a job that has ended has a remaining lifetime."""

    kind: Literal["job"] = "job"
    tenant: Tenant
    record: dict[str, Any]
    life: Life | None


class AuditLine(Document):
    """An entry of the audit log."""

    kind: Literal["audit"] = "audit"
    tenant: Tenant
    id: str = Field(pattern=r"^audit_[0-9a-f]{30,60}$")
    record: dict[str, Any]


class End(Document):
    """The last line: the number of lines of each kind, and the SHA-256 of all lines before it."""

    kind: Literal["end"] = "end"
    counts: dict[str, int]
    sha256: str


MonitorLines = MonitorPartLine | MonitorIdsLine | MonitorLine
Line = (
    KeyLine
    | PieceLine
    | BatchLine
    | MapLine
    | AliasLine
    | VersionLine
    | MonitorLines
    | AnswerLine
    | JobLine
    | AuditLine
)

LINE: TypeAdapter[Line | End] = TypeAdapter(Annotated[Line | End, Field(discriminator="kind")])
