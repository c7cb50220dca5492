"""``calibrant api``: run only the API, with one flag for each setting."""

from __future__ import annotations

import gc
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
    with_settings,
)
from service.settings import Settings

Host = Annotated[
    str,
    option(
        "--host", "Address to listen on; a non-loopback address needs an API key, except for a host, which has none."
    ),
]
Port = Annotated[int, option("--port", "Port to listen on; 0 for a free one.", least=0, most=65_535)]
Socket = Annotated[int | None, typer.Option("--socket-fd", hidden=True)]


@with_settings(Settings)
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

    url = needed_store_url(redis_url, redis_url_file)
    run_api(Settings(redis_url=url, **settings), host=host, port=port, socket_fd=socket_fd)
