"""Real parts: a Redis of the tests' own, real worker processes, a real API."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from fastapi import FastAPI
from redis import Redis

from backend.settings import settings_of, variable_of
from backend.store.api_keys import ApiKeyStore
from backend.store.clock import stamp
from backend.store.jobs.queues import Message
from backend.store.jobs.runs import Run
from backend.store.keyspace import new_id
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from benchmarks.examples.record import admitting
from calibrant.client import Calibrant
from schemas.jobs import JobRecord
from service.app import create_app
from service.server import Server
from service.settings import Settings
from service.stack import Stack
from tests.integration.redis_server import until_ready
from tests.integration.visiting import Visitor
from tests.known import known
from tests.store_folder import store_folder
from tests.warm_service import stack

#: Each client without it makes one, in a millisecond.
_UNUSED_TLS = ssl.create_default_context()
#: Settings of services whose store answers, however busy the machine is; callers send `Prefer: wait=600`.
PATIENT: dict[str, Any] = {"store_timeout": 60.0, "request_timeout": 600.0, "max_wait": 600}


def patient(inherited: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a service whose store answers, however busy the machine is."""
    return {**inherited, **{variable_of(name): str(setting) for name, setting in PATIENT.items()}}


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with store_folder() as path:
        yield path


def while_needed(fixture_name: str, config: pytest.Config) -> Literal["session", "package"]:
    """The scope of a service: the tests of this folder, or all where files of this folder and others take turns."""
    return "package" if config.option.shuffle_files is None else "session"


@contextlib.contextmanager
def own_service(store: Path, settings: Mapping[str, str] | None = None, **options: Any) -> Iterator[Stack]:
    """A whole service that waits for a busy machine, with these variables; its log lies beside its folder."""
    variables = {**patient(), **(settings or {})}
    with (
        store.with_suffix(".log").open("ab") as log,
        stack(host="127.0.0.1", port=0, data=store, log=log, inherited=variables, **options) as running,
    ):
        yield running


@dataclass(frozen=True)
class KeyedService:
    """A service with a key of each tenant, and a client of each key."""

    stack: Stack
    redis: Redis
    keys: list[str]
    clients: list[httpx.Client]


@contextlib.contextmanager
def keyed_service(store: Path, settings: Mapping[str, str], *scopes: tuple[str, str]) -> Iterator[KeyedService]:
    """A whole service with a key for each tenant and scope."""
    with store.with_suffix(".log").open("ab") as log, contextlib.ExitStack() as opened:
        url, _ = opened.enter_context(embedded_server(store, log=log))
        redis = opened.enter_context(contextlib.closing(connect(url)))
        keys = [ApiKeyStore(redis).create(tenant, tenant=tenant, scope=scope).text for tenant, scope in scopes]
        running = opened.enter_context(own_service(store, settings, redis_url=url))
        clients = [
            httpx.Client(base_url=running.url, headers={"Authorization": f"Bearer {k}"}, timeout=600) for k in keys
        ]
        yield KeyedService(running, redis, keys, [opened.enter_context(client) for client in clients])


@pytest.fixture(scope=while_needed)
def service(folder: Path) -> Iterator[Stack]:
    """The whole service.

    Together they leave more monitors than the default quota of a tenant.
    """
    with own_service(folder / "service", admitting() | {"CALIBRANT_MAX_MONITORS": "0"}) as running:
        until_ready(running.url)
        yield running


@pytest.fixture
def client(service: Stack) -> Iterator[Calibrant]:
    with Calibrant(service.url) as client:
        yield client


@pytest.fixture
def http(service: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=PATIENT["max_wait"], verify=_UNUSED_TLS) as http:
        yield http


@pytest.fixture(scope=while_needed)
def redis_url(folder: Path) -> Iterator[str]:
    """A Redis without a worker, for tests of the store and of single jobs."""
    with (folder / "redis.log").open("ab") as log, embedded_server(folder / "store", log=log) as (url, _):
        yield url


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    redis = connect(redis_url, timeout=PATIENT["store_timeout"])
    redis.flushall()
    yield redis
    redis.flushall()  # with a key in the store, later tests that take the address alone would need one
    redis.close()


@pytest.fixture
def store(redis: Redis) -> Store:
    return Store.of(redis)


def job_record(**changes: Any) -> JobRecord:
    """A queued fit."""
    fields = {"id": new_id("job"), "kind": "fit", "status": "queued", "created_at": stamp(), "ttl": 60, "spec": {}}
    return JobRecord.model_validate(fields | changes)


