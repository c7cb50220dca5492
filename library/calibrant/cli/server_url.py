"""The server of a command, and its API key."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant.cli.exits import errors_in_a_line

if TYPE_CHECKING:
    from calibrant.client import Calibrant

#: The key of the server: never a flag, which everyone on the machine could read.
KEY_VARIABLE = "CALIBRANT_API_KEY"
_VARIABLE = "CALIBRANT_SERVER"

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar=_VARIABLE,
        help=f"URL of the server; its API key is taken from {KEY_VARIABLE}. Without one, all is done in this process.",
    ),
]
NeededServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar=_VARIABLE,
        help=f"URL of the server, which is needed; its API key is taken from {KEY_VARIABLE}.",
    ),
]


@contextlib.contextmanager
def client_of(server: str | None, whose: str) -> Iterator[Calibrant]:
    """The client of a server, whose errors end the command with one line; ``whose`` names what the server keeps."""
    if not server:
        raise typer.BadParameter(
            f"{whose} are kept by a server; name it by --server or {_VARIABLE}", param_hint="--server"
        )
    with errors_in_a_line(server), _client(server) as client:
        yield client


def _client(server: str) -> Calibrant:
    from httpx import InvalidURL

    from calibrant.client import Calibrant

    try:
        return Calibrant(server, api_key=os.environ.get(KEY_VARIABLE))
    except (ValueError, InvalidURL) as error:
        raise typer.BadParameter(str(error), param_hint="--server") from None
