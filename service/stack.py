"""A complete service on one machine: the store, a worker and the API as child processes."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import typer

from backend.settings import variable_of
from backend.store.errors import EmbeddedStoreFailed
from backend.store.processes import spawn, stop
from backend.store.server.connection import connect
from backend.store.server.embedded import HELD, embedded, make_data_folder
from service.settings import is_loopback

# --- Child processes that are restarted whenever they end, with increasing pauses

log = logging.getLogger(__name__)

#: Exit status of a command with invalid settings, which a restart does not fix.
SETTINGS_REFUSED = 2
#: Seconds after which a running child counts as healthy, so that the pauses start over.
HEALTHY_SECONDS = 60.0
#: Seconds of the first and of the longest pause before a restart.
PAUSES = (0.1, 5.0)


class SettingsRefused(Exception):
    """A child ended because its settings are invalid."""


class Backoff:
    """The pauses before the restarts of one child: each twice the previous one, up to a limit, with jitter."""

    def __init__(self) -> None:
        self._failures = 0

    def pause(self, lived: float) -> float:
        """Seconds to wait before restarting a child that ran for ``lived`` seconds."""
        self._failures = 1 if lived >= HEALTHY_SECONDS else self._failures + 1
        first, longest = PAUSES
        return min(first * 2.0 ** min(self._failures - 1, 16), longest) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter


class Child:
    """One child process; ``start`` starts it, and ``process`` is a process that is already running, if any."""

    def __init__(
        self, name: str, start: Callable[[], subprocess.Popen[bytes]], process: subprocess.Popen[bytes] | None = None
    ) -> None:
        self._name = name
        self._start = start
        self._backoff = Backoff()
        self._born = time.monotonic()
        self._again: float | None = None
        self.process = start() if process is None else process

    def mend(self) -> None:
        """Restart the child if it has ended and its pause is over; raises ``SettingsRefused``."""
        if self.process.poll() is None:
            return
        now = time.monotonic()
        if self._again is None:
            status = self.process.returncode
            if status == SETTINGS_REFUSED:
                raise SettingsRefused(f"{self._name} rejected its settings and ended with status {status}")
            self._wait(now, f"ended with status {status}")
        elif now >= self._again:
            self._born = now
            try:
                self.process = self._start()
            except OSError as error:  # out of memory or processes, or the program is being replaced
                self._wait(now, f"could not be started ({error.strerror or type(error).__name__})")
            else:
                self._again = None

    def _wait(self, now: float, why: str) -> None:
        pause = self._backoff.pause(now - self._born)
        self._again = now + pause
        log.warning("serve: %s %s; restarting in %.2f s", self._name, why, pause)


# --- The complete service

#: Seconds beyond the drain time that the API and the worker have to end.
_PATIENCE = 5.0
#: Default drain time in seconds.
_DRAIN_SECONDS = 10.0


@dataclass
class Stack:
    """The running service; ``url`` is the address of the API."""

    url: str
    _store: Child | None
    _api: Child
    _worker: Child

    @property
    def store(self) -> subprocess.Popen[bytes] | None:
        """The process of the embedded store; None if an external store is used."""
        return None if self._store is None else self._store.process

    @property
    def api(self) -> subprocess.Popen[bytes]:
        """The process of the API."""
        return self._api.process

    @property
    def worker(self) -> subprocess.Popen[bytes]:
        """The process of the worker."""
        return self._worker.process

    def mend(self) -> None:
        """Restart every process that has ended, with the same data and address; raises ``SettingsRefused``."""
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
    repair: bool = False,
    inherited: Mapping[str, str] | None = None,
    start: Callable[..., subprocess.Popen[bytes]] = spawn,
) -> Iterator[Stack]:
    """Start everything; at the end of the context stop the API, the worker and the store, in this order.

    The children get the environment ``inherited``, by default that of this process. It contains the URL of the store,
    because command lines are readable by all users. ``start`` starts the API and the worker.
    """
    with contextlib.ExitStack() as started:
        listener = started.enter_context(contextlib.closing(_listen(host, port)))
        store, volume = None, ""
        environment = dict(os.environ if inherited is None else inherited)
        if redis_url is None:
            make_data_folder(data)
            store_log = started.enter_context((data / "redis.log").open("ab"))
            server = started.enter_context(embedded(data, log=store_log, repair=repair))
            name = f"the store, whose log is {store_log.name},"
            redis_url, store = server.url, Child(name, server.start, server.process)
            volume = str(data.resolve())
            # Check now; with an external store, which may be unavailable, the API checks once it is reached.
            if not environment.get(variable_of("oidc_issuer")):
                _refuse_open_bind(host, redis_url)
        environment |= {
            variable_of("redis_url"): redis_url,
            variable_of("log_level"): level,
            variable_of("log_format"): log_format,
        }
        environment.pop(variable_of("redis_url_file"), None)
        unready, drain = variable_of("unready_seconds"), variable_of("drain_seconds")
        environment.setdefault(unready, "0")
        environment.setdefault(variable_of("store_volume"), volume)
        environment.setdefault(variable_of("held_folder"), str(data / HELD))
        patience = _DRAIN_SECONDS + _PATIENCE
        with contextlib.suppress(KeyError, ValueError):  # the children refuse what is no number
            patience = float(environment[unready]) + float(environment.get(drain, _DRAIN_SECONDS)) + _PATIENCE
        of_worker = environment | {variable_of("device"): device}
        worker = Child("the worker", lambda: start(_command("worker"), log=log, environment=of_worker))
        started.callback(lambda: stop(worker.process, patience=patience))
        of_api, fd = environment | {variable_of("host"): host}, listener.fileno()
        command = _command("api", "--socket-fd", str(fd))
        api = Child("the API", lambda: start(command, log=log, environment=of_api, pass_fds=(fd,)))
        started.callback(lambda: stop(api.process, patience=patience))
        running = Stack(_url(listener), store, api, worker)
        yield running


def _command(*arguments: str) -> list[str]:
    # -P: a schemas.py in the working directory must not shadow the package.
    return [sys.executable, "-P", "-m", "calibrant", *arguments]


def _refuse_open_bind(host: str, redis_url: str) -> None:
    """Reject an address that other machines can reach if there is no API key."""
    if is_loopback(host):
        return
    from backend.store.api_keys import ApiKeyStore

    with contextlib.closing(connect(redis_url)) as redis:
        if not ApiKeyStore(redis).any():
            raise typer.BadParameter(
                "listening on a non-loopback address needs an API key; create one with calibrant keys create",
                param_hint="--host",
            )


def _listen(host: str, port: int) -> socket.socket:
    """Listen before the API starts: a port in use fails immediately, and early requests wait for the API."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        remedy = "; choose another --port, or 0 for a free one" if error.errno == errno.EADDRINUSE else ""
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}{remedy}") from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- ``calibrant serve``

