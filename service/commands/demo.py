"""``calibrant demo``: a complete workflow with two real classifiers, over HTTP."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from calibrant.cli.commands.sample import Classifier, boosted, naive_bayes
from calibrant.client import Calibrant
from calibrant.client.answers import JobAnswer, MeasureAnswer
from service.stack import stack

METHODS = ("averaged", "pl3", "pl")
MEASURES = ("ece", "log-loss", "brier")
#: Maximum seconds of a fit in the demo.
_FIT_SECONDS = 120.0
#: Columns of the output in a pipe or a file; the table is as narrow as a terminal of 80.
_WIDTH = 100
#: Lines of the service's log in an error message.
_LOG_LINES = 30


class Result(NamedTuple):
    """The measures of a classifier on its held-out half, without a map and with each method's map."""

    title: str
    before: Mapping[str, MeasureAnswer]
    after: Mapping[str, Mapping[str, MeasureAnswer]]


@dataclass
class DemoSteps:
    """The steps of the demo; ``under_way`` is the current step, named if the demo fails."""

    console: Console
    under_way: str = "start"

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Print the seconds of a step after its end."""
        self.under_way = name
        began = time.perf_counter()
        yield
        self.console.print(f"  {name}: {time.perf_counter() - began:.2f} s")


def run_demo() -> None:
    """Start a service, run the workflow and stop the service; exits with 1 if a step fails."""
    # In a pipe or a file, use a fixed width, and no escape codes.
    console = Console() if Console().is_terminal else Console(width=_WIDTH)
    steps = DemoSteps(console)
    console.print("Start a service, fit maps of two classifiers, and measure before and after: about 10 s.")
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="calibrant-demo-") as folder:
        log_path = Path(folder) / "service.log"
        try:
            results = _run(steps, Path(folder) / "data", log_path)
        except Exception as error:
            console.print(_tail(log_path), markup=False, highlight=False)
            console.print(f"The demo failed at '{steps.under_way}': {type(error).__name__}: {error}", markup=False)
            raise typer.Exit(1) from error
    console.print(table(results))
    console.print(
        f"All is well: {len(results) * len(METHODS)} maps fitted and applied in"
        f" {time.perf_counter() - began:.0f} s. To run the service, type: {_command()} serve",
        soft_wrap=True,
        highlight=False,
    )


def _command() -> str:
    """The command of this environment, as a user can type it here."""
    script = Path(sys.executable).with_name("calibrant")
    if shutil.which("calibrant") == str(script):
        return "calibrant"
    return str(script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script)


def _run(steps: DemoSteps, data: Path, log_path: Path) -> list[Result]:
    with log_path.open("ab") as log, ExitStack() as running:
        with steps("start the service"):
            service = running.enter_context(stack(host="127.0.0.1", port=0, data=data, log=log, inherited=_plain()))
        with steps("train the classifiers while it starts"):
            trained = [boosted(), naive_bayes()]
        with steps("wait until the service is ready"):
            client = running.enter_context(Calibrant(service.url))
            client.ready()
        results = [_one(steps, client, classifier) for classifier in trained]
        with steps("stop the service"):
            running.close()
    return results


def _one(steps: DemoSteps, client: Calibrant, classifier: Classifier) -> Result:
    """Upload both halves, evaluate, fit to the first half, apply to the second, and evaluate again."""
    steps.console.print(f"{classifier.title}: {len(classifier.labels)} rows", style="bold")
    fit_half, held_out = classifier.halves()
    with steps(f"{classifier.title}: upload two batches"):
        fit_batch, test_batch = (client.upload(h.predictions, h.labels).id for h in (fit_half, held_out))
    with steps(f"{classifier.title}: evaluate"):
        before = client.evaluate(test_batch).measures
    after = {}
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
        after[method] = report.after.measures
    return Result(classifier.title, before, after)


def _plain() -> dict[str, str]:
    """The environment without Calibrant settings, so that the demo uses the defaults."""
    return {name: value for name, value in os.environ.items() if not name.startswith("CALIBRANT_")}


class _JobProgress:
    """Show the progress of a job."""

    def __init__(self, bar: Progress, method: str) -> None:
        self._bar = bar
        self._task = bar.add_task(f"    {method}", stage="queued", total=1.0)

    def __call__(self, job: JobAnswer) -> None:
        """Update the progress bar."""
        total = max(job.progress.total, 1)
        self._bar.update(self._task, completed=job.progress.done, total=total, stage=job.progress.stage or job.status)


@contextmanager
def _bar(console: Console, method: str) -> Iterator[_JobProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[stage]}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield _JobProgress(bar, method)


def table(results: list[Result]) -> Table:
    """The measures before and after each map."""
    columns = Table(title="The held-out half before and after each map (smaller is better)", show_edge=False)
    for heading in ("classifier", "measure"):
        columns.add_column(heading)
    for heading in ("before", *METHODS):
        columns.add_column(heading, justify="right")
    for result in results:
        for key in MEASURES:
            values = (_value(measures, key) for measures in (result.before, *result.after.values()))
            columns.add_row(result.title, key, *values)
    return columns


def _value(measures: Mapping[str, MeasureAnswer], key: str) -> str:
    value = measures[key].value
    return "-" if value is None else f"{value:.4f}"


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").splitlines() if path.exists() else []
    return "\n".join(["The end of the service's log:", *lines[-_LOG_LINES:]])
