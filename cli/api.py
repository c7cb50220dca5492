"""Running the API under uvicorn."""

from __future__ import annotations

import contextlib
import gc
import socket

import typer
import uvicorn

from service.access import is_loopback
from service.app import create_app
from service.process import Process
from service.settings import Settings
from storage.api_keys import ApiKeyStore
from storage.connection import connect
from telemetry.tracing import MissingTelemetry


class Server(uvicorn.Server):
    """A server that ends what waits for jobs before it waits for what is under way."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        process: Process = self.config.app.state.process  # type: ignore[union-attr]
        process.watcher.close()
        await super().shutdown(sockets)


def run_api(settings: Settings, *, host: str, port: int, socket_fd: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT. ``socket_fd`` is a socket that listens already."""
    refuse_open_bind(host, settings.redis_url)
    try:
        app = create_app(settings)
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
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=settings.drain_seconds,
    )
    # What was imported stays for good: the collector need not walk it over and over between requests.
    gc.collect()
    gc.freeze()
    sockets = None if socket_fd is None else [socket.socket(fileno=socket_fd)]
    Server(config).run(sockets=sockets)


def refuse_open_bind(host: str, redis_url: str) -> None:
    """Without API keys this machine alone is served."""
    if is_loopback(host):
        return
    with contextlib.closing(connect(redis_url)) as redis:
        if not ApiKeyStore(redis).any():
            raise typer.BadParameter(
                "any address but loopback needs an API key; make one with calibrant keys create", param_hint="--host"
            )
