"""Large and hostile JSON bodies against the whole service: memory, time, and latency of readiness.

    python -m benchmarks.large_json [NAME ...]

Prints a table; names choose some of the bodies. Each body is sent zstd-packed to a service of its own.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import zstandard

from benchmarks.http.load import p99_meanwhile, peak_bytes, reset_peak
from service.stack import stack

MI = 1024 * 1024
DEFINITION = {"measures": ["ece"], "name": "m"}
INFER = "/v2/models/m/infer"
EVENT = b'{"specversion":"1.0","id":"a","source":"b","type":"com.calibrant.rows","data":%s}'


class SentBody(NamedTuple):
    """A body: its path and content; ``at_once`` is the number sent concurrently."""

    path: str
    body: bytes
    kind: str = "application/json"
    at_once: int = 1


def bodies() -> Iterator[tuple[str, partial[SentBody]]]:
    """The bodies by name, created when needed."""

    def filled(path: str, before: bytes, unit: bytes, n: int, after: bytes, *, at_once: int = 1) -> SentBody:
        kind = "application/cloudevents+json" if path.endswith("/events") else "application/json"
        if path.endswith("/lines"):
            path, kind = path.removesuffix("/lines"), "application/x-ndjson"
        return SentBody(path, before + unit * n + after, kind, at_once)

    def case(name: str, *args: object, **options: int) -> tuple[str, partial[SentBody]]:
        return name, partial(filled, *args, **options)  # type: ignore[arg-type]

    options, end = b'{"predictions":[0.1],"labels":[1],"options":[', b'"ab"]}'
    yield case("strings, 256 MiB", "/maps", options, b'"ab",', 53_000_000, end)
    yield case("strings, 256 MiB, eight", "/maps", options, b'"ab",', 53_000_000, end, at_once=8)
    yield case("strings, most values", "/maps", options, b'"ab",', 16_700_000, end)
    yield case("[], 48 MiB", "/evaluate", b'{"predictions":[', b"[],", 16_700_000, b"[]]}")
    yield case("[] in options", "/evaluate", options, b"[],", 16_700_000, b"[]]}")
    yield case("[] many", "/evaluate", b"[", b"[],", 60_000_000, b"[]]")
    yield case("equal keys", "/evaluate", b"{", b'"a":{},', 8_300_000, b'"b":1}')
    yield case("a string of 200 MB", "/evaluate", b'{"options":"', b"x" * 1000, 200_000, b'"}')
    yield case("digits of 200 MB", "/evaluate", b'{"predictions":[0.', b"1" * 1000, 200_000, b"]}")
    yield case("/v2 [] ", INFER, b'{"inputs":[{"name":"predictions","shape":[1],"datatype":"FP64","data":[', b"[],",
               16_700_000, b"[]]}]}")  # fmt: skip
    yield case("import of strings", "/maps/import", b'{"document":{"parameters":[', b'"ab",', 16_700_000, b'"ab"]}}')
    yield case("monitor rows of {}", "/monitors/m/rows", b'{"rows":[', b"{},", 999_999, b"{}]}")
    yield case("monitor lines of {}", "/monitors/m/rows/lines", b"", b"{}\n", 1_000_000, b"")
    yield case("event with rows", "/monitors/m/events", *EVENT.replace(b"%s", b'{"rows":[%s]}').partition(b"%s")[:1],
               b"{},", 999_999, b"{}]}}")  # fmt: skip
    yield case("accepted: labels -6", "/evaluate", b'{"predictions":[', b"-6,", 16_700_000, b"-6]}")
    yield case("accepted: pairs", "/batches", b'{"predictions":[', b"[0,1],", 8_300_000, b"[0,1]]}")
    yield case("accepted: digits", "/batches", b'{"predictions":[', b"0.1,", 16_700_000, b"0.1]}")
    yield case("accepted: 320 MB", "/batches", b'{"predictions":[', b"0.123456789012345678,", 16_700_000, b"0.1]}")
    yield case("accepted: four at once", "/batches", b'{"predictions":[', b"0.1,", 16_700_000, b"0.1]}", at_once=4)
    yield case("accepted: groups", "/batches", b'{"predictions":[' + b"0.1," * 7_999_999 + b'0.1],"groups":[', b'"a",',
               7_999_999, b'"b"]}')  # fmt: skip
    row = b'{"prediction":0.25,"label":1,"group":"a"},'
    yield case("accepted: monitor rows", "/monitors/m/rows", b'{"rows":[', row, 999_999, row[:-1] + b"]}")


def main() -> None:
    """Print the table."""
    print("| body | MiB | status | s | peak, MiB | peak / body | readiness p99, ms | probes | before, ms |", flush=True)
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for name, make in bodies():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        _measure(name, make())


def _measure(name: str, sent: SentBody) -> None:
    packed = zstandard.ZstdCompressor().compress(sent.body)
    size = len(sent.body)
    headers = {"Content-Type": sent.kind, "Content-Encoding": "zstd"}
    with (
        tempfile.TemporaryDirectory() as data,
        (Path(data) / "log").open("wb") as log,
        stack(host="127.0.0.1", port=0, data=Path(data) / "store", log=log) as running,
        httpx.Client(base_url=running.url, timeout=300) as http,
    ):
        http.post("/monitors", json=DEFINITION).raise_for_status()
        rows = {"predictions": [0.2, 0.4, 0.6, 0.8] * 9, "labels": [0, 1, 0, 1] * 9}
        http.post("/maps", json=rows | {"method": "platt", "name": "m"}).raise_for_status()
        statuses: list[int] = []

        def send() -> None:
            answer = httpx.post(running.url + sent.path, content=packed, headers=headers, timeout=300)
            statuses.append(answer.status_code)

        def send_all() -> None:
            threads = [threading.Thread(target=send) for _ in range(sent.at_once)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        pid = running.api.pid
        reset_peak(pid)
        ready = f"{running.url}/health/ready"
        idle, _ = p99_meanwhile(ready, threading.Timer(3.0, lambda: None))
        before, began = peak_bytes(pid), time.perf_counter()
        p99, asked = p99_meanwhile(ready, threading.Thread(target=send_all))
        took, grown = time.perf_counter() - began, peak_bytes(pid) - before
        print(
            f"| {name} | {size / MI:.0f} | {'/'.join(map(str, sorted(set(statuses))))} | {took:.1f} "
            f"| {grown / MI:.0f} | {grown / size:.1f} | {1e3 * p99:.0f} | {asked} | {1e3 * idle:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
