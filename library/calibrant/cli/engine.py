"""Where the work of a command is done: in this process or by a server, with the same results to the last digit."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import typer

from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.options import Evaluate, Fit, Picture, read_json
from calibrant.cli.output import STANDARD
from calibrant.cli.server_url import client_of

if TYPE_CHECKING:
    from calibrant.cells import Floats
    from calibrant.io.table import Sheet


class Fitted(NamedTuple):
    """A fitted map: its document, its scores on the rows of the fit, and where a server keeps it."""

    document: dict[str, Any]
    in_sample: dict[str, Any] | None
    ref: str | None = None


class Engine(Protocol):
    """What does the work."""

    def evaluate(self, rows: Sheet, request: Evaluate) -> dict[str, Any]:
        """The report of the rows, as ``POST /evaluate`` answers it."""
        ...

    def fit(self, rows: Sheet, request: Fit) -> Fitted:
        """A map fitted to the rows."""
        ...

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """The predictions after a map."""
        ...

    def draw(self, rows: Sheet, request: Picture) -> bytes:
        """A picture of the rows, as ``POST /diagrams`` answers it."""
        ...


@contextlib.contextmanager
def engine_of(server: str | None) -> Iterator[Engine]:
    """The engine of a command; its errors end the command with one line."""
    if not server:
        from calibrant.cli.local import Local

        with errors_in_a_line():
            yield Local()
        return
    from calibrant.cli.remote import Remote

    with client_of(server, "maps") as client:
        yield Remote(client)


def read_map(text: str, server: str | None) -> str | dict[str, Any]:
    """The map that ``--map`` names: a document in a file, or a reference of the server's.

    A server applies only the maps that it stores, so a file is refused with the command that imports it.
    """
    path = Path(text)
    is_file = path.suffix == ".json" or len(path.parts) > 1
    if server:
        if is_file:
            raise typer.BadParameter(
                "is a file, and a server applies the maps that it keeps: store it there by "
                f"'calibrant maps import {text}', or leave out the server",
                param_hint="--map",
            )
        return text
    if not is_file and not path.is_file():
        raise typer.BadParameter(
            "is no file, and the names of maps are a server's: name one by --server", param_hint="--map"
        )
    return read_document(path)


def read_document(path: Path) -> dict[str, Any]:
    """A map's document from a file, or from standard input; raises ``Refused`` where it is no JSON object."""
    standard = path == STANDARD
    whose = "standard input" if standard else str(path)
    try:
        document = read_json(sys.stdin.buffer.read() if standard else path.read_bytes())
    except json.JSONDecodeError as error:
        raise Refused(f"{whose} is no map's document: no JSON from line {error.lineno} on") from None
    if not isinstance(document, dict):
        raise Refused(f"{whose} is no map's document: that is a JSON object")
    return document
