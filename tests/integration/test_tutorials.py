"""The tutorials: every code cell runs, in order, in a process of its own; warnings are errors."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
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
#: Runs cells, each given by its first line in the page and its code: tracebacks show the page.
RUN = """
import json, sys
page, cells = json.load(sys.stdin)
names = {"__name__": "__main__"}
for line, code in cells:
    exec(compile("\\n" * line + code, page, "exec"), names)
"""


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_cell_of_a_tutorial_runs(name: str, tmp_path: Path) -> None:
    page = FOLDER / f"{name}.md"
    text = page.read_text("utf-8")
    cells = [(text.count("\n", 0, cell.start("code")), cell["code"]) for cell in CELL.finditer(text)]
    assert len(cells) == text.count("```{code-cell}")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        input=json.dumps([str(page), cells]),
        cwd=tmp_path,
        env=os.environ | {"IPYTHONDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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
