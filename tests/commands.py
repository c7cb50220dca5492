"""What tests read of commands that ended."""

from __future__ import annotations

from typer.testing import Result


def error_of(result: Result, code: int | None = None) -> str:
    """What a command that failed printed, with this exit code or any other than 0."""
    assert result.exit_code == code if code is not None else result.exit_code != 0, result.output
    return result.stderr
