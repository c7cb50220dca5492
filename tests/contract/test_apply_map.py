"""Documents are enough: scripts in docs/ that use a language's standard library alone apply them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS, STORED = Path(__file__).parents[2] / "docs" / "how-to", Path(__file__).parent / "stored"
FILES = sorted(STORED.glob("map-*.json"))


def _applied(command: list[str], path: Path, tmp_path: Path) -> None:
    stored = json.loads(path.read_text("utf-8"))
    document = tmp_path / "map.json"
    document.write_text(json.dumps(stored["record"]["document"]), "utf-8")
    rows = json.dumps(stored["predictions"])
    found = subprocess.run([*command, str(document)], input=rows, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(found.stdout), stored["calibrated"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_python_script_applies_every_stored_document(path: Path, tmp_path: Path) -> None:
    _applied([sys.executable, "-S", "-I", str(DOCS / "apply_map.py")], path, tmp_path)


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_ecmascript_script_applies_every_stored_document(path: Path, tmp_path: Path) -> None:
    _applied([str(shutil.which("node")), str(DOCS / "apply_map.mjs")], path, tmp_path)
