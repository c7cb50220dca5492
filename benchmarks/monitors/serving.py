"""The API in a separate process on an embedded store, which can be killed and restarted at the same address."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx

from backend.store.processes import spawn, stop
from backend.store.server.embedded import embedded_server

_PATIENCE = 15.0


@dataclass
class Served:
    """One API: its address, its process, and its store's process."""

    url: str
    redis_url: str
    store: subprocess.Popen[bytes]
    listener: socket.socket
    log: IO[bytes]
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start the API; requests wait at the address until it listens."""
        fd = self.listener.fileno()
        environment = dict(os.environ) | {"CALIBRANT_REDIS_URL": self.redis_url, "CALIBRANT_LOG_LEVEL": "warning"}
        command = [sys.executable, "-P", "-m", "calibrant", "api", "--socket-fd", str(fd)]
        self.process = spawn(command, log=self.log, environment=environment, pass_fds=(fd,))


@contextlib.contextmanager
def serving(count: int = 1) -> Iterator[list[Served]]:
    """Several APIs on one store, each with its own address."""
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="calibrant-bench-")))
        log = opened.enter_context((folder / "log").open("ab"))
        redis_url, store = opened.enter_context(embedded_server(folder / "store", log=log))
        servers = []
        for _ in range(count):
            listener = opened.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=256)))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            server = Served(url, redis_url, store, listener, log)
            server.start()
            opened.callback(_stop, server)
            servers.append(server)
        with httpx.Client(base_url=servers[0].url, timeout=60) as http:
            http.get("/health/ready").raise_for_status()
        yield servers


def _stop(served: Served) -> None:
    stop(served.process, patience=_PATIENCE)


def resident(process: subprocess.Popen[bytes]) -> int:
    """Resident memory of a process in bytes."""
    for line in Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no memory figure for the process")
