"""Kill workers and engine processes while jobs read and write files by reference: ``make by-reference-kills``.

Twenty jobs run twice, first undisturbed, then with kills. Writes its section of docs/benchmarks/reliability.md. Fails
on any violation, and if fewer processes were killed than were to be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from dask.distributed import Client
from pyarrow import parquet
from redis import Redis

from backend.store.keyspace import Keyspace
from benchmarks.chaos.checks import CHECKS
from benchmarks.chaos.cluster import Cluster, await_true, cluster, free_port
from benchmarks.chaos.core import job_runs, left_over, monitor_counts, run_chores_now, workers_of
from benchmarks.chaos.evidence import ChaosEvidence, acknowledged_job, members
from benchmarks.chaos.ledger import ChaosLedger, Promise
from benchmarks.chaos.page import write_page
from benchmarks.chaos.parts import DeploymentProcess
from benchmarks.chaos.proc import children
from benchmarks.chaos.repeated import Repeater
from benchmarks.chaos.results import circumstances, write
from benchmarks.chaos.scenario import announce
from calibrant.client import Calibrant
from schemas.jobs import FINAL

FILES, GROUPS, DASK_WORKERS = 32, 5, 3
#: Losses that a job survives, since the third kill of a process that runs it ends it; and losses of a part. Dask gives
#: up a part with the fourth, and one is left for parts that come to a worker while it is chosen.
_MOST_LOSSES, _MOST_PART_LOSSES = 2, 2
_DRAIN_SECONDS = 900.0
_LOOK_SECONDS = 0.002
#: The checks of jobs that hold here too.
_JOB_CHECKS = (
    "every acknowledged job exists",
    "no job stays queued or running",
    "every job ended exactly once",
    "no reported end of a job changed",
    "no request ran twice, no job was returned to two requests",
    "no lease, message or held batch remains",
)
#: Fields of results that are names of this run, not results.
_NAMES = ("target", "monitor", "id", "created_at", "map")


@dataclass(frozen=True)
class ReferenceJob:
    """A request by reference; ``target`` is the data set, or ``monitor`` the monitor, that it writes."""

    kind: str
    path: str
    body: Mapping[str, Any]
    target: str | None = None
    monitor: str | None = None

    @property
    def on_dask(self) -> bool:
        """Whether a cluster reads the files."""
        return bool(self.body["source"].get("engine") == "dask")


@dataclass(frozen=True)
class EndedJob:
    """What a job has left behind, and its seconds from the start of its first run to its end."""

    content: Any
    seconds: float


def write_files(root: Path, rows: int) -> None:
    """``large``: many rows of one event; ``small``: a hundredth of them, for what needs all rows."""
    for name, n in (("large", rows), ("small", rows // 100)):
        (root / name).mkdir(parents=True)
        for i in range(FILES):
            numbers, size = np.random.default_rng([i, n]), n // FILES
            p = numbers.beta(1, 3, size)
            columns = {
                "row": np.arange(i * size, (i + 1) * size),
                "id": [f"r{row}" for row in range(i * size, (i + 1) * size)] if name == "small" else None,
                "p": p,
                "q": np.clip(p**1.2 + 0.01 * numbers.random(size), 0, 1),
                "y": (numbers.random(size) < p**1.1).astype(np.int8),
                "w": numbers.integers(1, 4, size),
                "g": pa.DictionaryArray.from_arrays(
                    numbers.integers(0, GROUPS, size).astype(np.int8), [f"g{k}" for k in range(GROUPS)]
                ),
            }
            table = pa.table({key: values for key, values in columns.items() if values is not None})
            parquet.write_table(table, root / name / f"part-{i:02}.parquet", row_group_size=100_000)


def requests(run: str, fitted: str) -> list[ReferenceJob]:
    """Twenty requests of all kinds; ``run`` is in the names of what they write, ``fitted`` the map that scores."""

    def source(folder: str, engine: str = "local", **columns: Any) -> dict[str, Any]:
        return {"source": "files", "path": f"{folder}/*.parquet", "columns": columns, "engine": engine}

    rows = {"predictions": "p", "labels": "y"}
    grouped, weighted = rows | {"groups": "g"}, rows | {"weights": "w"}
    measured = {"measures": ["ece", "brier", "log-loss"], "interval": 0.95}
    on_dask = source("large", "dask", **grouped, weights="w")
    jobs = [
        ReferenceJob("evaluate", "/evaluate", measured | {"source": source("large", **grouped)}),
        ReferenceJob("evaluate", "/evaluate", measured | {"source": source("small", **grouped), "diagrams": ["corp"]}),
        ReferenceJob("diagrams", "/diagrams", {"diagram": "reliability", "source": source("large", **rows)}),
        ReferenceJob("maps", "/maps", {"method": "isotonic", "source": source("large", **rows)}),
        ReferenceJob("maps", "/maps", {"method": "pl", "source": source("small", **weighted)}),
    ]
    for seed in (0, 1):
        models = source("small", models={"first": "p", "second": "q"}, labels="y")
        jobs.append(ReferenceJob("compare", "/compare", {"source": models, "seed": seed}))
    for number in range(4):
        target = f"{run}-scored-{number}"
        place = {"source": "files", "path": target}
        body = {"map": fitted, "source": source("large", predictions="p"), "target": place}
        jobs.append(ReferenceJob("datasets", "/datasets", body, target=target))
    for number in range(3):
        monitor = f"{run}-{number}"
        columns: dict[str, str] = grouped | {"ids": "id"}
        files = {"source": "files", "path": "small/*.parquet", "columns": columns}
        jobs.append(ReferenceJob("backfill", f"/monitors/{monitor}/backfill", {"source": files}, monitor=monitor))
    frequencies = {"source": on_dask, "weights_kind": "frequency"}
    jobs += [
        *(ReferenceJob("evaluate", "/evaluate", measured | frequencies | {"seed": seed}) for seed in range(4)),
        *(
            ReferenceJob(
                "maps",
                "/maps",
                {
                    "method": method,
                    "source": source("large", "dask", **weighted),
                    "weights_kind": "frequency",
                },
            )
            for method in ("beta", "isotonic")
        ),
    ]
    return jobs


class TargetReader(Repeater):
    """Reads the data sets all the time, as a consumer would: each is whole, or is not there."""

    def __init__(self, root: Path, targets: Sequence[str], rows: int) -> None:
        super().__init__(_LOOK_SECONDS)
        self.looks, self.faults = 0, list[str]()
        self._root, self._targets, self._rows = root, targets, rows
        self._whole: dict[str, list[str]] = {}

    def act(self) -> None:
        """Look at every data set once."""
        self.looks += 1
        for target in self._targets:
            if (self._root / target).exists() and (fault := self._fault(target)):
                self.faults.append(f"{target} {fault}")

    def _fault(self, target: str) -> str | None:
        folder = self._root / target
        try:
            parts = json.loads((folder / "_manifest.json").read_text())["parts"]
            if target not in self._whole:
                rows = sum(parquet.read_metadata(folder / part).num_rows for part in parts)
                if rows != self._rows:
                    return f"is visible with {rows:,} of {self._rows:,} rows"
            listed = sorted(path.name for path in folder.glob("*.parquet"))
        except OSError as error:
            return f"is visible, and reading it fails: {type(error).__name__}"
        if self._whole.setdefault(target, parts) != parts or listed != parts:
            return "has other files than before, or than its manifest lists"
        return None


@dataclass
class Killer:
    """Kills processes that run jobs, each job's at most twice, and workers of Dask that count a part."""

    running: Cluster
    dask_workers: Mapping[str, DeploymentProcess]
    client: Client
    numbers: random.Random
    #: Undisturbed seconds of each job.
    seconds: Mapping[str, float]
    dask_jobs: frozenset[str]
    kills: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    _due: dict[tuple[str, int], float] = field(default_factory=dict)
    _dask_due: float = 0.0

    def kill_some(self, redis: Redis, most: int) -> None:
        """Kill what is due: each run at a random time of those that its job takes, and workers of Dask one by one.

        Workers are killed until ``most`` processes were.
        """
        now, runs = time.monotonic(), job_runs(redis)
        for (job, run), worker in runs.items():
            due = self._due.setdefault((job, run), now + self.numbers.uniform(0, 0.8) * self.seconds[job])
            if now >= due and self.losses[job] < _MOST_LOSSES:
                self._due[job, run] = float("inf")
                self._kill_run(job, worker, runs)
        if now >= self._dask_due and self.kills.total() < most and self._kill_dask_worker(runs):
            self._dask_due = now + self.numbers.uniform(0.02, 0.25)

    def _kill_run(self, job: str, worker: int, runs: Mapping[tuple[str, int], int]) -> None:
        supervisor = next(
            (part for part in self.running.supervisors if part.pid and worker in workers_of(part.pid)), None
        )
        if supervisor is None or supervisor.pid is None:
            return
        own = workers_of(supervisor.pid)
        lost_with_it = [other for (other, _), pid in runs.items() if pid in own]
        kind = self.numbers.choices(("work-horse", "worker", "supervisor"), (4, 2, 4))[0]
        if kind == "supervisor" and any(self.losses[other] >= _MOST_LOSSES for other in lost_with_it):
            kind = "worker"
        pids = {"work-horse": children(worker), "worker": [worker], "supervisor": [supervisor.pid]}[kind]
        with contextlib.suppress(ProcessLookupError):
            for pid in pids[:1]:
                os.kill(pid, signal.SIGKILL)
                self.kills[kind] += 1
                self.losses.update(lost_with_it if kind == "supervisor" else [job])

    def _kill_dask_worker(self, runs: Mapping[tuple[str, int], int]) -> bool:
        if not any(job in self.dask_jobs for job, _ in runs):
            return False
        counting = self.client.run_on_scheduler(_counting, most=_MOST_PART_LOSSES)
        if not counting or self.dask_workers[self.numbers.choice(counting)].signal(signal.SIGKILL) is None:
            return False
        self.kills["Dask worker"] += 1
        return True


