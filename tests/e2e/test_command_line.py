"""The commands about data as real processes: pipes, exit codes and signals."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest

CALIBRANT = [sys.executable, "-m", "cli"]
#: No server, whatever the environment of the tests says.
ALONE = {name: value for name, value in os.environ.items() if not name.startswith("CALIBRANT_")}
ROWS = "".join(f"{int(i % 3 == 0)},{(i % 97) / 97:.4f}\n" for i in range(200))
#: A map that changes nothing.
IDENTITY = {
    "format": 1,
    "method": "identity",
    "family": "identity",
    "reduction": "binary",
    "scale": "probability",
    "n_classes": None,
    "parameters": {},
}


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "preds.csv"
    path.write_text(f"y,p\n{ROWS}", encoding="utf-8")
    return path


def test_a_pipe_carries_rows_in_and_json_out_without_torch_and_the_code_is_the_gates(csv: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "cli", "evaluate", "-", "--json", "--fail-above", "ks=0.01"],
        input=csv.read_bytes(),
        capture_output=True,
        timeout=60,
        check=False,
        env=ALONE,
    )
    assert found.returncode == 4
    assert found.stdout.startswith(b'{"n":200,')
    assert found.stdout.endswith(b"}\n")
    told = found.stderr.decode().splitlines()
    loaded = {line.rpartition("|")[2].strip() for line in told if line.startswith("import time:")}
    assert "calibrant.evaluation" in loaded
    assert not {"torch", "matplotlib", "fastapi", "redis"} & loaded
    assert [line for line in told if "above 0.01" in line]


def test_help_loads_no_numbers() -> None:
    heavy = "numpy", "scipy", "torch", "redis", "httpx", "pydantic", "fastapi", "matplotlib"
    code = f"import sys; import cli.main; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ALONE)
    assert found.stdout == "[]\n"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    # More than a pipe holds, so that the writer meets its end.
    path, document = tmp_path / "many.csv", tmp_path / "map.json"
    path.write_text(f"y,p\n{ROWS * 100}", encoding="utf-8")
    document.write_text(json.dumps(IDENTITY), encoding="utf-8")
    process = subprocess.Popen(
        [*CALIBRANT, "calibrate", path, "--map", document], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ALONE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"y,p,calibrated\n"
    process.stdout.close()
    told = process.stderr.read().decode().splitlines()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert told == ["calibrant: predictions: column 'p' as the probability of class 1, by its name"]


def test_ctrl_c_ends_it_quietly(tmp_path: Path) -> None:
    pipe = tmp_path / "preds.csv"
    os.mkfifo(pipe)
    process = subprocess.Popen([*CALIBRANT, "evaluate", pipe], stderr=subprocess.PIPE, env=ALONE)
    with pipe.open("wb") as rows:
        rows.write(b"y,p\n")
        rows.flush()
        _until_it_waits_for(rows, process.pid)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert told.strip() == b""


def _until_it_waits_for(rows: IO[bytes], pid: int) -> None:
    """Until a process has read all that was written and sleeps; a signal just before that is seen only after it."""
    deadline = time.monotonic() + 60
    waiting = bytearray(4)
    while time.monotonic() < deadline:
        fcntl.ioctl(rows, termios.FIONREAD, waiting)
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        if not any(waiting) and state == "S":
            return
        os.sched_yield()
    raise AssertionError("the command does not wait for rows")