def submitted(store: Store, **changes: Any) -> JobRecord:
    """A queued fit in the store."""
    return store.jobs.submit(job_record(**changes))


def claimed(store: Store, job_id: str) -> Run:
    """The next run of a job, as a worker begins it."""
    job = store.jobs.get(job_id)
    return known(store.runs.claim(Message.next_of(store.keys.tenant, job), "a-worker", job.queue))


@contextlib.contextmanager
def serving(
    settings: Settings,
    *,
    needs_key: bool = False,
    prepare: Callable[[FastAPI], None] = lambda _: None,
    outages: bool = False,
) -> Iterator[str]:
    """The API alone, in this process, on a port of its own.

    It waits as long as a busy machine needs, where a test does not set how long; in tests of ``outages`` as by default.
    """
    if not outages:
        defaults = {setting.name: setting.default for setting in settings_of(Settings)}
        unset = {name: setting for name, setting in PATIENT.items() if getattr(settings, name) == defaults[name]}
        settings = replace(settings, **unset)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        app = create_app(settings, needs_key=needs_key)
        prepare(app)
        server = Server(app, settings, host="127.0.0.1", port=0, drain_seconds=settings.drain_seconds)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def serving_client(settings: Settings, **options: Any) -> Iterator[httpx.Client]:
    """A client of the API alone, with as many connections as a test opens; ``options`` are those of ``serving``."""
    limits = httpx.Limits(max_connections=None)
    with (
        serving(settings, **options) as url,
        httpx.Client(base_url=url, timeout=600, limits=limits, trust_env=False) as api,
    ):
        yield api


#: A body that is heavy by its size, and refused for what it is where there is a place.
HEAVY = b" " * (2 << 20)
_JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def one_place_taken(redis: Redis, url: str) -> Iterator[None]:
    """A heavy request that is under way: the store takes no writes meanwhile, and so it waits.

    For services with ``max_heavy_requests=1``, in which no request waits for another, and a long ``store_timeout``.
    """
    rows = {"predictions": [0.125] * 300_000}

    def store() -> int:
        while (status := httpx.post(f"{url}/batches", json=rows, timeout=600).status_code) == 503:
            pass
        return status

    redis.client_pause(600_000, all=False)
    with ThreadPoolExecutor(1) as thread:
        try:
            storing = thread.submit(store)
            # Its place is known to be taken once the service refuses a second.
            while httpx.post(f"{url}/evaluate", content=HEAVY, headers=_JSON, timeout=600).status_code != 503:
                assert not storing.done()
            yield
        finally:
            redis.client_unpause()
        assert storing.result() == 201


class SharedApi:
    """An API that tests share, each with an empty store, and one with the settings of the present file."""

    def __init__(self, redis_url: str) -> None:
        self._plain = self._present = Settings(redis_url)
        self._running: dict[Settings, tuple[contextlib.ExitStack, str]] = {}

    def url(self, **settings: Any) -> str:
        """The address of the API with these settings, which starts if it does not run or needs a key.

        A service that has read an API key of any test needs one until it ends. Maps may stay in its memory.
        """
        wanted = replace(self._plain, **settings)
        if wanted not in (self._plain, self._present):
            if self._present != self._plain:
                self._stop(self._present)
            self._present = wanted
        if wanted in self._running and httpx.get(f"{self._running[wanted][1]}/maps", timeout=600).status_code != 200:
            self._stop(wanted)
        if wanted not in self._running:
            running = contextlib.ExitStack()
            self._running[wanted] = running, running.enter_context(serving(wanted))
        return self._running[wanted][1]

    def close(self) -> None:
        """Stop the APIs."""
        for settings in (*self._running,):
            self._stop(settings)

    def _stop(self, settings: Settings) -> None:
        if settings in self._running:
            self._running.pop(settings)[0].close()


@pytest.fixture(scope=while_needed)
def shared_api(redis_url: str) -> Iterator[SharedApi]:
    with contextlib.closing(SharedApi(redis_url)) as shared:
        yield shared


@pytest.fixture
def url(redis: Redis, shared_api: SharedApi) -> str:
    """The address of an API on the Redis of ``store``."""
    return shared_api.url()


@pytest.fixture
def visitor(url: str) -> Iterator[Visitor]:
    with Visitor(url) as visitor:
        yield visitor


@pytest.fixture
def api(redis: Redis, shared_api: SharedApi) -> Iterator[httpx.Client]:
    """An API on the Redis of ``store``, which no worker works on: jobs stay as a test leaves them."""
    with httpx.Client(base_url=shared_api.url(), timeout=600, verify=_UNUSED_TLS) as http:
        yield http
