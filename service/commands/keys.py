"""``calibrant keys``: manage API keys directly in the store, never over HTTP."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backend.command_options import DATA, Config, Data, Note, RedisUrl, RedisUrlFile, command_author, store_url
from backend.store.keyspace import DEFAULT_TENANT

if TYPE_CHECKING:
    from backend.store.api_keys import ApiKeyStore
    from schemas.audit import Author
    from schemas.keys import KeyRecord

keys = typer.Typer(help="Create, list, rotate and revoke API keys, directly in the store.", no_args_is_help=True)

#: The arguments whose names are stored, and the names that their patterns in ``schemas.keys`` accept.
_NAMES = {
    "name": (
        "name",
        "1 to 64 letters, digits, dots, underscores, hyphens and spaces, the first a letter or digit, such as ci-job",
    ),
    "tenant": (
        "--tenant",
        "1 to 63 lower-case letters, digits and hyphens, the first a letter or digit, such as team-a",
    ),
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def _seconds(text: str) -> int:
    """Convert a duration such as 90d, 12h, 30m or 45s to seconds."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if match is None:
        raise typer.BadParameter("must be a number followed by s, m, h or d, such as 90d")
    return int(match[1]) * _UNITS[match[2]]


@keys.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key in lists and logs.")],
    tenant: Annotated[str, typer.Option(help="Tenant whose data the key can access; a new name creates a tenant.")] = (
        DEFAULT_TENANT
    ),
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What the key may do; repeat it for several: maps:read, maps:write, maps:promote, batches:write, "
            "monitors:read or monitors:write; read for both that read, write for all of these, the default, or admin "
            "for all and the metrics of the service.",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[str | None, typer.Option(help="The key expires after this duration, such as 90d.")] = None,
    rate_limit: Annotated[
        int | None, typer.Option(min=0, help="Requests per minute; 0 for no limit; default: the service's setting.")
    ] = None,
    note: Note = None,
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
) -> None:
    """Create a key and print it. The key is shown only once and not stored.

    Once a key exists, every request but health checks needs a key.
    """
    from backend.store.clock import stamp

    ends, granted = None if expires is None else stamp(after=_seconds(expires)), _grant(scope or ["write"])
    with _store(store_url(redis_url, redis_url_file), data, command_author(note)) as store:
        created = store.create(name, tenant=tenant, scope=granted, expires_at=ends, rate_limit=rate_limit)
    typer.echo(
        f"key {created.record.id} ({created.record.name}) of tenant {created.record.tenant}, scope {granted}:", err=True
    )
    typer.echo(created.text)


@keys.command()
def rotate(
    key_id: Annotated[str, typer.Argument(help="Id of the key.")],
    grace: Annotated[str, typer.Option(help="The old secret expires after this duration.")] = "24h",
    expires: Annotated[str | None, typer.Option(help="The new secret expires after this duration.")] = None,
    note: Note = None,
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
) -> None:
    """Replace the secret of a key and print the new key; the old secret expires after the grace period."""
    from backend.store.clock import stamp

    ends = None if expires is None else stamp(after=_seconds(expires))
    with _store(store_url(redis_url, redis_url_file), data, command_author(note)) as store:
        rotated = store.rotate(key_id, grace=_seconds(grace), expires_at=ends)
    typer.echo(rotated.text)


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key.")],
    note: Note = None,
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
) -> None:
    """Revoke a key. Every process rejects it within a second."""
    with _store(store_url(redis_url, redis_url_file), data, command_author(note)) as store:
        store.revoke(key_id)
    typer.echo(f"key {key_id} is revoked", err=True)


@keys.command("list")
def list_keys(
    config: Config = None,  # noqa: ARG001 - sets variables
    redis_url: RedisUrl = None,
    redis_url_file: RedisUrlFile = None,
    data: Data = DATA,
) -> None:
    """List all keys, including revoked and expired ones."""
    from rich.console import Console
    from rich.table import Table

    from schemas.keys import KeyRecord

    with _store(store_url(redis_url, redis_url_file), data) as store:
        records = store.all()
    table = Table(box=None, pad_edge=False)
    columns = [name for name in KeyRecord.model_fields if name not in ("format", "secrets")]
    for name in columns:
        table.add_column(_TITLES.get(name, name.replace("_", " ")), no_wrap=True)
    for record in records:
        rate = {None: "service setting", 0: "no limit"}.get(record.rate_limit, str(record.rate_limit))
        texts = {"revoked_at": _state(record), "rate_limit": rate}
        table.add_row(*(texts.get(name) or str(getattr(record, name)) for name in columns))
    # A pipe has no terminal width.
    Console(width=None if sys.stdout.isatty() else 240).print(table)


#: The titles of columns that are not the names of fields; the state follows from the secrets too.
_TITLES = {"created_at": "created", "revoked_at": "state", "rate_limit": "requests per minute"}


def _state(record: KeyRecord) -> str:
    from backend.store.api_keys import is_live

    if record.revoked_at is not None:
        return f"revoked {record.revoked_at}"
    live = [secret for secret in record.secrets if is_live(secret)]
    if not live:
        return "expired"
    ends = max((s.expires_at or "" for s in live if s.expires_at is None or len(live) == 1), default="")
    return f"live{' until ' + ends if ends else ''}{', rotating' if len(live) > 1 else ''}"


def _grant(scopes: list[str]) -> str:
    """The text of what a key grants; raises ``BadParameter`` for an unknown scope."""
    from schemas.keys import SCOPES, UNIONS, scopes_of

    granted = " ".join(dict.fromkeys(scopes))
    try:
        scopes_of(granted)
    except ValueError:
        known = ", ".join([*SCOPES, *(union for union in UNIONS if union not in SCOPES)])
        raise typer.BadParameter(f"must be one of {known}", param_hint="--scope") from None
    return granted


@contextlib.contextmanager
def _store(redis_url: str | None, data: Path, author: Author | None = None) -> Iterator[ApiKeyStore]:
    """Open the keys of the given store, or of the embedded one; report errors in one line."""
    from pydantic import ValidationError

    from backend.store.api_keys import ApiKeyStore
    from backend.store.errors import StorageError
    from backend.store.server.connection import UNAVAILABLE, connect, error_name
    from backend.store.server.embedded import store_of

    try:
        with store_of(data) if redis_url is None else contextlib.nullcontext(redis_url) as url:
            redis = connect(url)
            try:
                yield ApiKeyStore(redis) if author is None else ApiKeyStore(redis, author)
            finally:
                redis.close()
    except StorageError as error:
        raise typer.Exit(_failed(error.detail)) from error
    except ValidationError as error:
        argument, accepted = _NAMES[str(error.errors()[0]["loc"][0])]
        raise typer.BadParameter(f"must be {accepted}", param_hint=argument) from None
    except UNAVAILABLE as error:
        raise typer.Exit(_failed(f"the store cannot be reached ({error_name(error)})")) from None


def _failed(what: str) -> int:
    typer.echo(f"calibrant: {what}", err=True)
    return 1
