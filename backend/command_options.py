"""Command-line options shared by the API and the workers: the store and the log."""

from __future__ import annotations

import inspect
import json
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from backend.settings import PREFIX, Setting, flag_of, settings_of, variable_of

if TYPE_CHECKING:
    from schemas.audit import Author


def option(
    flag: str, help_text: str, *, least: float | None = None, most: float | None = None
) -> typer.models.OptionInfo:
    """An option with the environment variable CALIBRANT_ plus its name; a number may have bounds."""
    variable = variable_of(flag.removeprefix("--").replace("-", "_"))
    declared: typer.models.OptionInfo = typer.Option(flag, envvar=variable, help=help_text, min=least, max=most)
    return declared


# --- The store

#: Options of commands that access the store directly.
RedisUrl = Annotated[str | None, option("--redis-url", "URL of the Redis store.")]
RedisUrlFile = Annotated[Path | None, option("--redis-url-file", "File with the URL of the Redis store.")]
Data = Annotated[Path, option("--data", "Folder of the embedded store, used if there is no URL.")]
#: The default folder.
DATA = Path(".calibrant")

#: An option of commands that change what the audit log records.
Note = Annotated[
    str | None, typer.Option("--note", envvar="CALIBRANT_NOTE", help="Why the change is made, for the audit log.")
]


def command_author(note: str | None) -> Author:
    """The user of a command as the author of changes; raises ``BadParameter`` for a note that is not one line."""
    import getpass

    from schemas.audit import MAX_NOTE, Actor, Author

    if note is not None and (len(note) > MAX_NOTE or not note.isprintable()):
        raise typer.BadParameter(f"must be one line of at most {MAX_NOTE} characters", param_hint="--note")
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = None
    return Author(actor=Actor(kind="command", name=user), note=note)


_FLAG, _FILE_FLAG = "--redis-url", "--redis-url-file"
_VARIABLE, _FILE_VARIABLE = variable_of("redis_url"), variable_of("redis_url_file")


def store_url(redis_url: str | None, file: Path | None) -> str | None:
    """The given URL, validated; None if there is none. Error messages never contain the URL.

    A password on the command line is rejected, because every user of the machine can see it in the process list.
    """
    from backend.store.server.redis_url import UnreadableUrl, read_url

    if file is not None and redis_url is not None:
        raise typer.BadParameter(f"cannot be combined with {_FLAG}", param_hint=_FILE_FLAG)
    if file is not None:
        redis_url = _read(file, _FILE_FLAG)
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
    url = store_url(redis_url, file)
    if url is None:
        raise typer.BadParameter(f"set {_FLAG}, {_VARIABLE} or {_FILE_FLAG}", param_hint=_FLAG)
    return url


def _read(file: Path, flag: str) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise typer.BadParameter(f"{file} cannot be read: {reason}", param_hint=flag) from None


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


# --- A file of settings, whose values take effect like environment variables that are not set

#: Variables of the client, and of the programs that reports and guides show.
_OF_CLIENTS = {f"{PREFIX}{name}" for name in ("API_KEY", "MODEL", "URL")}


def _read_config(context: typer.Context, file: Path | None) -> Path | None:
    """Set the variables of a file's settings, unless they have a value; the URL of the store has two."""
    if file is None:
        return None
    try:
        content = tomllib.loads(_read(file, "--config"))
    except tomllib.TOMLDecodeError as error:
        raise typer.BadParameter(f"{file} is not a TOML file: {error}", param_hint="--config") from None
    values = {variable_of(name): _text_of(name, value) for name, value in content.items()}
    _refuse_unknown(context, values, f"--config {file}", lambda variable: variable.removeprefix(PREFIX).lower())
    have_values = {variable for variable, text in os.environ.items() if text}
    if have_values & {_VARIABLE, _FILE_VARIABLE}:
        have_values |= {_VARIABLE, _FILE_VARIABLE}
    os.environ.update({variable: text for variable, text in values.items() if variable not in have_values})
    return file


