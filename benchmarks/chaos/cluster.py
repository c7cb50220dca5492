"""A deployment: a store in a folder, APIs, and two supervisors with two workers each."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from redis import Redis

from backend.store.server.connection import UNAVAILABLE
from backend.store.server.embedded import server_binary
from benchmarks.chaos.core import api_command, supervisor_command, workers_of
from benchmarks.chaos.parts import DeploymentProcess

_START_SECONDS = 90.0
#: Room in the audit log for the fits of a run.
ALL_ENTRIES = {"CALIBRANT_AUDIT_ENTRIES": "1000000"}
#: Settings of the API: requests lost with its process can soon be resent with their key.
API_SETTINGS = {"CALIBRANT_IDEMPOTENCY_LEASE": "2", "CALIBRANT_MAX_WAIT": "1"}


@dataclass(frozen=True)
class Site:
    """Where a part runs: its address, and the command prefix that enters its network."""

    host: str = "127.0.0.1"
    before: Sequence[str] = ()


@dataclass(frozen=True)
class Cluster:
    """The running parts."""

    redis_url: str
    #: One for each API.
    urls: tuple[str, ...]
    store: DeploymentProcess
    apis: tuple[DeploymentProcess, ...]
    supervisors: tuple[DeploymentProcess, ...]

    @property
    def parts(self) -> tuple[DeploymentProcess, ...]:
        """Every part, in the order of start."""
        return (self.store, *self.apis, *self.supervisors)

    @property
    def url(self) -> str:
        """The URL of the first API."""
        return self.urls[0]

    def connect(self, timeout: float = 5.0) -> Redis:
        """Open a connection to the store without retries."""
        return Redis.from_url(self.redis_url, socket_timeout=timeout, socket_connect_timeout=timeout, retry=None)

    def await_store(self) -> None:
        """Wait until the store answers; raises ``TimeoutError``."""
        with contextlib.closing(self.connect()) as redis:
            await_true(lambda: bool(redis.ping()), _START_SECONDS)

    def await_ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until every part works; raises ``TimeoutError``."""
        self.await_store()
        for check in (self.are_ready, *(_has_workers(part) for part in self.supervisors)):
            await_true(check, seconds)

    def are_ready(self, but: DeploymentProcess | None = None) -> bool:
        """Whether all APIs but one are ready."""
        return all(_is_ready(url) for api, url in zip(self.apis, self.urls, strict=True) if api is not but)


def _has_workers(part: DeploymentProcess) -> Callable[[], bool]:
    return lambda: part.pid is not None and bool(workers_of(part.pid))


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=5).is_success
    except httpx.TransportError:
        return False


def await_true(check: Callable[[], bool], seconds: float) -> None:
    """Wait until ``check`` is true; connection errors count as false. Raises ``TimeoutError``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(*UNAVAILABLE, httpx.TransportError):
            if check():
                return
        time.sleep(0.05)
    raise TimeoutError(f"the condition was not met within {seconds:g} s")


@contextlib.contextmanager
def cluster(
    folder: Path,
    *,
    store_folder: Path | None = None,
    sites: Mapping[str, Site] | None = None,
    apis: int = 1,
    supervisors: int = 2,
    workers: int = 2,
    warm: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Run a deployment with logs in ``folder``; ``sites`` are the places of ``store``, ``api``, ``worker-1``, ...

    ``settings`` are further variables of the API and the supervisors.
    """
    where = sites or {}
    store_at, api_at = where.get("store", Site()), where.get("api", Site())
    redis_port, api_ports = free_port(), [free_port() for _ in range(apis)]
    redis_url = f"redis://{store_at.host}:{redis_port}/0"
    environment = os.environ | {"CALIBRANT_REDIS_URL": redis_url, "OMP_NUM_THREADS": "1"} | ALL_ENTRIES
    environment |= settings or {}

    def part(name: str, command: Sequence[str], site: Site, **more: str) -> DeploymentProcess:
        log = folder / f"{name}.log"
        return DeploymentProcess(name, command, log=log, environment=environment | more, before=site.before)

    def api(name: str, port: int) -> DeploymentProcess:
        held = {"CALIBRANT_HELD_FOLDER": str(folder / f"held-{name}")}
        return part(name, api_command(api_at.host, port), api_at, **API_SETTINGS, **held)

    def supervisor(name: str) -> DeploymentProcess:
        return part(name, supervisor_command(workers, warm=warm), where.get(name, Site()))

    running = Cluster(
        redis_url,
        tuple(f"http://{api_at.host}:{port}" for port in api_ports),
        part("store", store_command(store_folder or folder, store_at.host, redis_port), store_at),
        tuple(api(f"api-{i + 1}", port) for i, port in enumerate(api_ports)),
        tuple(supervisor(f"worker-{i + 1}") for i in range(supervisors)),
    )
    with contextlib.ExitStack() as started:
        for running_part in running.parts:
            running_part.start()
            started.callback(running_part.end)
        yield running


def store_command(folder: Path, host: str, port: int) -> list[str]:
    """A Redis command that keeps every acknowledged write."""
    settings = {
        "port": str(port),
        "bind": host,
        "protected-mode": "no",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [server_binary(), *(word for name, value in settings.items() for word in (f"--{name}", value))]


def free_port() -> int:
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port
