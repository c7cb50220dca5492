"""Run the API with uvicorn."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import time

import typer
import uvicorn

from backend.monitors.webhook_targets import InvalidTargets
from backend.store.server.redis_url import UnreadableUrl
from backend.telemetry.tracing import MissingTelemetry
from service.app import create_app
from service.connections import ServedConnection
from service.process import Process
from service.settings import Settings, is_loopback

#: A fifth of Python's default.
_SWITCH_SECONDS = 0.001
#: Listeners on each socket: uvloop accepts one connection per listener in each pass of the event loop.
_LISTENERS = 16
#: Exit status for invalid settings, which a restart does not fix.
REFUSED = 2


class Server(uvicorn.Server):
    """A server that first ends requests that wait for jobs, and then waits for the requests in progress.

    After SIGTERM it accepts requests until a readiness probe has failed, so that load balancers send no more of them.
    It stops by itself if the store turns out to be unsuitable when it is reached for the first time.
    """

    _accepts_until: float | None = None

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
        is_ending = await super().on_tick(counter)
        return (is_ending and not self._awaits_probe()) or self.refusal is not None

    def _awaits_probe(self) -> bool:
        """Whether requests are accepted after SIGTERM, because no readiness probe has failed yet."""
        if signal.SIGTERM not in self._captured_signals or self.force_exit:
            return False
        if self._accepts_until is None:
            self.process.ending = True
            self._accepts_until = time.monotonic() + self.process.settings.unready_seconds
        return not self.process.end_noticed and time.monotonic() < self._accepts_until

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving."""
        await super().startup(sockets)
        if not self.started:
            return
        loop = asyncio.get_running_loop()
        opened = [each.fileno() for server in self.servers for each in server.sockets]
        for number in opened * (_LISTENERS - 1):
            again = socket.socket(fileno=os.dup(number))
            server = await loop.create_server(self._connection, sock=again, backlog=self.config.backlog)
            self.servers.append(server)

    def _connection(self) -> ServedConnection:
        return ServedConnection(self.config, self.server_state, self.lifespan.state)

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
    except InvalidTargets as error:
        raise typer.BadParameter(str(error)) from None
    except MissingTelemetry as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from error
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=ServedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_graceful_shutdown=math.ceil(settings.drain_seconds),
    )
    # The event loop waits this long for each thread that runs Python code.
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Imported objects live until the process ends, so exclude them from garbage collection.
    gc.freeze()
    gc.enable()
    sockets = None if socket_fd is None else [socket.socket(fileno=socket_fd)]
    server = Server(config)
    server.run(sockets=sockets)
    if server.refusal is not None:
        typer.echo(f"calibrant: {server.refusal}", err=True)
        raise typer.Exit(REFUSED)
