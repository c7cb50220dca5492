"""Hostile requests of one tenant, and their effect on probes and another tenant: ``make attack``.

A fresh service with two keys. The attacker sends each kind of attack in turn; meanwhile a probe asks for
``/health/ready``, and the neighbour, another tenant, calibrates ten scores and evaluates 100,000 rows.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import os
import random
import socket
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import orjson
import pyarrow as pa
import zstandard

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from benchmarks.chaos.bombs import bombs
from benchmarks.chaos.page import write_page
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.values import DEFINITIONS, DOCUMENTS, MODELS, VERSIONS, with_values
from benchmarks.http.load import peak_bytes, reset_peak
from service.stack import Stack, stack

MB = 1_000_000
_JSON, _ARROW, _NPZ = "application/json", "application/vnd.apache.arrow.stream", "application/x-npz"
_ROUTES = ("/evaluate", "/v2/models/m/infer", "/maps/import", "/maps", "/calibrate", "/monitors/m/rows", "/batches")
#: Errors of an attacker's socket when the service resets or closes the connection.
_CUT = (ConnectionResetError, BrokenPipeError, TimeoutError)


@dataclass
class AttackTarget:
    """The service under attack and the attacker's key."""

    url: str
    key: str
    random: random.Random = field(default_factory=lambda: random.Random(18))  # noqa: S311 - no secret

    def connection(self) -> socket.socket:
        """A socket to the service."""
        parts = urlsplit(self.url)
        return socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60)

    def head(self, method: str = "POST", path: str = "/evaluate", *more: str) -> bytes:
        """The first lines of a request with the attacker's key, without the empty line at the end."""
        lines = (f"{method} {path} HTTP/1.1", f"Host: {urlsplit(self.url).netloc}", f"Authorization: Bearer {self.key}")
        return "\r\n".join((*lines, f"Content-Type: {_JSON}", *more, "")).encode()

    def raw(self, data: bytes) -> str:
        """The status of the answer to raw bytes; "cut" if there is none."""
        with contextlib.closing(self.connection()) as connection, contextlib.suppress(*_CUT):
            with contextlib.suppress(*_CUT):
                connection.sendall(data)
            answer = connection.recv(65536)
            return answer.split(b" ", 2)[1].decode() if answer else "cut"
        return "cut"

    def document(self, path: str, body: bytes) -> str:
        """The status of the answer to a JSON document on a connection of its own."""
        return self.raw(self.head("POST", path, f"Content-Length: {len(body)}", "Connection: close") + b"\r\n" + body)

    def post(
        self, path: str, body: bytes, *, encoding: str = "", kind: str = _JSON, headers: dict[str, str] | None = None
    ) -> str:
        """The status of the answer to a body."""
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": kind, **(headers or {})}
        if encoding:
            headers["Content-Encoding"] = encoding
        try:
            return str(httpx.post(self.url + path, content=body, headers=headers, timeout=120).status_code)
        except httpx.TransportError:
            return "cut"


def _nothing(_: AttackTarget) -> Iterator[Callable[[], str]]:
    def wait() -> str:
        time.sleep(10)
        return "none"

    yield wait


def _endless_heads(to: AttackTarget) -> Iterator[Callable[[], str]]:
    get = to.head("GET", "/health/ready")
    for data in (
        get + b"a:b\r\n" * 8_000_000,
        get + b"X: " + b"a" * 40 * MB,
        b"GET /" + b"a" * 40 * MB,
        b"\r\n" * 10 * MB,
        to.head("POST", "/evaluate", "Transfer-Encoding: chunked") + b"\r\n2;" + b"a" * 40 * MB,
        to.head("POST", "/evaluate", "Transfer-Encoding: chunked") + b"\r\n2\r\n{}\r\n0\r\n" + b"a:b\r\n" * 8_000_000,
    ):
        for _ in range(10):
            yield lambda data=data: to.raw(data)  # type: ignore[misc]


def _slow_head(to: AttackTarget) -> Iterator[Callable[[], str]]:
    def at_5_mb_a_second(start: bytes) -> str:
        with contextlib.closing(to.connection()) as connection, contextlib.suppress(*_CUT):
            connection.sendall(start)
            for _ in range(100):  # ten seconds, unless the service ends it
                connection.sendall(b"a" * 500_000)
                time.sleep(0.1)
        return "cut"

    for start in (to.head() + b"X: ", b"GET /"):
        yield from [lambda start=start: at_5_mb_a_second(start)] * 4


