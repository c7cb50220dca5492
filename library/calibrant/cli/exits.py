"""Exit codes of the commands, and the line on standard error that says why one failed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import typer

from calibrant.errors import in_rows

# --- Errors in terms of the command line: flags and rows instead of JSON Pointers

#: Field of the wire's contract -> the flag that sets it.
_FLAGS = {
    "measures": "--measure",
    "diagram": "--diagram",
    "diagrams": "--diagram",
    "theme": "--theme",
    "width": "--width",
    "reduction": "--reduction",
    "interval": "--interval",
    "resamples": "--resamples",
    "seed": "--seed",
    "scale": "--scale",
    "map": "--map",
    "method": "--method",
    "options": "--option",
    "name": "--name",
    "ref": "the map",
    "document": "the document",
}
_OF_ROWS = ("predictions", "labels", "weights", "groups")


class Place(Protocol):
    """One invalid place, as both the library and a server report it."""

    @property
    def pointer(self) -> str: ...  # noqa: D102
    @property
    def detail(self) -> str: ...  # noqa: D102


def line_of(detail: str, places: Sequence[Place]) -> str:
    """The line for an error with its ``detail``: its first place, which is what a person fixes first.

    >>> from calibrant.errors import Offence
    >>> line_of("", [Offence("/labels/17", "is not 0 or 1")])
    'labels in row 18: is not 0 or 1'
    >>> line_of("", [Offence("/measures/0", "must be one of: ece, ks")])
    '--measure: must be one of: ece, ks'
    """
    if not places:
        return detail
    if (message := in_rows(detail)) is not None:
        return message
    first = places[0]
    field, *rest = first.pointer.split("/")[1:] or [""]
    if field in _OF_ROWS and rest and rest[0].isdigit():
        return f"{field} in row {int(rest[0]) + 1}: {first.detail}"
    if field not in _FLAGS:
        return detail
    inner = " ".join(part for part in rest if not part.isdigit())
    return f"{_FLAGS[field]}{f' {inner}' if inner else ''}: {first.detail}"


# --- Exit codes of the commands, and the line on standard error that says why one failed

#: The data or the request is refused; the server is away, or failed by an error of its own; a measure is above its
#: bound. 2 is wrong usage and 130 Ctrl-C, as everywhere.
REFUSED, AWAY, ABOVE = 1, 3, 4
EXIT_CODES = (
    "Exit codes: 0 fine; 1 the data or the request is refused; 2 wrong usage; 3 the server is away or failed; "
    "4 a measure is above --fail-above, or an alarm is up; 130 ended by Ctrl-C."
)
#: Status codes from here on are errors of a server's own.
_OF_THE_SERVER = 500


class Refused(Exception):
    """An error of the command line itself; its text is shown to the user."""


class Failure(NamedTuple):
    """The line for an error, without ``calibrant:`` before it, and the exit code."""

    line: str
    code: int = REFUSED


@contextlib.contextmanager
def errors_in_a_line(whose: str | None = None) -> Iterator[None]:
    """Print an error that a user can fix in one line and exit with its code; ``whose`` is the URL of the server."""
    try:
        yield
    except Exception as error:
        failure = _failure(error, whose)
        if failure is None:
            raise
        typer.echo(f"calibrant: {failure.line}", err=True)
        raise typer.Exit(failure.code) from None


def _failure(error: Exception, whose: str | None) -> Failure | None:
    """The failure for an error; None for a bug, which keeps its traceback."""
    if isinstance(error, Refused):
        return Failure(str(error))
    if isinstance(error, MemoryError):
        return Failure("there is not enough memory for this")
    return _of_the_numbers(error) or _of_a_server(error, whose) or _of_a_file(error)


def _of_the_numbers(error: Exception) -> Failure | None:
    from calibrant.errors import CalibrationError
    from calibrant.io.errors import TabularError

    if isinstance(error, TabularError):
        return Failure(error.detail)
    if isinstance(error, CalibrationError):
        return Failure(line_of(error.detail, error.offences))
    return None


def _of_a_server(error: Exception, whose: str | None) -> Failure | None:
    if "httpx" not in sys.modules:  # no client was made
        return None
    import httpx

    from calibrant.client.errors import ProblemResponse

    if isinstance(error, ProblemResponse):
        problem = error.problem
        # What has no type is no answer of the service's: that of a proxy, or of another server.
        refused = problem.type != "about:blank" and problem.status < _OF_THE_SERVER
        code = REFUSED if refused else AWAY
        return Failure(line_of(f"{problem.title}: {problem.detail}", problem.errors), code)
    if isinstance(error, httpx.TransportError):
        return Failure(f"{whose} does not answer ({type(error).__name__})", AWAY)
    return None


def _of_a_file(error: Exception) -> Failure | None:
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    return Failure(error.strerror if error.filename is None else f"{error.filename}: {error.strerror}")
