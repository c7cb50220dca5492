"""Real supervisors, workers and work-horses, and what becomes of jobs when they are killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from backend.store.clock import stamp
from backend.store.jobs.leases import LOST_SECONDS, announce, read_leases, read_supervisors
from backend.store.jobs.queues import FITS, GPU_FITS
from backend.store.keyspace import new_id
from backend.store.processes import spawn, stop
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from benchmarks.chaos.proc import children
from schemas.audit import AuditFact
from schemas.batches import BatchRecord
from schemas.jobs import JobRecord, JobsQuery, WorkersRecord
from schemas.maps import FitSpec
from service.paging import page_request
from service.settings import Settings
from tests.integration.conftest import serving
from tests.known import known
from tests.store_folder import store_folder
from tests.warm_service import start


@contextlib.contextmanager
def supervisor(
    redis_url: str, log: Path, *flags: str, start: Callable[..., subprocess.Popen[bytes]] = start
) -> Iterator[subprocess.Popen[bytes]]:
    """``calibrant worker``, until the end of the block."""
    environment = os.environ | {"CALIBRANT_REDIS_URL": redis_url, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as lines:
        process = start([sys.executable, "-m", "calibrant", "worker", *flags], environment=environment, log=lines)
        try:
            yield process
        finally:
            stop(process, patience=20)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "worker.log"


def until(redis: Redis, what: Callable[[], Any], seconds: float = 600.0) -> Any:
    """The first value of ``what`` that is true; looks whenever a command of nothing is over."""
    deadline = time.monotonic() + seconds
    while not (outcome := what()):
        assert time.monotonic() < deadline, "it did not come to be"
        redis.blpop("nothing", timeout=0.02)
    return outcome


def horses(pid: int) -> list[int]:
    return [horse for worker in children(pid) for horse in children(worker)]


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def endless(store: Store, **changes: Any) -> JobRecord:
    """A job that would take minutes."""
    random = np.random.default_rng(0)
    p = random.random(10_000)
    batch = BatchRecord(
        id=new_id("batch"),
        n=len(p),
        n_classes=None,
        scale="probability",
        weights_kind="frequency",
        arrays=["predictions", "labels"],
        created_at=stamp(),
        expires_at=stamp(after=600),
        clipped=0,
        renormalised=0,
    )
    store.batches.put(batch, {"predictions": p, "labels": (random.random(len(p)) < p).astype(np.int64)}, ttl=600)
    long = {"method": "pl-de", "options": {"max_segments": 20, "folds": 100}}
    asked: dict[str, Any] = {"options": {}, **(changes.pop("spec", None) or long)}
    spec = FitSpec(name=None, batch=batch.id, reduction=None, seed=0, **asked)
    fields = {
        "id": new_id("job"),
        "kind": "fit",
        "status": "queued",
        "created_at": stamp(),
        "ttl": 60,
        "spec": spec.model_dump(),
    }
    return store.jobs.submit(JobRecord.model_validate(fields | changes))


def runs(store: Store, job: JobRecord, run: int) -> bool:
    stored = store.jobs.get(job.id)
    return stored.status == "running" and stored.run == run


@pytest.mark.slow
def test_a_job_whose_work_horse_is_killed_is_run_again(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    job = endless(store)
    with supervisor(redis_url, log) as process:
        until(redis, lambda: runs(store, job, 1))
        os.kill(until(redis, lambda: horses(process.pid))[0], signal.SIGKILL)
        until(redis, lambda: runs(store, job, 2))
        stored = store.jobs.get(job.id)
        assert (stored.losses, stored.kills) == (1, 1)
        store.jobs.cancel(job.id)


@pytest.mark.slow
def test_a_job_that_kills_its_workers_fails(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    job = endless(store)
    with supervisor(redis_url, log) as process:
        for run in (1, 2, 3):
            until(redis, lambda run=run: runs(store, job, run))  # type: ignore[misc]
            os.kill(until(redis, lambda: horses(process.pid))[0], signal.SIGKILL)
        until(redis, lambda: store.jobs.get(job.id).status == "failed")
        problem = known(store.jobs.get(job.id).problem)
        assert problem.type == "/problems/worker-lost"
        assert read_leases(redis) == {}


def test_a_job_whose_worker_is_killed_is_run_by_the_next(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    job = endless(store)
    with supervisor(redis_url, log) as process:
        until(redis, lambda: runs(store, job, 1))
        (worker,) = children(process.pid)
        (horse,) = until(redis, lambda: children(worker))
        os.kill(worker, signal.SIGKILL)
        until(redis, lambda: runs(store, job, 2))
        until(redis, lambda: ended(horse))
        assert children(process.pid) != [worker]
        store.jobs.cancel(job.id)


@pytest.mark.slow
def test_a_worker_keeps_as_many_entries_of_the_audit_log_as_its_supervisor_says(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    with redis.pipeline() as pipe:
        store.audit.add(pipe, *(AuditFact(action="key-created") for _ in range(150)))
        pipe.execute()
    job = endless(store, spec={"method": "identity"})
    with supervisor(redis_url, log, "--audit-entries", "100"):
        until(redis, lambda: store.jobs.get(job.id).status == "succeeded")
    assert redis.zcard(store.keys.audit()) == 100


def is_healthy(redis_url: str) -> bool:
    environment = os.environ | {"CALIBRANT_REDIS_URL": redis_url}
    return subprocess.run([sys.executable, "-m", "workers.alive"], env=environment, check=False).returncode == 0


@pytest.mark.slow
def test_workers_that_cannot_start_log_why_and_are_unhealthy(
    redis: Redis, redis_url: str, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "torch.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(broken))
    with supervisor(redis_url, log, "--device", "cuda", start=spawn):
        until(redis, lambda: "supervisor: unhealthy, because workers cannot start" in log.read_text())
        assert not is_healthy(redis_url)
        assert read_supervisors(redis) == []
    text = log.read_text()
    assert "in _warm_up" in text
    assert "libcudart.so.12: cannot open shared object file" in text


@pytest.mark.slow
def test_jobs_that_kill_their_worker_do_not_make_it_unhealthy(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    with supervisor(redis_url, log, "--warm") as process:
        for _ in range(6):
            job = endless(store)
            until(redis, lambda job=job: runs(store, job, 1))  # type: ignore[misc]
            store.jobs.cancel(job.id)
            os.kill(children(process.pid)[0], signal.SIGKILL)
        last = endless(store)
        until(redis, lambda: runs(store, last, 1))
        assert is_healthy(redis_url)
        store.jobs.cancel(last.id)
    assert "supervisor: unhealthy" not in log.read_text()


@pytest.mark.slow
def test_a_supervisor_that_is_killed_takes_all_with_it_and_another_goes_on(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    job = endless(store)
    with supervisor(redis_url, log) as first:
        until(redis, lambda: runs(store, job, 1))
        until(redis, lambda: horses(first.pid))
        with supervisor(redis_url, log) as second:
            until(redis, lambda: len(children(second.pid)) == 1)
            lost = [*children(first.pid), *horses(first.pid)]
            first.kill()
            until(redis, lambda: runs(store, job, 2))
            assert all(map(ended, lost))
            until(redis, lambda: horses(second.pid))
            store.jobs.cancel(job.id)


@pytest.mark.slow
@pytest.mark.parametrize("listens", [True, False])
def test_a_running_job_that_is_cancelled_stops(
    store: Store, redis: Redis, redis_url: str, log: Path, listens: bool
) -> None:
    job, follower = endless(store), endless(store)
    with supervisor(redis_url, log) as process:
        until(redis, lambda: runs(store, job, 1))
        (worker,) = children(process.pid)
        if not listens:
            redis.client_kill_filter(_type="pubsub")
        store.jobs.cancel(job.id)
        # Its worker has nothing else to do once the next one runs.
        until(redis, lambda: runs(store, follower, 1))
        assert [lease.job_id for lease in read_leases(redis)] == [follower.id]
        assert children(process.pid) == [worker]
        store.jobs.cancel(follower.id)
    assert store.jobs.get(job.id).status == "cancelled"


@pytest.mark.slow
def test_jobs_that_are_cancelled_as_they_begin_cost_the_next_no_run(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    jobs = [endless(store, spec={"method": "platt"} if i % 2 else {}) for i in range(20)]
    with supervisor(redis_url, log) as process:
        for job in jobs[::2]:
            until(redis, lambda job=job: store.jobs.get(job.id).status == "running")  # type: ignore[misc]
            store.jobs.cancel(job.id)
        until(redis, lambda: all(store.jobs.get(job.id).status == "succeeded" for job in jobs[1::2]))
        assert {store.jobs.get(job.id).losses for job in jobs} == {0}
        assert len(children(process.pid)) == 1
    assert read_leases(redis) == {}


@pytest.mark.slow
def test_a_worker_of_one_queue_leaves_nothing_beside_it(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    job = endless(store, spec={"method": "platt"})
    with supervisor(redis_url, log, "--queues", "fits"):
        until(redis, lambda: store.jobs.get(job.id).status == "succeeded")
    assert redis.keys("rq:queue:*") == redis.keys("rq:job:*") == redis.keys("rq:wip:*") == []


@pytest.mark.slow
def test_a_work_horse_does_one_job_after_another(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    jobs = [endless(store, spec={"method": "platt"}) for _ in range(3)]
    with supervisor(redis_url, log) as process:
        until(redis, lambda: all(store.jobs.get(job.id).status == "succeeded" for job in jobs))
        (horse,) = horses(process.pid)
        # One that ends while it has nothing to do is followed by another.
        os.kill(horse, signal.SIGKILL)
        until(redis, lambda: ended(horse))
        last = endless(store, spec={"method": "platt"})
        until(redis, lambda: store.jobs.get(last.id).status == "succeeded")
        assert store.jobs.get(last.id).losses == 0
        assert horses(process.pid) != [horse]


@pytest.mark.slow
def test_a_job_that_takes_too_long_ends_with_its_problem(store: Store, redis: Redis, redis_url: str, log: Path) -> None:
    job = endless(store, timeout=1)
    with supervisor(redis_url, log):
        until(redis, lambda: store.jobs.get(job.id).status == "failed")
    stored = store.jobs.get(job.id)
    assert known(stored.problem).type == "/problems/time-limit"
    assert (stored.losses, stored.run) == (0, 1)


@pytest.mark.slow
def test_a_stopping_supervisor_returns_its_job_to_the_queue(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    job = endless(store)
    with supervisor(redis_url, log, "--drain-seconds", "0.3") as process:
        until(redis, lambda: runs(store, job, 1))
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0
    stored = store.jobs.get(job.id)
    assert (stored.status, stored.losses) == ("queued", 0)
    assert read_supervisors(redis) == []
    with supervisor(redis_url, log):
        until(redis, lambda: runs(store, job, 2))
        store.jobs.cancel(job.id)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Redis that a test may pause."""
    with (
        store_folder() as folder,
        (tmp_path / "redis.log").open("ab") as lines,
        embedded_server(folder, log=lines) as running,
    ):
        yield running


