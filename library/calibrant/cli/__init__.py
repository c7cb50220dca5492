"""The command ``calibrant``."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command; without the extra ``cli`` print the line that installs it."""
    try:
        from calibrant.cli.main import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("calibrant: the command needs the extra cli: pip install 'calibrant[cli]'")
    app(prog_name="calibrant")
