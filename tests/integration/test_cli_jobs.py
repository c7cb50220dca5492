from __future__ import annotations

import httpx

from backend.store.keyspace import new_id
from service.stack import Stack
from tests.commands import invoked
from tests.integration.test_jobs import ENDLESS, ROWS


def test_a_job_is_watched_to_its_end_and_listed(service: Stack, http: httpx.Client) -> None:
    job = http.post("/maps", json=ROWS | {"method": "pl"}).json()["id"]
    watched = invoked(service.url, "jobs", "watch", job)
    assert (watched.exit_code, watched.stdout) == (0, f"{job} succeeded\n")
    assert "100 %" in watched.stderr
    listed = invoked(service.url, "jobs", "list", "--status", "succeeded").stdout
    assert job in listed
    assert "100 % done" in next(line for line in listed.splitlines() if job in line)
    # One that has ended long ago is watched to its end at once.
    assert invoked(service.url, "jobs", "watch", job).stdout == watched.stdout


def test_a_job_that_is_cancelled_is_no_success(service: Stack, http: httpx.Client) -> None:
    job = http.post("/maps", json=ENDLESS).json()["id"]
    assert invoked(service.url, "jobs", "cancel", job).stdout == f"{job} cancelled\n"
    watched = invoked(service.url, "jobs", "watch", job)
    assert (watched.exit_code, watched.stdout) == (1, f"{job} cancelled\n")
    assert invoked(service.url, "jobs", "delete", job).stdout == f"deleted {job}\n"
    assert invoked(service.url, "jobs", "delete", job).exit_code == 1


def test_a_refusal_of_the_server_is_one_line(service: Stack) -> None:
    unknown = invoked(service.url, "jobs", "watch", new_id("job"))
    assert unknown.exit_code == 1
    assert unknown.stderr.splitlines()[-1].startswith("calibrant: Unknown job")
    nobody = invoked(None, "jobs", "list", "--server", "http://127.0.0.1:9")
    assert nobody.exit_code == 3
    assert "cannot reach the server" in nobody.stderr
