"""Running the API under uvicorn."""

from __future__ import annotations

import socket
from pathlib import Path

import typer
import uvicorn

from service.access import KeysFileError, is_loopback
from service.app import create_app
from service.settings import Settings
from telemetry.tracing import MissingTelemetry


def run_api(settings: Settings, *, host: str, port: int, socket_fd: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT. ``socket_fd`` is a socket that listens already."""
    refuse_open_bind(host, settings.api_keys_file)
    try:
        app = create_app(settings)
    except KeysFileError as error:
        raise typer.BadParameter(str(error), param_hint="--api-keys-file") from error
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http="httptools",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=10,
    )
    sockets = None if socket_fd is None else [socket.socket(fileno=socket_fd)]
    uvicorn.Server(config).run(sockets=sockets)


def refuse_open_bind(host: str, keys: Path | None) -> None:
    """Without API keys this machine alone is served."""
    if keys is None and not is_loopback(host):
        raise typer.BadParameter("any address but loopback needs --api-keys-file", param_hint="--host")
