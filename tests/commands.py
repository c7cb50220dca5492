"""Commands of the program, run in this process, and what tests read of them."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from calibrant.cli.main import app


def invoked(server: str | None, *arguments: object) -> Result:
    """A command that ended, run with this server or without one."""
    return CliRunner().invoke(app, [*map(str, arguments)], env={"CALIBRANT_SERVER": server})


def succeeded(server: str | None, *arguments: object) -> Result:
    """A command that ended with exit code 0, run with this server or without one."""
    outcome = invoked(server, *arguments)
    succeeds(outcome)
    return outcome


def error_of(result: Result, code: int | None = None) -> str:
    """What a command that failed printed, with this exit code or any other than 0."""
    assert result.exit_code == code if code is not None else result.exit_code != 0, result.output
    return result.stderr


def succeeds(result: Result) -> None:
    """The command succeeded; what it printed does not matter."""
    output_of(result)


def output_of(result: Result) -> str:
    """What a command that succeeded printed on standard output."""
    assert result.exit_code == 0, result.stderr
    return result.stdout


def notes_of(result: Result) -> str:
    """What a command that succeeded printed on standard error."""
    assert result.exit_code == 0, result.stderr
    return result.stderr


def document_of(result: Result) -> Any:
    """The JSON that a command that succeeded printed."""
    return json.loads(output_of(result))
