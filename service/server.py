"""Run the API with uvicorn."""

from __future__ import annotations

import socket

import typer

from backend.monitors.webhook_targets import InvalidTargets
from backend.store.server.redis_url import UnreadableUrl
from backend.telemetry.tracing import MissingTelemetry
from service.app import create_app
from service.issuer import InvalidIssuer
from service.listener import Listener
from service.process import Process
from service.settings import Settings, is_loopback

#: Exit status for invalid settings, which a restart does not fix.
REFUSED = 2


class Server(Listener):
    """A server that first ends requests that wait for jobs, and then waits for the requests in progress.

    It stops by itself if the store turns out to be unsuitable when it is reached for the first time.
    """

    @property
    def process(self) -> Process:
        """The shared state of the process."""
        return self.config.app.state.process  # type: ignore[no-any-return, union-attr]

    @property
    def refusal(self) -> str | None:
        """The reason why the store must not be used."""
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
    """Serve until SIGTERM or SIGINT; the store may start later. ``socket_fd`` is a listening socket.

    Exits with ``REFUSED`` if the store must not be used: it evicts keys or is a cluster, or the address is not loopback
    and there is no API key.
    """
    try:
        app = create_app(settings, needs_key=not is_loopback(host))
    except UnreadableUrl as error:
        raise typer.BadParameter(str(error), param_hint="--redis-url") from None
    except (InvalidIssuer, InvalidTargets) as error:
        raise typer.BadParameter(str(error)) from None
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    server = Server(app, settings, host=host, port=port, drain_seconds=settings.drain_seconds)
    server.serve_until_stopped(socket_fd)
    if server.refusal is not None:
        typer.echo(f"calibrant: {server.refusal}", err=True)
        raise typer.Exit(REFUSED)
