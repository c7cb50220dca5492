from __future__ import annotations

import os
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.kinds.classes import map_record
from backend.store.batches import BatchStore
from backend.store.clock import stamp
from backend.store.errors import EmbeddedStoreFailed, RunLost, UnknownBatch, UnknownJob, UnknownMap, UnsuitableStore
from backend.store.jobs.queues import FITS, rq_queue
from backend.store.keyspace import Keyspace, new_id
from backend.store.processes import stop
from backend.store.registry.listing import MAX_SCANNED
from backend.store.server.connection import check_durability, safe_url
from backend.store.server.embedded import embedded_server, locked
from backend.store.store import Store
from calibrant.core.batch import read_batch
from schemas.batches import BatchRecord, UploadRecord
from schemas.jobs import FINAL, JobRecord, Progress
from schemas.listing import MapQuery
from schemas.maps import FitSpec, MapRecord
from schemas.problem_table import TABLE
from schemas.problems import Problem
from tests.integration.conftest import claimed, job_record
from tests.warm_service import start
from workers.alive import alive

SPEC = FitSpec(method="platt", name="m", options={}, batch="batch_x", reduction=None, seed=0)


def _batch_record(**changes: Any) -> BatchRecord:
    fields: dict[str, Any] = {
        "id": new_id("batch"),
        "n": 4,
        "n_classes": None,
        "scale": "probability",
        "weights_kind": "frequency",
        "arrays": ["predictions"],
        "clipped": 0,
        "renormalised": 0,
        "created_at": stamp(),
        "expires_at": stamp(after=60),
    }
    return BatchRecord(**fields | changes)


