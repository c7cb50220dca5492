"""What tests read of commands that ended."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import Result


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
