"""Scoring while the store is killed, frozen, cut off and flapping: ``make scoring-outages``.

Writes its section of docs/benchmarks/reliability.md; fails if a request fails or an answer is wrong.

Two APIs with API keys reach one store through a proxy. Requests arrive at a fixed rate, whether or not earlier ones
were answered, and go to the APIs in turn. A third into each outage the second API is restarted, which gets no requests
from before its end until it is ready. An alias moves every two seconds, also while only the APIs are cut off. An answer
is wrong if its version was not that of the alias since the process last reached the store, or a second ago, or if its
values are not those of the version.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import UNAVAILABLE, connect
from backend.store.store import Store
from benchmarks.chaos.cluster import await_true, free_port, store_command
from benchmarks.chaos.connections import Connections
from benchmarks.chaos.core import api_command
from benchmarks.chaos.page import write_page
from benchmarks.chaos.page_scoring import scoring_rows
from benchmarks.chaos.parts import DeploymentProcess
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.scored import ALIAS, MODEL, MOVE_SECONDS, SEEN_SECONDS, ScoredModel
from calibrant.client import Calibrant

_TENANT = "scoring"
_ANSWER_SECONDS, _FLAP_SECONDS, _SETTLE_SECONDS = 10.0, 1.0, 3.0
KINDS = ("killed", "frozen", "cut off", "flapping")


class Proxy:
    """Forwards connections to the store; can hold back what is sent, or close connections."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.forwards = asyncio.Event()
        self.forwards.set()
        self.accepts = True
        self._writers: set[asyncio.StreamWriter] = set()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        with contextlib.suppress(OSError, asyncio.CancelledError):
            if self.accepts:
                upstream, sender = await asyncio.open_connection("127.0.0.1", self._port)
                self._writers |= {writer, sender}
                await asyncio.gather(self._pump(reader, sender), self._pump(upstream, writer))
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.forwards.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
        self._writers.discard(writer)

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        self.accepts = False
        for writer in [*self._writers]:
            writer.close()


@dataclass
class Record:
    """What happened; moments are of the monotonic clock."""

    outages: list[tuple[float, float]] = field(default_factory=list)
    #: When each request was due, and the seconds until its answer.
    answers: list[tuple[float, float]] = field(default_factory=list)
    restarted: tuple[float, float] = (0.0, 0.0)
    failures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stale: int = 0

    def known(self, began: float) -> float:
        """The moment until which a process must have seen all moves when it gets a request."""
        known = began - SEEN_SECONDS
        for start, end in self.outages:
            if start < began < end + SEEN_SECONDS:
                known = min(known, start - SEEN_SECONDS)
        return known

    def begin(self) -> None:
        """Forget the requests so far."""
        self.answers, self.failures, self.wrong, self.stale = [], [], [], 0

    def quantiles(self, *, with_restart: bool = True) -> list[float]:
        """The percentiles of the seconds, also without the requests during the restart."""
        start, end = self.restarted
        return statistics.quantiles([s for due, s in self.answers if with_restart or not start < due < end], n=100)


