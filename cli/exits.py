"""Exit codes of the commands, and the one line on standard error that tells why one failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import typer

from cli.places import line_of

#: The data or the request is refused; the server is away, or failed by an error of its own; a measure is above its
#: bound. 2 is wrong usage and 130 Ctrl-C, as everywhere.
REFUSED, AWAY, ABOVE = 1, 3, 4
EXIT_CODES = (
    "Exit codes: 0 fine; 1 the data or the request is refused; 2 wrong usage; 3 the server is away or failed; "
    "4 a measure is above --fail-above, or an alarm is up; 130 ended by Ctrl-C."
)
#: Status codes from here on are errors of a server's own.
_OF_THE_SERVER = 500
#: What may be missing, and the extra that brings it.
_EXTRAS = {"torch": "worker", "pyarrow": "arrow", "pwlf": "pl-de"}


class Refused(Exception):
    """What a command itself refuses, in words."""


class Failure(NamedTuple):
    """What is told of an error, without ``calibrant:`` before it, and the code to exit with."""

    line: str
    code: int = REFUSED


@contextlib.contextmanager
def told(whose: str | None = None) -> Iterator[None]:
    """Tell what a user can mend in a line, and exit with its code; ``whose`` is the URL of the server in use."""
    try:
        yield
    except Exception as error:
        failure = _failure(error, whose)
        if failure is None:
            raise
        typer.echo(f"calibrant: {failure.line}", err=True)
        raise typer.Exit(failure.code) from None


def _failure(error: Exception, whose: str | None) -> Failure | None:
    """What is told of an error; None of one that is a mistake of ours."""
    if isinstance(error, Refused):
        return Failure(str(error))
    if isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        extra = _EXTRAS[error.name]
        return Failure(f"this needs {error.name}, of the extra {extra}: pip install 'calibrant[{extra}]'")
    if isinstance(error, MemoryError):
        return Failure("there is not enough memory for this")
    return _of_the_numbers(error) or _of_a_server(error, whose) or _of_a_file(error)


def _of_the_numbers(error: Exception) -> Failure | None:
    from calibrant.errors import CalibrationError
    from tabular.errors import TabularError

    if isinstance(error, TabularError):
        return Failure(error.detail)
    if isinstance(error, CalibrationError):
        return Failure(line_of(error.detail, error.offences))
    return None


def _of_a_server(error: Exception, whose: str | None) -> Failure | None:
    import httpx

    from calibrant_client.errors import ProblemResponse

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
