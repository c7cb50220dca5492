"""``python -m benchmarks.pseudo_real``: resumes a previous run; writes docs/benchmarks/pseudo-real.md.

The records are in .calibrant/pseudo-real; delete them after a change of the fits. With ``--repetitions 1`` every part
runs once instead of five times.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from benchmarks.pseudo_real import experiment, model
from benchmarks.pseudo_real.experiment import FOLDER, SEEDS, Job, Record, jobs
from benchmarks.pseudo_real.page import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "pseudo-real.md"
RESULTS = FOLDER / "records.jsonl"
#: Each process holds a model's logits: about 1 GB.
PROCESSES = min(os.cpu_count() or 1, 4)


def read() -> Iterator[tuple[Job, list[Record]]]:
    """The stored records, without an incomplete last line."""
    for line in RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []:
        try:
            job, records = json.loads(line)
        except ValueError:
            continue
        yield Job(*job), records


def store(job: Job, records: list[Record]) -> None:
    # The line break comes first, so that an incomplete line before does not spoil this one.
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps([job, records]))


def main() -> None:
    """Run the jobs without records, each in a single-threaded process, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repetitions", type=int, default=SEEDS, choices=range(SEEDS + 1), help="seeds of this run; 0: only the page"
    )
    parser.add_argument("--processes", type=int, default=PROCESSES, help="processes at the same time")
    asked = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(asked.processes, multiprocessing.get_context("spawn")) as pool:
        for name, _ in zip(model.MODELS, pool.map(experiment.predict, model.MODELS), strict=True):
            print(f"model ready: {name}", flush=True)
        results = dict(read())
        left = [job for job in jobs(asked.repetitions) if job not in results]
        running = {pool.submit(experiment.run, job): job for job in left}
        for count, finished in enumerate(as_completed(running), 1):
            job = running[finished]
            results[job] = finished.result()
            store(job, results[job])
            print(f"{count} of {len(left)}: {', '.join(map(str, job))}", flush=True)
        facts = dict(zip(model.MODELS, pool.map(experiment.describe, model.MODELS), strict=True))
    PAGE.write_text(page(results, facts), "utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
