"""Tally partitioned Parquet with one process, with Dask and Spark on 1, 2 and 4 worker processes, and with DuckDB.

Writes docs/benchmarks/large-data-speed.md.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

import calibrant
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant import distributed
from calibrant.distributed.arrow import Columns
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.distributed.scan import Scan
from calibrant.distributed.storage import storage_of
from calibrant.monitoring.event_tally import EventTally

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "large-data-speed.md"
SIZES = (10_000_000, 100_000_000)
#: The most rows of a file, the rows of its row groups, and the fewest files.
FILE, ROW_GROUP, FILES = 1_000_000, 250_000, 8
ROUNDS = 3
#: Worker processes of one thread.
WORKERS = (1, 2, 4)
#: Python of the environment of `make spark`.
SPARK = Path(__file__).parents[1] / ".venv-spark" / "bin" / "python"
COLUMNS: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country"}
_MEASURES = ["ece", "ks", "log-loss"]


T = TypeVar("T")


class DataRun(NamedTuple):
    """One run: seconds, the peak of resident memory of all its processes in MB, and the values computed.

    ``fixed`` are the seconds for a single row, and ``tally`` the bytes of the counts.
    """

    seconds: float
    megabytes: float | None
    values: tuple[float, ...]
    fixed: float | None = None
    tally: bytes | None = None


def write_rows(folder: Path, n: int) -> None:
    """Files of rows in four countries, with a column that is not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array(["dk", "fi", "no", "se"])
    rows = min(FILE, n // FILES)
    for i in range(n // rows):
        random = np.random.default_rng(i)
        c = random.random(rows)
        columns = {
            "p": c**1.3,
            "y": (random.random(rows) < c).astype(np.int8),
            "country": names[random.integers(0, 4, rows)],
            "unread": random.random(rows),
        }
        pq.write_table(pa.table(columns), folder / f"part-{i:04}.parquet", row_group_size=ROW_GROUP)


def write_single(folder: Path) -> None:
    """A file of one row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"p": [0.5], "y": [1], "country": ["no"]}), folder / "part.parquet")


def peak() -> float:
    """The peak of the resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _values(tally: EventTally) -> tuple[float, ...]:
    report = calibrant.evaluate_tally(tally, measures=_MEASURES)
    values = [result.value for result in report.measures.values()]
    return tuple(value for value in values if value is not None)


def in_memory(folder: Path) -> DataRun:
    """All rows in memory, evaluated without a tally."""
    import pyarrow.parquet as pq

    began = time.perf_counter()
    table = pq.read_table(folder, columns=["p", "y"])
    report = calibrant.evaluate(table["p"].to_numpy(), table["y"].to_numpy(), measures=_MEASURES)
    seconds = time.perf_counter() - began
    values = [result.value for result in report.measures.values()]
    return DataRun(seconds, peak(), tuple(value for value in values if value is not None))


def single_of(folder: Path) -> Path:
    """The folder beside another one that has a single row."""
    return folder.parent / "single"


def timed(count: Callable[[Path], EventTally], folder: Path) -> tuple[float, float, EventTally]:
    """Seconds for all rows and for one, and the counts."""
    seconds = []
    for source in (single_of(folder), folder):
        began = time.perf_counter()
        tally = count(source)
        seconds.append(time.perf_counter() - began)
    return seconds[1], seconds[0], tally


def run_of(count: Callable[[Path], EventTally], folder: Path, others: Callable[[], float] = lambda: 0.0) -> DataRun:
    """One run of a function that counts; ``others`` has the memory of other processes in MB."""
    seconds, fixed, tally = timed(count, folder)
    return DataRun(seconds, peak() + others(), _values(tally), fixed, tally.to_bytes())


def one_process(folder: Path) -> DataRun:
    """One thread, one piece at a time."""
    columns = Columns.read(**COLUMNS)

    def count(source: Path) -> EventTally:
        parts = [count_piece(piece, columns) for piece in pieces_of(source)]
        return calibrant.merge(part for part in parts if part is not None)

    return run_of(count, folder)


def dask_workers(workers: int, folder: Path) -> DataRun:
    """Single-threaded worker processes as a service uses them, started, and with modules imported, before."""
    from dask.distributed import Client, LocalCluster

    from calibrant.distributed.cluster import gather_on_cluster

    options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options, processes=True) as cluster, Client(cluster, set_as_default=False) as client:

        def count(source: Path) -> EventTally:
            root = {"root": f"file://{source}"}
            scan = Scan.of(storage_of(root["root"]), "*.parquet")
            content = gather_on_cluster(scan, root, Columns.read(**COLUMNS), scheduler=cluster.scheduler_address)
            return cast(EventTally, content.value)

        client.run(lambda: __import__("calibrant.distributed.partial_sums"))
        return run_of(count, folder, lambda: sum(client.run(peak).values()))


def spark_executors(executors: int, folder: Path, rounds: int) -> list[DataRun]:
    """Runs on executor processes of one core, which follow each other, since executors start slowly."""
    command = [
        str(SPARK),
        "-m",
        "benchmarks.large_data_spark",
        str(folder),
        str(single_of(folder)),
        str(executors),
        str(rounds),
    ]
    root = Path(__file__).parents[1]
    printed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout  # noqa: S603
    runs = []
    for line in printed.splitlines():
        fields = json.loads(line)
        data = base64.b64decode(fields["tally"])
        values = _values(EventTally.from_bytes(data))
        runs.append(DataRun(fields["seconds"], None, values, fields["fixed"], data))
    return runs


def in_duckdb(folder: Path) -> DataRun:
    """One process, in which DuckDB reads with two threads."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        return run_of(lambda source: distributed.duckdb.tally(source, **COLUMNS, connection=connection), folder)


def _on(engine: str, workers: int) -> str:
    return f"{engine}: {workers}"


_DASK, _SPARK = "Dask, worker processes of one thread", "Spark Connect, executors of one core"
CONTENDERS: Mapping[str, Callable[[Path], DataRun]] = {
    "one process, one thread, `calibrant.distributed.arrow`": one_process,
    **{_on(_DASK, n): partial(dask_workers, n) for n in WORKERS},
    "DuckDB, one process, two threads": in_duckdb,
}


def alone(run: Callable[[Path], T], folder: Path) -> T:
    """The run in a separate process, with its own peak memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, folder).result()


