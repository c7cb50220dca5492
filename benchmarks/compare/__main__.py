"""``python -m benchmarks.compare [FOLDER]``: resumes a previous run; writes docs/benchmarks/calibrators.md."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.compare.data import write_shipped
from benchmarks.compare.page import page
from benchmarks.compare.run import run, tasks

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "calibrators.md"
KEPT = ROOT / ".calibrant" / "compare"


def main() -> None:
    """Run the tasks without a record, each in a single-threaded process, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of .npz files; default: scikit-learn's data")
    parser.add_argument("--halves", type=int, help="maximum number of halves per method and file in this run")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    folder = asked.folder
    if folder is None:
        folder = KEPT / "shipped"
        if not folder.exists():
            folder.mkdir()
            write_shipped(folder)
    files = sorted(folder.glob("*.npz"))
    kept = KEPT / f"records-{'given' if asked.folder else 'shipped'}.jsonl"
    records = _read(kept)
    left = [task for task in tasks(files) if task.key not in records]
    left = [task for task in left if asked.halves is None or task.seed < asked.halves]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    context = multiprocessing.get_context("spawn")
    with kept.open("a", encoding="utf-8") as out, ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        running = {pool.submit(run, task): task for task in left}
        for done in as_completed(running):
            key = running[done].key
            records[key] = done.result()
            out.write(json.dumps({"key": key, **records[key]}) + "\n")
            out.flush()
    shown = {task.key for task in tasks(files)}
    PAGE.write_text(page({k: r for k, r in records.items() if k in shown}, shipped=asked.folder is None), "utf-8")


def _read(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {line.pop("key"): line for line in lines}


if __name__ == "__main__":
    main()
