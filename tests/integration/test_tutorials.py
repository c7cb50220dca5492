"""The tutorials: every code cell runs, in order, in a fork of one process; warnings are errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
TUTORIALS = sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index")
#: A code cell: its metadata as YAML between dashes or as lines of one option each, and its code.
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?P<metadata>---\n.*?^---\n|(?::[^\n]*\n)*)(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
#: Loads what tutorials have in common, then runs tutorials, each in a fork: a line names its folder, its page, and its
#: cells by their first line in the page and their code, so that tracebacks show the page. Answers with its status.
RUN = """
import json, os, sys
import IPython.display, matplotlib.pyplot, pandas, sklearn.linear_model, calibrant

for request in sys.stdin:
    folder, page, cells = json.loads(request)
    pid = os.fork()
    if pid == 0:
        os.chdir(folder)
        os.dup2(os.open("errors", os.O_WRONLY | os.O_CREAT), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdin.close()
        names = {"__name__": "__main__"}
        for line, code in cells:
            exec(compile("\\n" * line + code, page, "exec"), names)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """The process that runs tutorials; warnings are errors."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", RUN],
        env=os.environ | {"IPYTHONDIR": str(tmp_path_factory.mktemp("ipython"))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_cell_of_a_tutorial_runs(name: str, runner: subprocess.Popen[str], tmp_path: Path) -> None:
    page = FOLDER / f"{name}.md"
    text = page.read_text("utf-8")
    cells = [(text.count("\n", 0, cell.start("code")), cell["code"]) for cell in CELL.finditer(text)]
    assert len(cells) == text.count("```{code-cell}")
    assert runner.stdin is not None
    assert runner.stdout is not None
    runner.stdin.write(json.dumps([str(tmp_path), str(page), cells]) + "\n")
    runner.stdin.flush()
    assert runner.stdout.readline() == "0\n", (tmp_path / "errors").read_text("utf-8")


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_picture_of_a_tutorial_has_an_alternative_text(name: str) -> None:
    cells = list(CELL.finditer((FOLDER / f"{name}.md").read_text("utf-8")))
    pictures = [
        cell
        for cell in cells
        if re.search(
            r"^(SVG|reliability_diagram)\(|\bplot\(|^ *(ax = )?CalibrationDisplay\.", cell["code"], re.MULTILINE
        )
    ]
    assert pictures
    assert all("alt:" in cell["metadata"] for cell in pictures)


def test_the_index_lists_every_tutorial() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    assert sorted(re.findall(r"\]\(([a-z-]+)\.md\)", index)) == TUTORIALS
