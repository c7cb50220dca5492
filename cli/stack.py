"""The whole service on one machine: the store, a worker and the API, as children of this process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from cli.api import refuse_open_bind
from storage.embedded import embedded_server
from storage.processes import spawn, stop

#: Seconds that a worker may take to end its task, and the API its requests.
_PATIENCE = 15.0


@dataclass
class Stack:
    """What runs. ``url`` is where the API listens."""

    url: str
    store: subprocess.Popen[bytes] | None
    api: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]
    _environment: dict[str, str]
    _log: IO[bytes] | None
    respawns: int = field(default=0)

    def failure(self) -> str | None:
        """What cannot be mended by starting it again, in words."""
        if self.store is not None and self.store.poll() is not None:
            return f"the store ended with status {self.store.returncode}"
        if self.api.poll() is not None:
            return f"the API ended with status {self.api.returncode}"
        return None

    def mend(self) -> None:
        """Start a worker again that has ended."""
        if self.worker.poll() is not None:
            self.respawns += 1
            self.worker = _worker(self._environment, self._log)


@contextlib.contextmanager
def stack(
    *,
    host: str,
    port: int,
    data: Path,
    log: IO[bytes] | None,
    redis_url: str | None = None,
    device: str = "cpu",
    level: str = "info",
    inherited: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Start everything; on the way out stop it in the order API, worker, store, and wait for each.

    The children see the environment ``inherited``, by default this process's. The URL of the store
    travels in it, not on the command lines that all can read.
    """
    with contextlib.ExitStack() as started:
        listener = started.enter_context(contextlib.closing(_listen(host, port)))
        store = None
        if redis_url is None:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            store_log = started.enter_context((data / "redis.log").open("ab"))
            redis_url, store = started.enter_context(embedded_server(data, log=store_log))
        refuse_open_bind(host, redis_url)
        environment = dict(os.environ if inherited is None else inherited) | {
            "CALIBRANT_REDIS_URL": redis_url,
            "CALIBRANT_DEVICE": device,
            "CALIBRANT_LOG_LEVEL": level,
            "CALIBRANT_HOST": host,
        }
        worker = _worker(environment, log)
        running = Stack(_url(listener), store, _api(environment, log, listener), worker, environment, log)
        started.callback(lambda: stop(running.worker, patience=_PATIENCE))
        started.callback(lambda: stop(running.api, patience=_PATIENCE))
        yield running


def _command(*arguments: str) -> list[str]:
    # -P: a folder that happens to hold a cli.py or a storage.py must not stand in for the packages.
    return [sys.executable, "-P", "-m", "cli", *arguments]


def _worker(environment: dict[str, str], log: IO[bytes] | None) -> subprocess.Popen[bytes]:
    return spawn(_command("worker"), log=log, environment=environment)


def _api(environment: dict[str, str], log: IO[bytes] | None, listener: socket.socket) -> subprocess.Popen[bytes]:
    fd = listener.fileno()
    return spawn(_command("api", "--socket-fd", str(fd)), log=log, environment=environment, pass_fds=(fd,))


def _listen(host: str, port: int) -> socket.socket:
    """Listen before the API starts: a port in use is told at once, and early requests wait for it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
