"""``calibrant backup`` and ``calibrant restore``, as a user runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from calibrant.cli.main import app
from calibrant.client import Calibrant
from service.stack import stack
from tests.store_folder import store_folder

pytestmark = pytest.mark.slow

_ENVIRONMENT = {name: setting for name, setting in os.environ.items() if not name.startswith("CALIBRANT_")}


@pytest.fixture
def folder() -> Iterator[Path]:
    with store_folder() as path:
        yield path


def _run(*arguments: str | Path, sent: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "calibrant", *map(str, arguments)]
    return subprocess.run(command, input=sent, capture_output=True, timeout=600, check=False, env=_ENVIRONMENT)


def test_a_backup_of_a_running_service_is_served_elsewhere(folder: Path) -> None:
    file, here, there = folder / "backup", folder / "here", folder / "there"
    with (folder / "log").open("wb") as log:
        with stack(host="127.0.0.1", port=0, data=here, log=log) as running, Calibrant(running.url) as client:
            client.ready()
            batch = client.upload([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10)
            stored = client.fit("platt", batch.id, name="kept")
            counts = "1 batch, 1 map, 1 entry of the audit log, 2 idempotency keys"
            finished = _run("backup", file, "--data", here)
            assert (finished.returncode, finished.stderr.decode().strip()) == (0, f"backed up: {counts}")
            assert file.stat().st_mode & 0o777 == 0o600
        restored = _run("restore", file, "--data", there)
        assert (restored.returncode, restored.stderr.decode().strip()) == (0, f"restored: {counts}")
        with stack(host="127.0.0.1", port=0, data=there, log=log) as running, Calibrant(running.url) as client:
            client.ready()
            assert client.map("kept") == stored
            assert client.evaluate(batch.id).n == 40


def _invoke(*arguments: str | Path, sent: bytes = b"") -> Result:
    """Run a command in this process, which starts the store alone."""
    unset = {name: None for name in os.environ if name.startswith("CALIBRANT_")}
    return CliRunner().invoke(app, [*map(str, arguments)], input=sent, env=unset)


def test_a_backup_goes_through_a_pipe(folder: Path) -> None:
    assert _invoke("keys", "create", "ci", "--data", folder / "here").exit_code == 0
    piped = _run("backup", "-", "--data", folder / "here")
    assert piped.stderr == b"backed up: 1 API key, 1 entry of the audit log\n"
    assert _run("restore", "-", "--data", folder / "there", sent=piped.stdout).returncode == 0
    listed = [_invoke("keys", "list", "--data", folder / name).stdout for name in ("here", "there")]
    assert "ci" in listed[0]
    assert listed[0] == listed[1]


def test_a_refused_backup_prints_one_line(folder: Path) -> None:
    file, store = folder / "backup", folder / "data"
    assert _invoke("keys", "create", "ci", "--data", store).exit_code == 0
    assert _invoke("backup", file, "--data", store).exit_code == 0
    whole = file.read_bytes()
    refusals: list[tuple[tuple[str | Path, ...], str]] = [
        (("backup", file, "--data", store), "already exists; use --force to replace it"),
        (("backup", folder / "other", "--data", folder / "nowhere"), "there is no store in"),
        (("backup", folder / "no" / "folder", "--data", store), "No such file or directory"),
        (("restore", folder / "missing", "--data", store), "No such file or directory"),
        (("restore", file, "--data", store), "the store is not empty"),
        (("restore", file, "--redis-url", "redis://127.0.0.1:1"), "the store cannot be reached"),
    ]
    for arguments, message in refusals:
        refused = _invoke(*arguments)
        assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1), refused.stderr
        assert message in refused.stderr
    cut = _invoke("restore", "-", "--data", folder / "new", sent=whole[:-1])
    assert cut.stderr == "calibrant: the file is not a backup, or is damaged\n"
    merged = _invoke("restore", file, "--data", store, "--merge")
    assert merged.stderr.splitlines() == [
        "restored: nothing",
        "skipped because the store already has them: 1 API key, 1 entry of the audit log",
    ]
    assert _invoke("backup", file, "--data", store, "--force").exit_code == 0
    assert not (folder / "nowhere").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["backup", "data", "new"]
