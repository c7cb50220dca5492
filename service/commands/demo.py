"""``calibrant demo``: a complete workflow with two real classifiers, over HTTP."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from calibrant.cli.sample import Classifier, boosted, naive_bayes
from calibrant.client import Calibrant
from calibrant.client.answers import JobAnswer, Measures
from service.stack import stack

METHODS = ("averaged", "pl3", "pl")
MEASURES = ("ece", "ece-equal-width", "ece-sweep", "ks")
#: Maximum seconds of a fit in the demo.
_FIT_SECONDS = 120.0
#: Lines of the service's log in an error message.
_LOG_LINES = 30


class Row(NamedTuple):
    """The result of one map and classifier on the held-out half."""

    title: str
    method: str
    before: Measures
    after: Measures


@dataclass
class Steps:
    """The steps of the demo and their durations; ``under_way`` is the current step, named if the demo fails."""

    console: Console
    under_way: str = "start"
    seconds: list[tuple[str, float]] = field(default_factory=list)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time a step."""
        self.under_way = name
        began = time.perf_counter()
        yield
        self.seconds.append((name, time.perf_counter() - began))
        self.console.print(f"  {name}: {self.seconds[-1][1]:.2f} s")


def run_demo() -> None:
    """Start a service, run the workflow and stop the service; exits with 1 if a step fails."""
    # In a pipe or a file, use a width that fits the table, and no escape codes.
    console = Console() if Console().is_terminal else Console(width=118)
    steps = Steps(console)
    with tempfile.TemporaryDirectory(prefix="calibrant-demo-") as folder:
        log_path = Path(folder) / "service.log"
        try:
            rows = _run(steps, Path(folder) / "data", log_path)
        except Exception as error:
            console.print(_tail(log_path), markup=False, highlight=False)
            console.print(f"The demo failed at '{steps.under_way}': {type(error).__name__}: {error}", markup=False)
            raise typer.Exit(1) from error
    console.print(results(rows), timings(steps))


def _run(steps: Steps, data: Path, log_path: Path) -> list[Row]:
    rows = []
    with log_path.open("ab") as log:
        with steps("train the classifiers"):
            trained = [boosted(), naive_bayes()]
        began = time.perf_counter()
        with (
            stack(host="127.0.0.1", port=0, data=data, log=log, inherited=_plain()) as running,
            Calibrant(running.url) as client,
        ):
            steps.under_way = "start the service"
            client.ready()
            steps.seconds.append(("start the service", time.perf_counter() - began))
            steps.console.print(f"  start the service: {steps.seconds[-1][1]:.2f} s, on {running.url}")
            for classifier in trained:
                rows += _one(steps, client, classifier)
            steps.under_way = "stop the service"
            began = time.perf_counter()
        steps.seconds.append(("stop the service", time.perf_counter() - began))
    return rows


def _one(steps: Steps, client: Calibrant, classifier: Classifier) -> list[Row]:
    """Upload both halves, evaluate, fit to the first half, apply to the second, and evaluate again."""
    steps.console.print(f"{classifier.title}: {len(classifier.labels)} rows", style="bold")
    fit_half, held_out = classifier.halves()
    with steps(f"{classifier.title}: upload two batches"):
        fit_batch, test_batch = (client.upload(h.predictions, h.labels).id for h in (fit_half, held_out))
    with steps(f"{classifier.title}: evaluate"):
        client.evaluate(test_batch)
    rows = []
    for method in METHODS:
        with steps(f"{classifier.title}: fit {method}"), _bar(steps.console, method) as watch:
            named, event = f"demo-{method}", "confidence" if held_out.predictions.ndim == 2 else None
            fitted = client.fit(method, fit_batch, name=named, reduction=event, timeout=_FIT_SECONDS, progress=watch)
        with steps(f"{classifier.title}: apply {method}"):
            calibrated = client.calibrate(fitted.id, held_out.predictions)
        if not (calibrated.shape == held_out.labels.shape and np.all((calibrated >= 0) & (calibrated <= 1))):
            raise ValueError("the service did not return one probability per row")
        with steps(f"{classifier.title}: evaluate after {method}"):
            report = client.evaluate(test_batch, map=fitted.id)
        if report.after is None:
            raise ValueError("the service returned no measures after the map")
        rows.append(Row(classifier.title, method, report.measures, report.after.measures))
    return rows


def _plain() -> dict[str, str]:
    """The environment without Calibrant settings, so that the demo uses the defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CALIBRANT_")}


class _Watch:
    """Show the progress of a job."""

    def __init__(self, bar: Progress, method: str) -> None:
        self._bar = bar
        self._task = bar.add_task(f"    {method}", stage="queued", total=1.0)

    def __call__(self, job: JobAnswer) -> None:
        """Update the progress bar."""
        total = max(job.progress.total, 1)
        self._bar.update(self._task, completed=job.progress.done, total=total, stage=job.progress.stage or job.status)


@contextmanager
def _bar(console: Console, method: str) -> Iterator[_Watch]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        yield _Watch(bar, method)


def results(rows: list[Row]) -> Table:
    """The table with the measures before and after."""
    table = Table(title="Calibration of the held-out half, before -> after (smaller is better)")
    for heading in ("classifier", "map", *MEASURES):
        table.add_column(heading, justify="left" if heading in ("classifier", "map") else "right")
    for row in rows:
        cells = [f"{_value(row.before, key)} -> {_value(row.after, key)}" for key in MEASURES]
        table.add_row(row.title, row.method, *cells)
    return table


def timings(steps: Steps) -> Table:
    """The table with the durations."""
    table = Table(title="Seconds")
    table.add_column("step")
    table.add_column("s", justify="right")
    for name, seconds in steps.seconds:
        table.add_row(name, f"{seconds:.3f}")
    return table


def _value(measures: Measures, key: str) -> str:
    value = measures[key].value
    return "-" if value is None else f"{value:.4f}"


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    return "\n".join(["The end of the service's log:", *lines[-_LOG_LINES:]])
