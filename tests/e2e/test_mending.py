"""``calibrant serve`` restarts every process of it that ends, any number of times, unless its settings are refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from benchmarks.chaos.proc import children
from calibrant.client import Calibrant
from tests.integration.redis_server import answered, until
from tests.serve_command import serve_command
from tests.store_folder import store_folder

pytestmark = pytest.mark.slow

P, Y = [0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10


@dataclass(frozen=True)
class Served:
    """A ``calibrant serve``: its URL and its children by what they are."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def child(self, what: str) -> int | None:
        """The process id of the store, the api or the worker; None while there is none."""
        for pid in children(self.process.pid):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                continue
            words = command.split(b"\0")
            if what.encode() in words if what != "store" else b"redis.sock" in command or b"--unixsocket" in words:
                return pid
        return None

    def kill(self, what: str) -> None:
        """Kill a child, and wait until another stands in its place."""
        until(lambda: self.child(what) is not None)
        before = self.child(what)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        until(lambda: self.child(what) not in (None, before))

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health/ready", timeout=600).status_code == 200
        except httpx.TransportError:
            return False


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A service that the tests of this file share, and that ends as it should."""
    with store_folder() as folder, (folder / "log").open("wb") as log:
        command, store = [sys.executable, "-m", "calibrant"], ("--data", folder / "data")
        with serve_command(command, log, *store) as (process, url):
            served = Served(process, url, folder / "log")
            until(served.ready)
            yield served
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=600) == 0


def test_a_worker_that_dies_eight_times_leaves_the_api_answering(served: Served) -> None:
    api = served.child("api")
    with httpx.Client(base_url=served.url, timeout=600) as client:
        for _ in range(8):
            served.kill("worker")
            until(served.ready)
            evaluated = answered(lambda: client.post("/evaluate", json={"predictions": P, "labels": Y}))
            assert evaluated.status_code == 200
    assert served.child("api") == api
    pauses = [
        float(pause) for pause in re.findall(r"serve: the worker .* restarting in ([\d.]+) s", served.log.read_text())
    ]
    assert len(pauses) == 8
    assert pauses[0] <= 0.1
    assert all(2.5 <= pause <= 5 for pause in pauses[-2:])
    with Calibrant(served.url) as client:
        assert client.fit("pl3", client.upload(P, Y).id, timeout=600).method == "pl3"
    assert served.process.poll() is None


def test_killed_processes_are_restarted_and_no_acknowledged_work_is_lost(served: Served) -> None:
    before = served.log.read_text().count("restarting in")
    for number, what in enumerate(["store", "api", "worker"], before + 1):
        with Calibrant(served.url) as client:
            fitted = client.fit("platt", client.upload(P, Y).id, name=f"kept-{what}")
        served.kill(what)
        until(served.ready)
        with Calibrant(served.url) as client:
            assert client.map(f"kept-{what}") == fitted
            assert client.fit("pl", client.upload(P, Y).id, timeout=600).method == "pl"
        assert served.log.read_text().count("restarting in") >= number


def test_a_child_that_refuses_its_settings_ends_the_service_with_the_reason(tmp_path: Path) -> None:
    log, wrong = tmp_path / "log", {"CALIBRANT_QUEUES": "no-such-queue"}
    command = [sys.executable, "-m", "calibrant", "serve", "--port", "0", "--data", str(tmp_path / "data")]
    with log.open("wb") as stderr:
        ended = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=stderr, env=os.environ | wrong, timeout=600, check=False
        )
    assert ended.returncode == 2
    assert "calibrant: the worker rejected its settings and ended with status 2" in log.read_text()
