"""Load with wrk, and times of single requests, on loopback."""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class RequestRate:
    """Requests per second, and the 99th percentile of latency in seconds."""

    per_second: float
    p99: float


def wrk(url: str, body: str, *, seconds: int, connections: int = 8) -> RequestRate:
    """Load a route with a JSON body; raises ``RuntimeError`` for any answer other than success."""
    script = f"wrk.method = 'POST'\nwrk.headers['Content-Type'] = 'application/json'\nwrk.body = [==[{body}]==]\n"
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        arguments = ["-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name, url]
        output = subprocess.run([_wrk(), *arguments], capture_output=True, text=True, check=True).stdout  # noqa: S603
    if "Non-2xx" in output or "Socket errors" in output:
        raise RuntimeError(output)
    rate, p99 = re.search(r"Requests/sec:\s+([\d.]+)", output), re.search(r"99%\s+([\d.]+)(us|ms|s)", output)
    if rate is None or p99 is None:
        raise RuntimeError(output)
    return RequestRate(float(rate[1]), float(p99[1]) * _UNITS[p99[2]])


def version() -> str:
    """The version of wrk."""
    return subprocess.run([_wrk(), "-v"], capture_output=True, text=True, check=False).stdout.partition(" [")[0]  # noqa: S603


def _wrk() -> str:
    command = shutil.which("wrk")
    if command is None:
        raise RuntimeError("wrk is not on the PATH: install it (Debian: apt-get install wrk)")
    return command


def median_seconds(client: httpx.Client, path: str, content: bytes, kind: str, runs: int) -> float:
    """Median time of a request, from the first byte sent to the last received."""
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        client.post(path, content=content, headers={"Content-Type": kind}).raise_for_status()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def p99_meanwhile(url: str, work: threading.Thread) -> tuple[float, int]:
    """The 99th percentile of the latency of ``GET`` while ``work`` runs, and the number of requests."""
    taken = []
    with httpx.Client() as client:
        client.get(url)
        work.start()
        while work.is_alive():
            began = time.perf_counter()
            client.get(url).raise_for_status()
            taken.append(time.perf_counter() - began)
    return statistics.quantiles(taken, n=100)[98], len(taken)


def peak_bytes(pid: int) -> int:
    """The peak resident memory of a process since the last reset."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = re.search(r"VmHWM:\s+(\d+) kB", status)
    return 0 if line is None else int(line[1]) * 1024


def reset_peak(pid: int) -> None:
    """Reset a process's peak memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
