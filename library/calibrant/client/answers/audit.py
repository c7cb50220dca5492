"""Generated from schemas/audit.py by `make reference`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calibrant.client.answers.document import WireAnswer

ActorKind = Literal["key", "subject", "local", "monitor", "command", "service"]
ChangeAction = Literal[
    "map-fitted",
    "map-imported",
    "map-described",
    "map-deleted",
    "monitor-created",
    "monitor-changed",
    "monitor-deleted",
    "alarm-acknowledged",
    "recalibration-requested",
    "recalibration-declined",
    "recalibration-failed",
    "challenger-proposed",
    "proposal-replaced",
    "alias-moved",
    "alias-deleted",
    "alias-not-moved",
    "key-created",
    "key-rotated",
    "key-revoked",
    "proposal-accepted",
    "proposal-rejected",
    "audit-hook-set",
    "audit-hook-deleted",
    "restore-started",
    "backup-restored",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor(WireAnswer):
    """Who made a change."""

    #: `key`: an API key; `subject`: of a token; `local`: a caller of a service without keys; `monitor`: a decision of
    #: its own; `command`: a command with access to the store; `service`: the service
    kind: ActorKind
    id: str | None = None  # id of the API key or of the monitor, or the subject of the token
    name: str | None = None  # name of the API key, of the monitor, or of the user of the command
    scope: str | None = None  # what the key grants
    #: for a monitor: id or name of the key that last defined it; None if it is not known
    configured_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoter(WireAnswer):
    """Who could move an alias: an API key, all holders of tokens with some claims, or a monitor by itself."""

    #: `key`: an API key; `tokens`: all holders of tokens; `monitor`: a monitor by itself
    kind: Literal["key", "tokens", "monitor"] = "key"
    id: str | None = None  # id of the API key or of the monitor
    name: str | None = None  # name of the API key or of the monitor
    scope: str | None = None  # what the key, or the value of the claim, grants
    issuer: str | None = None  # issuer of the tokens
    #: for tokens: each claim, as the settings name it, and the value that it must have or contain
    claims: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord(WireAnswer):
    """One entry of the audit log."""

    action: ChangeAction  # what was done
    map: str | None = None  # name of the map, or the id of a map without a name
    alias: str | None = None  # name of the alias
    monitor: str | None = None  # name of the monitor
    monitor_id: str | None = None  # id of the monitor, which a later monitor of the same name does not have
    key: str | None = None  # id of the API key that was created, rotated or revoked
    before: dict[str, Any] | None = None  # what changed, before; None if it did not exist
    after: dict[str, Any] | None = None  # what changed, after; None if it no longer exists
    detail: str | None = None  # the reason of the service, such as that of a declined challenger
    #: for `alias-moved`: everyone who could move the alias then; None if the service required no credentials, so that
    #: every local caller could
    permitted: list[Promoter] | None = None
    actor: Actor  # who did it
    note: str | None = None  # the reason of the caller, from the header `Calibrant-Note`
    request_id: str | None = None  # id of the request, as in logs and in `X-Request-Id`
    id: str  # id of the entry; the ids of later entries are greater, unless the clock was set back
    at: str  # when it was done, by the clock of Redis


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage(WireAnswer):
    """The response of ``GET /audit``, newest first."""

    items: list[ChangeRecord]  # entries of this page
    next: str | None  # cursor of the next page
