"""The server of a command and its API key."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli.exits import errors_in_a_line

if TYPE_CHECKING:
    from calibrant.client import Calibrant

#: The API key is never an option: other users of the machine can see command lines.
KEY_VARIABLE = "CALIBRANT_API_KEY"
_VARIABLE = "CALIBRANT_SERVER"

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar=_VARIABLE,
        help=f"URL of a server; {KEY_VARIABLE} holds the API key. Without a server, the command runs in this process.",
    ),
]
NeededServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar=_VARIABLE,
        help=f"URL of the server (required); {KEY_VARIABLE} holds the API key.",
    ),
]


@contextlib.contextmanager
def client_of(server: str | None, whose: str) -> Iterator[Calibrant]:
    """Open a client of the server; an error ends the command with one line. ``whose`` is what the command manages."""
    if not server:
        raise typer.BadParameter(
            f"is required: {whose} are stored on a server; set --server or {_VARIABLE}", param_hint="--server"
        )
    with errors_in_a_line(server), _client(server) as client:
        yield client


def _client(server: str) -> Calibrant:
    from httpx import InvalidURL

    from calibrant.client import Calibrant
    from calibrant.client.server import headers_of

    key = os.environ.get(KEY_VARIABLE)
    try:
        headers_of(key)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=KEY_VARIABLE) from None
    try:
        return Calibrant(server, api_key=key)
    except (ValueError, InvalidURL) as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