#: Seconds between two checks of the children.
_LOOK_SECONDS = 0.1


def serve_all(
    *,
    host: str,
    port: int,
    data: Path,
    redis_url: str | None,
    device: str,
    level: str,
    log_format: str,
    repair: bool = False,
) -> None:
    """Run the service until SIGINT or SIGTERM, and restart processes that end.

    Exits with 1 if the port or the data folder is not available, and with 2 if a child rejects its settings.
    """
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    try:
        with stack(
            host=host,
            port=port,
            data=data,
            log=None,
            redis_url=redis_url,
            device=device,
            level=level,
            log_format=log_format,
            repair=repair,
        ) as running:
            typer.echo(
                f"Calibrant is running at {running.url} (API reference: {running.url}/docs). Press Ctrl-C to stop."
            )
            while not stopped.wait(_LOOK_SECONDS):
                running.mend()
    except SettingsRefused as error:
        _failed(str(error))
        raise typer.Exit(SETTINGS_REFUSED) from error
    except EmbeddedStoreFailed as error:
        raise typer.Exit(_failed(error.detail)) from error
    except OSError as error:
        detail = str(error) if error.filename is None else f"cannot open {error.filename}: {error.strerror}"
        raise typer.Exit(_failed(detail)) from error
    typer.echo("Calibrant has stopped.")


def _failed(what: str) -> int:
    typer.echo(f"calibrant: {what}", err=True)
    return 1
