"""A Redis of a test's own, to be paused, killed and started again on the same data and address."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
from redis import Redis
from redis.exceptions import AuthenticationError

from backend.store.processes import spawn, stop
from backend.store.server.connection import UNAVAILABLE
from backend.store.server.embedded import server_binary
from tests.integration.responses import code_of


class RedisServer:
    """One server, with ``settings`` besides an append-only file in its folder."""

    def __init__(self, folder: Path, port: int, *settings: str, launcher: Sequence[str] = ()) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.port = port
        self._settings = settings
        self._launcher = launcher
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *, wait: bool = True) -> None:
        persistent = (
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
        )
        arguments = [
            *self._launcher,
            server_binary(),
            "--port",
            str(self.port),
            "--dir",
            str(self.folder),
            *persistent,
            *self._settings,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = spawn(arguments, log=log)
        if wait:
            until(self.answers)

    def answers(self) -> bool:
        # Another server may have taken the port in the meantime, and would answer.
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with contextlib.closing(self.admin()) as redis:
            try:
                return bool(redis.ping())
            except AuthenticationError:
                return True
            except UNAVAILABLE:
                return False

    def admin(self, **login: str) -> Redis:
        return Redis(port=self.port, socket_timeout=60, **login)  # type: ignore[arg-type]

    def tell(self, *command: str) -> None:
        with contextlib.closing(self.admin()) as redis:
            redis.execute_command(*command)  # type: ignore[no-untyped-call]

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
            stop(self.process, patience=20)


@contextlib.contextmanager
def redis_server(
    folder: Path, *settings: str, started: bool = True, launcher: Sequence[str] = ()
) -> Iterator[RedisServer]:
    with (
        reserved_port() as port,
        contextlib.closing(RedisServer(folder, port, *settings, launcher=launcher)) as server,
    ):
        if started:
            server.start()
        yield server


#: Ports below those that systems give to sockets which name none, so that no other socket takes one.
_PORTS = range(20_000, 32_000)


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port that stays free for a server which starts later, or is killed and started again.

    Its UDP port is the lock: another process of tests that wants the same number cannot bind it.
    """
    with contextlib.ExitStack() as held:
        port = random.choice(_PORTS)
        while not _lock(port, held):
            port = random.choice(_PORTS)
        yield port


def _lock(port: int, held: contextlib.ExitStack) -> bool:
    lock = held.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    try:
        lock.bind(("127.0.0.1", port))
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True


def until(holds: Callable[[], bool], seconds: float = 600.0) -> float:
    """Seconds until a condition holds; looks less often the longer it takes, since each look delays what it awaits."""
    began, pause = time.monotonic(), 0.01
    while not holds():
        assert time.monotonic() - began < seconds, "it did not come true in time"
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return time.monotonic() - began


def ready(api: httpx.Client) -> bool:
    return api.get("/health/ready").status_code == 200


def assert_away(answer: httpx.Response) -> None:
    assert code_of(answer) == (503, "store-unavailable")
    assert int(answer.headers["retry-after"]) >= 1


def answered(send: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer to a request that is sent again while the store seems to be away, as it may on a busy machine."""
    while (answer := send()).status_code == 503:
        assert_away(answer)
    return answer


def until_ready(url: str) -> None:
    """Return when a service has its store: it answers 503 to a request that comes earlier and waits half a second."""
    until(lambda: httpx.get(f"{url}/health/ready", timeout=600).status_code == 200)
