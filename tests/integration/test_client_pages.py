"""The examples of docs/how-to/python-client.md and of each method of the client run."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import calibrant.client
from calibrant.client import AsyncCalibrant, Calibrant
from service.stack import Stack
from tests.rows import draw_event

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "python-client.md"
PACKAGE = Path(calibrant.client.__file__).parent
#: The examples of the methods are those of their steps, and of the asynchronous client.
MODULES = sorted(
    ".".join(("calibrant.client", *path.relative_to(PACKAGE).with_suffix("").parts))
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "async_client.py") and path.parent.name != "calls"
)
#: Calls whose examples would need a job that is still running, or one of an evaluation.
#: Those of alarms, proposals and deliveries would need a model that has drifted.
WITHOUT_EXAMPLE = {"cancel", "job_diagram"} | {
    "acknowledge",
    "proposal",
    "accept_proposal",
    "reject_proposal",
    "resend",
}


@pytest.fixture
def names(service: Stack) -> Iterator[dict[str, Any]]:
    """What the examples of the calls speak of: a client, rows, and the job of a fit."""
    p, y = draw_event(200, dtype=bool)
    with Calibrant(service.url) as client:
        client.fit("pl", predictions=p, labels=y, timeout=600)
        job = next(client.jobs(status="succeeded", kind="fit"))
        names_of_examples = {"client": client, "p": p, "y": y, "url": service.url, "job_id": job.id}
        yield names_of_examples | {"Calibrant": Calibrant, "AsyncCalibrant": AsyncCalibrant, "asyncio": asyncio}


@pytest.mark.slow
def test_the_examples_of_the_calls_answer_what_they_say(names: dict[str, Any]) -> None:
    runner, finder, shown = doctest.DocTestRunner(), doctest.DocTestFinder(), set()
    # In the order of the source: the first methods make the map and the monitor that the others use.
    for name in MODULES:
        module = importlib.import_module(name)
        with_examples = [test for test in finder.find(module, extraglobs=names) if test.examples]
        for test in sorted(with_examples, key=lambda test: test.lineno or 0):
            runner.run(_named(test))
            shown.add(test.name.rpartition(".")[2])
    assert runner.summarize(verbose=False).failed == 0
    calls = {name for name in vars(Calibrant) if not name.startswith("_")} - {"close"}
    assert calls - shown == WITHOUT_EXAMPLE


def _named(test: doctest.DocTest) -> doctest.DocTest:
    """The examples of a call with a map of a name that no other test uses: they tell its versions."""
    for example in test.examples:
        example.source, example.want = (
            re.sub(r"\bspam\b", "calls-of-the-client", text) for text in (example.source, example.want)
        )
    return test


@pytest.mark.slow
def test_the_page_of_the_client_runs_from_end_to_end(service: Stack) -> None:
    text = PAGE.read_text("utf-8").replace("http://127.0.0.1:8000", service.url)
    text = re.sub(r"\binbox\b", "page-of-the-client", text)
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python")
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    names["client"].close()
    assert names["after"].measures["ece"].value < names["report"].measures["ece"].value
    assert names["compared"].contestants[0].name == "uncalibrated"
    assert names["svg"].startswith(b"<svg")
