"""Command-line options shared by the API and the workers: the store and the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

# --- The store

#: Options of commands that access the store directly.
RedisUrl = Annotated[
    str | None, typer.Option("--redis-url", envvar="CALIBRANT_REDIS_URL", help="URL of the Redis store.")
]
RedisUrlFile = Annotated[
    Path | None,
    typer.Option("--redis-url-file", envvar="CALIBRANT_REDIS_URL_FILE", help="File with the URL of the Redis store."),
]
Data = Annotated[
    Path, typer.Option("--data", envvar="CALIBRANT_DATA", help="Folder of the embedded store, used if there is no URL.")
]
#: The default folder.
DATA = Path(".calibrant")

_FLAG, _FILE_FLAG = "--redis-url", "--redis-url-file"
_VARIABLE = "CALIBRANT_REDIS_URL"


def store_url(redis_url: str | None, file: Path | None) -> str | None:
    """The given URL, validated; None if there is none. Error messages never contain the URL.

    A password on the command line is rejected, because every user of the machine can see it in the process list.
    """
    from backend.store.server.redis_url import UnreadableUrl, read_url

    if file is not None and redis_url is not None:
        raise typer.BadParameter(f"cannot be combined with {_FLAG}", param_hint=_FILE_FLAG)
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
            "a password on the command line is visible to every user of this machine; "
            f"set the URL in the variable {_VARIABLE}, or in a file with {_FILE_FLAG}",
            param_hint=_FLAG,
        )
    return redis_url.strip()


def needed_store_url(redis_url: str | None, file: Path | None) -> str:
    """The given URL, for a command that does not start a store of its own."""
    found = store_url(redis_url, file)
    if found is None:
        raise typer.BadParameter(f"set {_FLAG}, {_VARIABLE} or {_FILE_FLAG}", param_hint=_FLAG)
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint=_FILE_FLAG) from None


# --- Options of the services


def option(flag: str, help_text: str, *, least: int | None = None, most: int | None = None) -> typer.models.OptionInfo:
    """An option with the environment variable CALIBRANT_ plus its name; a number may have bounds."""
    variable = "CALIBRANT_" + flag.removeprefix("--").replace("-", "_").upper()
    made: typer.models.OptionInfo = typer.Option(flag, envvar=variable, help=help_text, min=least, max=most)
    return made


ServiceRedisUrl = Annotated[
    str | None,
    option(
        "--redis-url",
        "Redis to use: redis://, rediss://, unix:// or redis+sentinel://. It must not evict keys and should persist "
        "its data. By default, serve starts an embedded Redis; api and worker require this setting. A password in the "
        "flag is rejected.",
    ),
]
ServiceRedisUrlFile = Annotated[
    Path | None,
    option("--redis-url-file", "File with the URL of Redis, such as a mounted secret; use it instead of --redis-url."),
]
Device = Annotated[str, option("--device", "Device for fits: cpu, cuda or auto.")]
LogLevel = Annotated[str, option("--log-level", "debug, info, warning or error.")]
LogFormat = Annotated[str, option("--log-format", "json, text, or auto for text on a terminal and JSON elsewhere.")]


def start_log(level: str, form: str = "auto") -> None:
    """Configure logging; raises ``BadParameter``."""
    from backend.telemetry.logs import FORMATS, LEVELS, configure

    if level.lower() not in LEVELS:
        raise typer.BadParameter(f"must be {any_of(LEVELS)}", param_hint="--log-level")
    if form not in FORMATS:
        raise typer.BadParameter(f"must be {any_of(FORMATS)}", param_hint="--log-format")
    configure(level, form)


def any_of(names: Sequence[str]) -> str:
    """The names as alternatives."""
    return f"{', '.join(names[:-1])} or {names[-1]}"
