"""Generated from schemas/audit_hooks.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from calibrant.client.answers.document import WireAnswer

AttemptError = Literal[
    "interrupted",
    "not-admitted",
    "not-resolved",
    "address-refused",
    "not-connected",
    "tls-failed",
    "timed-out",
    "broken-answer",
    "no-hook",
    "no-secret",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookProgress(WireAnswer):
    """How far a hook is, and its last attempt."""

    sent: str = ""  # id of the last entry that was accepted; later ones are to be sent
    failures: int = 0  # number of failed attempts since an entry was accepted
    status: int | None = None  # HTTP status of the last attempt
    error: AttemptError | None = None  # why the last attempt had no response
    at: str | None = None  # time of the last attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHookAnswer(WireAnswer):
    """A hook of the audit log."""

    name: str  # name of the hook
    url: str = field(repr=False)  # URL that receives the entries
    #: the secret, only in the response that generated it; None otherwise
    secret: str | None = field(default=None, repr=False)
    progress: HookProgress  # progress of the running job


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHooksAnswer(WireAnswer):
    """The response of ``GET /audit/hooks``."""

    next: str | None = None  # always None: the list has no further page
    items: list[AuditHookAnswer]  # hooks of the tenant, by name
