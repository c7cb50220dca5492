"""``python -m benchmarks.compare [FOLDER]``: resumes a previous run; writes docs/benchmarks/calibrators.md."""

from __future__ import annotations

import argparse
import multiprocessing
import os
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

from benchmarks.compare.data import classifiers, write_shipped
from benchmarks.compare.page import event_section, page, with_section
from benchmarks.compare.run import CompareTask, run, tasks, tasks_of_one_event
from benchmarks.provenance import Pool
from benchmarks.records import append, current, kept_body, publish, read

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "calibrators.md"
KEPT = ROOT / ".calibrant" / "compare"


def main() -> None:
    """Run the tasks without a record, each in a single-threaded process, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="folder of .npz files; default: scikit-learn's data")
    parser.add_argument("--halves", type=int, help="maximum number of halves per method and file in this run")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes at the same time")
    parser.add_argument("--one-event", action="store_true", help="run and rewrite the section of event methods alone")
    asked = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    folder = asked.folder
    if folder is None:
        folder = KEPT / "shipped"
        if not folder.exists():
            folder.mkdir()
            write_shipped(folder)
    files = classifiers(folder)
    source = "given" if asked.folder else "shipped"
    of_event = _measured(f"event-{source}", tasks_of_one_event(files), asked)
    if asked.one_event:
        publish(PAGE, with_section(kept_body(PAGE, "make compare"), event_section(of_event)))
        return
    records = _measured(f"records-{source}", tasks(files), asked)
    publish(PAGE, with_section(page(records, shipped=asked.folder is None), event_section(of_event)))


def _measured(name: str, wanted: list[CompareTask], asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return the records of all tasks that have one, after running those without one."""
    record_file = current(f"compare/{name}", __file__)
    records: dict[str, dict[str, Any]] = dict(read(record_file))
    left = [task for task in wanted if task.key not in records]
    left = [task for task in left if asked.halves is None or task.seed < asked.halves]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    context = multiprocessing.get_context("spawn")
    with Pool(asked.processes, mp_context=context) as pool:
        running = {pool.submit(run, task): task for task in left}
        for done in as_completed(running):
            key = running[done].key
            records[key] = done.result()
            append(record_file, [key, records[key]])
    shown = {task.key for task in wanted}
    return {key: record for key, record in records.items() if key in shown}


if __name__ == "__main__":
    main()
