"""The commands about data as real processes: pipes, exit codes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CALIBRANT = [sys.executable, "-m", "cli"]
#: No server, whatever the environment of the tests says.
ALONE = {name: value for name, value in os.environ.items() if not name.startswith("CALIBRANT_")}
ROWS = "".join(f"{int(i % 3 == 0)},{(i % 97) / 97:.4f}\n" for i in range(200))


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "preds.csv"
    path.write_text(f"y,p\n{ROWS}", encoding="utf-8")
    return path


def _run(*arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALIBRANT, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=ALONE,
    )


def test_a_pipe_carries_rows_in_and_json_out_and_the_code_is_the_gates(csv: Path) -> None:
    asked = ("evaluate", "-", "--measure", "ks", "--json", "--fail-above", "ks=0.01")
    found = _run(*asked, stdin=csv.read_text("utf-8"))
    assert found.returncode == 4
    assert found.stdout.startswith('{"n":200,')
    assert found.stdout.endswith("}\n")
    assert [line for line in found.stderr.splitlines() if "above 0.01" in line]


def test_help_loads_no_numbers(csv: Path) -> None:
    heavy = "numpy", "scipy", "torch", "redis", "httpx", "pydantic", "fastapi", "matplotlib"
    code = f"import sys; import cli.main; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ALONE)
    assert found.stdout == "[]\n"


def test_an_evaluation_loads_no_torch(csv: Path) -> None:
    code = (
        "import sys; from cli.main import app\n"
        f"try: app(['evaluate', {str(csv)!r}])\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ALONE)
    assert found.stdout.splitlines()[-1] == "0 False False"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    # More than a pipe holds, so that the writer meets its end.
    path, document = tmp_path / "many.csv", tmp_path / "map.json"
    path.write_text(f"y,p\n{ROWS * 400}", encoding="utf-8")
    assert _run("fit", path, "--method", "identity", "--out", document).returncode == 0
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
    # Opened once the command reads: from then on it waits for rows.
    with pipe.open("wb") as rows:
        rows.write(b"y,p\n")
        rows.flush()
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told.strip() == b""
