"""The commands about data as real processes: pipes, exit codes and signals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALIBRANT = [sys.executable, "-m", "calibrant"]
#: No server, whatever the environment of the tests says.
ALONE = {name: setting for name, setting in os.environ.items() if not name.startswith("CALIBRANT_")}
ROWS = "".join(f"{int(i % 3 == 0)},{(i % 97) / 97:.4f}\n" for i in range(200))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "preds.csv"
    path.write_text(f"y,p\n{ROWS}", encoding="utf-8")
    return path


def test_a_pipe_carries_rows_in_and_json_out_without_torch_and_the_code_is_the_gates(csv: Path) -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-m",
            "calibrant",
            "evaluate",
            "-",
            "--json",
            "--fail-above",
            "ece=0.01",
        ],
        input=csv.read_bytes(),
        capture_output=True,
        timeout=600,
        check=False,
        env=ALONE,
    )
    assert run.returncode == 4
    assert run.stdout.startswith(b'{"n":200,')
    assert run.stdout.endswith(b"}\n")
    lines = run.stderr.decode().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "calibrant.evaluation" in loaded
    assert not {"torch", "matplotlib", "fastapi", "redis"} & loaded
    assert [line for line in lines if "above 0.01" in line]
