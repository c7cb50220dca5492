"""``/audit/hooks``: webhooks that receive the entries of the audit log as CloudEvents."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from schemas.audit import ChangeRecord
from schemas.base import Document, Timestamp
from schemas.monitor_alarms import AttemptError
from schemas.monitors import HookSpec
from schemas.pages import WholeList

#: Maximum number of hooks of a tenant.
MAX_AUDIT_HOOKS: Final = 4

HookUrl = Annotated[
    str,
    Field(
        max_length=2000, examples=["https://siem.example.com/calibrant"], description="URL that receives the entries"
    ),
]


class AuditHookBody(Document):
    """The body of ``PUT /audit/hooks/{hook}``."""

    url: HookUrl = Field(repr=False)
    secret: str | None = Field(
        None,
        max_length=200,
        repr=False,
        description="``whsec_`` followed by the base64 of 24 to 64 bytes; default: that of the hook, or a new one",
    )


class HookProgress(Document):
    """How far a hook is, and its last attempt."""

    sent: str = Field("", description="id of the last entry that was accepted; later ones are to be sent")
    failures: int = Field(0, description="number of failed attempts since an entry was accepted")
    status: int | None = Field(None, description="HTTP status of the last attempt")
    error: AttemptError | None = Field(None, description="why the last attempt had no response")
    at: Timestamp | None = Field(None, description="time of the last attempt")


class AuditHookAnswer(Document):
    """A hook of the audit log."""

    name: str = Field(description="name of the hook")
    url: HookUrl = Field(repr=False)
    secret: str | None = Field(
        None, repr=False, description="the secret, only in the response that generated it; null otherwise"
    )
    progress: HookProgress


class AuditHooksAnswer(WholeList):
    """The response of ``GET /audit/hooks``."""

    items: list[AuditHookAnswer] = Field(description="hooks of the tenant, by name")


class StoredHook(HookSpec):
    """A hook as it is stored."""

    format: int = 1
    progress: HookProgress = HookProgress()


class AuditEvent(Document):
    """An entry of the audit log as a CloudEvent 1.0 in structured mode; ``tenant`` is an extension."""

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: Literal["/audit"] = "/audit"
    type: str
    subject: str | None
    time: Timestamp
    tenant: str
    datacontenttype: Literal["application/json"] = "application/json"
    data: dict[str, Any]

    @classmethod
    def of(cls, entry: ChangeRecord, tenant: str) -> AuditEvent:
        """Create the event of an entry of a tenant."""
        subject = entry.map if entry.alias is None else f"{entry.map}@{entry.alias}"
        return cls(
            id=entry.id,
            type=f"calibrant.audit.{entry.action}",
            subject=subject or entry.monitor or entry.key,
            time=entry.at,
            tenant=tenant,
            data=entry.model_dump(mode="json"),
        )
