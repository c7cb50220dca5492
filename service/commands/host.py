"""``calibrant host``: serve a few maps without a store."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from backend.command_options import LogFormat, LogLevel, option, start_log, with_settings
from backend.settings import SharedSettings
from service.commands.api import Host
from service.settings import ScoringSettings

log = logging.getLogger(__name__)

#: The argument with which SageMaker starts a container, and the folder to which it copies the maps.
_SAGEMAKER, _SAGEMAKER_FOLDER = "serve", Path("/opt/ml/model")

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="Files of maps, or folders of them. A file's name without .json is the name of the map. "
        f"{_SAGEMAKER}: the maps in {_SAGEMAKER_FOLDER}, as SageMaker starts a container.",
        show_default=False,
    ),
]
Names = Annotated[
    list[str], typer.Option("--name", help="Name of a map in place of its file's; once per file.", show_default=False)
]
Port = Annotated[
    int | None,
    option("--port", "Port to listen on; 0 for a free one. Default: AIP_HTTP_PORT, or 8080.", least=0, most=65_535),
]


@with_settings(ScoringSettings)
def host(
    settings: dict[str, Any],
    files: Files,
    name: Names = [],  # noqa: B006 - typer copies it
    host: Host = "127.0.0.1",
    port: Port = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "auto",
) -> None:
    """Serve maps without a store, in the protocols of KServe, Vertex AI and SageMaker, and by POST /calibrate."""
    gc.disable()  # importing creates no garbage; saves a tenth of the start-up time
    from service.hosts.app import HostApp, HostProcess, vertex_routes
    from service.hosts.files import UnusableMap, read_maps
    from service.listener import Listener

    gc.enable()
    try:
        maps = read_maps(_paths(files), name)
    except UnusableMap as error:
        raise typer.BadParameter(str(error)) from None
    routes = vertex_routes(_path("AIP_HEALTH_ROUTE"), _path("AIP_PREDICT_ROUTE"))
    port = _vertex_port() if port is None else port
    start_log(log_level, log_format)
    chosen = ScoringSettings(**settings)
    app = HostApp(HostProcess(chosen, maps), *routes)
    log.info("host: serving %s", ", ".join(maps))
    drain_seconds = SharedSettings.drain_seconds
    server = Listener(app, chosen, host=host, port=port, drain_seconds=drain_seconds, lifespan="off")
    server.serve_until_stopped()


def _paths(arguments: Sequence[str]) -> list[Path]:
    return [_SAGEMAKER_FOLDER if text == _SAGEMAKER else Path(text) for text in arguments]


def _vertex_port() -> int:
    text = os.environ.get("AIP_HTTP_PORT", "8080")
    if not (text.isascii() and text.isdigit() and int(text) < 65_536):
        raise typer.BadParameter("must be a port", param_hint="AIP_HTTP_PORT")
    return int(text)


def _path(variable: str) -> str | None:
    """The path in a variable, which must begin with a slash."""
    path = os.environ.get(variable)
    if path is not None and not path.startswith("/"):
        raise typer.BadParameter("must begin with /", param_hint=variable)
    return path
