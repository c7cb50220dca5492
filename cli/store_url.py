"""Where the store is, as a command is told it: by a variable or a file, which others cannot read, or by a flag."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from backend.store.server.redis_url import UnreadableUrl, read_url

#: The options of a command that works on the store itself.
RedisUrl = Annotated[
    str | None, typer.Option("--redis-url", envvar="CALIBRANT_REDIS_URL", help="Redis that is the store.")
]
RedisUrlFile = Annotated[
    Path | None,
    typer.Option("--redis-url-file", envvar="CALIBRANT_REDIS_URL_FILE", help="File that holds the URL of the Redis."),
]
Data = Annotated[
    Path, typer.Option("--data", envvar="CALIBRANT_DATA", help="Folder of the embedded store, where there is no URL.")
]
#: The folder where none is told.
DATA = Path(".calibrant")

_FLAG, _FILE_FLAG = "--redis-url", "--redis-url-file"
_VARIABLE = "CALIBRANT_REDIS_URL"


def store_url(redis_url: str | None, file: Path | None) -> str | None:
    """The URL that is given, checked; None where none is. A wrong one is refused without its text.

    A password in a flag is refused: everyone on the machine reads it in the list of processes.
    """
    if file is not None and redis_url is not None:
        raise typer.BadParameter(f"{_FLAG} is given as well", param_hint=_FILE_FLAG)
    if file is not None:
        redis_url = _read(file)
    if redis_url is None:
        return None
    try:
        place = read_url(redis_url)
    except UnreadableUrl as error:
        raise typer.BadParameter(str(error), param_hint=_FLAG if file is None else _FILE_FLAG) from None
    if place.has_secret and file is None and os.environ.get(_VARIABLE) != redis_url:
        raise typer.BadParameter(
            "everyone on this machine can read a password on a command line; "
            f"give the URL by the variable {_VARIABLE}, or in a file by {_FILE_FLAG}",
            param_hint=_FLAG,
        )
    return redis_url.strip()


def needed_store_url(redis_url: str | None, file: Path | None) -> str:
    """The URL that is given, for a command that starts no store of its own."""
    found = store_url(redis_url, file)
    if found is None:
        raise typer.BadParameter(f"needs {_FLAG}, {_VARIABLE} or {_FILE_FLAG}", param_hint=_FLAG)
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint=_FILE_FLAG) from None
