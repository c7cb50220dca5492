"""Forks in the place of started processes: what a test can see of them is the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_service import Popen, start

_SHOW = """
import json, logging, os, sys, warnings
warnings.warn("shown, not raised")
names = sorted(int(name) for name in os.listdir("/proc/self/fd"))
numbers = os.getppid(), os.getsid(0)
json.dump([os.getcwd(), sys.argv[1:], dict(os.environ), *numbers, logging.root.handlers, names], sys.stdout)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("process", [subprocess.Popen, Popen])
def test_a_fork_has_the_folder_arguments_environment_files_and_status_of_a_start(tmp_path: Path, process: type) -> None:
    (tmp_path / "show.py").write_text(_SHOW)
    command = [sys.executable, "-m", "show", "3"]
    environment = {"HOME": "/nowhere", "PYTHONPATH": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (
        open(os.devnull) as file,
        process(
            command, cwd=tmp_path, env=environment, pass_fds=[file.fileno()], start_new_session=True, **pipes
        ) as shown,
    ):
        output, errors = shown.communicate()
        folder, arguments, inherited, parent, session, handlers, numbers = json.loads(output)
        assert (folder, arguments, parent, session, handlers) == (str(tmp_path), ["3"], os.getpid(), shown.pid, [])
        assert inherited.items() >= environment.items()
        assert "PATH" not in inherited
        assert numbers[:3] == [0, 1, 2]
        assert file.fileno() in numbers
        assert len(numbers) == 5  # the last lists the folder
    assert b"shown, not raised" in errors
    assert shown.returncode == 3


def test_a_fork_reads_its_input_and_ends_by_a_signal() -> None:
    command = [sys.executable, "-m", "json.tool", "--compact"]
    with Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate('{"a": 1}')[0] == '{"a":1}\n'
    assert process.returncode == 0
    with Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_a_fork_that_fails_logs_where(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        assert start([sys.executable, "-P", "-m", "json.absent"], log=log).wait() == 1
    assert b"No module named json.absent" in (tmp_path / "log").read_bytes()
