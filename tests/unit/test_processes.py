"""Runs of pytest in forks: a test that ends its process fails, and everything else still runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import DURATIONS, read_durations

ROOT = DURATIONS.parents[1]

ENDS_ITS_PROCESS = """
import os, signal
import pytest
def test_before(): pass
def test_skipped(): pytest.skip("not here")
def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_after(): pass
def test_exits(): os._exit(3)
def test_last(): pass
"""
WARNS = """
import warnings
def test_warns(): warnings.warn("it is late", UserWarning)
def test_fails(): assert 1 + 1 == 3
"""
SHARED = """
import os, pytest
@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    yield os.getpid()
    print("torn down")
@pytest.mark.parametrize("i", range(5))
def test_shared(shared, i): assert shared == os.getpid()
"""


def _run(folder: Path, *options: str, **files: str) -> str:
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.processes", "-c", os.devnull, "--rootdir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*command, *options, str(folder)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_test_that_ends_its_process_fails_and_the_others_run_once(tmp_path: Path) -> None:
    output = _run(tmp_path, "--processes", "2", "-v", ends=ENDS_ITS_PROCESS, shared=SHARED)
    assert "2 failed, 8 passed, 1 skipped" in output
    assert "1 skipped in test_ends.py: not here" in output
    assert "ended by SIGKILL while it ran this test" in output
    assert "ended with status 3 while it ran this test" in output
    for name in ("before", "after", "last"):
        assert len(re.findall(rf"::test_{name} PASSED", output)) == 1


@pytest.mark.slow
def test_failures_and_warnings_of_forks_are_in_the_summary(tmp_path: Path) -> None:
    output = _run(tmp_path, "--processes", "2", warns=WARNS, shared=SHARED)
    assert "1 failed, 6 passed, 1 warning" in output
    assert "assert (1 + 1) == 3" in output
    assert "it is late" in output


@pytest.mark.slow
def test_a_run_stops_at_the_first_failure_if_asked(tmp_path: Path) -> None:
    output = _run(tmp_path, "--processes", "2", "-x", warns=WARNS, ends=ENDS_ITS_PROCESS)
    assert "stopping after 1 failures" in output


@pytest.mark.slow
def test_a_shuffled_run_runs_every_test_once(tmp_path: Path) -> None:
    files = {f"file{i}": SHARED for i in range(6)}
    output = _run(tmp_path, "--processes", "3", "--shuffle-files", "1", **files)
    assert "30 passed" in output


@pytest.mark.slow
def test_an_interrupt_ends_every_fork_and_tears_its_fixtures_down(tmp_path: Path) -> None:
    began, begins = os.pipe()  # it is at its end if the run ends without having begun the test
    waits = f"""
import os, pathlib, pytest, select
@pytest.fixture(scope="session")
def service():
    yield
    pathlib.Path({str(tmp_path)!r}, "ended").touch()
def test_waits(service):
    os.write({begins}, b"waiting")
    select.select([], [], [])
"""
    (tmp_path / "test_waits.py").write_text(waits, "utf-8")
    (tmp_path / "test_other.py").write_text("def test_nothing(): pass", "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "tests.processes", "-c", os.devnull, "--rootdir", str(tmp_path)]
    output = tmp_path / "output"
    with os.fdopen(began, "rb") as reader, output.open("wb") as written:
        try:
            run = subprocess.Popen(
                [*command, "--processes", "2", str(tmp_path)],
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
                stdout=written,
                stderr=subprocess.STDOUT,
                pass_fds=[begins],
            )
        finally:
            os.close(begins)
        with run:
            assert reader.read(7) == b"waiting", output.read_text("utf-8")
            run.send_signal(signal.SIGINT)
            assert run.wait() == pytest.ExitCode.INTERRUPTED, output.read_text("utf-8")
    assert (tmp_path / "ended").exists()


def test_every_test_of_more_than_three_seconds_is_marked_slow(request: pytest.FixtureRequest) -> None:
    unmarked = {test.nodeid for test in request.session.items if test.get_closest_marker("slow") is None}
    slow = {test: seconds for test, seconds in read_durations()["tests"].items() if test in unmarked and seconds > 3.0}
    assert slow == {}


def test_recorded_durations_are_those_of_files_that_exist() -> None:
    assert [name for name in read_durations()["files"] if not (ROOT / name).exists()] == []
