"""Documents are enough: scripts in docs/ that use a language's standard library alone apply them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import playwright
import pytest

#: The Node.js of the browser's driver, which every environment of the tests has.
NODE = Path(playwright.__file__).parent / "driver" / "node"
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_ecmascript_script_applies_every_stored_document(path: Path, tmp_path: Path) -> None:
    _applied([str(NODE), str(DOCS / "apply_map.mjs")], path, tmp_path)


def test_the_guide_runs_and_both_scripts_agree_with_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("apply_map.py", "apply_map.mjs"):
        shutil.copy(DOCS / name, tmp_path)
    page = (DOCS / "apply-elsewhere.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(example, "apply-elsewhere.md", "exec"), {})
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    expected = json.loads((tmp_path / "expected.json").read_text("utf-8"))
    path = os.pathsep.join([str(NODE.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    for command in commands.splitlines():
        subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, env={"PATH": path}, check=True)
        found = json.loads((tmp_path / command.split()[-1]).read_text("utf-8"))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_the_ecmascript_file_is_a_module_too(tmp_path: Path) -> None:
    stored = json.loads((STORED / "map-v1-platt.json").read_text("utf-8"))
    program = tmp_path / "program.mjs"
    program.write_text(
        f"import {{ apply }} from {json.dumps((DOCS / 'apply_map.mjs').as_uri())};\n"
        f"const rows = {json.dumps(stored['predictions'])}, map = {json.dumps(stored['record']['document'])};\n"
        "console.log(JSON.stringify(rows.map((row) => apply(map, row))));\n",
        "utf-8",
    )
    found = subprocess.run([str(NODE), str(program)], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(found.stdout), stored["calibrated"], rtol=0, atol=1e-12)
