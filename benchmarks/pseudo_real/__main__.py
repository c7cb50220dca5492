from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import calibrant
from benchmarks.pseudo_real import calibrators, experiment, model, truth
from benchmarks.pseudo_real.experiment import FOLDER, JOBS, Job, Record
from benchmarks.pseudo_real.page import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "pseudo-real.md"
RESULTS = FOLDER / "results.jsonl"
#: Each process holds a model's logits: about 0.8 GB.
PROCESSES = min(os.cpu_count() or 1, 4)


def code() -> str:
    """Hash of everything that the results depend on."""
    here = [Path(str(module.__file__)) for module in (calibrators, experiment, model, truth)]
    return experiment.digest(*sorted(Path(calibrant.__file__).parent.rglob("*.py")), *here)


def load(of: str) -> dict[Job, list[Record]]:
    """Results stored by the same code, without an incomplete last line."""
    results = {}
    for line in RESULTS.read_text("utf-8").splitlines() if RESULTS.exists() else []:
        try:
            stored = json.loads(line)
        except json.JSONDecodeError:
            continue
        if stored["code"] == of:
            results[Job(**stored["job"])] = stored["records"]
    return results


def store(job: Job, records: list[Record], of: str) -> None:
    # The line break comes first, so that an incomplete line before does not spoil this one.
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write("\n" + json.dumps({"code": of, "job": vars(job), "records": records}))


def main() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it and already use all cores
    of = code()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) as pool:
        for name, _ in zip(model.MODELS, pool.map(experiment.predict, model.MODELS), strict=True):
            print(f"model ready: {name}", flush=True)
        results = load(of)
        running = {pool.submit(experiment.run, job): job for job in JOBS if job not in results}
        for finished in as_completed(running):
            job = running[finished]
            results[job] = finished.result()
            store(job, results[job], of)
            print(f"{len(results)} of {len(JOBS)}: {job.model}, {job.event}, {job.calibrator}", flush=True)
        facts = dict(zip(model.MODELS, pool.map(experiment.describe, model.MODELS), strict=True))
    PAGE.write_text(page([record for job in JOBS for record in results[job]], facts), "utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
