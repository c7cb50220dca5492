"""Running the API under uvicorn."""

from __future__ import annotations

import gc
import socket

import typer
import uvicorn

from backend.monitors.webhook_targets import InvalidTargets
from backend.store.server.redis_url import UnreadableUrl
from backend.telemetry.tracing import MissingTelemetry
from service.app import create_app
from service.connections import Connection
from service.process import Process
from service.settings import Settings, is_loopback

#: Exit status of what must be set right by hand: to start it again mends nothing.
REFUSED = 2


class Server(uvicorn.Server):
    """A server that ends what waits for jobs before it waits for what is under way.

    It stops by itself where the store, once it is reached for the first time, must not be used.
    """

    @property
    def process(self) -> Process:
        """What the requests share."""
        return self.config.app.state.process  # type: ignore[no-any-return, union-attr]

    @property
    def refusal(self) -> str | None:
        """Why the store must not be used."""
        link = self.process.link
        return None if link.reached or link.refusal is None else link.refusal.detail

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop."""
        return await super().on_tick(counter) or self.refusal is not None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop serving."""
        self.process.watcher.close()
        await super().shutdown(sockets)


def run_api(settings: Settings, *, host: str, port: int, socket_fd: int | None = None) -> None:
    """Serve until SIGTERM or SIGINT; the store may come later. ``socket_fd`` is a socket that listens already.

    Exits with ``REFUSED`` where the store must not be used: it evicts, or an open address needs a key and it has none.
    """
    try:
        app = create_app(settings, needs_key=not is_loopback(host))
    except UnreadableUrl as error:
        raise typer.BadParameter(str(error), param_hint="--redis-url") from None
    except InvalidTargets as error:
        raise typer.BadParameter(str(error)) from None
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
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
    gc.enable()
    sockets = None if socket_fd is None else [socket.socket(fileno=socket_fd)]
    server = Server(config)
    server.run(sockets=sockets)
    if server.refusal is not None:
        typer.echo(f"calibrant: {server.refusal}", err=True)
        raise typer.Exit(REFUSED)
