"""List who changed maps, aliases, API keys and monitors on a server, when, from what to what, and why."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calibrant.cli.options import After, Before
from calibrant.cli.output import plain, table, write_json, write_lines
from calibrant.cli.server_url import NeededServer, client_of

if TYPE_CHECKING:
    from calibrant.client.answers import ChangeRecord

_WHOSE = "audit logs"
#: Fields of a state that the table shows, the first that there is.
_STATES = ("version", "scope", "expires_at", "id", "revoked_at")


def audit(
    action: Annotated[str | None, typer.Option("--action", help="Only this action, such as alias-moved.")] = None,
    actor: Annotated[
        str | None, typer.Option("--actor", help="Only changes by the API key or monitor with this id or name.")
    ] = None,
    map_of: Annotated[str | None, typer.Option("--map", help="Only changes of the map with this name.")] = None,
    alias: Annotated[str | None, typer.Option("--alias", help="Only changes of this alias.")] = None,
    monitor: Annotated[str | None, typer.Option("--monitor", help="Only changes of this monitor.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only changes of the API key with this id.")] = None,
    request_id: Annotated[
        str | None, typer.Option("--request-id", help="Only changes by the request with this id, as in logs.")
    ] = None,
    after: After = None,
    before: Before = None,
    most: Annotated[int | None, typer.Option("--most", min=1, help="Print at most this many entries.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON Lines, one entry a line as the API returns it.")
    ] = False,
    server: NeededServer = None,
) -> None:
    """List the audit log, newest first."""
    filters: dict[str, Any] = {"action": action, "actor": actor, "map": map_of, "alias": alias, "monitor": monitor}
    filters |= {"key": key, "request_id": request_id, "created_after": after, "created_before": before}
    shown = table("at", "action", "what", "from", "to", "by", "why", left=7)
    with client_of(server, _WHOSE) as client:
        for entry in islice(client.audit_log(**filters), most):
            if as_json:
                write_json(entry.to_dict())
            else:
                shown.add_row(*_row(entry))
    if not as_json:
        write_lines(shown)


def _row(entry: ChangeRecord) -> list[str]:
    subject = entry.map if entry.alias is None else f"{entry.map}@{entry.alias}"
    actor = entry.actor.name or entry.actor.id or entry.actor.kind
    by = f"monitor {actor}" if entry.actor.kind == "monitor" else actor
    states = [_state(entry.before), _state(entry.after)]
    why = entry.note or entry.detail or "-"
    return [entry.at, entry.action, plain(subject or entry.monitor or entry.key or "-"), *states, plain(by), plain(why)]


def _state(state: dict[str, Any] | None) -> str:
    fields = state or {}
    return next((plain(str(fields[name])) for name in _STATES if fields.get(name)), "-")
