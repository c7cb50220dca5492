"""Running the API under uvicorn."""

from __future__ import annotations

import socket
from pathlib import Path

import typer
import uvicorn

from service.access import KeysFileError, is_loopback
from service.app import create_app
from service.context import Context
from service.settings import Settings


class Server(uvicorn.Server):
    """A server that ends what waits for jobs before it waits for what is under way."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        context: Context = self.config.app.state.context  # type: ignore[union-attr]
        context.watcher.close()
        await super().shutdown(sockets)


def run_api(settings: Settings, *, host: str, port: int, socket_fd: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT. ``socket_fd`` is a socket that listens already."""
    refuse_open_bind(host, settings.api_keys_file)
    try:
        app = create_app(settings)
    except KeysFileError as error:
        raise typer.BadParameter(str(error), param_hint="--api-keys-file") from error
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
    Server(config).run(sockets=sockets)


def refuse_open_bind(host: str, keys: Path | None) -> None:
    """Without API keys this machine alone is served."""
    if keys is None and not is_loopback(host):
        raise typer.BadParameter("any address but loopback needs --api-keys-file", param_hint="--host")
