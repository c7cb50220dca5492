"""Tally partitioned Parquet with one process, two Dask workers, and DuckDB.

Writes docs/benchmarks/large-data-speed.md.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

import calibrant
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant import distributed
from calibrant.distributed.arrow import Columns
from calibrant.distributed.parquet import count_piece, pieces_of
from calibrant.monitoring.event_tally import EventTally

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "large-data-speed.md"
SIZES = (10_000_000, 100_000_000)
#: Rows of a file, and of its row groups.
FILE, ROW_GROUP = 1_000_000, 250_000
ROUNDS = 3
COLUMNS: dict[str, Any] = {"prediction": "p", "label": "y", "group": "country"}
_MEASURES = ["ece", "ks", "log-loss"]


T = TypeVar("T")


class DataRun(NamedTuple):
    """One run: seconds, the peak of resident memory of all its processes in MB, and the values found."""

    seconds: float
    megabytes: float
    values: tuple[float, ...]


def write_rows(folder: Path, n: int) -> None:
    """Files of rows in four countries, with a column that is not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = np.array(["dk", "fi", "no", "se"])
    for i in range(n // FILE):
        random = np.random.default_rng(i)
        c = random.random(FILE)
        made = {
            "p": c**1.3,
            "y": (random.random(FILE) < c).astype(np.int8),
            "country": names[random.integers(0, 4, FILE)],
            "unread": random.random(FILE),
        }
        pq.write_table(pa.table(made), folder / f"part-{i:04}.parquet", row_group_size=ROW_GROUP)


def peak() -> float:
    """The peak of the resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _values(found: EventTally) -> tuple[float, ...]:
    report = calibrant.evaluate_tally(found, measures=_MEASURES)
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


def one_process(folder: Path) -> DataRun:
    """One thread, one piece at a time."""
    began = time.perf_counter()
    asked = Columns.read(**COLUMNS)
    parts = [count_piece(piece, asked) for piece in pieces_of(folder)]
    found = calibrant.merge(part for part in parts if part is not None)
    return DataRun(time.perf_counter() - began, peak(), _values(found))


def dask_workers(folder: Path) -> DataRun:
    """Two single-threaded worker processes, started before the measurement."""
    from dask.distributed import Client, LocalCluster

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        began = time.perf_counter()
        found = distributed.dask.tally(folder, **COLUMNS)
        seconds = time.perf_counter() - began
        return DataRun(seconds, peak() + sum(client.run(peak).values()), _values(found))


def in_duckdb(folder: Path) -> DataRun:
    """One process, in which DuckDB reads with two threads."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        began = time.perf_counter()
        found = distributed.duckdb.tally(folder, **COLUMNS, connection=connection)
        return DataRun(time.perf_counter() - began, peak(), _values(found))


CONTENDERS: Mapping[str, Callable[[Path], DataRun]] = {
    "one process, one thread, `calibrant.distributed.arrow`": one_process,
    "Dask, two workers of one thread": dask_workers,
    "DuckDB, one process, two threads": in_duckdb,
}


def alone(run: Callable[[Path], T], folder: Path) -> T:
    """The run in a separate process, with its own peak memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(run, folder).result()


def table_of(n: int, folder: Path) -> list[str]:
    """The table for n rows, from interleaved runs."""
    write_rows(folder, n)
    contenders = dict(CONTENDERS)
    if n == SIZES[0]:
        contenders["all rows in memory, `calibrant.evaluate`, no groups"] = in_memory
    runs: dict[str, list[DataRun]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            runs[name].append(alone(run, folder))
    seconds = {name: statistics.median(run.seconds for run in found) for name, found in runs.items()}
    base, wanted = next(iter(seconds.values())), next(iter(runs.values()))[0].values
    size = sum(path.stat().st_size for path in folder.iterdir()) / 2**20
    lines = [
        f"## {n:,} rows",
        "",
        f"{n // FILE} files, {size:,.0f} MB.",
        "",
        "| | s | rows/s | speed-up over one process | peak memory of all processes, MB | largest difference |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in runs.items():
        memory = statistics.median(run.megabytes for run in found)
        off = max(abs(a - b) for run in found for a, b in zip(run.values, wanted, strict=True))
        cells = f"{base / seconds[name]:.2f} | {memory:,.0f} | {off:.0e}"
        lines.append(f"| {name} | {seconds[name]:.2f} | {n / seconds[name]:,.0f} | {cells} |")
    return [*lines, ""]


def main() -> None:
    """Measure and write the page; the sizes may be given as arguments."""
    sizes = [int(float(text)) for text in sys.argv[1:]] or SIZES
    tables: list[str] = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            tables += table_of(n, Path(folder))
    page = "\n".join(
        [
            "# Tallying data at rest: speed",
            "",
            f"Generated by `make large-data` ({machine()}; load average during the run {os.getloadavg()[1]:.1f}).",
            f"Medians of {ROUNDS} interleaved runs, each in a fresh process; the files are in the system's cache.",
            "Compare ratios, not seconds.",
            "",
            "The Parquet files have predictions, labels, four groups and a fourth column that is not read. The last",
            "column is the largest difference in ECE, KS error and log loss from the first row.",
            "",
            *tables,
        ]
    )
    publish(PAGE, page)
    print(page)


if __name__ == "__main__":
    main()
