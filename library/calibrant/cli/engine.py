"""The engine of a command: this process or a server, with identical results."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import typer

from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.options import EvaluateFlags, Fit, PictureFlags, read_json
from calibrant.cli.output import STANDARD
from calibrant.cli.results import Fitted
from calibrant.cli.server_url import client_of

if TYPE_CHECKING:
    from calibrant.core.cells import Floats
    from calibrant.io.table import Sheet


class Engine(Protocol):
    """Runs the operations of the commands."""

    def evaluate(self, rows: Sheet, request: EvaluateFlags) -> dict[str, Any]:
        """Evaluate the rows; returns the JSON of ``POST /evaluate``."""
        ...

    def fit(self, rows: Sheet, request: Fit) -> Fitted:
        """Fit a map to the rows."""
        ...

    def document(self, map: str | dict[str, Any]) -> dict[str, Any]:
        """Return the document of a map."""
        ...

    def calibrate(self, rows: Sheet, map: str | dict[str, Any]) -> Floats:
        """Apply a map to the predictions."""
        ...

    def draw(self, rows: Sheet, request: PictureFlags) -> bytes:
        """Draw a diagram of the rows; returns the SVG or PNG of ``POST /diagrams``."""
        ...


@contextlib.contextmanager
def engine_of(server: str | None) -> Iterator[Engine]:
    """Open the local or the remote engine; an error ends the command with one line."""
    if not server:
        from calibrant.cli.local import Local

        with errors_in_a_line():
            yield Local()
        return
    from calibrant.cli.remote import Remote

    with client_of(server, "maps") as client:
        yield Remote(client)


def read_map(text: str | None, server: str | None) -> str | dict[str, Any] | None:
    """Resolve ``--map``: the document in a file, or with a server a reference; None without a map.

    A server applies only maps that it stores. A file is refused; the error names the command that imports it.
    """
    if text is None:
        return None
    path = Path(text)
    is_file = path.suffix == ".json" or len(path.parts) > 1
    if server:
        if is_file:
            raise typer.BadParameter(
                f"must be a map on the server, not a file; import it with 'calibrant maps import {text}', "
                "or omit --server",
                param_hint="--map",
            )
        return text
    if not is_file and not path.is_file():
        from calibrant.calibrators.fitting import FAMILIAR, METHODS

        method = f" --method {text}" if text in METHODS or text in FAMILIAR else ""
        raise typer.BadParameter(
            f"file does not exist; fit a map first with 'calibrant fit FILE{method} --out map.json' and pass map.json; "
            "to use a map on a server, add --server",
            param_hint="--map",
        )
    return read_document(path)


def read_document(path: Path) -> dict[str, Any]:
    """Read a map from a JSON file or from standard input; raises ``Refused`` if it is not a JSON object."""
    standard = path == STANDARD
    whose = "standard input" if standard else str(path)
    try:
        document = read_json(sys.stdin.buffer.read() if standard else path.read_bytes())
    except json.JSONDecodeError as error:
        raise Refused(f"{whose} is not a calibration map: invalid JSON in line {error.lineno}") from None
    if not isinstance(document, dict):
        raise Refused(f"{whose} is not a calibration map: it must be a JSON object")
    return document
