"""Evaluate and score Parquet files by reference, beside DuckDB's GROUP BY of the cells of a tally.

Writes docs/benchmarks/by-reference-speed.md.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import calibrant
from benchmarks.large_data import FILE, ROW_GROUP, alone, peak
from benchmarks.records import publish
from benchmarks.timing import machine
from calibrant.distributed.arrow import Columns, RowCounter
from calibrant.distributed.scan import Scan
from calibrant.distributed.storage import opened_url
from calibrant.monitoring.tally import CELLS, place

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "by-reference-speed.md"
SIZES = (10_000_000, 100_000_000, 1_000_000_000)
ROUNDS, GROUPS, DAY = 3, 50, 86_400
#: More rows than these are read once, and not scored: their targets would need as much disk again.
REPEATED = 100_000_000
COLUMNS: dict[str, Any] = {"prediction": "p", "label": "y"}
SQL = """
SELECT g, y, floor(asin(sqrt(p)) * 1303.797) AS cell, count(*) AS n, avg(p) AS p
FROM '{folder}/*.parquet' GROUP BY g, y, cell
"""


class SourceRun(NamedTuple):
    """One run: seconds, processor seconds, the peak of resident memory in MB, and the rows that were read."""

    seconds: float
    processor_seconds: float
    megabytes: float
    rows: int


def write_rows(folder: Path, n: int) -> None:
    """Files of a prediction with all its digits, a label and a group."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_write_file, [folder] * (n // FILE), range(n // FILE)))