def _draft(map_id: str | None = None, name: str | None = "m") -> MapRecord:
    batch = read_batch([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    fitted = calibrant.fit("platt", batch.predictions.given, batch.labels)
    return map_record(map_id or new_id("map"), SPEC.model_copy(update={"name": name}), fitted, batch)


def _job(**changes: Any) -> JobRecord:
    return job_record(**{"spec": SPEC.model_dump()} | changes)


def test_arrays_come_back_as_they_went_in_even_in_chunks(redis: Redis) -> None:
    batches = BatchStore(redis, Keyspace(), chunk_bytes=1000)
    arrays: dict[str, Any] = {
        "predictions": np.random.default_rng(0).random((300, 3)).astype(np.float32),
        "labels": np.arange(300),
        "groups": np.array(["a", "longer name"] * 150),
    }
    record = batches.put(_batch_record(), arrays, ttl=60)
    back, read = batches.arrays(record.id)
    assert back == record
    assert batches.record(record.id).model_copy(update={"expires_at": record.expires_at}) == record
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_a_large_batch_blocks_no_other_client_and_leaves_no_keys(redis: Redis) -> None:
    batches, record, chunk = BatchStore(redis, Keyspace(), chunk_bytes=1000), _batch_record(), 1000
    arrays = {"predictions": np.random.default_rng(0).random(1500), "labels": np.arange(1500)}
    with cast(Any, redis).monitor() as monitor:
        batches.put(record, arrays, ttl=60)
        redis.echo("written")
        sizes = [0]
        while (said := monitor.next_command()["command"]) != "ECHO written":
            if said == "MULTI":
                sizes.append(0)
            sizes[-1] += _sent_bytes(said)
    assert sum(sizes) > 24 * chunk
    assert max(sizes) < 3 * chunk
    assert batches.put(record, {"predictions": np.ones(2000)}, ttl=60).id == record.id
    np.testing.assert_array_equal(batches.arrays(record.id)[1]["predictions"], arrays["predictions"])
    assert redis.keys("*arriving*") == []
    assert 0 < int(redis.ttl(Keyspace().batch(record.id))) <= 60


def _sent_bytes(command: str) -> int:
    """The bytes of a command as the monitor shows it: those that are no text as four characters."""
    return len(re.sub(r"\\x[0-9a-f]{2}", "_", command))


def test_data_kept_for_a_file_are_deleted_with_its_batch(redis: Redis, store: Store) -> None:
    record, keys = _batch_record(), store.keys
    store.batches.put(record, {"predictions": np.zeros(4)}, ttl=60)
    keys_of_batch = (keys.upload(record.id), keys.report_jobs(record.id))
    store.uploads.put(record.id, UploadRecord(file="secret.csv"), ttl=600)
    store.uploads.remember_report(record.id, "job_1", [], ttl=600)
    assert all(0 < int(redis.ttl(key)) <= 60 for key in keys_of_batch)
    store.batches.delete(record.id)
    assert redis.exists(*keys_of_batch) == 0
    store.uploads.put(record.id, UploadRecord(file="secret.csv"), ttl=600)
    store.uploads.remember_report(record.id, "job_1", [], ttl=600)
    assert redis.exists(*keys_of_batch) == 0


def test_reports_that_are_remembered_at_once_are_all_found(store: Store) -> None:
    record, n = _batch_record(), 24
    store.batches.put(record, {"predictions": np.zeros(4)}, ttl=60)
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(
            lambda k: store.uploads.remember_report(record.id, f"job_{k}", [f"map_{k}"], ttl=60), range(n)
        ):
            pass
    assert [store.uploads.report_job(record.id, [f"map_{k}"]) for k in range(n)] == [f"job_{k}" for k in range(n)]
    assert store.uploads.report_job(record.id, []) is None
    assert store.uploads.get(record.id) == UploadRecord()


def test_batches_expire_and_can_be_kept_and_deleted(redis: Redis, store: Store) -> None:
    record = _batch_record()
    store.batches.put(record, {"predictions": np.zeros(4)}, ttl=60)
    key = Keyspace().batch(record.id)
    assert 0 < int(redis.ttl(key)) <= 60
    store.batches.keep(record.id, 600)
    store.batches.keep(record.id, 10)
    assert 500 < int(redis.ttl(key)) <= 600
    store.batches.delete(record.id)
    with pytest.raises(UnknownBatch):
        store.batches.arrays(record.id)
    with pytest.raises(UnknownBatch):
        store.batches.delete(record.id)


def test_versions_of_a_name_count_up_and_the_name_means_the_newest(store: Store) -> None:
    first, second = store.maps.put(_draft()), store.maps.put(_draft())
    unnamed = store.maps.put(_draft(name=None))
    assert (first.version, second.version, unnamed.version) == (1, 2, None)
    assert store.maps.get("m").id == second.id
    assert store.maps.get("m:1") == first
    assert store.maps.get(unnamed.id) == unnamed
    for unknown in ("n", "m:3", "m:x", new_id("map"), "map_", ":", "m:1:1"):
        with pytest.raises(UnknownMap):
            store.maps.get(unknown)


def test_maps_stored_before_there_were_summaries_are_listed_and_found(redis: Redis, store: Store) -> None:
    old, new = store.maps.put(_draft()), store.maps.put(_draft(name="n"))
    redis.hdel(Keyspace().summaries(), old.id)
    for index in ("name:m", "method:platt"):
        redis.zrem(Keyspace().index(index), old.id)
    assert {listed.id for listed in store.listing.page(MapQuery()).items} == {old.id, new.id}
    assert [listed.id for listed in store.listing.page(MapQuery(name="m")).items] == [old.id]
    assert len(store.listing.page(MapQuery(method="platt")).items) == 2


@pytest.mark.slow
def test_a_page_that_has_looked_through_enough_is_short_and_names_the_next(redis: Redis, store: Store) -> None:
    for i in range(3):
        store.maps.put(_draft().model_copy(update={"tags": {"a": str(i)}}))
    asked = MapQuery(tag=["a", "a=0"])
    for i in range(MAX_SCANNED):  # ids of maps that are gone, as a reader may meet them
        for key in (Keyspace().maps(), Keyspace().index("tag:a"), Keyspace().index("tag:a=0")):
            redis.zadd(key, {f"map_{i}": 1e10 + i})
    page = store.listing.page(asked)
    assert (page.items, page.next is None) == ([], False)
    rest = store.listing.page(asked.model_copy(update={"cursor": page.next}))
    assert ([listed.tags for listed in rest.items], rest.next) == ([{"a": "0"}], None)


def test_versions_given_at_once_are_all_different(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        versions = list(threads.map(lambda _: store.maps.put(_draft()).version, range(24)))
    assert sorted(versions, key=str) == sorted(range(1, 25), key=str)


def test_a_job_whose_result_is_written_twice_makes_one_map(store: Store) -> None:
    run = claimed(store, store.jobs.submit(_job()).id)
    draft = _draft("map_of_the_job")
    for _ in range(2):
        assert store.maps.put(draft, run=run).version == 1
    assert store.maps.get("m").version == 1
    assert store.jobs.get(run.job.id).status == "succeeded"


def test_a_final_job_does_not_change_any_more(store: Store) -> None:
    run = claimed(store, store.jobs.submit(_job()).id)
    run.report(Progress(done=1, total=2, stage="folds"))
    run.fail(Problem(type="/problems/x", title="x", status=422, detail="x"))
    ended = store.jobs.get(run.job.id)
    assert (ended.status, ended.progress.done) == ("failed", 1)
    with pytest.raises(RunLost):
        run.report(Progress(done=2, total=2))
    run.succeed({"map": "map_x"})
    assert store.jobs.get(run.job.id) == ended


def test_a_failed_job_stays_failed_and_gets_no_map(store: Store) -> None:
    run = claimed(store, store.jobs.submit(_job()).id)
    run.fail(Problem(type="/problems/x", title="x", status=500, detail="x"))
    with pytest.raises(RunLost):
        store.maps.put(_draft("map_late"), run=run)
    with pytest.raises(UnknownMap):
        store.maps.get("map_late")
    assert store.jobs.get(run.job.id).status == "failed"


def test_a_worker_process_does_a_job_and_is_seen_alive(store: Store, redis: Redis, redis_url: str) -> None:
    assert not alive(redis_url, socket.gethostname())
    random = np.random.default_rng(0)
    p = random.random(60)
    arrays = {"predictions": p, "labels": (random.random(60) < p).astype(np.int64)}
    batch = _batch_record(n=60)
    store.batches.put(batch, arrays, ttl=60)
    good = _job(spec=SPEC.model_copy(update={"method": "pl", "batch": batch.id}).model_dump())
    gone = _job(spec=SPEC.model_copy(update={"batch": "batch_gone"}).model_dump())
    bare = _batch_record(n=60)
    store.batches.put(bare, {"predictions": p}, ttl=60)
    unlabelled = _job(spec=SPEC.model_copy(update={"batch": bare.id}).model_dump())
    for job in (good, gone, unlabelled):
        store.jobs.submit(job)
    worker = start(
        [sys.executable, "-m", "calibrant", "worker"], environment=os.environ | {"CALIBRANT_REDIS_URL": redis_url}
    )
    try:
        deadline = time.monotonic() + 120
        while not all(store.jobs.get(job.id).status in FINAL for job in (good, gone, unlabelled)):
            assert time.monotonic() < deadline
            redis.blpop("nothing", timeout=0.05)
        assert alive(redis_url, socket.gethostname())
    finally:
        stop(worker, patience=20)
    done, failed, refused = (store.jobs.get(job.id) for job in (good, gone, unlabelled))
    assert done.result == {"map": good.id.replace("job_", "map_")}
    assert store.maps.get("m").id == good.id.replace("job_", "map_")
    for ended, status, code in ((failed, 422, "unknown-batch-reference"), (refused, 422, "no-labels")):
        problem = ended.problem
        assert problem is not None
        assert (problem.status, problem.type, problem.title) == (status, f"/problems/{code}", TABLE[code].title)
        assert problem.errors[0].pointer == "/batch"
    assert not alive(redis_url, socket.gethostname())


def test_an_unknown_job_is_an_error(store: Store) -> None:
    with pytest.raises(UnknownJob):
        store.jobs.get(new_id("job"))


def test_no_other_function_than_a_task_can_be_run(redis: Redis) -> None:
    queue = rq_queue(redis, FITS)
    job = queue.enqueue_call("os.system", args=["true"])
    with pytest.raises(PermissionError):
        job.perform()


def test_a_tenant_sees_nothing_of_another(redis: Redis, store: Store) -> None:
    stored = store.maps.put(_draft())
    other = Store.of(redis, "other")
    with pytest.raises(UnknownMap):
        other.maps.get(stored.id)
    with pytest.raises(UnknownMap):
        other.maps.get("m")


def test_a_redis_that_evicts_is_refused(redis: Redis) -> None:
    check_durability(redis)
    redis.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(UnsuitableStore):
            check_durability(redis)
    finally:
        redis.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize(
    ("setting", "changed", "original", "message"),
    [
        ("appendonly", "no", "yes", "acknowledged data is lost when Redis stops; set appendonly yes"),
        ("appendfsync", "everysec", "always", "about the last second of the acknowledged data is lost"),
        ("appendfsync", "no", "always", "the part that the system has not written yet of the acknowledged data"),
    ],
)
def test_a_redis_that_could_lose_what_it_acknowledged_is_warned_of_in_one_line(
    redis: Redis, caplog: pytest.LogCaptureFixture, setting: str, changed: str, original: str, message: str
) -> None:
    check_durability(redis)
    assert caplog.messages == []
    redis.config_set(setting, changed)
    try:
        check_durability(redis)
    finally:
        redis.config_set(setting, original)
    (line,) = caplog.messages
    assert message in line


def test_the_embedded_store_keeps_what_it_acknowledged_when_killed(folder: Path) -> None:
    directory = folder / "killed"
    with (folder / "killed.log").open("ab") as log:
        with embedded_server(directory, log=log) as (url, process):
            stored = Store.of(Redis.from_url(url)).maps.put(_draft())
            process.kill()
            process.wait()
        with embedded_server(directory, log=log) as (url, _):
            assert Store.of(Redis.from_url(url)).maps.get("m") == stored
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_data_folder_that_cannot_be_made_is_named(folder: Path) -> None:
    (folder / "notes.txt").touch()
    for path, reason in ((folder / "notes.txt", "it is a file"), (folder / "notes.txt" / "data", "Not a directory")):
        with pytest.raises(EmbeddedStoreFailed, match=f"^cannot make the data folder {path}: {reason}$"), locked(path):
            pass


def test_a_folder_with_other_files_is_no_data_folder_and_keeps_its_mode(folder: Path) -> None:
    (folder / "home").mkdir(mode=0o755)
    (folder / "home" / "notes.txt").touch()
    with (
        pytest.raises(EmbeddedStoreFailed, match="has other files; name a new or empty folder"),
        locked(folder / "home"),
    ):
        pass
    assert (folder / "home").stat().st_mode & 0o777 == 0o755
    (folder / "volume" / "lost+found").mkdir(parents=True)
    with locked(folder / "volume"):
        assert (folder / "volume").stat().st_mode & 0o777 == 0o700


def test_a_data_folder_serves_one_at_a_time(folder: Path) -> None:
    with locked(folder / "once"), pytest.raises(EmbeddedStoreFailed), locked(folder / "once"):
        pass


def test_urls_are_logged_without_their_password() -> None:
    assert safe_url("redis://user:secret@host:6379/0") == "redis://host:6379/0"
    assert safe_url("unix:///run/redis.sock?password=secret") == "unix:///run/redis.sock"
