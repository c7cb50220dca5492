"""``calibrant api``: run only the API, with one flag for each setting."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from backend.command_options import (
    LogFormat,
    LogLevel,
    ServiceRedisUrl,
    ServiceRedisUrlFile,
    needed_store_url,
    option,
    start_log,
)
from service.settings import Setting, all_settings

Host = Annotated[str, option("--host", "Address to listen on; a non-loopback address needs an API key.")]
Port = Annotated[int, option("--port", "Port to listen on; 0 for a free one.", least=0, most=65_535)]
Socket = Annotated[int | None, typer.Option("--socket-fd", hidden=True)]


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add a flag for every setting to a command, which receives them as the dictionary ``settings``.

    typer reads the flags of a command from its signature, so this function creates one.
    """
    own = inspect.signature(command, eval_str=True).parameters
    settings = list(all_settings())
    flags = [_parameter(setting) for setting in settings if setting.name not in own]
    kept = [p.replace(kind=p.KEYWORD_ONLY) for name, p in own.items() if name != "settings"]

    def run(**given: Any) -> None:
        command(
            **{name: value for name, value in given.items() if name in own},
            settings={setting.name: given[setting.name] for setting in settings},
        )

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    signature = inspect.Signature([*kept, *flags])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return run


def _parameter(setting: Setting) -> inspect.Parameter:
    option = typer.Option(setting.flag, envvar=setting.variable, help=_sentence(setting.meaning), min=setting.low)
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=setting.default,
        annotation=Annotated[setting.kind, option],
    )


def _sentence(meaning: str) -> str:
    return meaning[:1].upper() + meaning[1:] + "."


@with_settings
def api(
    settings: dict[str, Any],
    redis_url: ServiceRedisUrl = None,
    redis_url_file: ServiceRedisUrlFile = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
    socket_fd: Socket = None,
) -> None:
    """Run only the API, with an existing Redis."""
    start_log(log_level, log_format)
    gc.disable()  # importing creates no garbage; saves a tenth of the start-up time
    from service.server import run_api
    from service.settings import Settings

    url = needed_store_url(redis_url, redis_url_file)
    run_api(Settings(redis_url=url, **settings), host=host, port=port, socket_fd=socket_fd)