def _text_of(name: str, value: Any) -> str:
    """A value of a file as the text of a variable."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
        return json.dumps(value)  # objects by name
    if not isinstance(value, str | int | float):
        detail = f"{name} must be a text, a number, a boolean or a list of texts"
        raise typer.BadParameter(detail, param_hint="--config")
    return str(value)


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        envvar=variable_of("config"),
        is_eager=True,
        callback=_read_config,
        help="TOML file of settings, named like the variables, but in lower case and without CALIBRANT_, such as "
        "quota_maps = 1000. Flags and variables take precedence.",
    ),
]


# --- A flag for each setting

_ShowSettings = Annotated[
    bool,
    typer.Option("--show-settings", help="Print the settings as lines of an environment file, and exit."),
]


def with_settings(
    kind: type[Any] | None, *, passed_to: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a flag for every setting of a class to a command, which receives them as the dictionary ``settings``.

    ``passed_to`` are commands that the command starts with its variables, and whose settings it shows too. typer reads
    the flags of a command from its signature, so this function creates one.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        settings = [] if kind is None else list(settings_of(kind))
        keyword = inspect.Parameter.KEYWORD_ONLY
        flags = [p.replace(kind=keyword) for name, p in own.items() if name != "settings"]
        flags += map(_parameter, settings)
        flags.append(inspect.Parameter("config", keyword, default=None, annotation=Config))
        flags.append(inspect.Parameter("show_settings", keyword, default=False, annotation=_ShowSettings))
        flags.append(inspect.Parameter("context", keyword, annotation=typer.Context))

        def run(*, context: typer.Context, config: Path | None, show_settings: bool, **arguments: Any) -> None:  # noqa: ARG001
            _refuse_unknown(context, [name for name in os.environ if name.startswith(PREFIX)], "the environment")
            if kind is not None:
                arguments["settings"] = {
                    setting.name: _checked(setting, arguments.pop(setting.name)) for setting in settings
                }
            if show_settings:
                for variable, value in _shown(context, passed_to).items():
                    typer.echo(f"{variable}={value}")
                return
            command(**arguments)

        run.__doc__ = command.__doc__
        run.__name__ = command.__name__
        signature = inspect.Signature(flags)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
        return run

    return decorate


def _parameter(setting: Setting) -> inspect.Parameter:
    most = None if setting.low is None else setting.high
    help_text = setting.meaning[:1].upper() + setting.meaning[1:] + "."
    flag = option(flag_of(setting.name), help_text, least=setting.low, most=most)
    kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[setting.kind, flag]
    return inspect.Parameter(setting.name, kind, default=setting.default, annotation=annotation)


def _checked(setting: Setting, value: Any) -> Any:
    """The value, if it is valid."""
    try:
        if setting.check is not None and value is not None:
            setting.check(value)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=flag_of(setting.name)) from None
    return value


def _shown(context: Any, others: Sequence[str] = ()) -> dict[str, str]:
    """The variables and values of the options of a command, and of other commands; without secrets."""
    from calibrant.cli.main import app

    shown = {}
    for parameter in context.command.params:
        if parameter.envvar:
            text = "" if context.params[parameter.name] is None else str(context.params[parameter.name])
            shown[str(parameter.envvar)] = (
                _safe_url(text) if parameter.envvar == _VARIABLE else re.sub("//.*@", "//***@", text)
            )
    for name in others:
        command: Any = cast(Any, typer.main.get_command(app)).get_command(None, name)
        with command.make_context(name, []) as inner:
            shown = _shown(inner) | shown
    return shown


def _safe_url(text: str) -> str:
    """The URL of the store without secrets; its client is imported only for that."""
    from backend.store.server.redis_url import safe_url

    return safe_url(text) if text else ""


def _refuse_unknown(
    context: typer.Context, variables: Iterable[str], place: str, spelled: Callable[[str], str] = str
) -> None:
    """Raise ``BadParameter`` for a variable that no command reads, such as one that is misspelt.

    ``spelled`` returns what a variable is called in its ``place``. The other commands are imported only for a variable
    that the running one does not have.
    """
    unknown = set(variables) - _OF_CLIENTS - set(_variables(context.command))
    if not unknown:
        return
    from calibrant.cli.main import app

    known = set(_variables(typer.main.get_command(app)))
    for name in sorted(unknown - known):
        near = get_close_matches(name, known, n=1)
        remedy = f"did you mean {spelled(near[0])}?" if near else "--show-settings lists those of api and worker"
        raise typer.BadParameter(f"{spelled(name)} is not a setting; {remedy}", param_hint=place)


def _variables(command: Any) -> Iterator[str]:
    """The environment variables of a command, or of all commands of a group."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from _variables(command.get_command(None, name))
    else:
        yield from (parameter.envvar for parameter in command.params if parameter.envvar)
