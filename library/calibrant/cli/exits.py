"""Exit codes of the commands, and their one-line error messages."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import typer

from calibrant.core.errors import CalibrationError, Offence, in_rows

# --- Errors in terms of the command line: options and rows instead of JSON Pointers

#: Field of the HTTP API -> the option that sets it, if it has another name.
_FLAGS = {"measures": "--measure", "diagrams": "--diagram", "options": "--option", "document": "the document"}
#: Type of a problem -> what to do about it on the command line.
_REMEDIES = {
    "/problems/output-shape-changed": "to allow it, add --allow-shape-change",
    "/problems/unauthorized": "set CALIBRANT_API_KEY to the key",
    "/problems/invalid-token": "set CALIBRANT_API_KEY to a new token",
}
#: What to do about rows that do not sum to 1.
_OF_SUMS = "; name one column per class with --prediction, or a single column for P(Y=1)"
_OF_ROWS = ("predictions", "labels", "weights", "groups", "observed", "quantiles", "by", "clusters")


def line_of(detail: str, places: Sequence[Offence]) -> str:
    """Return the message for an error: its first invalid place, or its ``detail`` if it has none.

    >>> line_of("", [Offence("/labels/17", "is not 0 or 1")])
    'labels in row 18: is not 0 or 1'
    >>> line_of("", [Offence("/measures/0", "must be one of: ece, ks")])
    '--measure: must be one of: ece, ks'
    """
    if not places:
        return detail
    if (message := in_rows(detail)) is not None:
        return f"{message}{_OF_SUMS}" if "sum to 1" in message else message
    first = places[0]
    field, *rest = first.pointer.split("/")[1:] or [""]
    if field in _OF_ROWS and rest and rest[0].isdigit():
        return f"{field} in row {int(rest[0]) + 1}: {first.detail}"
    context, flag = current_context(), _FLAGS.get(field, f"--{field.replace('_', '-')}")
    unknown = context is not None and flag.startswith("--") and not has_option(context, flag)
    if not field or (unknown and field in _OF_ROWS):
        return detail
    inner = " ".join(part for part in rest if not part.isdigit())
    if unknown:
        flag = f"the {field}"
    return f"{flag}{f' {inner}' if inner else ''}: {first.detail}"


def current_context() -> typer.Context | None:
    """Return the context of the command that runs, if any."""
    current = getattr(typer.main, "get_current_context", None)
    return None if current is None else current(silent=True)


def has_option(context: typer.Context, flag: str) -> bool:
    """Whether the command has this option."""
    return any(flag in parameter.opts for parameter in context.command.params)


def is_stated(name: str) -> bool:
    """Whether the caller stated this parameter of the command that runs, even as its default."""
    source = None if (context := current_context()) is None else context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


# --- Exit codes and failures

#: Invalid data or request; server unreachable or failed; measure above its bound or alarm raised. 2 (usage error) and
#: 130 (Ctrl-C) are conventional.
REFUSED, USAGE, AWAY, ABOVE = 1, 2, 3, 4
EXIT_CODES = (
    "Exit codes: 0 success; 1 invalid data or request; 2 usage error; 3 the server is unreachable or failed; "
    "4 a measure is above --fail-above, or an alarm is raised; 130 interrupted by Ctrl-C."
)
#: Status codes from here on are server errors.
_OF_THE_SERVER = 500


class Refused(Exception):
    """An error of a command; its text is shown to the user, and ``code`` is the exit code."""

    def __init__(self, text: str, code: int = REFUSED) -> None:
        super().__init__(text)
        self.code = code


class Failure(NamedTuple):
    """The message for an error, without the prefix ``calibrant:``, and the exit code."""

    line: str
    code: int = REFUSED


@contextlib.contextmanager
def errors_in_a_line(whose: str | None = None) -> Iterator[None]:
    """Print an expected error in one line and exit with its code; ``whose`` is the URL of the server."""
    try:
        yield
    except Exception as error:
        failure = _failure(error, whose)
        if failure is None:
            raise
        typer.echo(f"calibrant: {failure.line}", err=True)
        raise typer.Exit(failure.code) from None


def _failure(error: Exception, whose: str | None) -> Failure | None:
    """Return the failure for an error; None for a bug, which keeps its traceback."""
    if isinstance(error, Refused):
        return Failure(str(error), error.code)
    if isinstance(error, MemoryError):
        return Failure("not enough memory")
    return _of_the_numbers(error) or _of_a_server(error, whose) or _of_a_file(error)


def _of_the_numbers(error: Exception) -> Failure | None:
    from calibrant.io.errors import TabularError

    if isinstance(error, TabularError):
        return Failure(error.detail)
    if isinstance(error, CalibrationError):
        return Failure(line_of(error.detail, error.offences))
    return None


def _of_a_server(error: Exception, whose: str | None) -> Failure | None:
    if "httpx" not in sys.modules:  # no client was created
        return None
    import httpx

    from calibrant.client.errors import ProblemResponse

    if isinstance(error, ProblemResponse):
        problem = error.problem
        # A response without a problem type comes from a proxy or another server.
        refused = problem.type != "about:blank" and problem.status < _OF_THE_SERVER
        code = REFUSED if refused else AWAY
        # The options of binary bodies are parameters; their details begin with the index in a list.
        places = [
            Offence(f"/{place.parameter}", re.sub(r"^(\d+): ", "", place.detail))
            if place.parameter
            else Offence(place.pointer or "", place.detail)
            for place in problem.errors
        ]
        line = line_of(f"{problem.title}: {problem.detail}", places)
        remedy = _REMEDIES.get(problem.type)
        return Failure(line if remedy is None else f"{line}; {remedy}", code)
    if isinstance(error, httpx.TransportError):
        return Failure(f"cannot reach the server {whose} ({type(error).__name__})", AWAY)
    return None


def _of_a_file(error: Exception) -> Failure | None:
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    return Failure(error.strerror if error.filename is None else f"{error.filename}: {error.strerror}")