def _half_heads(to: AttackTarget) -> Iterator[Callable[[], str]]:
    def half() -> str:
        with contextlib.suppress(*_CUT), contextlib.closing(to.connection()) as connection:
            connection.sendall(to.head())
            answer = connection.recv(1000)
            return answer.split(b" ", 2)[1].decode() if answer else "cut"
        return "cut"

    yield from [half] * 300


def _pipelines(to: AttackTarget) -> Iterator[Callable[[], str]]:
    data = (to.head("GET", "/measures") + b"\r\n") * 5_000
    yield from [lambda: to.raw(data)] * 10


def _json_bombs(to: AttackTarget) -> Iterator[Callable[[], str]]:
    n = 256 * 1024 * 1024
    for unpacked in (
        b'{"options":[' + b'"ab",' * (n // 5) + b'"ab"]}',
        b'{"predictions":[' + b"[]," * (n // 3) + b"[]]}",
        b'{"options":{' + b'"a":0,' * (n // 6) + b'"b":0}}',
        b'{"predictions":[' + b"1," * (n // 2) + b"1]}",
        b'{"name":"' + b"a" * n + b'"}',
        b'{"predictions":[' + b"1" * n + b"]}",
        b"[" * n,
    ):
        packed = zstandard.compress(unpacked, 3)
        for path in _ROUTES[:4]:
            yield lambda path=path, packed=packed: to.post(path, packed, encoding="zstd")  # type: ignore[misc]
    zeros = gzip.compress(bytes(n), 6)
    yield from [lambda: to.post("/evaluate", zeros, encoding="gzip")] * 4


def _largest_json(to: AttackTarget) -> Iterator[Callable[[], str]]:
    n = 8 * 1024 * 1024 - 100
    body = b'{"predictions":[' + b"0.5," * (n - 1) + b'0.5],"labels":[' + b"1," * (n - 1) + b"0]}"
    packed = zstandard.compress(body, 3)
    yield from [lambda: to.post("/evaluate", packed, encoding="zstd")] * 3


def _stalled_bodies(to: AttackTarget) -> Iterator[Callable[[], str]]:
    def stalled() -> str:
        with contextlib.suppress(*_CUT), contextlib.closing(to.connection()) as connection:
            connection.sendall(to.head("POST", "/evaluate", f"Content-Length: {3 * MB}") + b"\r\n" + b" " * 1_100_000)
            answer = connection.recv(1000)
            return answer.split(b" ", 2)[1].decode() if answer else "cut"
        return "cut"

    yield from [stalled] * 40


def _streams(to: AttackTarget) -> Iterator[Callable[[], str]]:
    p = np.random.default_rng(1).random(200_000)
    body = orjson.dumps({"predictions": p.tolist(), "labels": (p > 0.5).astype(int).tolist(), "method": "pl3"})
    headers = {"Authorization": f"Bearer {to.key}", "Content-Type": _JSON, "Prefer": "respond-async"}
    jobs = [httpx.post(f"{to.url}/maps", content=body, headers=headers, timeout=120) for _ in range(4)]
    path = f"{jobs[-1].headers.get('location', '/jobs/none')}/events"

    def stream() -> str:
        with contextlib.suppress(*_CUT), contextlib.closing(to.connection()) as connection:
            connection.settimeout(10)
            connection.sendall(to.head("GET", path) + b"\r\n")
            answer = connection.recv(1000)
            while connection.recv(1000):
                pass
            return answer.split(b" ", 2)[1].decode() if answer else "cut"
        return "200"

    yield from [stream] * 205


def _doubled(to: AttackTarget) -> Iterator[Callable[[], str]]:
    for path in _ROUTES:
        for body in (
            b'{"predictions":[0.1],"predictions":[0.2],"labels":[1]}',
            b'{"rows":[{"id":"a","id":"b","prediction":0.5,"label":1}]}',
            b'{"rows":[{"id":"","prediction":0.5,"label":1}]}',
            b'{"predictions":[0.1],"labels":[1],"options":{"a":1,"a":2}}',
            b'{"predictions":[0.1],"labels":[1],"weights":[1e308]}',
            b"\xff\xfe{}",
            b'{"predictions":[0.1]\xff}',
        ):
            yield lambda path=path, body=body: to.post(path, body)  # type: ignore[misc]
        yield lambda path=path: to.post(f"{path}?interval=0.9_5&interval=1", b"{}")  # type: ignore[misc]


def _random_bodies(to: AttackTarget) -> Iterator[Callable[[], str]]:
    out = io.BytesIO()
    np.savez(out, predictions=np.linspace(0, 1, 50), labels=np.arange(50) % 2)
    seeds = (
        (b'{"predictions":[0.1,0.9],"labels":[0,1],"interval":0.95}', _JSON),
        (out.getvalue(), "application/x-npz"),
    )
    for _ in range(500):
        body, kind = to.random.choice(seeds)
        mutated = bytearray(body)
        for _ in range(to.random.randint(1, 8)):
            mutated[to.random.randrange(len(mutated))] = to.random.choice(b'"[]{},:0123456789eE.-\x00\xff')
        path = to.random.choice(_ROUTES)
        yield lambda path=path, body=bytes(mutated), kind=kind: to.post(path, body, kind=kind)  # type: ignore[misc]


def _ambiguous_heads(to: AttackTarget) -> Iterator[Callable[[], str]]:
    chunks = b"\r\n2\r\n{}\r\n0\r\n\r\n"
    for path in _ROUTES:
        for twice in ("Host: evil.test", "Origin: http://a.test", "Content-Type: text/csv", "Idempotency-Key: b"):
            head = to.head("POST", path, "Origin: http://b.test", "Idempotency-Key: a", "Content-Length: 2", twice)
            yield lambda head=head: to.raw(head + b"\r\n{}")  # type: ignore[misc]
        for codings in ("gzip, chunked", "chunked, gzip", "gzip", "chunked, chunked"):
            head = to.head("POST", path, f"Transfer-Encoding: {codings}")
            yield lambda head=head: to.raw(head + chunks)  # type: ignore[misc]
        old = to.head("POST", path, "Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        yield lambda old=old: to.raw(old + chunks)  # type: ignore[misc]
        other = to.head("POST", f"http://evil.test{path}", "Content-Length: 2")
        yield lambda other=other: to.raw(other + b"\r\n{}")  # type: ignore[misc]


def _forged_arrays(to: AttackTarget) -> Iterator[Callable[[], str]]:
    for shape in ("(True,)", "(False,)", "(1, True)", "(-1,)", "(1.0,)", f"(0, {2**62})", f"({2**62}, 0)", "[1]"):
        text = f"{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}}}".ljust(117).encode() + b"\n"
        array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(8)
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for name in ("predictions", "labels"):
                archive.writestr(f"{name}.npy", array)
        for body, kind in ((array, "application/x-npy"), (out.getvalue(), _NPZ)):
            for path in _ROUTES:
                yield lambda path=path, body=body, kind=kind: to.post(path, body, kind=kind)  # type: ignore[misc]


def _long_names(to: AttackTarget) -> Iterator[Callable[[], str]]:
    rows = 200_000
    once = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array(["x" * 20_000, None]))
    half, zero = pa.array(np.full(rows, 0.5)), pa.array(np.zeros(rows))
    for path, columns in (
        ("/evaluate", {"predictions": half, "labels": zero, "groups": once}),
        ("/batches", {"predictions": half, "labels": zero, "groups": once}),
        ("/monitors/m/rows", {"id": once, "prediction": half, "label": zero}),
    ):
        out = io.BytesIO()
        table = pa.table(columns)
        with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(table)
        body = out.getvalue()
        yield from [lambda path=path, body=body: to.post(path, body, kind=_ARROW)] * 8
    cells = gzip.compress(b"predictions,labels\n" + b'"ab\n",' * 5_000_000 + b"1\n")
    yield from [lambda: to.post("/evaluate", cells, kind="text/csv", encoding="gzip")] * 8


def _bombs(to: AttackTarget) -> Iterator[Callable[[], str]]:
    for bomb in bombs(32_000_000, 16_000_000):
        yield from [
            lambda bomb=bomb: to.post(
                bomb.path, bomb.body, encoding=bomb.encoding, kind=bomb.kind, headers=dict(bomb.headers)
            )
        ] * 4


def _hostile_definitions(to: AttackTarget) -> Iterator[Callable[[], str]]:
    def define(body: bytes) -> str:
        status = to.document("/monitors", body)
        if status == "201":  # so that the next definition meets no limit
            to.raw(to.head("DELETE", f"/monitors/{orjson.loads(body)['name']}", "Connection: close") + b"\r\n")
        return status

    for definition in DEFINITIONS:
        for body in with_values(definition):
            yield lambda body=body: define(body)  # type: ignore[misc]


def _hostile_documents(to: AttackTarget) -> Iterator[Callable[[], str]]:
    for path, document in DOCUMENTS:
        for body in with_values(document):
            yield lambda path=path, body=body: to.document(path, body)  # type: ignore[misc]


def _strange_models(to: AttackTarget) -> Iterator[Callable[[], str]]:
    body = b'{"inputs":[{"name":"predictions","datatype":"FP64","shape":[1],"data":[0.5]}]}'
    for model in MODELS:
        for path in (f"/v2/models/{model}", *(f"/v2/models/{model}/versions/{version}" for version in VERSIONS)):
            for end in ("", "/ready"):
                head = to.head("GET", path + end, "Connection: close")
                yield lambda head=head: to.raw(head + b"\r\n")  # type: ignore[misc]
            yield lambda path=path: to.document(f"{path}/infer", body)  # type: ignore[misc]


def _hoarding(to: AttackTarget) -> Iterator[Callable[[], str]]:
    p = np.random.default_rng(2).random(1_500_000)
    out = io.BytesIO()
    np.savez(out, predictions=p, labels=(p > 0.5).astype(np.int8))
    yield from [lambda: to.post("/batches", out.getvalue(), kind=_NPZ)] * 60


#: Attack -> concurrent requests, and the function that creates them.
ATTACKS: dict[str, tuple[int, Callable[[AttackTarget], Iterator[Callable[[], str]]]]] = {
    "none, for comparison": (1, _nothing),
    "40 MB of headers, URL, chunk extensions or trailers": (4, _endless_heads),
    "an endless header or URL at 5 MB/s": (2, _slow_head),
    "300 connections with incomplete headers": (300, _half_heads),
    "5,000 requests on one connection, answers not read": (5, _pipelines),
    "256 MiB of JSON compressed to a few kB by zstd or gzip": (4, _json_bombs),
    "the largest accepted JSON": (1, _largest_json),
    "40 bodies that stall after 1.1 of 3 MB": (40, _stalled_bodies),
    "205 event streams": (205, _streams),
    "duplicate keys and parameters, empty ids, text that is not UTF-8": (4, _doubled),
    "bodies with random bytes": (4, _random_bodies),
    "heads that two programs may read differently": (4, _ambiguous_heads),
    "arrays with forged shapes": (4, _forged_arrays),
    "kB of Arrow and gzip with strings and cells of gigabytes": (4, _long_names),
    "kB in every format that unpack to gigabytes": (4, _bombs),
    "definitions of monitors with hostile values": (1, _hostile_definitions),
    "rows, corrections, proposals and tensors with hostile values": (4, _hostile_documents),
    "strange names of models, aliases and versions": (4, _strange_models),
    "batches until the tenant's share of the store is full": (2, _hoarding),
}


class Watch:
    """Answers and latencies of a probe and of the other tenant during an attack, in threads."""

    def __init__(self, url: str, key: str) -> None:
        p = np.random.default_rng(0).random(100_000)
        large = orjson.dumps({"predictions": p.tolist(), "labels": (p > 0.5).astype(int).tolist()})
        small = orjson.dumps({"map": "neighbours", "predictions": [0.1] * 10})
        own = {"Authorization": f"Bearer {key}", "Content-Type": _JSON}
        self._url = url
        self._calls: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
            "probe": ("GET", "/health/ready", b"", {}),
            "small": ("POST", "/calibrate", small, own),
            "large": ("POST", "/evaluate", large, own),
        }

    @contextlib.contextmanager
    def watching(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Send requests until the attack is over; the results are filled in at the end."""
        record: dict[str, dict[str, Any]] = {}
        over = threading.Event()
        with ThreadPoolExecutor(len(self._calls)) as pool:
            waiting = {name: pool.submit(self._ask, name, over) for name in self._calls}
            try:
                yield record
            finally:
                over.set()
                record |= {name: seen.result() for name, seen in waiting.items()}

    def _ask(self, name: str, over: threading.Event) -> dict[str, Any]:
        method, path, body, headers = self._calls[name]
        taken: list[float] = []
        answers: Counter[str] = Counter()
        with httpx.Client(base_url=self._url, timeout=120) as client:
            while not over.is_set() or not taken:
                began = time.perf_counter()
                try:
                    answers[str(client.request(method, path, content=body, headers=headers).status_code)] += 1
                except httpx.TransportError as error:
                    answers[type(error).__name__] += 1
                taken.append(time.perf_counter() - began)
                over.wait(0.02)
        return {
            "answers": dict(answers),
            "median": float(np.median(taken)),
            "p99": float(np.quantile(taken, 0.99)),
            "longest": max(taken),
        }


def attack(running: Stack, to: AttackTarget, watch: Watch, only: str = "") -> dict[str, Any]:
    """Run every attack whose name contains ``only``; its answers, and the latencies of others in the meantime."""
    record: dict[str, Any] = {}
    for name, (at_once, requests) in ATTACKS.items():
        if only not in name:
            continue
        calls = list(requests(to))
        reset_peak(running.api.pid)
        before = peak_bytes(running.api.pid)
        began = time.perf_counter()
        with watch.watching() as seen, ThreadPoolExecutor(at_once) as attackers:
            answers = Counter(attackers.map(lambda call: call(), calls))
        record[name] = {
            "requests": len(calls),
            "seconds": time.perf_counter() - began,
            "answers": dict(sorted(answers.items())),
            "grown": peak_bytes(running.api.pid) - before,
            "seen": seen,
        }
        print(name, record[name], flush=True)
    return record


def _prepare(url: str, attacker: str, neighbour: str) -> None:
    """Create a map for each tenant, and an alias and monitors for the attacker."""
    rows = {"predictions": [0.1, 0.3, 0.6, 0.9] * 10, "labels": [0, 1, 0, 1] * 10, "method": "platt"}
    for name, key in (("m", attacker), ("neighbours", neighbour)):
        headers = {"Authorization": f"Bearer {key}"}
        httpx.post(f"{url}/maps", json=rows | {"name": name}, headers=headers, timeout=60).raise_for_status()
    forecast = {"prediction_kind": "regression", "forecast": {"kind": "quantiles", "levels": [0.1, 0.5, 0.9]}}
    monitors: tuple[dict[str, Any], ...] = (
        {"name": "m"},
        {"name": "r", "n_classes": 3, "reservoir": 1000},
        {"name": "q", "measures": ["crps"], "rules": [], **forecast},
    )
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {attacker}"}, timeout=60) as http:
        http.put("/maps/m/aliases/champion", json={"version": 1}).raise_for_status()
        for monitor in monitors:
            http.post("/monitors", json=monitor).raise_for_status()


def main() -> None:
    """Attack a fresh service and rewrite the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="attacks whose name contains this; nothing is written")
    only = parser.parse_args().only
    record = circumstances()
    with contextlib.ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="calibrant-attack-")))
        log = opened.enter_context((folder / "log").open("ab"))
        store_url, _ = opened.enter_context(embedded_server(folder / "store", log=log))
        redis = opened.enter_context(contextlib.closing(connect(store_url)))
        attacker, neighbour = (
            ApiKeyStore(redis).create(name, tenant=name, scope="write").text for name in ("attacker", "neighbour")
        )
        running = opened.enter_context(
            stack(
                host="127.0.0.1",
                port=0,
                data=folder,
                log=log,
                redis_url=store_url,
                inherited=dict(os.environ) | {"CALIBRANT_STORE_BUDGET": "0.05"},
            )
        )
        _prepare(running.url, attacker, neighbour)
        record["attacks"] = attack(running, AttackTarget(running.url, attacker), Watch(running.url, neighbour), only)
        record["restarts"] = int(running.api.poll() is not None)
    if only:
        return
    write("attack", record)
    write_page()


if __name__ == "__main__":
    main()
