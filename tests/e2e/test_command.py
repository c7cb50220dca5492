"""The real command, as a user runs it, with real signals."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import httpx
import pytest
from redis import Redis

from backend.store.server.embedded import embedded_server
from calibrant.client import Calibrant, ProblemResponse
from tests.commands import invoked, succeeded
from tests.integration.redis_server import until, until_ready
from tests.process_tree import descendants
from tests.serve_command import serve_command
from tests.store_folder import store_folder

pytestmark = pytest.mark.slow

CALIBRANT = [sys.executable, "-m", "calibrant"]
NAMESAKES = ("backend.py", "calibrant.py", "service.py", "schemas.py", "workers.py")


@pytest.fixture
def folder() -> Iterator[Path]:
    with store_folder() as path:
        yield path


def _until_gone(pids: list[int]) -> None:
    """Wait for the kernel to say that processes have ended; pytest's own time limit is the only clock."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            try:
                ready, _, _ = select.select([handle], [], [], 120)
                assert ready, f"process {pid} is still there"
            finally:
                os.close(handle)


def _run(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The command, until it ends."""
    return subprocess.run(
        [*CALIBRANT, *arguments], capture_output=True, text=True, timeout=600, check=False, env=environment
    )


def _serving(
    folder: Path, log: IO[bytes], *arguments: str, command: Sequence[str | Path] = CALIBRANT
) -> contextlib.AbstractContextManager[tuple[subprocess.Popen[bytes], str]]:
    """Run ``calibrant serve`` in the folder."""
    return serve_command(command, log, "--data", "data", *arguments, cwd=folder)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Path, subprocess.Popen[bytes], str]]:
    """The folder, the process and the address of a service that tests of this file share.

    It runs in a folder with files that have the names of the packages, and which nothing may import.
    """
    with store_folder() as folder, (folder / "log").open("wb") as log:
        for name in NAMESAKES:
            (folder / name).write_text("raise SystemExit('a file of the user was imported')\n")
        with _serving(folder, log, command=[Path(sys.executable).with_name("calibrant")]) as (process, url):
            until_ready(url)
            yield folder, process, url


def test_serve_keeps_its_maps_and_leaves_no_process_behind_however_it_ends(folder: Path) -> None:
    stored = None
    with (folder / "log").open("wb") as log:
        for number, status in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
            with _serving(folder, log) as (process, url):
                with Calibrant(url) as client:
                    client.ready()
                    if stored is None:
                        batch = client.upload([0.1, 0.4, 0.6, 0.9] * 10, [0, 1, 0, 1] * 10)
                        stored = client.fit("pl3", batch.id, name="kept", timeout=600)
                        assert stored.version == 1
                    assert client.map("kept") == stored
                children = descendants(process.pid)
                assert len(children) >= 3
                process.send_signal(number)
                assert process.wait(timeout=600) == status
                _until_gone(children)


def test_an_idle_api_is_small(running: tuple[Path, subprocess.Popen[bytes], str]) -> None:
    _, process, _ = running
    for child in descendants(process.pid):
        if b"api" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
            status = Path(f"/proc/{child}/status").read_text()
            resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
            assert int(resident.split()[1]) < 180 * 1024
            assert b"libtorch" not in Path(f"/proc/{child}/maps").read_bytes()
            return
    pytest.fail("there is no API process")


def test_a_second_serve_on_the_same_folder_or_port_is_refused(
    folder: Path, running: tuple[Path, subprocess.Popen[bytes], str]
) -> None:
    used, _, url = running
    same_folder = _run("serve", "--port", "0", "--data", str(used / "data"))
    assert same_folder.returncode == 1
    assert "in use" in same_folder.stderr
    port = url.rpartition(":")[2]
    same_port = _run("serve", "--port", port, "--data", str(folder / "other"))
    assert same_port.returncode == 1
    assert f"port {port}: Address already in use; choose another --port, or 0" in same_port.stderr
    assert httpx.get(f"{url}/health/ready", timeout=600).status_code == 200


def test_a_setting_or_port_that_is_no_number_of_its_range_is_refused(folder: Path) -> None:
    no_number = _run(
        "serve",
        "--port",
        "0",
        "--data",
        str(folder / "other"),
        environment=dict(os.environ) | {"CALIBRANT_DRAIN_SECONDS": "soon"},
    )
    assert no_number.returncode == 2
    assert "CALIBRANT_DRAIN_SECONDS" in no_number.stderr
    assert "Traceback" not in no_number.stderr
    for number in ("65536", "-1"):
        no_port = invoked(None, "serve", "--port", number, "--data", folder / "other")
        assert no_port.exit_code == 2
        assert "--port" in no_port.stderr
        assert "Traceback" not in no_port.stderr


def test_serve_names_the_damaged_file_of_its_store_and_repairs_it_on_request(folder: Path) -> None:
    store = folder / "data"
    with (folder / "log").open("wb") as log, embedded_server(store, log=log) as (url, _), Redis.from_url(url) as redis:
        redis.set("acknowledged", 1)
    (file,) = store.glob("appendonlydir/*.incr.aof")
    with file.open("ab") as appended:
        appended.write(bytes(4096))
    refused = _run("serve", "--port", "0", "--data", str(store))
    assert refused.returncode == 1
    for part in (str(file), "4,096", str(store / "redis.log"), f"serve --data {store} --repair-store"):
        assert part in refused.stderr
    with (folder / "log").open("wb") as log, _serving(folder, log, "--repair-store") as (process, url):
        until_ready(url)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
    (removed,) = store.glob("*.from-byte-*")
    assert removed.read_bytes() == bytes(4096)
    assert str(removed.relative_to(folder)) in (folder / "log").read_text()


def _made_key(folder: Path, *arguments: str) -> str:
    created = succeeded(None, "keys", "create", *arguments, "--data", folder / "data")
    return created.stdout.strip()


def test_api_keys_are_needed_beyond_loopback_and_checked_on_every_route_but_the_open_ones(folder: Path) -> None:
    open_bind = _run("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(folder / "data"))
    assert open_bind.returncode == 2
    assert "calibrant keys create" in open_bind.stderr
    before = _made_key(folder, "made-before")
    with (folder / "log").open("w+b") as log, _serving(folder, log) as (process, url):
        # The store runs now, and a key made beside it is known within a second, as its end is.
        beside = _made_key(folder, "made-beside", "--tenant", "another")
        until_ready(url)
        for path in ("/measures", "/jobs/x", "/limits", "/metrics"):
            refused = httpx.get(url + path, timeout=600)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
            assert refused.json()["type"] == "/problems/unauthorized"
        assert httpx.get(f"{url}/openapi.json", timeout=600).status_code == 200
        with Calibrant(url, api_key=before) as client:
            batch = client.upload([0.1, 0.9], [0, 1])
            assert client.evaluate(batch.id).n == 2
        with Calibrant(url, api_key=beside) as client, pytest.raises(ProblemResponse) as refusal:
            client.evaluate(batch.id)
        assert refusal.value.problem.type == "/problems/unknown-batch-reference"
        with Calibrant(url, api_key=before + "x") as client, pytest.raises(ProblemResponse):
            client.job("x")
        listed = invoked(None, "keys", "list", "--data", folder / "data").stdout
        assert "made-before" in listed
        for secret in (before, beside):
            text = secret.split("_", 2)[2].encode()
            assert text.decode() not in listed
            for child in descendants(process.pid):
                assert text not in Path(f"/proc/{child}/cmdline").read_bytes()
            log.seek(0)
            assert text not in log.read()


def test_a_refusal_of_the_command_keys_is_one_line(folder: Path) -> None:
    store = ("--data", str(folder / "data"))
    for arguments, words in (
        (("create", "x", "--tenant", "No Name"), "tenant"),
        (("create", "x", "--scope", "root"), "scope"),
        (("create", "x", "--expires", "soon"), "90d"),
        (("rotate", "nowhere"), "no key with this id"),
        (("revoke", "nowhere"), "no key with this id"),
        (("list", "--redis-url", "unix:///nowhere"), "cannot be reached"),
    ):
        refused = invoked(None, "keys", *arguments, *(() if "--redis-url" in arguments else store))
        assert refused.exit_code in (1, 2)
        assert words in refused.stderr
        assert "Traceback" not in refused.stderr


def test_the_service_answers_503_while_its_store_is_away_and_recovers(folder: Path) -> None:
    """Against a Redis of our own, so that it can be taken away and brought back."""
    with (folder / "log").open("ab") as log:
        with embedded_server(folder / "store", log=log) as (redis_url, _):
            serving = _serving(folder, log, "--redis-url", redis_url)
            process, url = serving.__enter__()
            until_ready(url)
        try:
            # The service may learn of the end of its store a moment later, within the second that is documented.
            until(lambda: httpx.get(f"{url}/health/ready", timeout=600).status_code == 503)
            away = httpx.get(f"{url}/health/ready", timeout=600)
            assert away.status_code == 503
            assert away.headers["retry-after"]
            assert away.json()["type"] == "/problems/store-unavailable"
            assert httpx.get(f"{url}/health/live", timeout=600).status_code == 200
            with embedded_server(folder / "store", log=log) as (again, _):
                assert again == redis_url
                until_ready(url)
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=600) == 0
        finally:
            serving.__exit__(None, None, None)


def test_files_of_the_folder_do_not_stand_in_for_the_packages(
    running: tuple[Path, subprocess.Popen[bytes], str],
) -> None:
    folder, process, url = running
    assert Path(f"/proc/{process.pid}/cwd").resolve() == folder
    assert all((folder / name).is_file() for name in NAMESAKES)
    assert httpx.get(f"{url}/measures", timeout=600).status_code == 200


def test_the_demo_does_the_main_job_and_leaves_nothing_behind(folder: Path) -> None:
    """Settings for another service do not concern it."""
    (folder / "keys").write_text("secret\n")
    others = {"CALIBRANT_API_KEYS_FILE": str(folder / "keys"), "CALIBRANT_QUEUES": "x", "CALIBRANT_PORT": "1"}
    demo = _run("demo", environment=os.environ | others | {"TMPDIR": str(_empty(folder))})
    assert demo.returncode == 0, demo.stdout + demo.stderr
    for method in ("averaged", "pl3", "pl"):
        assert f"AdaBoost, 5 or more: fit {method}" in demo.stdout
    lines = demo.stdout.splitlines()
    table = [line for line in lines if "│" in line]
    assert len(table) == 6
    assert max(len(line) for line in table) <= 80
    assert re.fullmatch(r"All is well: 6 maps .* To run the service, type: \S*calibrant serve", lines[-1])
    assert not list((folder / "tmp").glob("calibrant-demo-*"))


def test_a_demo_that_fails_says_where_and_leaves_nothing_behind(folder: Path) -> None:
    """A store that cannot start: the binary on PATH is not one."""
    broken = folder / "bin"
    broken.mkdir()
    (broken / "redis-server").write_text("#!/bin/sh\nexit 3\n")
    (broken / "redis-server").chmod(0o755)
    environment = os.environ | {"PATH": f"{broken}:{os.environ['PATH']}", "TMPDIR": str(_empty(folder))}
    demo = _run("demo", environment=environment)
    assert demo.returncode == 1
    assert "The demo failed at" in demo.stdout
    assert "status 3" in demo.stdout
    assert not list((folder / "tmp").glob("calibrant-demo-*"))


def _empty(folder: Path) -> Path:
    """A folder for temporary files that no other process uses."""
    (folder / "tmp").mkdir()
    return folder / "tmp"


def test_the_command_says_its_version_and_lists_its_commands() -> None:
    version = _run("--version")
    assert re.fullmatch(r"calibrant \d+\.\d+\.\d+\n", version.stdout)
    helped = _run("--help")
    for name in ("serve", "api", "worker", "demo", "backup", "restore"):
        assert name in helped.stdout
