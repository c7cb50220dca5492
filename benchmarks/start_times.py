"""What starts take: the import, the commands and the service. Writes docs/benchmarks/start-times.md."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from benchmarks.chaos.proc import children
from benchmarks.records import publish
from benchmarks.timing import machine, medians
from service.stack import Stack, stack

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "start-times.md"
ROUNDS, SERVICE_ROUNDS = 15, 5
#: Rows of the file of ``calibrant evaluate`` and ``calibrant report``.
ROWS = 10_000
#: Seconds after the start at which the memory of a service without requests is measured.
IDLE_SECONDS = 10.0
_TWO_COMMANDS = """
import typer
app = typer.Typer()
@app.command()
def one(): ...
@app.command()
def two(): ...
app()
"""
_FIRST = """
import numpy as np
random = np.random.default_rng(0)
p = random.random(1000)
import calibrant
calibrant.evaluate(p, (random.random(1000) < p).astype(int))
"""
_FIRST_FIT = """
import numpy as np
random = np.random.default_rng(0)
p = random.random(1000)
import calibrant
calibrant.fit("averaged", p, (random.random(1000) < p).astype(int))
"""
#: Programs, each a fresh process; a row of the page has its median beside that of the program it is compared with.
PROGRAMS = {
    "an empty program": ["-c", ""],
    "`import numpy, scipy.special`": ["-c", "import numpy, scipy.special"],
    "`import calibrant`": ["-c", "import calibrant"],
    "`import calibrant` and a first `evaluate` of 1,000 rows": ["-c", _FIRST],
    "`import numpy, scipy.special, scipy.optimize`": ["-c", "import numpy, scipy.special, scipy.optimize"],
    '`import calibrant` and a first `fit("averaged")` of 1,000 rows': ["-c", _FIRST_FIT],
    "`--help` of a Typer application with two commands": ["-c", _TWO_COMMANDS, "--help"],
    "`calibrant --help`": ["-m", "calibrant", "--help"],
}


def start(arguments: list[str]) -> None:
    """Run one process to its end."""
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - of this file


class ServiceStart(NamedTuple):
    """The start of a service: seconds until the API is ready, and processor seconds of the API and the worker.

    ``worker_seconds`` are those of the supervisor and of its worker process, once it has started that.
    """

    seconds: float
    api_seconds: float
    worker_seconds: float


class IdleMemory(NamedTuple):
    """The resident memory in MB of the processes of an idle service."""

    api: float
    supervisor: float
    worker: float


@contextmanager
def service() -> Iterator[Stack]:
    """A service whose API is ready; its worker may not be ready."""
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "log").open("ab") as log,
        stack(host="127.0.0.1", port=0, data=Path(folder) / "data", log=log) as running,
    ):
        httpx.get(f"{running.url}/health/ready").raise_for_status()
        yield running


def start_of_service() -> ServiceStart:
    """Start a service and measure the start."""
    began = time.perf_counter()
    with service() as running:
        seconds, api_seconds = time.perf_counter() - began, processor_seconds(running.api.pid)
        worker = workers_of(running)[0]
        return ServiceStart(seconds, api_seconds, processor_seconds(running.worker.pid) + processor_seconds(worker))


def idle_memory() -> IdleMemory:
    """Start a service and measure its memory once it is idle."""
    with service() as running:
        time.sleep(IDLE_SECONDS)
        return IdleMemory(*map(resident_mb, (running.api.pid, running.worker.pid, workers_of(running)[0])))


def workers_of(running: Stack) -> list[int]:
    """The processes that the supervisor has started, at least one."""
    while not (workers := children(running.worker.pid)):
        time.sleep(0.01)
    return workers


def processor_seconds(pid: int) -> float:
    """The processor seconds of a process so far, without those of its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """The resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def write_rows(file: Path) -> None:
    """Write a CSV file of ``ROWS`` predictions and labels."""
    random = np.random.default_rng(0)
    p = random.random(ROWS)
    labels = random.random(ROWS) < p
    lines = [f"{p:.6f},{y:d}" for p, y in zip(p, labels, strict=True)]
    file.write_text("\n".join(["prediction,label", *lines, ""]), encoding="utf-8")


def page() -> str:
    """Time every program in turn, and the service; return the page."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.csv"
        write_rows(file)
        commands = {
            f"`calibrant evaluate FILE`, {ROWS:,} rows": ["-m", "calibrant", "evaluate", str(file)],
            f"`calibrant report FILE`, {ROWS:,} rows": [
                "-m", "calibrant", "report", str(file), "--out", f"{folder}/report.html",
            ],
        }  # fmt: skip
        programs = {name: partial(start, arguments) for name, arguments in (PROGRAMS | commands).items()}
        seconds = medians(programs, rounds=ROUNDS)
    empty, numpy, library, _, optimize, fit, two, command, *_ = seconds.values()
    starts = [start_of_service() for _ in range(SERVICE_ROUNDS)]
    ready, api, worker = (statistics.median(part) for part in zip(*starts, strict=True))
    memory = idle_memory()
    rows = "".join(f"| {name} | {taken:.3f} |\n" for name, taken in seconds.items())
    return f"""# Start times

Generated by `make start-times` ({machine()}). Medians of {ROUNDS} fresh processes, run in turn after one unmeasured
round, with byte code compiled.

| program | seconds |
|---|---|
{rows}| `calibrant serve`, until `/health/ready` returns 200 ({SERVICE_ROUNDS} starts) | {ready:.2f} |

After subtracting the time of an empty program:

- `import calibrant` takes {(library - empty) / (numpy - empty):.2f} times as long as `import numpy, scipy.special`
  (goal: 1.2). Submodules load on first use.
- `import calibrant` and a first `fit("averaged")` take {(fit - empty) / (optimize - empty):.2f} times as long as
  `import numpy, scipy.special, scipy.optimize` (goal: 2.0).
- `calibrant --help` takes {(command - empty) / (two - empty):.2f} times as long as the help of a Typer
  application with two commands (goal: 1.5).

## The service

Processor seconds from the start of a process until it is ready: the API when `/health/ready` returns 200, the
supervisor when it has started its worker. The first request that needs diagrams, monitors, pages or what draws imports
them.

| process | processor seconds until ready |
|---|---|
| API | {api:.2f} |
| worker, with its supervisor | {worker:.2f} |
| both (goal: 1.5) | {api + worker:.2f} |

Resident memory {IDLE_SECONDS:.0f} seconds after the start, without requests. A worker is a fork of its supervisor and
shares most of its memory.

| process | MB |
|---|---|
| API (goal: 140) | {memory.api:.0f} |
| supervisor (goal: 130) | {memory.supervisor:.0f} |
| worker (goal: 130) | {memory.worker:.0f} |
"""


if __name__ == "__main__":
    publish(PAGE, page())
