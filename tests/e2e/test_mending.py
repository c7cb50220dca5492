"""``calibrant serve`` mends what ends of it, and gives up on what ends again and again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from calibrant_client import Calibrant
from tests.integration.redis_server import until

P, Y = [0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10


class Served:
    """A ``calibrant serve``: its URL and its children by what they are."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cli", "serve", "--port", "0", "--data", str(folder / "data"), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+?:\d+", self.process.stdout.readline().decode())
        assert found, self.log.read_text()
        self.url = found[0]

    def child(self, what: str) -> int | None:
        """The process id of the store, the api or the worker; None while there is none."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in listed:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):  # it has just ended
                continue
            words = command.split(b"\0")
            if what.encode() in words if what != "store" else b"redis.sock" in command or b"--unixsocket" in words:
                return int(pid)
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
            return httpx.get(f"{self.url}/health/ready", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="calibrant-e2e-") as folder:
        served = Served(Path(folder))
        try:
            until(served.ready, 60)
            yield served
        finally:
            served.close()


@pytest.mark.parametrize("what", ["store", "api", "worker"])
def test_what_is_killed_is_started_again_and_nothing_acknowledged_is_lost(served: Served, what: str) -> None:
    with Calibrant(served.url) as client:
        kept = client.fit("platt", client.upload(P, Y).id, name="kept")
    served.kill(what)
    took = until(served.ready, 60)
    assert took < 30
    with Calibrant(served.url) as client:
        assert client.map("kept") == kept
        assert client.fit("pl", client.upload(P, Y).id, timeout=90).method == "pl"
    assert "it is started again" in served.log.read_text()
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=60) == 0


def test_what_ends_five_times_within_a_minute_ends_the_service_with_the_reason(served: Served) -> None:
    for _ in range(4):
        served.kill("worker")
    last = served.child("worker")
    assert last is not None
    os.kill(last, signal.SIGKILL)
    assert served.process.wait(timeout=60) == 1
    assert "calibrant: the worker ended 5 times within a minute, at last with status -9" in served.log.read_text()
