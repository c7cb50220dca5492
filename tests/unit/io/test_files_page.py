"""docs/how-to/files.md says what the code does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.io import columns, errors
from calibrant.io.files import Sheet, SheetOptions, read_sheet
from tests.unit.io.test_messages import CASES, refusal_of

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "files.md").read_text(encoding="utf-8")
CODES = {
    kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TabularError)
}
#: Codes that no content has, and where they are tried.
ELSEWHERE = {"tabular-error", "unreadable-file", "spool-full"}


def test_every_code_stands_on_the_page_once() -> None:
    assert sorted(re.findall(r"^\| `([a-z0-9-]+)` \|", PAGE, re.MULTILINE)) == sorted(CODES - {"tabular-error"})


def test_every_code_is_among_the_refusals_that_are_tried() -> None:
    assert {case.code for case in CASES.values()} == CODES - ELSEWHERE


def test_every_message_on_the_page_is_said() -> None:
    shown = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    said = {error.detail for error in map(refusal_of, CASES.values())}
    assert [message for code, message in shown.items() if code not in ELSEWHERE and message not in said] == []


@pytest.mark.parametrize("field", ["PREDICTIONS", "LOGITS", "LABELS", "WEIGHTS", "GROUPS"])
def test_every_name_that_is_known_stands_on_the_page(field: str) -> None:
    told = {columns.word(name) for name in re.findall(r"`([^`\n]+)`", PAGE)}
    assert getattr(columns, field) <= told


def convert(tmp_path: Path, options: SheetOptions, **arrays: Any) -> Sheet:
    """Run the page's own command on an archive, and read what it wrote."""
    np.savez(tmp_path / "predictions.npz", **arrays)
    found = re.search(r"```sh\n(python -c .*?)\n```", PAGE, re.DOTALL)
    assert found is not None
    line = found[1].replace("python", shlex.quote(sys.executable), 1)
    subprocess.run(["/bin/sh", "-c", line], check=True, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    return read_sheet(tmp_path / "predictions.csv", name="predictions.csv", options=options, max_rows=None)


@pytest.mark.parametrize(
    ("key", "n_classes", "scale"), [("probs", 2, "probability"), ("probs", 3, "probability"), ("logits", 4, "logit")]
)
def test_the_page_s_line_makes_a_csv_of_an_archive(tmp_path: Path, key: str, n_classes: int, scale: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(n_classes), 20) if key == "probs" else rng.normal(size=(20, n_classes)) * 9
    labels = rng.integers(0, n_classes, 20)
    sheet = convert(tmp_path, SheetOptions(scale=scale), labels=labels, **{key: rows})
    assert sheet.labels is not None
    assert np.array_equal(sheet.labels, labels)
    assert np.array_equal(sheet.predictions, rows[:, 1] if n_classes == 2 else rows)
