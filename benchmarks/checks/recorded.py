"""Checks of pages whose cells are means over many records: the records of an earlier run are computed again.

The records are in ``.calibrant``, where the command of a page has run; the repository does not have them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.checks.comparison import NotChecked, PagePart, StoredRecord
from benchmarks.provenance import ROOT
from benchmarks.records import current, read


def _stored(name: str, program: str, command: str) -> Iterable[Any]:
    """Return the records of a program, of the present code."""
    records = list(read(current(name, str(ROOT / "benchmarks" / program))))
    if not records:
        raise NotChecked(
            f"its cells are means over records in .calibrant, and there are none of this code; run {command}"
        )
    return records


def _keyed(name: str, program: str, command: str, compute: Callable[[Any], Any]) -> list[PagePart]:
    records = _stored(name, program, command)
    return [
        StoredRecord(f"{name}, {key}", record, partial(compute, tuple(key)), tolerance=1e-6) for key, record in records
    ]


def tables(data: Path | None = None) -> list[PagePart]:
    """Return the records of the papers' tables."""
    from benchmarks.tables.run import errors_alone, later, whole

    del data
    of_name = {"tables": whole, "tables-pl-de": later, "tables-fresh": errors_alone, "tables-fresh-maps": whole}
    return list(
        chain.from_iterable(_keyed(name, "tables/run.py", "make tables", work) for name, work in of_name.items())
    )


def one_event(data: Path | None = None) -> list[PagePart]:
    """Return the records of fresh draws of one event."""
    from benchmarks.tables.event import answers, errors

    del data
    of_name = {"one-event-maps": answers, "one-event-errors": errors}
    return list(
        chain.from_iterable(_keyed(name, "tables/run.py", "make one-event", work) for name, work in of_name.items())
    )


def averaged_order(data: Path | None = None) -> list[PagePart]:
    """Return the records of the order of ``averaged``."""
    from benchmarks.tables.order import task

    del data
    return _keyed("averaged-order", "tables/run.py", "make averaged-order", task)


def early_stopping(data: Path | None = None) -> list[PagePart]:
    """Return the records of training with early stopping."""
    from benchmarks.tables.network import compared

    del data
    return _keyed("early-stopping", "tables/run.py", "make early-stopping", compared)


def pseudo_real(data: Path | None = None) -> list[PagePart]:
    """Return the jobs of the pseudo-real experiment."""
    from benchmarks.pseudo_real.experiment import ExperimentPart, run

    del data
    records = _stored("pseudo-real/records", "pseudo_real/__main__.py", "make pseudo-real")
    return [
        StoredRecord(f"{job}", of_job, partial(run, ExperimentPart(*job)), tolerance=1e-6) for job, of_job in records
    ]


def pseudo_real_worlds(data: Path | None = None) -> list[PagePart]:
    """Return the tasks of the worlds with known maps."""
    from benchmarks.pseudo_real.worlds import WorldTask, run

    del data
    records = _stored("pseudo-real/worlds", "pseudo_real/worlds.py", "make pseudo-real-worlds")
    return [StoredRecord(f"{task}", answer, partial(run, WorldTask(*task)), tolerance=1e-6) for task, answer in records]


def real_evaluators(data: Path | None = None) -> list[PagePart]:
    """Return the answers of the evaluators on files."""
    from benchmarks.pseudo_real.real import run

    if data is None:
        raise NotChecked("it needs DATA=folder")
    records = _stored("pseudo-real/real", "pseudo_real/real.py", "make real-evaluators DATA=folder")
    return [
        StoredRecord(f"{file}, {calibrator}", answer, partial(run, data / f"{file}.npz", calibrator), tolerance=1e-6)
        for (file, calibrator), answer in records
    ]


def splines(data: Path | None = None) -> list[PagePart]:
    """Return the halves of the splines' tables."""
    from benchmarks.splines.experiment import run

    if data is None:
        raise NotChecked("it needs DATA=folder")
    records = _stored("splines/records", "splines/__main__.py", "make splines DATA=folder")
    paths = {path.stem: path for path in data.iterdir()}
    return [
        StoredRecord(f"{name}, {seed}", record, partial(run, paths[name], seed), tolerance=1e-6)
        for name, seed, record in records
        if name in paths
    ]


def by_size(data: Path | None = None) -> list[PagePart]:
    """Return the curves of the figures, with the repetitions of each run."""
    from benchmarks.by_size import KERNEL_SHARE, NAMES, PAPER, SizeFigure, run

    if data is None:
        raise NotChecked("it needs DATA=folder")
    program, runs = "by_size.py", current("by-size-paper", str(ROOT / "benchmarks" / "by_size.py")).parent
    parts: list[PagePart] = []
    for name in sorted(path.stem for path in runs.glob("by-size-*.jsonl")) or ["by-size-paper"]:
        smallest = name.removeprefix("by-size-")
        repetitions = None if smallest == "paper" else int(smallest)
        for figure, curves in _stored(name, program, "make by-size DATA=folder"):
            kernel = (repetitions or PAPER) // KERNEL_SHARE if NAMES["kde-ce"] in curves["curves"] else None
            again = partial(run, repetitions=repetitions, kernel_repetitions=kernel)
            path = data / f"{figure[0]}.npz"
            parts.append(StoredRecord(f"{name}, {figure}", curves, partial(again, path, SizeFigure(*figure))))
    return parts


def calibrators(data: Path | None = None) -> list[PagePart]:
    """Return the tasks of the comparison of calibrators on files."""
    from benchmarks.compare.run import CompareTask, run

    if data is None:
        raise NotChecked("it needs DATA=folder")
    folder, parts = data, list[PagePart]()
    for name in ("records-given", "event-given"):
        for key, record in _stored(f"compare/{name}", "compare/__main__.py", "make compare DATA=folder"):
            file, method, reduction, seed = key.rsplit("/", 3)
            task = CompareTask(folder / f"{file}.npz", method, reduction, int(seed))
            parts.append(StoredRecord(key, record, partial(run, task), tolerance=1e-6))
    return parts