def _counting(dask_scheduler: Any, most: int) -> list[str]:
    """The names of the workers that have a task, all of which may be lost once more."""
    return [
        worker.name
        for worker in dask_scheduler.workers.values()
        if worker.processing and all(task.suspicious < most for task in worker.processing)
    ]


@contextlib.contextmanager
def dask_cluster(folder: Path) -> Iterator[tuple[str, dict[str, DeploymentProcess]]]:
    """A scheduler and workers of one thread, each restarted when it ends; yields the address and the workers."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    dask = (sys.executable, "-m", "dask")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    scheduler = ["scheduler", "--host", "tcp://127.0.0.1", "--port", str(port), "--no-dashboard"]
    options = ["--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder / "dask")]

    def part(name: str, *words: str) -> DeploymentProcess:
        return DeploymentProcess(name, [*dask, *words], log=folder / f"{name}.log", environment=environment)

    workers = {
        name: part(name, "worker", address, "--name", name, *options)
        for name in (f"dask-{i + 1}" for i in range(DASK_WORKERS))
    }
    with contextlib.ExitStack() as started:
        for process in (part("dask-scheduler", *scheduler), *workers.values()):
            process.start()
            started.callback(process.end)
        yield address, workers


class ReferenceRun:
    """Twenty jobs on a deployment, and what they have left behind."""

    def __init__(self, running: Cluster, root: Path, name: str, fitted: str, rows: int) -> None:
        self.ledger, self.requests = ChaosLedger(), requests(name, fitted)
        self.jobs: dict[str, ReferenceJob] = {}
        self._running, self._root, self._rows = running, root, rows

    def submit(self) -> None:
        """Queue all jobs."""
        with httpx.Client(base_url=self._running.url, timeout=60) as http:
            for request in self.requests:
                if request.monitor is not None:
                    monitor = {"name": request.monitor, "reduction": "binary", "max_ids": self._rows}
                    _accepted(http.post("/monitors", json=monitor))
                answer = _accepted(http.post(request.path, json=request.body))
                self.ledger.promise(Promise(answer["id"], request.kind))
                self.jobs[answer["id"]] = request

    def reader(self) -> TargetReader:
        """A reader of the data sets."""
        return TargetReader(self._root, [job.target for job in self.requests if job.target], self._rows)

    def note_ends(self, client: Calibrant) -> bool:
        """Record the ends of jobs; True if all have ended."""
        for job in self.ledger.open():
            if (status := client.job(job).status) in FINAL:
                self.ledger.end(job, status)
        return not self.ledger.open()

    def ended(self, redis: Redis, client: Calibrant) -> list[EndedJob]:
        """What each job has left behind, in the order of the requests."""
        return [EndedJob(self._content(redis, client, job), self._seconds(client, job)) for job in self.jobs]

    def _seconds(self, client: Calibrant, job: str) -> float:
        answer = client.job(job)
        if answer.started_at is None or answer.finished_at is None:
            return 0.0
        started, ended = map(datetime.fromisoformat, (answer.started_at, answer.finished_at))
        return (ended - started).total_seconds()

    def _content(self, redis: Redis, client: Calibrant, job: str) -> Any:
        answer, request = client.job(job), self.jobs[job]
        if answer.status != "succeeded" or answer.result is None:
            return {"problem": answer.problem}
        if request.kind == "maps":
            return client.export_map(answer.result["map"])
        if request.target is not None:
            table = parquet.read_table(self._root / request.target).sort_by("row")
            return {**answer.result, "columns": {name: table[name].to_numpy() for name in ("row", "p", "calibrated")}}
        if request.monitor is not None:
            totals, tallies = monitor_counts(redis, request.monitor)
            groups = {name: {"rows": of.rows, "keys": of.keys, "sums": of.p_sum} for name, of in tallies.items()}
            return {**answer.result, "totals": totals, "groups": groups}
        return answer.result


def _accepted(response: httpx.Response) -> Any:
    if not response.is_success:
        raise RuntimeError(f"{response.request.url.path}: {response.text}")
    return response.json()


def differences(first: Any, other: Any, where: str = "") -> Iterator[str]:
    """The places at which two results differ: counts and texts at all, other numbers by more than 1e-12 of them."""
    if isinstance(first, np.ndarray) or isinstance(other, np.ndarray):
        same = np.shape(first) == np.shape(other) and np.allclose(first, other, rtol=1e-12, atol=0.0)
    elif isinstance(first, Mapping) and isinstance(other, Mapping):
        same = True
        for name in sorted((first.keys() | other.keys()).difference(_NAMES)):
            yield from differences(first.get(name), other.get(name), f"{where}/{name}")
    elif isinstance(first, list) and isinstance(other, list):
        same = len(first) == len(other)
        for i, pair in enumerate(zip(first, other, strict=False)):
            yield from differences(*pair, f"{where}/{i}")
    elif isinstance(first, float) and isinstance(other, float):
        same = math.isclose(first, other, rel_tol=1e-12, abs_tol=1e-15) or (math.isnan(first) and math.isnan(other))
    else:
        same = type(first) is type(other) and first == other
    if not same:
        yield where or "/"


def faults(
    undisturbed: Sequence[EndedJob], disturbed: Sequence[EndedJob], run: ReferenceRun, reader: TargetReader, root: Path
) -> dict[str, list[str]]:
    """The violations of the checks of results, data sets and monitors."""
    wrong: dict[str, list[str]] = {
        "every result is that of an undisturbed run: counts identical, sums to 1e-12": [],
        "every row of a backfill is counted once": [],
        "every data set is whole or invisible at every moment": reader.faults[:],
        "no staged file remains": [str(path.relative_to(root)) for path in root.rglob(".calibrant-*")],
    }
    results, counted, *_ = wrong.values()
    for (job, request), before, after in zip(run.jobs.items(), undisturbed, disturbed, strict=True):
        for place in differences(before.content, after.content):
            results.append(f"{request.kind} {job}: {place}: {after.content.get('problem', '')}")
        if request.monitor is not None and after.content.get("accepted") != after.content.get("rows"):
            counted.append(f"{job}: {after.content.get('accepted')} of {after.content.get('rows')} rows")
    return wrong


def measured(folder: Path, rows: int, kills: int, seed: int) -> dict[str, Any]:
    """The figures of an undisturbed and of a disturbed run."""
    root, numbers = folder / "root", random.Random(seed)  # noqa: S311 - no secret
    write_files(root, rows)
    sources = json.dumps({"files": {"root": f"file://{root}", "write": True}})
    with contextlib.ExitStack() as opened:
        address, workers = opened.enter_context(dask_cluster(folder))
        settings = {"CALIBRANT_SOURCES": sources, "CALIBRANT_DASK_SCHEDULER": address}
        running = opened.enter_context(cluster(folder, settings=settings))
        running.await_ready()
        redis = opened.enter_context(contextlib.closing(running.connect(30)))
        client = opened.enter_context(Calibrant(running.url))
        dask = opened.enter_context(Client(address, set_as_default=False))
        dask.wait_for_workers(DASK_WORKERS)
        p = np.linspace(0.01, 0.99, 1000)
        fitted = client.fit("platt", p, np.random.default_rng(0).random(1000) < p**1.3).id
        announce("the jobs run undisturbed")
        first = ReferenceRun(running, root, "undisturbed", fitted, rows)
        began = time.monotonic()
        first.submit()
        await_true(lambda: first.note_ends(client), _DRAIN_SECONDS)
        alone = time.monotonic() - began
        undisturbed = first.ended(redis, client)
        announce("the jobs run, and processes are killed")
        second = ReferenceRun(running, root, "disturbed", fitted, rows)
        with second.reader() as reader:
            second.submit()
            seconds = dict(zip(second.jobs, (job.seconds for job in undisturbed), strict=True))
            on_dask = frozenset(job for job, request in second.jobs.items() if request.on_dask)
            killer = Killer(running, workers, dask, numbers, seconds, on_dask)
            began = time.monotonic()
            deadline = began + _DRAIN_SECONDS
            while not second.note_ends(client) and time.monotonic() < deadline:
                for _ in range(10):
                    killer.kill_some(redis, kills)
                    time.sleep(0.01)
            took = time.monotonic() - began
        running.await_ready()
        announce("everything is compared")
        disturbed = second.ended(redis, client)
        await_true(lambda: run_chores_now(redis), _DRAIN_SECONDS)
        evidence = _evidence((first, second), redis, client)
    wrong = {name: list(CHECKS[name](evidence)) for name in _JOB_CHECKS}
    wrong |= faults(undisturbed, disturbed, second, reader, root)
    return {
        "jobs": dict(Counter(job.kind for job in second.requests)),
        "dask_jobs": len(on_dask),
        "ends": dict(Counter(second.ledger.ends.values())),
        "kills": dict(killer.kills),
        "runs": sum(change.status == "running" for job in evidence.jobs for change in job.changes) - len(first.jobs),
        "looks": reader.looks,
        "undisturbed": alone,
        "took": took,
        "faults": {name: said[:20] for name, said in wrong.items()},
        "fault_counts": {name: len(said) for name, said in wrong.items()},
    }


def _evidence(runs: Sequence[ReferenceRun], redis: Redis, client: Calibrant) -> ChaosEvidence:
    keys = Keyspace()
    jobs = [
        acknowledged_job(run.ledger, promise, redis, keys, client)
        for run in runs
        for promise in run.ledger.promises.values()
    ]
    return ChaosEvidence(
        jobs=tuple(jobs),
        maps=(),
        stored_jobs=members(redis, keys.jobs()),
        stored_maps=frozenset(),
        versions={},
        left=left_over(redis),
        doubled=tuple(job for run in runs for job in run.ledger.doubled),
    )


def main() -> None:
    """Run the jobs twice, and write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=4e6, help="of the large files")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="of the times of kills; random by default")
    parser.add_argument("--keep", action="store_true", help="keep the folder with the logs")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = int(options.rows) // (100 * FILES) * 100 * FILES
    record = circumstances() | {"seed": seed, "rows": rows}
    folder = Path(tempfile.mkdtemp(prefix="calibrant-by-reference-"))
    print(f"seed {seed}, folder {folder}", flush=True)
    try:
        figures = measured(folder, rows, options.kills, seed)
    finally:
        if not options.keep:
            shutil.rmtree(folder)
    write("by-reference", record | figures)
    write_page()
    for name, count in figures["fault_counts"].items():
        print(f"VIOLATION: {name} ({count}): {figures['faults'][name][:3]}" if count else f"ok: {name}")
    killed = sum(figures["kills"].values())
    print(f"{killed} processes killed: {figures['kills']}; {figures['took']:.0f} s")
    sys.exit(1 if killed < options.kills or any(figures["fault_counts"].values()) else 0)


if __name__ == "__main__":
    main()
