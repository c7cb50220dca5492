"""Run every dataset on all cores and write docs/benchmarks/tables.md, resuming a previous run.

``python -m benchmarks.tables.run`` runs the paper's 1,575 datasets (some ten minutes), ``--fresh 200`` the
debiased error of the average, ES_15 and the oracle on as many new label draws.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.provenance import Pool
from benchmarks.records import append, current, publish, read
from benchmarks.tables.datasets import DERIVATES, SEEDS, SHAPES, SIZES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "tables.md"
_FRESH_FROM = 1_000

Key = tuple[str, str, int, int]
Records = dict[Key, dict[str, Any]]


def published_keys() -> list[Key]:
    """The paper's datasets."""
    return list(product(SHAPES, DERIVATES, SIZES, SEEDS))


def fresh_keys(draws: int) -> list[Key]:
    """``draws`` new label draws of each size."""
    return list(product(SHAPES, DERIVATES, SIZES, range(_FRESH_FROM, _FRESH_FROM + draws)))


def fresh_map_keys() -> list[Key]:
    """Ten fresh draws of each size and every fourth derivate: enough to compare the order of maps."""
    return list(product(SHAPES, DERIVATES[::4], SIZES, range(_FRESH_FROM, _FRESH_FROM + 10)))


def whole(key: Key) -> dict[str, Any]:
    """Every method on one dataset."""
    from benchmarks.tables.columns import answers
    from benchmarks.tables.datasets import dataset

    return answers(dataset(*key))


def later(key: Key) -> dict[str, Any]:
    """PL by differential evolution and KCE on one dataset: a file of their own, since they take half the time."""
    from benchmarks.tables.columns import later_answers
    from benchmarks.tables.datasets import dataset

    return later_answers(dataset(*key))


def errors_alone(key: Key) -> dict[str, Any]:
    """The debiased calibration errors on one dataset."""
    from benchmarks.tables.columns import debiased_errors, process_of
    from benchmarks.tables.datasets import dataset

    data = dataset(*key)
    return debiased_errors(data, process_of(data))


def collect(name: str, keys: Sequence[Key], task: Callable[[Key], dict[str, Any]]) -> Records:
    """Records of all keys, reusing those of an earlier run of the same code."""
    path = current(name, __file__)
    done: Records = {tuple(key): record for key, record in read(path)}
    left = [key for key in keys if key not in done]
    if left:
        os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("spawn")
        began = time.monotonic()
        with Pool(os.cpu_count(), context) as pool:
            running = {pool.submit(task, key): key for key in left}
            for count, future in enumerate(as_completed(running), 1):
                done[running[future]] = future.result()
                append(path, [running[future], future.result()])
                if count % 100 == 0 or count == len(left):
                    print(f"{name}: {count} of {len(left)} in {time.monotonic() - began:.0f} s", flush=True)
    return {key: done[key] for key in keys}


def main() -> None:
    """Run the requested datasets and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fresh", type=int, default=200, help="fresh label draws of each size")
    asked = parser.parse_args()
    from benchmarks.tables.page import page

    records = collect("tables", published_keys(), whole)
    added = collect("tables-pl-de", published_keys(), later)
    records = {key: record | added[key] for key, record in records.items()}
    fresh = collect("tables-fresh", fresh_keys(asked.fresh), errors_alone)
    text = page(records, fresh, collect("tables-fresh-maps", fresh_map_keys(), whole))
    publish(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
