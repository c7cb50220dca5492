"""Reading files: time and peak memory beside pandas, polars and pyarrow alone. Writes docs/file-speed.md."""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.timing import machine, medians
from tabular.bounds import Bounds
from tabular.csv_layout import layout_of
from tabular.csv_plain import read_plain
from tabular.reading import read_sheet
from tabular.table import Places

PAGE = Path(__file__).parents[1] / "docs" / "file-speed.md"
LARGEST = 10_000_000
ROWS = (10_000, 1_000_000, LARGEST)

Read = Callable[[Path], object]


def ours(path: Path) -> object:
    return read_sheet(path, name=path.name, max_rows=None)


def standard(path: Path) -> object:
    """Our reader where pyarrow is not installed."""
    with path.open("rb") as file:
        return read_plain(file, layout_of(file, Bounds()), Places((1,), labels=0), Bounds())


CSV: dict[str, Read] = {
    "tabular, with pyarrow": ours,
    "tabular, standard library": standard,
    "pyarrow.csv.read_csv": pa.csv.read_csv,
    "polars.read_csv": pl.read_csv,
    "pandas.read_csv": pd.read_csv,
}


def write_files(folder: Path, n: int) -> dict[str, Path]:
    """The same rows in each format."""
    random = np.random.default_rng(0)
    p = random.random(n).round(6)
    table = pa.table({"label": (random.random(n) < p).astype(np.int64), "p": p})
    paths = {kind: folder / f"{n}.{kind}" for kind in ("csv", "npz", "parquet")}
    pa.csv.write_csv(table, paths["csv"], pa.csv.WriteOptions(quoting_style="none"))
    np.savez(paths["npz"], labels=table["label"].to_numpy(), p=p)
    pa.parquet.write_table(table, paths["parquet"])
    return paths


def peak(read: Read, path: Path) -> float:
    """Megabytes by which a process of its own grows while it reads."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_grown, read, path).result()


def _grown(read: Read, path: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(path)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def rows_of(path: Path, readers: dict[str, Read], what: str) -> list[str]:
    """A line a reader."""
    rounds = 3 if path.stat().st_size > 5_000_000 else 7
    taken = medians({name: partial(read, path) for name, read in readers.items()}, rounds=rounds)
    return [
        f"| {what} | {name} | {1000 * taken[name]:,.1f} | {peak(read, path):,.0f} |" for name, read in readers.items()
    ]


def page(lines: Sequence[str]) -> str:
    return f"""# Reading files

Time and memory of reading labels and predictions: medians of runs in turns; memory is by how much a process of its own
grows. `tabular` guesses the columns, checks every number and every label, and gives 64-bit arrays; the others give a
table of theirs, unchecked. Made by `make file-speed`; {machine()}, pyarrow {pa.__version__}, polars {pl.__version__},
pandas {pd.__version__}.

| file | reader | time, ms | memory, MB |
|---|---|---|---|
{chr(10).join(lines)}
"""


def main() -> None:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for n in ROWS:
            paths = write_files(Path(folder), n)
            megabytes = paths["csv"].stat().st_size / 1e6
            # What takes tens of seconds is not timed beside the others.
            readers = CSV if n < LARGEST else {"tabular, with pyarrow": ours}
            lines += rows_of(paths["csv"], readers, f"CSV, {n:,} rows, {megabytes:,.1f} MB")
            for kind, name in (("npz", "NPZ"), ("parquet", "Parquet")):
                lines += rows_of(paths[kind], {"tabular": ours}, f"{name}, {n:,} rows")
    PAGE.write_text(page(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
