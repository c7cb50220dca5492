"""``python -m benchmarks.pseudo_real``: resumes a previous run; writes docs/benchmarks/pseudo-real.md.

The records of each version of the code are in a file of their own in .calibrant/pseudo-real. With ``--repetitions 1``
every part runs once instead of five times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from concurrent.futures import as_completed
from pathlib import Path

from benchmarks.provenance import Pool
from benchmarks.pseudo_real import experiment, model
from benchmarks.pseudo_real.experiment import FOLDER, SEEDS, ExperimentPart, Record, jobs
from benchmarks.pseudo_real.page import page
from benchmarks.records import append, current, publish, read

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "pseudo-real.md"
RECORDS = "pseudo-real/records"
#: Each process holds a model's logits: about 1 GB.
PROCESSES = min(os.cpu_count() or 1, 4)


def stored() -> dict[ExperimentPart, list[Record]]:
    """The records of an earlier run of the same code."""
    return {ExperimentPart(*job): records for job, records in read(current(RECORDS, __file__))}


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
    with Pool(asked.processes, multiprocessing.get_context("spawn")) as pool:
        for name, _ in zip(model.MODELS, pool.map(experiment.predict, model.MODELS), strict=True):
            print(f"model ready: {name}", flush=True)
        record_file, results = current(RECORDS, __file__), stored()
        left = [job for job in jobs(asked.repetitions) if job not in results]
        running = {pool.submit(experiment.run, job): job for job in left}
        for count, finished in enumerate(as_completed(running), 1):
            job = running[finished]
            results[job] = finished.result()
            append(record_file, [job, results[job]])
            print(f"{count} of {len(left)}: {', '.join(map(str, job))}", flush=True)
        facts = dict(zip(model.MODELS, pool.map(experiment.describe, model.MODELS), strict=True))
    publish(PAGE, page(results, facts))
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
