"""The engine of a command: this process or a server, with identical results."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

import calibrant
from calibrant.cli.exits import Refused, errors_in_a_line
from calibrant.cli.options import read_json
from calibrant.cli.output import STANDARD, bar, say
from calibrant.cli.server_url import client_of

if TYPE_CHECKING:
    from calibrant.client import Calibrant
    from calibrant.client.calls.maps import Applied, AppliedSets
    from calibrant.io.table import ForecastSheet, Sheet


class Engine(NamedTuple):
    """The process of a command, or the server of a client. Rows are sent with each call: a server stores maps alone."""

    client: Calibrant | None = None

    def function(self, name: str, /) -> Callable[..., Any]:
        """Return the function of the library with this name, or the method of the client with the same arguments."""
        function: Callable[..., Any] = getattr(calibrant if self.client is None else self.client, name)
        return function

    def document(self, applied: Any) -> dict[str, Any]:
        """Return the document of a map that ``read_map`` returned: itself, or that of the reference on the server."""
        return applied if self.client is None else self.client.map(applied).document

    def call(
        self, name: str, rows: Sheet | ForecastSheet, /, models: Mapping[str, Sheet] | None = None, **options: Any
    ) -> Any:
        """Return what the function or method with this name makes of the rows; its jobs have a progress bar.

        It gets the options that have a value, and the predictions of ``models`` in place of those of the rows.
        """
        from calibrant.core.progress import reporting

        function, arguments = self.function(name), arguments_of(rows)
        if models is not None:
            predictions = {model: sheet.predictions for model, sheet in models.items()}
            del arguments["predictions"]
            arguments["predictions" if self.client is None else "models"] = predictions
        arguments = _by_name(arguments | {option: value for option, value in options.items() if value is not None})
        with bar() as shown:
            if self.client is None:
                with reporting(shown):
                    return function(**arguments)
            if "progress" in signature(function).parameters:
                arguments["progress"] = shown.of_job
            return function(**arguments)


def _by_name(arguments: dict[str, Any]) -> dict[str, Any]:
    """Name the class of the reduction, which functions and methods look for among the names of the classes first."""
    from calibrant.core.inputs import reduction_with_name

    reduction = arguments.get("reduction")
    if reduction is None:
        return arguments
    return {**arguments, "reduction": reduction_with_name(reduction, arguments.get("class_names"))}


def arguments_of(rows: Sheet | ForecastSheet) -> dict[str, Any]:
    """Return the rows of a file as arguments of functions and of methods of the client, without None values."""
    from calibrant.io.table import ForecastSheet

    arguments: dict[str, Any] = {"weights_kind": None if rows.weights is None else rows.weights_kind}
    if isinstance(rows, ForecastSheet):
        columns: tuple[str, ...] = ("observed", "weights", "groups", "clusters", "by", "times")
        arguments |= rows.forecasts
    else:
        columns = ("predictions", "labels", "weights", "groups", "clusters", "features", "scale")
        arguments["class_names"] = None if rows.labels is None else rows.classes
    arguments |= {name: getattr(rows, name) for name in columns}
    return {name: value for name, value in arguments.items() if value is not None}


@contextlib.contextmanager
def engine_of(server: str | None) -> Iterator[Engine]:
    """Open this process or a server; an error ends the command with one line."""
    if not server:
        with errors_in_a_line():
            yield Engine()
        return
    with client_of(server, "maps") as client:
        yield Engine(client)


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


def say_map(answer: Applied | AppliedSets) -> None:
    """Print the map that a server applied: a name or an alias does not tell the version."""
    say(f"applied map {answer.map}" + ("" if answer.version is None else f", version {answer.version}"))


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
