"""Options that the commands of the API and the workers share: where the store is, and the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

# --- The store

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
#: The folder if none is given.
DATA = Path(".calibrant")

_FLAG, _FILE_FLAG = "--redis-url", "--redis-url-file"
_VARIABLE = "CALIBRANT_REDIS_URL"


def store_url(redis_url: str | None, file: Path | None) -> str | None:
    """The URL that is given, checked; None where none is. A wrong one is refused without its text.

    A password in a flag is refused: everyone on the machine reads it in the list of processes.
    """
    from backend.store.server.redis_url import UnreadableUrl, read_url

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


# --- The store of a service, and its log


def option(flag: str, help_text: str) -> typer.models.OptionInfo:
    """An option whose variable is CALIBRANT_ and its name."""
    variable = "CALIBRANT_" + flag.removeprefix("--").replace("-", "_").upper()
    made: typer.models.OptionInfo = typer.Option(flag, envvar=variable, help=help_text)
    return made


ServiceRedisUrl = Annotated[
    str | None,
    option(
        "--redis-url",
        "Redis to use, redis://, rediss://, unix:// or redis+sentinel://; it must not evict and should persist. "
        "By default serve starts an embedded one; api and worker need it. A password is refused in the flag.",
    ),
]
ServiceRedisUrlFile = Annotated[
    Path | None,
    option("--redis-url-file", "File that holds the URL, such as a secret that is mounted; instead of --redis-url."),
]
Device = Annotated[str, option("--device", "Device of the fits: cpu, cuda, or auto.")]
LogLevel = Annotated[str, option("--log-level", "debug, info, warning or error.")]
LogFormat = Annotated[str, option("--log-format", "json, text, or auto for text on a terminal and JSON elsewhere.")]


def start_log(level: str, form: str = "auto") -> None:
    """Configure the log; raises ``BadParameter``."""
    from backend.telemetry.logs import FORMATS, LEVELS, configure

    if level.lower() not in LEVELS:
        raise typer.BadParameter(f"must be {any_of(LEVELS)}", param_hint="--log-level")
    if form not in FORMATS:
        raise typer.BadParameter(f"must be {any_of(FORMATS)}", param_hint="--log-format")
    configure(level, form)


def any_of(names: Sequence[str]) -> str:
    """The names as alternatives."""
    return f"{', '.join(names[:-1])} or {names[-1]}"
