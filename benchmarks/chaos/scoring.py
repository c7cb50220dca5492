"""Scoring while the store is killed, frozen, cut off and flapping: ``make scoring-outages``.

Two APIs with API keys reach one store through a proxy. Requests arrive at a fixed rate, whether or not earlier ones
were answered, and go to the APIs in turn. A third into each outage the second API is restarted, which gets no requests
from before its end until it is ready. An alias moves every two seconds, also while only the APIs are cut off. An answer
is wrong if its version was not that of the alias since the process last reached the store, or a second ago.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import UNAVAILABLE, connect
from backend.store.store import Store
from benchmarks.chaos.cluster import await_true, free_port, store_command
from benchmarks.chaos.core import api_command
from benchmarks.chaos.parts import DeploymentProcess

_TENANT = "scoring"
_ROWS = {"predictions": [0.1, 0.9, 0.4, 0.6], "labels": [0, 1, 1, 0], "method": "identity"}
#: Seconds within which a process sees a change, and within which it sees those of an outage after its end.
_SEEN_SECONDS = 1.0
#: Less than the seconds after which an API closes an idle connection.
_IDLE_SECONDS = 3.0
_MOVE_SECONDS, _ANSWER_SECONDS, _FLAP_SECONDS, _SETTLE_SECONDS = 2.0, 10.0, 1.0, 3.0
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


class Connections:
    """Connections to one API."""

    def __init__(self, port: int, key: str) -> None:
        self._port, self._key = port, key
        self._idle: deque[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = deque()

    async def post(self, path: str, body: bytes) -> tuple[int, dict[str, object], bool]:
        """The status and the JSON object of a response, and whether it is stale."""
        while self._idle and time.monotonic() - self._idle[0][0] > _IDLE_SECONDS:
            self._idle.popleft()[2].close()
        if self._idle:
            _, reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._key}\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().decode().split("\r\n")
        length = next(int(line.partition(":")[2]) for line in lines if line.startswith("content-length:"))
        answer = await reader.readexactly(length)
        self._idle.append((time.monotonic(), reader, writer))
        return int(lines[0].split()[1]), json.loads(answer), any(line.startswith("calibrant-stale:") for line in lines)

    def forget(self) -> None:
        """Close the idle connections."""
        for _, _, writer in self._idle:
            writer.close()
        self._idle.clear()


class Move(NamedTuple):
    """A move of the alias to a version, which took effect between two moments."""

    began: float
    ended: float
    version: int


@dataclass
class Record:
    """What happened; moments are of the monotonic clock."""

    moves: list[Move] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)
    #: When each request was due, and the seconds until its answer.
    answers: list[tuple[float, float]] = field(default_factory=list)
    restarted: tuple[float, float] = (0.0, 0.0)
    failures: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stale: int = 0

    def accepted(self, began: float, ended: float) -> set[int]:
        """The versions that a request may get for the alias."""
        known = began - _SEEN_SECONDS
        for start, end in self.outages:
            if start < began < end + _SEEN_SECONDS:
                known = min(known, start - _SEEN_SECONDS)
        before = [move for move in self.moves if move.ended <= known]
        return {m.version for m in (before[-1:] + [m for m in self.moves if m.ended > known and m.began <= ended])}

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
                self.connections = [Connections(port, key) for port in self.ports]
                for i, api in enumerate(self.apis):
                    api.start()
                    await self.is_ready(i)
                ids = [(await self._posted("/maps", {**_ROWS, "name": "spam"}))["id"] for _ in range(2)]
                self.requests = itertools.cycle(
                    [
                        ("/calibrate", _body("spam@champion"), None),
                        ("/calibrate", _body("spam:1"), 1),
                        ("/v2/models/spam@champion/infer", _TENSOR, None),
                        ("/calibrate", _body(str(ids[1])), 2),
                        ("/v2/models/spam/versions/1/infer", _TENSOR, 1),
                    ]
                )
                await asyncio.to_thread(self._move, 1)
                yield
            finally:
                for part in (*self.apis, self.store):
                    part.end()

    async def _posted(self, path: str, body: object) -> dict[str, object]:
        status, answer, _ = await self.connections[0].post(path, json.dumps(body).encode())
        if status != 201:
            raise RuntimeError(answer)
        return answer

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
        path, body, version = next(self.requests)
        record = self.record
        try:
            status, answer, is_stale = await asyncio.wait_for(to.post(path, body), _ANSWER_SECONDS)
        except (OSError, TimeoutError, EOFError) as error:
            record.failures.append(f"{path}: {type(error).__name__}")
            return
        ended = time.monotonic()
        record.answers.append((due, ended - due))
        record.stale += is_stale
        if status != 200:
            record.failures.append(f"{path}: {status} {answer}")
            return
        got = int(str(answer.get("version", answer.get("model_version"))))
        accepted = record.accepted(due, ended) if version is None else {version}
        if got not in accepted:
            record.wrong.append(f"{path}: version {got}, not {sorted(accepted)}")

    def _move(self, version: int) -> None:
        began = time.monotonic()
        with contextlib.suppress(*UNAVAILABLE):
            Store.of(self.redis, _TENANT).aliases.point("spam", "champion", version, who=None, check=lambda _: None)
            self.record.moves.append(Move(began, time.monotonic(), version))

    async def _move_often(self) -> None:
        for version in itertools.cycle((2, 1)):
            await asyncio.sleep(_MOVE_SECONDS)
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

    async def measure(self, kind: str, before: float, seconds: float) -> list[str]:
        """The row of a kind of outage."""
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
        found = self.record
        for text in [*lost, *found.failures, *found.wrong][:10]:
            print(f"  {kind}: {text}", flush=True)
        during, calm = found.quantiles(), found.quantiles(with_restart=False)
        self.is_good = self.is_good and not (lost or found.failures or found.wrong)
        return [
            kind,
            f"{len(found.answers) + len(found.failures):,}",
            f"{found.stale / len(found.answers):.0%}",
            str(len(found.failures)),
            str(len(found.wrong)),
            *(f"{1000 * times[q]:.1f} / {1000 * during[q]:.1f} ms" for times, q in ((normal, 49), (normal, 98))),
            f"{during[98] / normal[98]:.2f} / {calm[98] / normal[98]:.2f}",
        ]


def _body(ref: str) -> bytes:
    return json.dumps({"map": ref, "predictions": [0.02, 0.11, 0.19, 0.28, 0.4, 0.52, 0.63, 0.75, 0.86, 0.97]}).encode()


_TENSOR = json.dumps(
    {"inputs": [{"name": "predictions", "shape": [2], "datatype": "FP64", "data": [0.25, 0.5]}]}
).encode()
_HEADINGS = [
    *("outage", "requests", "stale", "failures", "wrong versions"),
    *("p50 before / during", "p99 before / during", "ratio of p99 / without the restart"),
]


async def _main(seconds: float, before: float, rate: float, kinds: list[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="calibrant-scoring-") as name:
        bench = Bench(Path(name), rate)
        async with bench.running():
            await bench.load(2)  # loads the maps
            rows = [await bench.measure(kind, before, seconds) for kind in kinds]
    for row in (_HEADINGS, ["---"] * len(_HEADINGS), *rows):
        print(f"| {' | '.join(row)} |")
    return bench.is_good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of each outage")
    parser.add_argument("--before", type=float, default=60, help="seconds of normal operation before each outage")
    parser.add_argument("--rate", type=float, default=200, help="requests per second")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    given = parser.parse_args()
    sys.exit(0 if asyncio.run(_main(given.seconds, given.before, given.rate, given.kinds)) else 1)


if __name__ == "__main__":
    main()