def _write_file(folder: Path, seed: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    random = np.random.default_rng(seed)
    p = random.beta(1, 3, FILE)
    names = [f"g{k:02}" for k in range(GROUPS)]
    groups = pa.DictionaryArray.from_arrays(random.integers(0, GROUPS, FILE).astype(np.int8), names)
    rows = {"p": p, "y": (random.random(FILE) < p).astype(np.int8), "g": groups}
    parquet.write_table(pa.table(rows), folder / f"part-{seed:04}.parquet", row_group_size=ROW_GROUP)


def _timed(work: Callable[[], int]) -> SourceRun:
    began, used = time.perf_counter(), time.process_time()
    rows = work()
    return SourceRun(time.perf_counter() - began, time.process_time() - used, peak(), rows)


def evaluation(folder: Path) -> SourceRun:
    """Three measures with intervals, also of each group."""
    import calibrant.distributed.sources

    asked: dict[str, Any] = {"measures": ["ece", "brier", "log-loss"], "interval": 0.95}
    return _timed(lambda: calibrant.evaluate_source(f"{folder}/*.parquet", **COLUMNS, group="g", **asked).n)


def group_by(folder: Path) -> SourceRun:
    """The cells of a tally by SQL alone, without measures, with two threads."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:

        def work() -> int:
            return int(connection.sql(SQL.format(folder=folder)).fetchnumpy()["n"].sum())

        return _timed(work)


def _scoring(method: str, folder: Path) -> SourceRun:
    random = np.random.default_rng(1)
    p = random.beta(1, 3, 2000)
    fitted = calibrant.fit(method, p, random.random(2000) < p**1.2)
    with tempfile.TemporaryDirectory(dir=folder.parent) as target:

        def work() -> int:
            return calibrant.calibrate_source(f"{folder}/*.parquet", f"{target}/scored", fitted, prediction="p").rows

        return _timed(work)


def scoring_platt(folder: Path) -> SourceRun:
    """All columns written with those of a Platt scaling."""
    return _scoring("platt", folder)


def scoring_averaged(folder: Path) -> SourceRun:
    """All columns written with those of an averaged map."""
    return _scoring("averaged", folder)


def stages(folder: Path) -> dict[str, float]:
    """Processor time in ns of a row for the stages of an evaluation, each alone."""
    columns = Columns.read(**COLUMNS, group="g")
    scan = Scan.of(*opened_url(f"{folder}/*.parquet"))

    def read() -> list[Any]:
        return [batch for _, batch in scan.read(["p", "y", "g"], "g") if batch is not None]

    batches = read()
    n, numbers = (
        sum(batch.num_rows for batch in batches),
        [np.from_dlpack(batch["p"]).astype(float, copy=False) for batch in batches],
    )
    keys = np.random.default_rng(0).integers(0, (1 + GROUPS) * 2 * CELLS, 1 << 19)
    weights = np.ones(len(keys))

    def count() -> None:
        counter = RowCounter(columns)
        for batch in batches:
            counter.add(batch, {})

    def add_up() -> None:
        for _ in range(n // len(keys)):
            np.bincount(keys)
            np.bincount(keys, weights)

    work: dict[str, Callable[[], object]] = {
        "read and decode three columns": read,
        "check, find the keys, and add up": count,
        "of these: cells": lambda: [place(part) for p in numbers for part in np.split(p, range(8192, len(p), 8192))],
        "of these: `np.bincount`, twice": add_up,
    }
    times = {}
    for name, run in work.items():
        spent = []
        for _ in range(ROUNDS):
            began = time.process_time()
            run()
            spent.append(time.process_time() - began)
        times[name] = statistics.median(spent) / n * 1e9
    return times


BASE = "DuckDB, `GROUP BY` of the cells alone, two threads"
READERS: Mapping[str, Callable[[Path], SourceRun]] = {
    "`evaluate_source`, three measures with intervals, 50 groups": evaluation,
    BASE: group_by,
}
SCORERS: Mapping[str, Callable[[Path], SourceRun]] = {
    "`calibrate_source`, `platt`": scoring_platt,
    "`calibrate_source`, `averaged`": scoring_averaged,
}


def measured(n: int, with_stages: bool) -> tuple[dict[str, SourceRun], dict[str, float]]:
    """The medians of interleaved runs, each in a fresh process, and, if wanted, the stages of an evaluation."""
    contenders = READERS if n > REPEATED else {**READERS, **SCORERS}
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base) / "rows"
        folder.mkdir()
        write_rows(folder, n)
        runs: dict[str, list[SourceRun]] = {name: [] for name in contenders}
        for _ in range(1 if n > REPEATED else ROUNDS):
            for name, run in contenders.items():
                runs[name].append(alone(run, folder))
        spent = alone(stages, folder) if with_stages else {}
    return {name: SourceRun(*map(statistics.median, zip(*ran, strict=True))) for name, ran in runs.items()}, spent


def main() -> None:
    """Measure and write the page; the sizes may be given as arguments."""
    sizes = sorted(int(float(text)) for text in sys.argv[1:]) or SIZES
    measurements = {n: measured(n, n == min(sizes)) for n in sizes}
    runs_by_size = {n: runs for n, (runs, _) in measurements.items()}
    lines = [
        "# Files by reference: speed and memory",
        "",
        f"Generated by `make by-reference-speed` ({machine()}; load average during the run {os.getloadavg()[1]:.1f}).",
        f"Medians of {ROUNDS} interleaved runs, each in a fresh process, and single runs of more than {REPEATED:,}",
        "rows; the files are in the system's cache if they fit. On a busy machine, compare ratios of processor time.",
        "Ours reads ahead in a second thread; matrix products have one, since several wait busily for each other.",
        "The SQL makes cells alone, with neither measures nor intervals nor checks of the rows:",
        "",
        "```sql",
        SQL.format(folder="rows").strip(),
        "```",
        "",
        "| rows | work | s | over DuckDB's | processor s | over DuckDB's | peak memory of the process, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for n, runs in runs_by_size.items():
        duckdb = runs[BASE]
        for name, run in runs.items():
            ratio, processor_ratio = run.seconds / duckdb.seconds, run.processor_seconds / duckdb.processor_seconds
            times = f"{run.seconds:.1f} | {ratio:.2f} | {run.processor_seconds:.1f} | {processor_ratio:.2f}"
            lines.append(f"| {n:,} | {name} | {times} | {run.megabytes:,.0f} |")
    lines += ["", *_of_stages(min(sizes), measurements[min(sizes)][1]), *_past_this_machine(runs_by_size)]
    publish(PAGE, "\n".join(lines))
    print(PAGE.read_text("utf-8"))


def _of_stages(n: int, spent: Mapping[str, float]) -> list[str]:
    return [
        "## Where the time of an evaluation goes",
        "",
        f"Processor time of a row, each stage alone, for {n:,} rows; together they are slower, since they",
        "share the caches. Measures with intervals of 51 groups take about a second for any number of rows.",
        "",
        "| stage | ns a row |",
        "|---|---|",
        *(f"| {name} | {ns:.1f} |" for name, ns in spent.items()),
        "",
        "What makes it fast, the largest effect first:",
        "",
        "- One table of all cells, not a tally of each batch: 131,072 rows touch most of 200,000 cells, so that such a",
        "  tally is as large as its rows, and has to be merged.",
        "- No sorting of rows whose predictions are distinct: one sort of predictions tells, not one of three keys.",
        "- A table of 65,536 steps instead of an arcsine for each row, and blocks of 8,192 rows, which fit the cache.",
        "- Groups as codes of the dictionary of the file, which are looked up once for each dictionary.",
        "- No import of pandas, which `to_numpy` of pyarrow makes: `np.from_dlpack` does not copy either.",
        "",
    ]


def _past_this_machine(runs_by_size: Mapping[int, Mapping[str, SourceRun]]) -> list[str]:
    """Processors for more rows, from the difference of the largest and the smallest size, without what is constant."""
    lines = [
        "## Past this machine",
        "",
        "The processor time of a row is that of the most rows in the table less that of the fewest, over the",
        "difference of their numbers. The rows of a day need at least so many processors, if they are read evenly",
        "over the day. The time that an object store takes comes on top.",
        "",
        "| work | ns a row | 1e10 rows a day | 1e12 rows a day |",
        "|---|---|---|---|",
    ]
    for name in [*READERS, *SCORERS]:
        sizes = [n for n, runs in runs_by_size.items() if name in runs]
        small, large = min(sizes), max(sizes)
        more = runs_by_size[large][name].processor_seconds - runs_by_size[small][name].processor_seconds
        row = more / (large - small)
        lines.append(f"| {name} | {row * 1e9:,.0f} | {1e10 * row / DAY:,.2f} | {1e12 * row / DAY:,.1f} |")
    return [*lines, ""]


if __name__ == "__main__":
    main()