@pytest.mark.slow
def test_a_store_that_pauses_costs_no_job_a_run(own: tuple[str, subprocess.Popen[bytes]], log: Path) -> None:
    url, server = own
    with contextlib.closing(connect(url, timeout=600)) as redis, supervisor(url, log) as process:
        store = Store.of(redis)
        job = endless(store)
        until(redis, lambda: runs(store, job, 1))
        (horse,) = until(redis, lambda: horses(process.pid))
        done = until(redis, lambda: store.jobs.get(job.id).progress.done)
        server.send_signal(signal.SIGSTOP)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(3 * LOST_SECONDS)
        server.send_signal(signal.SIGCONT)
        until(redis, lambda: store.jobs.get(job.id).progress.done > done)
        assert (store.jobs.get(job.id).losses, horses(process.pid)) == (0, [horse])
        store.jobs.cancel(job.id)
        until(redis, lambda: ended(horse))


@pytest.mark.slow
def test_a_worker_without_forks_stops_what_is_cancelled_and_works_on(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    cancelled, late, follower = endless(store), endless(store, timeout=1), endless(store)
    with supervisor(redis_url, log, "--warm") as process:
        until(redis, lambda: runs(store, cancelled, 1))
        assert horses(process.pid) == []
        store.jobs.cancel(cancelled.id)
        until(redis, lambda: runs(store, late, 1))
        until(redis, lambda: store.jobs.get(late.id).status == "failed")
        until(redis, lambda: runs(store, follower, 1))
        os.kill(children(process.pid)[0], signal.SIGKILL)
        until(redis, lambda: runs(store, follower, 2))
        store.jobs.cancel(follower.id)
    assert store.jobs.get(cancelled.id).status == "cancelled"
    assert store.jobs.get(late.id).losses == 0


@pytest.mark.slow
def test_a_fit_that_is_worth_a_gpu_goes_where_one_is_alive_and_no_other_does(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    rows = {"predictions": [0.1, 0.4, 0.6, 0.9] * 20, "labels": [0, 1, 0, 1] * 20}

    def queue_of(api: httpx.Client, method: str) -> str:
        answer = api.post("/maps", json=rows | {"method": method}, headers={"Prefer": "respond-async"})
        return store.jobs.get(answer.json()["id"]).queue

    with serving(Settings(redis_url, gpu_seconds=0.01)) as url, httpx.Client(base_url=url, timeout=600) as api:
        assert queue_of(api, "pl") == FITS
        # Which queues a worker takes says what it is: here there is no GPU to have.
        with supervisor(redis_url, log, "--queues", "fits-gpu"):
            until(redis, lambda: read_supervisors(redis))
            assert queue_of(api, "pl") == GPU_FITS
            assert queue_of(api, "platt") == FITS
            until(redis, lambda: any(job.queue == GPU_FITS and job.status == "succeeded" for job in _jobs(store)))
        assert queue_of(api, "pl") == FITS
    with serving(Settings(redis_url)) as url, httpx.Client(base_url=url, timeout=600) as api:
        announce(redis, WorkersRecord(id="a", host="h", pid=1, device="cuda", queues=[GPU_FITS], processes=1))
        assert queue_of(api, "pl") == FITS  # too small


def _jobs(store: Store) -> Sequence[JobRecord]:
    return store.jobs.page(page_request(JobsQuery(limit=100)), lambda _: True).items


@pytest.mark.slow
def test_a_supervisor_keeps_the_configured_number_of_workers(
    store: Store, redis: Redis, redis_url: str, log: Path
) -> None:
    jobs = [endless(store) for _ in range(3)]
    with supervisor(redis_url, log, "--processes", "3") as process:
        until(redis, lambda: all(runs(store, job, 1) for job in jobs))
        until(redis, lambda: len(horses(process.pid)) == 3)
        (state,) = read_supervisors(redis)
        assert (state.processes, state.pid, state.queues) == (3, process.pid, ["fits", "evaluations"])
        for job in jobs:
            store.jobs.cancel(job.id)


@pytest.mark.slow
def test_a_tenant_with_more_long_fits_than_workers_leaves_one_to_others(
    redis: Redis, redis_url: str, log: Path
) -> None:
    for tenant in ("greedy", "other"):
        ApiKeyStore(redis).create(tenant, tenant=tenant, scope="write")
    greedy, other = Store.of(redis, "greedy"), Store.of(redis, "other")
    jobs = [endless(greedy, seconds=100.0) for _ in range(4)]

    def running() -> list[JobRecord]:
        return [job for job in map(greedy.jobs.get, [job.id for job in jobs]) if job.status == "running"]

    def run_short() -> None:
        short = endless(other, spec={"method": "platt"}, seconds=0.1)
        until(redis, lambda: other.jobs.get(short.id).status == "succeeded")

    with supervisor(redis_url, log, "--processes", "2") as process:
        until(redis, running)
        for _ in range(3):
            run_short()
            assert len(running()) == 1
        # Workers that were killed do not count.
        for worker in children(process.pid):
            os.kill(worker, signal.SIGKILL)
        until(redis, lambda: any(greedy.jobs.get(job.id).losses for job in jobs))
        until(redis, running)
        run_short()
        assert len(running()) == 1
        for job in jobs:
            greedy.jobs.cancel(job.id)
        until(redis, lambda: not read_leases(redis))
