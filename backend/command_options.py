"""Command-line options shared by the API and the workers: the store and the log."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.settings import PREFIX, Setting, SharedSettings, flag_of, settings_of, variable_of


def option(
    flag: str, help_text: str, *, least: float | None = None, most: int | None = None
) -> typer.models.OptionInfo:
    """An option with the environment variable CALIBRANT_ plus its name; a number may have bounds."""
    variable = variable_of(flag.removeprefix("--").replace("-", "_"))
    made: typer.models.OptionInfo = typer.Option(flag, envvar=variable, help=help_text, min=least, max=most)
    return made


# --- The store

#: Options of commands that access the store directly.
RedisUrl = Annotated[str | None, option("--redis-url", "URL of the Redis store.")]
RedisUrlFile = Annotated[Path | None, option("--redis-url-file", "File with the URL of the Redis store.")]
Data = Annotated[Path, option("--data", "Folder of the embedded store, used if there is no URL.")]
#: The default folder.
DATA = Path(".calibrant")

_FLAG, _FILE_FLAG = "--redis-url", "--redis-url-file"
_VARIABLE = variable_of("redis_url")


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


# --- A flag for each setting

#: Variables of the client, and of the programs that reports and guides show.
_OF_CLIENTS = {f"{PREFIX}{name}" for name in ("API_KEY", "MODEL", "URL")}
_ShowSettings = Annotated[
    bool,
    typer.Option("--show-settings", help="Print the settings as lines of an environment file, and exit."),
]


def with_settings(kind: type[SharedSettings]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a flag for every setting of a class to a command, which receives them as the dictionary ``settings``.

    typer reads the flags of a command from its signature, so this function creates one.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        settings = list(settings_of(kind))
        keyword = inspect.Parameter.KEYWORD_ONLY
        flags = [p.replace(kind=keyword) for name, p in own.items() if name != "settings"]
        flags += map(_parameter, settings)
        flags.append(inspect.Parameter("show_settings", keyword, default=False, annotation=_ShowSettings))
        flags.append(inspect.Parameter("context", keyword, annotation=typer.Context))

        def run(*, context: typer.Context, show_settings: bool, **given: Any) -> None:
            refuse_unknown_variables(context)
            if show_settings:
                for variable, value in _shown(context):
                    typer.echo(f"{variable}={value}")
                return
            chosen = {setting.name: given.pop(setting.name) for setting in settings}
            command(**given, settings=chosen)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        signature = inspect.Signature(flags)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return decorate


def _parameter(setting: Setting) -> inspect.Parameter:
    flag = option(flag_of(setting.name), setting.meaning[:1].upper() + setting.meaning[1:] + ".", least=setting.low)
    kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[setting.kind, flag]
    return inspect.Parameter(setting.name, kind, default=setting.default, annotation=annotation)


def _shown(context: Any) -> Iterator[tuple[str, Any]]:
    """The variable and the value of each option of the running command; the URL of the store may have a password."""
    for each in context.command.params:
        if each.envvar and each.envvar != _VARIABLE:
            value = context.params[each.name]
            yield str(each.envvar), "" if value is None else value


def refuse_unknown_variables(context: typer.Context) -> None:
    """Raise ``BadParameter`` for a variable that no command reads, such as one that is misspelt.

    The other commands are imported only for a variable that the running one does not have.
    """
    unknown = {name for name in os.environ if name.startswith(PREFIX)} - _OF_CLIENTS
    unknown -= set(_variables(context.command))
    if not unknown:
        return
    from calibrant.cli.main import app

    known = set(_variables(typer.main.get_command(app)))
    for name in sorted(unknown - known):
        near = get_close_matches(name, known, n=1)
        remedy = f"did you mean {near[0]}?" if near else "--show-settings lists those of api and worker"
        raise typer.BadParameter(f"{name} is not a setting; {remedy}", param_hint="the environment")


def _variables(command: Any) -> Iterator[str]:
    """The environment variables of a command, or of all commands of a group."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _variables(command.get_command(None, name))
    else:
        yield from (each.envvar for each in command.params if each.envvar)
