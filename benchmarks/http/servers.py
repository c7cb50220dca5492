"""Comparison of ASGI servers: speed, and behaviour with endless headers.

Needs wrk, granian and hypercorn: ``python -m benchmarks.http.servers`` prints the table of ADR 30.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import uvicorn

from benchmarks.http.echo import app
from benchmarks.http.load import RequestRate, wrk
from service.connections import ServedConnection
from service.observe import RequestMetrics
from service.settings import Settings
from service.shares import Addresses

_ROUNDS, _SECONDS = 3, 3
_BODY = '{"map": "m", "predictions": [0.02, 0.11, 0.19, 0.28, 0.4, 0.52, 0.63, 0.75, 0.86, 0.97]}'
_JSON = {"Content-Type": "application/json"}
_HEAD = b"GET /echo HTTP/1.1\r\nHost: localhost\r\n"
#: Bytes of an attack.
_ATTACK = 40_000_000
_APP = "benchmarks.http.servers:bounded"

bounded = app
bounded.state.process = SimpleNamespace(
    addresses=Addresses(256, ""),
    settings=Settings("redis://unused"),
    metrics=SimpleNamespace(requests=RequestMetrics()),
)


def _commands(port: int) -> dict[str, list[str]]:
    """The command that starts each server on a port."""
    own = [sys.executable, "-m", "benchmarks.http.servers", str(port)]
    bind = f"127.0.0.1:{port}"
    return {
        "uvicorn, httptools": [*own, "httptools"],
        "uvicorn, httptools, bounded (chosen)": [*own, "bounded"],
        "uvicorn, h11": [*own, "h11"],
        "hypercorn": [sys.executable, "-m", "hypercorn", "--bind", bind, "--worker-class", "uvloop", _APP],
        "granian": [
            *(sys.executable, "-m", "granian", "--interface", "asgi", "--port", str(port), "--no-ws"),
            *("--http", "1", "--loop", "uvloop", "--no-access-log", _APP),
        ],
    }


def serve(port: int, kind: str) -> None:
    """Run uvicorn with one of its protocols or with ours."""
    protocol = ServedConnection if kind == "bounded" else kind
    config = uvicorn.Config(
        bounded,
        port=port,
        http=protocol,
        loop="uvloop",
        access_log=False,
        log_config=None,
        ws="none",
    )
    uvicorn.Server(config).run()


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[int]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        while process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                httpx.post(f"http://127.0.0.1:{port}/echo", content=_BODY, headers=_JSON).raise_for_status()
                break
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def _megabytes(pid: int) -> float:
    """Resident memory of a process and its children, MB."""
    total = 0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and (int(folder.name) == pid or _parent(folder) == pid):
                line = re.search(r"VmRSS:\s+(\d+)", (folder / "status").read_text())
                total += 0 if line is None else int(line[1])
    return total / 1000


def _parent(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _attack(port: int, data: bytes) -> str:
    """The status of a server's answer to endless headers, or its other reaction."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=30)) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
            connection.sendall(data)
        with contextlib.suppress(OSError):
            return connection.recv(100).split(b" ", 2)[1].decode() if data else ""
    return "none"


def _attacked(port: int, pid: int) -> tuple[str, float, float]:
    """Answers to the attacks, the growth of memory in MB, and the longest wait of a probe in ms."""
    before, waits, answers = _megabytes(pid), [0.0], []
    headers = _HEAD + b"a:b\r\n" * (_ATTACK // 5)
    attackers = [threading.Thread(target=lambda: answers.append(_attack(port, headers))) for _ in range(2)]
    attackers.append(threading.Thread(target=lambda: answers.append(_attack(port, _HEAD + b"X: " + b"a" * _ATTACK))))
    attackers.append(threading.Thread(target=lambda: answers.append(_attack(port, b"GET /" + b"a" * _ATTACK))))
    peak = before
    for attacker in attackers:
        attacker.start()
    with httpx.Client() as client:
        while any(attacker.is_alive() for attacker in attackers):
            began = time.perf_counter()
            with contextlib.suppress(httpx.TransportError):
                client.post(f"http://127.0.0.1:{port}/echo", content=_BODY, headers=_JSON, timeout=60)
            waits.append(time.perf_counter() - began)
            peak = max(peak, _megabytes(pid))
    return ", ".join(sorted(answers)), peak - before, 1e3 * max(waits)


def main() -> None:
    """Measure every installed server in interleaved rounds."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    commands = {
        name: command
        for name, command in _commands(port).items()
        if name not in ("granian", "hypercorn") or importlib.util.find_spec(name) is not None
    }
    rates: dict[str, list[RequestRate]] = {name: [] for name in commands}
    attacked = {}
    for number in range(_ROUNDS):
        for name, command in commands.items():
            with _running(command, port) as pid:
                rates[name].append(wrk(f"http://127.0.0.1:{port}/echo", _BODY, seconds=_SECONDS))
                if number == _ROUNDS - 1:
                    attacked[name] = _attacked(port, pid)
    base = statistics.median(r.per_second for r in rates["uvicorn, httptools"])
    columns = ("server", "requests/s", "relative to httptools", "p99, ms", "answers to 40 MB of headers", "memory, MB")
    print("|", " | ".join((*columns, "longest probe, ms")), "|")
    print("|---|---|---|---|---|---|---|")
    for name, rates_of_server in rates.items():
        per_second = statistics.median(r.per_second for r in rates_of_server)
        p99 = 1e3 * statistics.median(r.p99 for r in rates_of_server)
        answers, grown, longest = attacked[name]
        cells = (name, f"{per_second:,.0f}", f"{per_second / base:.2f}", f"{p99:.2f}")
        print("|", " | ".join((*cells, answers, f"+{grown:,.0f}", f"{longest:,.0f}")), "|")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]), sys.argv[2])
    else:
        main()
