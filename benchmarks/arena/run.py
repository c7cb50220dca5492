"""Stage 2: every contender on every experiment, one thread: ``python -m benchmarks.arena.run FOLDER...``.

Results are JSON lines, one file per contender, as CalArena has one CSV per calibrator. Experiments that the present
code has finished are left as they are, so that an interrupted run resumes; ``--only NAME --again`` runs one contender
again. ``--above`` and the options after it choose the experiments of a run without a cap.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arena.contenders import Contender, contenders, versions
from benchmarks.arena.experiments import Experiment, ExperimentKey, calibration_shape, find, read, rows_of
from benchmarks.arena.scores import score
from benchmarks.records import append
from benchmarks.records import read as stored_records

#: Seconds of CPU time for fit and application, so that the load of the machine does not count; after that the base
#: model's predictions count.
LIMIT = 60
RESULTS = Path("build/arena/results")


class OutOfTime(BaseException):
    """The limit has passed; no ``Exception``, so that contenders do not catch it."""


class _Limit:
    """The limit on the processor time of one contender, in seconds; ``passed`` once its signal has arrived."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.passed = seconds, False

    def __enter__(self) -> None:
        signal.signal(signal.SIGPROF, self._pass)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _pass(self, *_: object) -> None:
        self.passed = True
        raise OutOfTime


def play(contender: Contender, experiment: Experiment, limit: float | None = None) -> dict[str, Any]:
    """Scores, seconds of CPU time and ``problem``, with which the base model's predictions count, of one contender."""
    problem, timer = None, _Limit(LIMIT if limit is None else limit)
    began = time.process_time()
    try:
        with timer, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            q = contender.run(experiment.p_cal.copy(), experiment.y_cal.copy(), experiment.p_test.copy())
        q = rows_of(q)
        if q.shape != experiment.p_test.shape or not np.isfinite(q).all():
            problem = "predictions that are not finite or have another shape"
    except OutOfTime:
        problem = "time limit"
    except KeyboardInterrupt:  # CatBoost raises it in place of OutOfTime
        if not timer.passed:
            raise
        problem = "time limit"
    except Exception as error:
        problem = type(error).__name__
    seconds = time.process_time() - began
    if problem:
        q = experiment.p_test
    return {"seconds": seconds, "problem": problem, **score(q, experiment.p_test, experiment.y_test)}


def record_of(
    key: ExperimentKey,
    contender: Contender,
    experiment: Experiment,
    known: Mapping[str, str],
    limit: float | None = None,
) -> dict[str, Any]:
    """What is stored of an experiment that a contender played; ``known`` are the versions of packages."""
    return {
        "experiment": key.name,
        "dataset": key.unit,
        "n_classes": experiment.n_classes,
        "n_cal": len(experiment.y_cal),
        "n_test": len(experiment.y_test),
        "contender": contender.name,
        "package": contender.package,
        "version": known.get(contender.package, ""),
        **play(contender, experiment, limit),
    }


def in_rounds(keys: list[ExperimentKey]) -> list[ExperimentKey]:
    """One model of every data set, then another, so that an interrupted run has results of all data sets."""
    models: dict[tuple[Path, str], list[ExperimentKey]] = {}
    for key in keys:
        models.setdefault((key.path, key.dataset), []).append(key)
    order = np.random.default_rng(0).permutation(len(models))
    groups = [list(models.values())[i] for i in order]
    rounds = range(max((len(group) for group in groups), default=0))
    return [group[(at + start) % len(group)] for at in rounds for start, group in enumerate(groups) if at < len(group)]


def _file(folder: Path, contender: Contender) -> Path:
    return folder / f"{contender.package or 'none'}--{contender.name}.jsonl"


def _finished(path: Path) -> set[str]:
    return {record["experiment"] for record in stored_records(path)}


def warm_up(every: list[Contender]) -> None:
    """Compile and import before anything is timed."""
    random = np.random.default_rng(0)
    for n_classes in (2, 3):
        p = random.dirichlet(np.ones(n_classes), 120)
        y = np.array([random.choice(n_classes, p=row) for row in p])
        for contender in every:
            if contender.plays(n_classes):
                play(contender, Experiment(p, y, p, y))


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contenders, or packages")
    parser.add_argument("--again", action="store_true", help="drop earlier results of these contenders")
    parser.add_argument("--most", type=int, help="experiments at most, in rounds over data sets")
    parser.add_argument("--above", type=int, default=0, help="only experiments with more calibration rows")
    parser.add_argument("--classes", type=int, default=1_000, help="only data sets with at most so many classes")
    parser.add_argument("--minutes", type=float, default=np.inf, help="processor time after which nothing new begins")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of processor time of a contender")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)
    every = contenders()
    if options.only:
        unknown = set(options.only) - {c.name for c in every} - {c.package for c in every}
        if unknown:
            parser.error(f"--only: unknown {', '.join(sorted(unknown))}; known: {', '.join(c.name for c in every)}")
        every = [c for c in every if {c.name, c.package} & set(options.only)]
    options.results.mkdir(parents=True, exist_ok=True)
    if options.again:
        for contender in every:
            _file(options.results, contender).unlink(missing_ok=True)
    warm_up(every)
    finished = {contender: _finished(_file(options.results, contender)) for contender in every}
    known, started = versions(), time.process_time()
    for at, key in enumerate(in_rounds(find(options.folders))[: options.most]):
        rows, n_classes = calibration_shape(key)
        missing = [c for c in every if key.name not in finished[c] and c.plays(n_classes)]
        if not missing or rows <= options.above or n_classes > options.classes:
            continue
        if time.process_time() - started > 60.0 * options.minutes:
            break
        began = time.perf_counter()
        experiment = read(key)
        for contender in missing:
            record = record_of(key, contender, experiment, known, options.limit)
            append(_file(options.results, contender), record)
        print(f"{at + 1} {key.name}: {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"
    main()
