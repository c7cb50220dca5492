"""``calibrant serve``: everything, until told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

import typer

from cli.children import SETTINGS_REFUSED, SettingsRefused
from cli.stack import stack
from storage.errors import EmbeddedStoreFailed

log = logging.getLogger(__name__)

#: Seconds between two looks at the children.
_LOOK_SECONDS = 0.1


def serve_all(
    *, host: str, port: int, data: Path, redis_url: str | None, device: str, level: str, log_format: str
) -> None:
    """Run the stack until SIGINT or SIGTERM, and start again whatever ends of it.

    Exits with 1 if the port or the data folder is not available, and with 2 if a child refuses its settings.
    """
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    try:
        with stack(
            host=host,
            port=port,
            data=data,
            log=None,
            redis_url=redis_url,
            device=device,
            level=level,
            log_format=log_format,
        ) as running:
            typer.echo(f"Calibrant listens on {running.url} (documentation: {running.url}/docs). Ctrl-C stops it.")
            while not told.wait(_LOOK_SECONDS):
                running.mend()
    except SettingsRefused as error:
        _failed(str(error))
        raise typer.Exit(SETTINGS_REFUSED) from error
    except (EmbeddedStoreFailed, OSError) as error:
        raise typer.Exit(_failed(str(error))) from error
    typer.echo("Calibrant has stopped.")


def _failed(what: str) -> int:
    typer.echo(f"calibrant: {what}", err=True)
    return 1
