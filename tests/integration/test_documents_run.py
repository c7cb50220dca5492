"""The pages that a newcomer follows, followed: every command and every example runs, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import calibrant
from service.stack import Stack
from tests.warm_command import warm_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/explanation/calibration-in-ten-minutes.md",
    "docs/explanation/fit-on-test.md",
    "docs/explanation/intervals.md",
    "docs/explanation/why-binned-ece-misleads.md",
    "docs/how-to/clusters.md",
    "docs/how-to/segments.md",
    "docs/explanation/debiasing.md",
    "docs/how-to/fixed-horizon-with-censoring.md",
    "docs/how-to/which-measure.md",
    "docs/how-to/which-map.md",
    "docs/how-to/portfolio-by-grades.md",
    "docs/how-to/coverage-of-sets.md",
    "docs/how-to/known-priors.md",
    "docs/how-to/prediction-sets.md",
    "docs/how-to/choose-a-threshold.md",
    "docs/how-to/validate-a-clinical-model.md",
    "docs/how-to/monitoring.md",
    "docs/how-to/monitors.md",
    "docs/how-to/monitor-alarms.md",
    "docs/how-to/monitor-recalibration.md",
    "docs/how-to/monitor-rows.md",
)
#: A block, and what the page says that it prints: lines in which "..." stands for any text.
_BLOCK = re.compile(r"^( *)```(sh|python)\n(.*?)^\1```$(?:\n\n\1```text\n(.*?)^\1```$)?", re.MULTILINE | re.DOTALL)
#: The beginning of a block, as readers see it.
_FENCE = re.compile(r"^\s*```(?:sh|python)\b", re.MULTILINE)
#: Of these blocks the tests are what they make: the environment, and the running of everything.
_MAKES = re.compile(r"^(make|git clone) ", re.MULTILINE)


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """What the examples in Python suppose to be there."""
    random = np.random.default_rng(3)
    true = random.random(600)
    labels = (random.random(600) < true).astype(np.int64)
    predictions = true**1.5
    fits = {name: calibrant.fit(name, predictions, labels) for name in ("beta", "platt")}
    return {
        "predictions": predictions,
        "labels": labels,
        "new_predictions": predictions[:10],
        "held_out_predictions": predictions,
        "held_out_labels": labels,
        "other": fits["beta"],
        "model": LogisticRegression(),
        "X": np.column_stack([true, 1.0 - true]),
        "y": labels,
        "X_new": np.array([[0.2, 0.8]]),
        "one_model": predictions,
        "another": true,
        "observed": random.normal(size=600),
        "quantiles": np.tile([-1.0, 0.0, 1.0], (600, 1)),
        "levels": [0.1, 0.5, 0.9],
    }


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of the commands of a page."""
    with warm_command(tmp_path_factory.mktemp("command")) as folder:
        path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
        yield os.environ | {"PATH": path, "COLUMNS": "200"}


@pytest.mark.parametrize("page", PAGES)
def test_every_example_of_a_page_runs(
    page: str,
    environment: dict[str, str],
    service: Stack,
    rows: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # some examples write files
    content = (ROOT / page).read_text("utf-8")
    blocks = [(kind, dedent(text), dedent(printed)) for _, kind, text, printed in _BLOCK.findall(content)]
    assert len(blocks) == len(_FENCE.findall(content)) > 0
    there = dict(rows)
    for kind, text, printed in blocks:
        here = text.replace("http://localhost:8000", service.url)
        here = here.replace("localhost:8000", service.url.removeprefix("http://"))
        if kind == "python":
            exec(compile(here, page, "exec"), there)
            _check_printed(capsys.readouterr().out, printed)
        elif not _MAKES.search(here):
            run = ["bash", "-euo", "pipefail", "-c", here]
            done = subprocess.run(
                run,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            assert done.returncode == 0, f"{here}\n{done.stderr}"
            _check_problem(done.stdout)
            _check_printed(done.stdout, printed)


def _check_printed(output: str, printed: str) -> None:
    """What the page says that a block prints is printed."""
    for line in printed.splitlines():
        pattern = ".*".join(map(re.escape, line.rstrip().split("...")))
        assert re.search(f"^{pattern}$", output, re.MULTILINE), f"{line}\n{output}"


def _check_problem(response: str) -> None:
    """curl ends with 0 whatever it is answered."""
    assert '"type":"/problems/' not in response or "unknown-job" in response, response


def test_every_link_of_the_documents_leads_somewhere() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for link, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", text):
            target = (page.parent / link).resolve() if link else page
            assert target.exists(), f"{page.relative_to(ROOT)}: {link}"
            if anchor and target.suffix == ".md":
                assert anchor in _anchors(target), f"{page.relative_to(ROOT)}: {link}#{anchor}"


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
