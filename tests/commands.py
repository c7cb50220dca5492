"""Commands of the program, run in this process, and what tests read of them."""

from __future__ import annotations

import json
import subprocess
import sys
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


def same_output(server: str, *arguments: object) -> str:
    """What a command that succeeded printed, which is the same with this server and without one."""
    here, there = (succeeded(url, *arguments) for url in (None, server))
    assert (here.stdout, here.stderr) == (there.stdout, there.stderr)
    return here.stdout


def printed_by(code: str) -> str:
    """What Python code printed in a process of its own, which has imported nothing yet."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def error_of(command: Result, code: int | None = None) -> str:
    """What a command that failed printed, with this exit code or any other than 0."""
    assert command.exit_code == code if code is not None else command.exit_code != 0, command.output
    return command.stderr


def succeeds(command: Result) -> None:
    """The command succeeded; what it printed does not matter."""
    output_of(command)


def output_of(command: Result) -> str:
    """What a command that succeeded printed on standard output."""
    assert command.exit_code == 0, command.stderr
    return command.stdout


def notes_of(command: Result) -> str:
    """What a command that succeeded printed on standard error."""
    assert command.exit_code == 0, command.stderr
    return command.stderr


def document_of(command: Result) -> Any:
    """The JSON that a command that succeeded printed."""
    return json.loads(output_of(command))
