"""A server of uvicorn for the API and for hosts."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
import time
from typing import Any, Literal

import uvicorn

from service.connections import ServedConnection
from service.scoring import ScoringProcess
from service.settings import ScoringSettings

#: A fifth of Python's default.
_SWITCH_SECONDS = 0.001
#: Listeners on each socket: uvloop accepts one connection per listener in each pass of the event loop.
_LISTENERS = 16


class Listener(uvicorn.Server):
    """A server whose application has a ``state.process``, a ``ScoringProcess``.

    After SIGTERM it accepts requests until a readiness probe has failed, so that load balancers send no more of them.
    """

    _accepts_until: float | None = None

    def __init__(
        self,
        app: Any,
        settings: ScoringSettings,
        *,
        host: str,
        port: int,
        drain_seconds: float,
        lifespan: Literal["auto", "off"] = "auto",
    ) -> None:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            http=ServedConnection,
            lifespan=lifespan,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=settings.idle_timeout,  # type: ignore[arg-type]  # a fraction of a second works too
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            timeout_graceful_shutdown=math.ceil(drain_seconds),
        )
        super().__init__(config)

    @property
    def process(self) -> ScoringProcess:
        """The shared state of the process."""
        return self.config.app.state.process  # type: ignore[no-any-return, union-attr]

    async def on_tick(self, counter: int) -> bool:
        """Whether to stop."""
        return await super().on_tick(counter) and not self._awaits_probe()

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
        opened = [listening.fileno() for server in self.servers for listening in server.sockets]
        for number in opened * (_LISTENERS - 1):
            again = socket.socket(fileno=os.dup(number))
            server = await loop.create_server(self._connection, sock=again, backlog=self.config.backlog)
            self.servers.append(server)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse the requests that wait for a slot, and stop serving when those in progress have ended."""
        self.process.slots.close()
        await super().shutdown(sockets)

    def _connection(self) -> ServedConnection:
        return ServedConnection(self.config, self.server_state, self.lifespan.state)

    def serve_until_stopped(self, socket_fd: int | None = None) -> None:
        """Serve until SIGTERM or SIGINT; ``socket_fd`` is a listening socket."""
        # The event loop waits this long for each thread that runs Python code.
        sys.setswitchinterval(_SWITCH_SECONDS)
        # Imported objects live until the process ends, so exclude them from garbage collection.
        gc.freeze()
        gc.enable()
        self.run(sockets=None if socket_fd is None else [socket.socket(fileno=socket_fd)])