def table_of(n: int, folder: Path, rounds: int) -> list[str]:
    """The table for n rows, from interleaved runs."""
    rows = folder / "rows"
    rows.mkdir()
    write_rows(rows, n)
    single_of(rows).mkdir()
    write_single(single_of(rows))
    contenders = dict(CONTENDERS)
    if n == SIZES[0]:
        contenders["all rows in memory, `calibrant.evaluate`, no groups"] = in_memory
    runs: dict[str, list[DataRun]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            runs[name].append(alone(run, rows))
    for executors in WORKERS if SPARK.exists() else ():
        runs[_on(_SPARK, executors)] = spark_executors(executors, rows, rounds)
    first = next(iter(runs.values()))
    base, whole = statistics.median(run.seconds for run in first), first[0]
    size = sum(path.stat().st_size for path in rows.iterdir()) / 2**20
    lines = [
        f"## {n:,} rows",
        "",
        f"{len(list(rows.iterdir()))} files, {size:,.0f} MB.",
        "",
        "| | s | rows/s | speed-up over one process | overhead | s of a single row | "
        "peak memory of all processes, MB | counts | largest difference of sums | largest difference |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    shared = {_on(engine, n): min(n, os.cpu_count() or 1) for engine in (_DASK, _SPARK) for n in WORKERS}
    for name, measured in runs.items():
        seconds = statistics.median(run.seconds for run in measured)
        fixed = _median([run.fixed for run in measured], "{:.2f}")
        memory = _median([run.megabytes for run in measured], "{:,.0f}")
        off = max(abs(a - b) for run in measured for a, b in zip(run.values, whole.values, strict=True))
        overhead = f"{100 * (seconds * shared[name] / base - 1):.0f} %" if name in shared else ""
        cells = f"{base / seconds:.2f} | {overhead} | {fixed} | {memory} | {_compared(measured, whole)} | {off:.0e}"
        lines.append(f"| {name} | {seconds:.2f} | {n / seconds:,.0f} | {cells} |")
    return [*lines, ""]


def _median(values: list[float | None], form: str) -> str:
    measured = [value for value in values if value is not None]
    return form.format(statistics.median(measured)) if measured else ""


def _compared(runs: list[DataRun], whole: DataRun) -> str:
    """Whether all counts are those of the first run, and the largest relative difference of the sums."""
    if whole.tally is None or any(run.tally is None for run in runs):
        return " | "
    expected = EventTally.from_bytes(whole.tally)
    tallies = [EventTally.from_bytes(run.tally) for run in runs if run.tally is not None]
    same = all(
        tally.groups == expected.groups
        and np.array_equal(tally.tally.keys, expected.tally.keys)
        and np.array_equal(tally.tally.rows, expected.tally.rows)
        for tally in tallies
    )
    if not same:
        raise AssertionError("an engine lost rows, or counted them twice")
    off = max(np.abs(tally.tally.p_sum - expected.tally.p_sum).max() for tally in tallies) / expected.tally.p_sum.max()
    return f"identical | {off:.0e}"


_SPARK_RUNS = "Those of Spark follow the others, on executors that have counted the rows once."
_NO_SPARK = "Spark was not timed: this run had no environment of `make spark`, whose tests compare its counts and sums."


def main() -> None:
    """Measure and write the page; the arguments may be sizes, and ``--rounds``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("sizes", nargs="*", type=float, default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    sizes, rounds = [int(size) for size in options.sizes], options.rounds
    tables: list[str] = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            tables += table_of(n, Path(folder), rounds)
    page = "\n".join(
        [
            "# Tallying data at rest: speed",
            "",
            f"Generated by `make large-data` ({machine()}; load average during the run {os.getloadavg()[1]:.1f}).",
            f"Medians of {rounds} interleaved runs, each in a fresh process; the files are in the system's cache."
            if rounds > 1
            else "One run of each, in a fresh process; the files are in the system's cache.",
            _SPARK_RUNS if SPARK.exists() else _NO_SPARK,
            "Compare ratios, not seconds: with other work on the cores these are rough too. More workers than cores",
            "cannot be faster.",
            "",
            "The Parquet files have predictions, labels, four groups and a fourth column that is not read. Dask",
            "counts as for a service, with a new connection for each run. The time of a single row is the fixed part",
            "of a run: connecting, sending the function, and merging. The overhead of worker processes is their time",
            "beyond that of one process divided by their number, at most that of the cores, as a share of it.",
            "Counts of every group, cell and outcome, and sums of predictions in these (relative), are compared with",
            "the first row, and so are ECE, KS error and log loss (the last column).",
            "",
            *tables,
        ]
    )
    publish(PAGE, page)
    print(page)


if __name__ == "__main__":
    main()
