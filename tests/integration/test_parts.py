"""Jobs in parts: one job for its callers, many for the workers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import httpx
import pytest
from redis import Redis

import calibrant
from backend.store.clock import stamp
from backend.store.errors import RunLost, UnknownJob
from backend.store.jobs import runs
from backend.store.jobs.leases import read_leases
from backend.store.jobs.queues import FITS, Message, TenantLine, rq_queue
from backend.store.jobs.recovery import Recovery
from backend.store.jobs.runs import MOST_KILLS, Run, part_id
from backend.store.keyspace import Keyspace, Shared, new_id
from backend.store.store import Store
from benchmarks.chaos.proc import children
from schemas.jobs import JobRecord, JobsQuery, Progress
from schemas.problems import Problem
from service.paging import page_request
from tests.integration.test_workers import supervisor, until
from tests.known import known
from tests.rows import draw_classes

K = 6


def _job(store: Store, parts: int = 3) -> JobRecord:
    job = JobRecord(
        id=new_id("job"),
        kind="fit",
        status="queued",
        created_at=stamp(),
        ttl=60,
        spec={},
        parts=parts,
        left=parts,
    )
    return store.jobs.submit(job)


def _claim(store: Store, job: JobRecord, part: int, run: int = 1) -> Run:
    return known(store.runs.claim(Message("default", part_id(job.id, part), run), f"worker-{part}", FITS))


def _keys(redis: Redis, pattern: str) -> list[str]:
    return [key.decode() for key in cast(list[bytes], redis.keys(pattern))]


def _left_over(redis: Redis) -> set[str]:
    """What is in the store of jobs that have ended, beside their records, events and counts."""
    kinds = ("part-results", "part-progress", "waiting", "taken", "unended-jobs")
    of_jobs = {key for key in _keys(redis, "calibrant:*") if key.split(":")[2] in kinds}
    shared = {key for key in (Shared.leases(), Shared.delayed(), Shared.fronts()) if redis.exists(key)}
    parts = set(_keys(redis, "calibrant:*:job:*-p*"))
    return of_jobs | shared | parts


def test_every_part_is_claimed_by_itself_and_the_last_one_queues_the_join(store: Store, redis: Redis) -> None:
    job = _job(store)
    assert [record.id for record in store.jobs.page(page_request(JobsQuery()), lambda _: True).items] == [job.id]
    parts = [_claim(store, job, part) for part in range(3)]
    assert store.jobs.get(job.id).status == "running"
    assert rq_queue(redis, FITS).get_job_ids() == []
    for part in (2, 0):
        parts[part].succeed({"part": part})
    assert store.jobs.get(job.id).left == 1
    parts[1].report(Progress(done=1, total=2, stage="folds"))
    parts[1].succeed({"part": 1})
    assert rq_queue(redis, FITS).get_job_ids() == [f"{part_id(job.id, 3)}-1"]
    join = _claim(store, job, 3)
    assert join.results() == [{"part": 0}, {"part": 1}, {"part": 2}]
    join.succeed({"map": "map_x"})
    ended = store.jobs.get(job.id)
    assert (ended.status, ended.result, ended.left) == ("succeeded", {"map": "map_x"}, 0)
    assert _left_over(redis) == set()


def test_a_part_is_nobodys_job(store: Store) -> None:
    job = _job(store)
    with pytest.raises(UnknownJob):
        store.jobs.get(part_id(job.id, 0))
    with pytest.raises(UnknownJob):
        store.jobs.cancel(part_id(job.id, 0))


def test_progress_is_one_and_never_falls(store: Store, redis: Redis) -> None:
    job = _job(store)
    parts = [_claim(store, job, part) for part in range(3)]
    seen = []
    for done in (1, 3, 5, 9):
        for part in parts:
            redis.delete(Keyspace().part_gate(job.id))
            part.report(Progress(done=done, total=10, stage="folds"))
            seen.append(store.jobs.get(job.id).progress.done)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] < 1000
    parts[0].lose()
    redis.delete(Keyspace().part_gate(job.id))
    _claim(store, job, 0, 2).report(Progress(done=0, total=10, stage="folds"))
    assert store.jobs.get(job.id).progress.done == seen[-1]


def test_progress_of_concurrent_parts_is_published_once_per_interval(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_GATE_MS", 600_000)  # a busy machine may need longer than the usual interval
    job = _job(store, 4)
    parts = [_claim(store, job, part) for part in range(4)]
    before = len(store.jobs.events(job.id, None))
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda part: part.report(Progress(done=1, total=2, stage="folds")), parts))
    assert len(store.jobs.events(job.id, None)) == before + 1


def test_a_part_that_is_lost_is_run_again_and_the_others_go_on(store: Store, redis: Redis) -> None:
    job = _job(store)
    first, second = _claim(store, job, 0), _claim(store, job, 1)
    first.lose(killed=True)
    assert store.jobs.get(job.id).status == "running"
    second.succeed({"part": 1})
    with pytest.raises(RunLost):
        first.succeed({"part": "late"})
    _claim(store, job, 0, 2).succeed({"part": 0})
    _claim(store, job, 2).succeed({"part": 2})
    join = _claim(store, job, 3)
    join.release()
    assert _claim(store, job, 3, 2).results()[0] == {"part": 0}


def test_a_problem_of_one_part_ends_the_job_and_takes_the_others_away(store: Store, redis: Redis) -> None:
    job = _job(store)
    first, second = _claim(store, job, 0), _claim(store, job, 1)
    first.fail(Problem(type="/problems/one-class", title="x", status=422, detail="class 0"))
    assert store.jobs.get(job.id).status == "failed"
    with pytest.raises(RunLost):
        second.report(Progress(done=1, total=2))
    with pytest.raises(RunLost):
        second.succeed({"part": 1})
    assert store.runs.claim(Message("default", part_id(job.id, 2), 1), "late", FITS) is None
    assert _left_over(redis) == set()


def test_a_part_that_kills_its_workers_ends_the_job(store: Store, redis: Redis) -> None:
    job = _job(store)
    for run in range(1, MOST_KILLS + 1):
        if redis.zcard(Shared.delayed()):
            redis.zadd(Shared.delayed(), {f"default:{part_id(job.id, 0)}": 0.0})
        Recovery(redis).look()
        _claim(store, job, 0, run).lose(killed=True)
    assert store.jobs.get(job.id).status == "failed"
    assert _left_over(redis) == set()


@pytest.mark.parametrize("begun", [0, 1, 3])
def test_a_job_that_is_cancelled_leaves_no_part(store: Store, redis: Redis, begun: int) -> None:
    job = _job(store)
    parts = [_claim(store, job, part) for part in range(begun)]
    assert store.jobs.cancel(job.id).status == "cancelled"
    assert rq_queue(redis, FITS).get_job_ids() == []
    assert read_leases(redis) == {}
    for part in parts:
        with pytest.raises(RunLost):
            part.succeed({})
    assert _left_over(redis) == set()


def test_parts_that_nobody_knows_of_are_found(store: Store, redis: Redis) -> None:
    job = _job(store)
    _claim(store, job, 0)
    redis.delete(f"rq:queue:{FITS}", Keyspace().taken(FITS), Keyspace().line(FITS), Shared.leases())
    Recovery(redis).look()
    messages = {name for part, run in ((0, 2), (1, 1), (2, 1)) for name in [f"{part_id(job.id, part)}-{run}"]}
    assert set(TenantLine(redis, Keyspace(), FITS).messages()) == messages


@pytest.mark.slow
def test_a_fit_of_every_class_by_many_workers_is_the_fit_of_one_process(
    api: httpx.Client, store: Store, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    p, y = draw_classes(20_000, K)
    body = {"predictions": p.tolist(), "labels": y.tolist(), "method": "pl", "reduction": "classwise", "seed": 3}
    job = api.post("/maps", json=body).json()
    assert store.jobs.get(job["id"]).parts > 1
    with supervisor(redis_url, tmp_path / "worker.log", "--processes", "2") as process:
        until(redis, lambda: len(children(process.pid)) == 2)
        until(redis, lambda: store.jobs.get(job["id"]).status == "succeeded")
    ended = api.get(f"/jobs/{job['id']}").json()
    assert ended["progress"] == {"done": 1000, "total": 1000, "stage": "done"}
    record = api.get(f"/maps/{ended['result']['map']}").json()
    alone = calibrant.fit("pl", p, y, reduction="classwise", seed=3)
    assert record["document"] == alone.to_document()
    owners = (tmp_path / "worker.log").read_text().count("task")
    assert owners >= store.jobs.get(job["id"]).parts + 1
    assert _left_over(redis) == set()
