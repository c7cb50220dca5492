"""The whole service on one machine: the store, a worker and the API, as children of this process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cli.api import refuse_open_bind
from cli.children import Child
from storage.processes import spawn, stop
from storage.server.embedded import embedded

#: Seconds beyond those that what is under way has to end, in which the API and the worker end themselves.
_PATIENCE = 5.0
#: Seconds that those are where no setting says it.
_DRAIN_SECONDS = 10.0


@dataclass
class Stack:
    """What runs. ``url`` is where the API listens."""

    url: str
    _store: Child | None
    _api: Child
    _worker: Child

    @property
    def store(self) -> subprocess.Popen[bytes] | None:
        """The embedded store's process; None where the store is another's."""
        return None if self._store is None else self._store.process

    @property
    def api(self) -> subprocess.Popen[bytes]:
        """The API's process."""
        return self._api.process

    @property
    def worker(self) -> subprocess.Popen[bytes]:
        """The worker's process."""
        return self._worker.process

    def mend(self) -> None:
        """Start again whatever has ended, on the same data and the same address; raises ``SettingsRefused``."""
        for child in (self._store, self._api, self._worker):
            if child is not None:
                child.mend()


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
    log_format: str = "auto",
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
            server = started.enter_context(embedded(data, log=store_log))
            redis_url, store = server.url, Child("the store", server.start, server.process)
            # Here and now; of a store of another's, which may be away, the API asks it when it can.
            refuse_open_bind(host, redis_url)
        environment = dict(os.environ if inherited is None else inherited) | {
            "CALIBRANT_REDIS_URL": redis_url,
            "CALIBRANT_DEVICE": device,
            "CALIBRANT_LOG_LEVEL": level,
            "CALIBRANT_LOG_FORMAT": log_format,
            "CALIBRANT_HOST": host,
        }
        environment.pop("CALIBRANT_REDIS_URL_FILE", None)
        patience = float(environment.get("CALIBRANT_DRAIN_SECONDS", _DRAIN_SECONDS)) + _PATIENCE
        worker = Child("the worker", lambda: _worker(environment, log))
        started.callback(lambda: stop(worker.process, patience=patience))
        api = Child("the API", lambda: _api(environment, log, listener))
        started.callback(lambda: stop(api.process, patience=patience))
        running = Stack(_url(listener), store, api, worker)
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
