"""The audit log of a tenant: who changed maps, aliases, keys and monitors, when, from what to what, and why."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from pydantic import Field

from schemas.base import Document, Timestamp
from schemas.pages import PageQuery

#: Maximum number of characters of a note.
MAX_NOTE: Final = 500

#: Actions that callers without ``maps:promote`` and ``admin`` can cause in any number; they make room for the others.
#: Those of a monitor without a caller are its own decisions.
_Routine = Literal[
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
]
#: Actions that change what is served, who may do what, or the log itself.
_Lasting = Literal[
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
ChangeAction = Literal[_Routine, _Lasting]
ROUTINE: frozenset[ChangeAction] = frozenset(get_args(_Routine))
#: Actions whose entries contain definitions of monitors, which need ``monitors:read``.
DEFINITIONS: frozenset[ChangeAction] = frozenset({"monitor-created", "monitor-changed", "monitor-deleted"})

#: What changed, before or after.
State = dict[str, Any] | None
ActorKind = Literal["key", "subject", "local", "monitor", "command", "service"]


class Actor(Document):
    """Who made a change."""

    kind: ActorKind = Field(
        description="``key``: an API key; ``subject``: of a token; ``local``: a caller of a service without keys; "
        "``monitor``: a decision of its own; ``command``: a command with access to the store; ``service``: the service"
    )
    id: str | None = Field(None, description="id of the API key or of the monitor, or the subject of the token")
    name: str | None = Field(None, description="name of the API key, of the monitor, or of the user of the command")
    scope: str | None = Field(None, description="what the key grants")
    configured_by: str | None = Field(
        None, description="for a monitor: id or name of the key that last defined it; null if it is not known"
    )


class Author(Document):
    """Who makes the changes of one request or task, why, and in which request."""

    actor: Actor = Actor(kind="service")
    note: str | None = None
    request_id: str | None = None


class Promoter(Document):
    """Who could move an alias: an API key, all holders of tokens with some claims, or a monitor by itself."""

    kind: Literal["key", "tokens", "monitor"] = Field(
        "key", description="``key``: an API key; ``tokens``: all holders of tokens; ``monitor``: a monitor by itself"
    )
    id: str | None = Field(None, description="id of the API key or of the monitor")
    name: str | None = Field(None, description="name of the API key or of the monitor")
    scope: str | None = Field(None, description="what the key, or the value of the claim, grants")
    issuer: str | None = Field(None, description="issuer of the tokens")
    claims: dict[str, str] | None = Field(
        None, description="for tokens: each claim, as the settings name it, and the value that it must have or contain"
    )


class AuditFact(Document):
    """What an entry of the audit log states besides its author and its time."""

    action: ChangeAction = Field(description="what was done")
    map: str | None = Field(None, description="name of the map, or the id of a map without a name")
    alias: str | None = Field(None, description="name of the alias")
    monitor: str | None = None
    monitor_id: str | None = Field(
        None, description="id of the monitor, which a later monitor of the same name does not have"
    )
    key: str | None = Field(None, description="id of the API key that was created, rotated or revoked")
    before: State = Field(None, description="what changed, before; null if it did not exist")
    after: State = Field(None, description="what changed, after; null if it no longer exists")
    detail: str | None = Field(None, description="the reason of the service, such as that of a declined challenger")
    permitted: list[Promoter] | None = Field(
        None,
        description="for ``alias-moved``: everyone who could move the alias then; null if the service required no "
        "credentials, so that every local caller could",
    )


class AttributedFact(AuditFact):
    """A fact with its author."""

    actor: Actor = Field(description="who did it")
    note: str | None = Field(None, description="the reason of the caller, from the header ``Calibrant-Note``")
    request_id: str | None = Field(None, description="id of the request, as in logs and in ``X-Request-Id``")


class StoredFact(AttributedFact):
    """An entry as it is stored: without its id, which contains its time."""

    format: int = 1


class ChangeRecord(AttributedFact):
    """One entry of the audit log."""

    id: str = Field(description="id of the entry; the ids of later entries are greater, unless the clock was set back")
    at: Timestamp = Field(description="when it was done, by the clock of Redis")


class AuditQuery(PageQuery):
    """The query of ``GET /audit``: the page, and filters that are combined with AND."""

    action: ChangeAction | None = Field(None, description="only this action")
    actor: str | None = Field(
        None, min_length=1, max_length=260, description="only changes by the actor with this id or name"
    )
    map: str | None = Field(
        None, min_length=1, max_length=160, description="only changes of the map with this name, or id without a name"
    )
    alias: str | None = Field(None, min_length=1, max_length=64, description="only changes of this alias of any map")
    monitor: str | None = Field(None, min_length=1, max_length=64, description="only changes of this monitor")
    key: str | None = Field(None, min_length=1, max_length=64, description="only changes of the API key with this id")
    request_id: str | None = Field(None, min_length=1, max_length=128, description="only changes by this request")


class AuditPage(Document):
    """The response of ``GET /audit``, newest first."""

    items: list[ChangeRecord]
    next: str | None
