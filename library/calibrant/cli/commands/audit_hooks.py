"""List, set and delete the webhooks that send the audit log of a server elsewhere."""

from __future__ import annotations

from typing import Annotated

import typer

from calibrant.cli.output import Json, plain, say, table, write_json, write_lines
from calibrant.cli.server_url import NeededServer, client_of

audit_hooks = typer.Typer(no_args_is_help=True)

Hook = Annotated[str, typer.Argument(help="Name of the hook.")]
_WHOSE = "audit logs"


@audit_hooks.command(name="list")
def list_hooks(as_json: Json = False, server: NeededServer = None) -> None:
    """List the hooks, with how far each is and its last attempt."""
    with client_of(server, _WHOSE) as client:
        hooks = client.audit_hooks()
    if as_json:
        write_json([hook.to_dict() for hook in hooks])
        return
    shown = table("hook", "url", "last entry accepted", "last attempt", "outcome", "failures", left=5)
    for hook in hooks:
        progress = hook.progress
        outcome = str(progress.error or progress.status or "-")
        shown.add_row(
            hook.name, plain(hook.url), progress.sent or "-", progress.at or "-", outcome, str(progress.failures)
        )
    write_lines(shown)


@audit_hooks.command(name="set")
def set_hook(
    name: Hook,
    url: Annotated[str, typer.Argument(help="URL that receives the entries as CloudEvents.")],
    secret: Annotated[
        str | None,
        typer.Option(
            "--secret",
            envvar="CALIBRANT_HOOK_SECRET",
            help="whsec_ and base64; default: that of the hook, or a new one. Prefer the variable, which no list of "
            "processes shows.",
        ),
    ] = None,
    as_json: Json = False,
    server: NeededServer = None,
) -> None:
    """Send the entries from now on to a URL. A new secret is printed, once."""
    with client_of(server, _WHOSE) as client:
        hook = client.audit_hook(name, url, secret=secret)
    if as_json:
        write_json(hook.to_dict())
        return
    say(f"the audit log is sent to {hook.url}")
    if hook.secret is not None:
        typer.echo(hook.secret)


@audit_hooks.command()
def delete(name: Hook, server: NeededServer = None) -> None:
    """Delete a hook; nothing more is sent to it."""
    with client_of(server, _WHOSE) as client:
        client.delete_audit_hook(name)
    say(f"deleted {name}")