class Bench:
    """The running parts, and the requests."""

    def __init__(self, folder: Path, rate: float) -> None:
        self.folder, self.rate = folder, rate
        self.store_port, self.proxy_port = free_port(), free_port()
        self.store = DeploymentProcess(
            "store", store_command(folder, "127.0.0.1", self.store_port), log=folder / "store.log"
        )
        self.proxy = Proxy(self.store_port)
        self.redis = connect(f"redis://127.0.0.1:{self.store_port}", timeout=0.5)
        self.record = Record()
        self.ports = [free_port(), free_port()]
        self.apis = [self._api(i) for i in range(2)]
        self.connections: list[Connections] = []
        self.in_turn = [0, 1]
        self.is_good = True
        self._tasks: set[asyncio.Task[None]] = set()

    def _api(self, i: int) -> DeploymentProcess:
        settings = {
            "CALIBRANT_REDIS_URL": f"redis://127.0.0.1:{self.proxy_port}",
            "CALIBRANT_HELD_FOLDER": str(self.folder / f"held-{i}"),
            "OMP_NUM_THREADS": "1",
        }
        command = api_command("127.0.0.1", self.ports[i])
        log = self.folder / f"api-{i}.log"
        return DeploymentProcess(f"api-{i}", ["env", *(f"{k}={v}" for k, v in settings.items()), *command], log=log)

    def url(self, i: int) -> str:
        """The URL of an API."""
        return f"http://127.0.0.1:{self.ports[i]}"

    async def is_ready(self, i: int, status: str = "ok") -> None:
        """Return once an API is ready with a status."""
        await asyncio.to_thread(
            await_true,
            lambda: httpx.get(f"{self.url(i)}/health/ready", timeout=5).json().get("status") == status,
            90,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start everything, and store two versions of a map."""
        async with await asyncio.start_server(self.proxy, "127.0.0.1", self.proxy_port):
            try:
                self.store.start()
                await asyncio.to_thread(await_true, lambda: bool(self.redis.ping()), 30)
                key = ApiKeyStore(self.redis).create("bench", tenant=_TENANT, scope="write").text
                self.connections = [Connections(self.url(i), key) for i in range(2)]
                for i, api in enumerate(self.apis):
                    api.start()
                    await self.is_ready(i)
                self.model = await asyncio.to_thread(self._fit, key)
                self.requests = self.model.requests()
                yield
            finally:
                for part in (*self.apis, self.store):
                    part.end()

    def _fit(self, key: str) -> ScoredModel:
        with Calibrant(self.url(0), api_key=key) as client:
            return ScoredModel(client)

    # --- Requests and moves

    async def load(self, seconds: float) -> None:
        """Send requests for some seconds, and wait for their answers."""
        began = time.monotonic()
        mover = asyncio.create_task(self._move_often())
        for n in range(int(seconds * self.rate)):
            due = began + n / self.rate
            await asyncio.sleep(max(due - time.monotonic(), 0))
            task = asyncio.create_task(self._request(due, self.connections[self.in_turn[n % len(self.in_turn)]]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)
        mover.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await mover

    async def _request(self, due: float, to: Connections) -> None:
        request = next(self.requests)
        record = self.record
        try:
            answer = await asyncio.wait_for(to.post(request.path, request.body), _ANSWER_SECONDS)
        except (OSError, TimeoutError, EOFError) as error:
            record.failures.append(f"{request.path}: {type(error).__name__}")
            return
        ended = time.monotonic()
        record.answers.append((due, ended - due))
        record.stale += answer.stale is not None
        if answer.status != httpx.codes.OK:
            record.failures.append(f"{request.path}: {answer.status} {answer.body}")
            return
        fault = self.model.fault(request, answer, self.model.moves.accepted(record.known(due), ended))
        if fault is not None:
            record.wrong.append(fault)

    def _move(self, version: int) -> None:
        with contextlib.suppress(*UNAVAILABLE), self.model.moves.moving(version):
            Store.of(self.redis, _TENANT).aliases.point(MODEL, ALIAS, version, who=None, check=lambda _: None)

    async def _move_often(self) -> None:
        for version in itertools.cycle((2, 1)):
            await asyncio.sleep(MOVE_SECONDS)
            await asyncio.to_thread(self._move, version)

    # --- Outages

    async def restart(self, after: float) -> None:
        """Restart the second API, without requests in the meantime."""
        await asyncio.sleep(after)
        start = time.monotonic()
        self.in_turn = [0]
        await asyncio.sleep(0.5)
        self.connections[1].forget()
        await asyncio.to_thread(self.apis[1].restart)
        await asyncio.to_thread(await_true, lambda: httpx.get(f"{self.url(1)}/health/ready").is_success, 90)
        self.in_turn = [0, 1]
        self.record.restarted = (start, time.monotonic())

    @contextlib.asynccontextmanager
    async def outage(self, kind: str) -> AsyncIterator[None]:
        """An outage of a kind."""
        if kind == "flapping":
            flapping = asyncio.create_task(self._flap())
            yield
            flapping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await flapping
            return
        async with self._away():
            fail, heal = {
                "killed": (self._kill, self.store.release),
                "frozen": (lambda: self.store.signal(signal.SIGSTOP), lambda: self.store.signal(signal.SIGCONT)),
                "cut off": (self.proxy.forwards.clear, self.proxy.forwards.set),
            }[kind]
            fail()
            yield
            heal()
            await asyncio.to_thread(await_true, lambda: bool(self.redis.ping()), 30)

    @contextlib.asynccontextmanager
    async def _away(self) -> AsyncIterator[None]:
        start = time.monotonic()
        self.record.outages.append((start, float("inf")))
        yield
        self.record.outages[-1] = (start, time.monotonic())

    def _kill(self) -> None:
        self.store.signal(signal.SIGKILL)
        self.store.hold()

    async def _flap(self) -> None:
        while True:
            async with self._away():
                self.proxy.cut()
                try:
                    await asyncio.sleep(_FLAP_SECONDS)
                finally:
                    self.proxy.accepts = True
            await asyncio.sleep(_FLAP_SECONDS)

    async def measure(self, kind: str, before: float, seconds: float) -> dict[str, Any]:
        """The figures of a kind of outage; times are in seconds, as median and 99th percentile."""
        self.record.begin()
        await self.load(before)
        normal = self.record.quantiles()
        lost = [*self.record.failures, *self.record.wrong]
        self.record.begin()
        async with self.outage(kind):
            restarting = asyncio.create_task(self.restart(seconds / 3))
            await self.load(seconds)
            await restarting
        for i in range(2):
            await self.is_ready(i)
        await self.load(_SETTLE_SECONDS)
        record = self.record
        for text in [*lost, *record.failures, *record.wrong][:10]:
            print(f"  {kind}: {text}", flush=True)
        during, calm = record.quantiles(), record.quantiles(with_restart=False)
        self.is_good = self.is_good and not (lost or record.failures or record.wrong)
        return {
            "requests": len(record.answers) + len(record.failures),
            "stale": record.stale / len(record.answers),
            "failures": len(record.failures),
            "wrong": len(record.wrong),
            "normal": [normal[49], normal[98]],
            "during": [during[49], during[98]],
            "without_restart": [calm[49], calm[98]],
        }


async def _main(seconds: float, before: float, rate: float, kinds: list[str]) -> bool:
    record = circumstances() | {"seconds": seconds, "before": before, "rate": rate}
    with tempfile.TemporaryDirectory(prefix="calibrant-scoring-") as name:
        bench = Bench(Path(name), rate)
        async with bench.running():
            await bench.load(2)  # loads the maps
            record["outages"] = {kind: await bench.measure(kind, before, seconds) for kind in kinds}
    print("\n".join(scoring_rows(record)))
    write("scoring-outages", record)
    write_page()
    return bench.is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of each outage")
    parser.add_argument("--before", type=float, default=60, help="seconds of normal operation before each outage")
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    arguments = parser.parse_args()
    sys.exit(0 if asyncio.run(_main(arguments.seconds, arguments.before, arguments.rate, arguments.kinds)) else 1)


if __name__ == "__main__":
    main()
