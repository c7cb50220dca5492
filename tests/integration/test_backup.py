"""Backups of real stores, taken while they are written, and restored through the store's own transactions."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import pytest
from redis import Redis
from zstandard import ZstdDecompressor

from cli.stack import stack
from schemas.batches import BatchRecord
from schemas.jobs import JobRecord
from schemas.maps import FitSpec, MapRecord
from service.settings import Settings
from storage.api_keys import ApiKeyStore
from storage.backup.contents import write_backup
from storage.backup.restoring import Restored, restore, restore_job
from storage.batches import BatchStore
from storage.clock import stamp
from storage.embedded import embedded_server
from storage.idempotency import Reservation, pack
from storage.keyspace import Shared, new_id
from storage.store import Store
from tests.integration.conftest import serving
from tests.integration.first_version import load_first_store

DOCUMENT = {
    "format": 1, "method": "platt", "family": "platt", "reduction": "binary", "scale": "probability",
    "n_classes": None, "parameters": {"slope": 0.1 + 0.2, "intercept": -1 / 3}, "diagnostics": {},
}  # fmt: skip
ROWS = np.linspace(0.01, 0.99, 50)


def _map(name: str | None = "m", **changes: Any) -> MapRecord:
    fields: dict[str, Any] = {
        "id": new_id("map"), "name": name, "version": None, "method": "platt", "options": {}, "reduction": "binary",
        "scale": "probability", "n_classes": None, "n": 50, "seed": 0, "created_at": stamp(), "document": DOCUMENT,
    }  # fmt: skip
    return MapRecord(**(fields | changes))


def _batch(store: Store, *, chunk_bytes: int = 100) -> BatchRecord:
    """A batch of two parts in many chunks."""
    batches = BatchStore(store.redis, store.keys, chunk_bytes=chunk_bytes)
    record = BatchRecord(
        id=new_id("batch"), n=50, n_classes=None, scale="probability", weights_kind="frequency",
        arrays=["predictions", "labels"], label_counts=[25, 25], clipped=0, renormalised=0,
        created_at=stamp(), expires_at=stamp(),
    )  # fmt: skip
    arrays = {"predictions": ROWS, "labels": (ROWS > 0.5).astype(np.int8)}
    batches.put(record, arrays, ttl=600)
    return batches.append(record.id, "part_1", record, arrays, most_rows=1000)


def _job(status: str = "queued", **changes: Any) -> JobRecord:
    spec = FitSpec(method="platt", name="m", options={}, batch="batch_x", reduction=None, seed=0).model_dump()
    fields = {"id": new_id("job"), "kind": "fit", "status": status, "created_at": stamp(), "ttl": 600, "spec": spec}
    return JobRecord.model_validate(fields | changes)


def _submit(store: Store, job: JobRecord) -> JobRecord:
    return store.jobs.submit(job, timeout=60)


def _fill(redis: Redis, tenant: str) -> None:
    """A little of everything."""
    store = Store.of(redis, tenant)
    first = store.maps.put(_map(tags={"stage": "live"}, description="the first", created_by="ci"))
    store.maps.put(_map())
    store.maps.delete(store.maps.put(_map()).id)
    store.maps.put(_map(None, imported=True, n=None, seed=None))
    for version in (2, 1):
        store.aliases.point("m", "champion", version, who="ci", check=lambda _: None)
    batch = _batch(store)
    done = {"result": {"map": first.id}, "started_at": stamp(), "finished_at": stamp()}
    restore_job(store, _job("succeeded", **done), life=90_000)
    _submit(store, _job(spec=_job().spec | {"batch": batch.id}))
    held = store.idempotency.reserve("once", "fingerprint", ttl=600, lease=60)
    answer = pack(201, {"Location": f"/maps/{first.id}"}, b"{}")
    assert isinstance(held, Reservation)
    assert answer is not None
    store.idempotency.settle(held, answer, ttl=600)


def _snapshot(redis: Redis) -> dict[str, Any]:
    """Every key of the store but RQ's, what is counted, and the times of changes of jobs."""
    read: dict[str, Callable[[str], Any]] = {
        "string": redis.get,
        "hash": redis.hgetall,
        "set": redis.smembers,
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=True),
        "stream": lambda key: [fields for _, fields in redis.xrange(key)],
        "list": lambda key: redis.lrange(key, 0, -1),
    }
    keys = sorted(key.decode() for key in redis.scan_iter("calibrant:*") if key.decode() != Shared.job_counts())
    return {key: read[redis.type(key).decode()](key) for key in keys}


def _backup(redis: Redis, **how: Any) -> io.BytesIO:
    out = io.BytesIO()
    write_backup(redis, out, **how)
    return out


def _moved(redis: Redis, **how: Any) -> Restored:
    """Back up, empty the store, restore."""
    file = _backup(redis, **how)
    redis.flushall()
    return restore(redis, file, merge=False)


def _without_expiry(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Records of batches tell when they were to expire as they were stored."""

    def strip(value: Any) -> Any:
        if not isinstance(value, dict) or b"record" not in value:
            return value
        return value | {b"record": orjson.loads(value[b"record"]) | {"expires_at": None}}

    return {key: strip(value) for key, value in snapshot.items()}


def test_everything_comes_back_as_it_was(redis: Redis) -> None:
    for tenant in ("default", "other-1"):
        _fill(redis, tenant)
    ApiKeyStore(redis).create("ci", tenant="third", scope="read")
    before = _snapshot(redis)
    lives = {key: redis.pttl(key) for key in before}
    restored = _moved(redis)
    leases = {key for key in before if ":idempotency-lease:" in key}
    after = _snapshot(redis)
    assert _without_expiry(after) == _without_expiry({k: v for k, v in before.items() if k not in leases})
    assert {key: redis.pttl(key) for key in after} == {key: pytest.approx(lives[key], abs=10_000) for key in after}
    counts = {"key": 1, "map": 6, "alias": 2, "batch": 2, "job": 4, "answer": 2, "version": 2}
    assert (restored.written, restored.left) == (counts, {})
    assert redis.llen("rq:queue:fits") == 2


def test_version_numbers_are_not_given_again_and_aliases_move_on(redis: Redis, store: Store) -> None:
    _fill(redis, "default")
    _moved(redis)
    assert store.maps.versions("m") == [1, 2]
    assert store.maps.put(_map()).version == 4  # 3 was deleted
    moved = store.aliases.point("m", "champion", 4, who=None, check=lambda _: None)
    assert moved.revision == 3
    assert store.maps.get("m@champion").version == 4


def test_restored_maps_apply_bit_for_bit_and_are_found_by_all_that_they_were_listed_by(
    redis: Redis, api: httpx.Client
) -> None:
    rows = {"predictions": ROWS.tolist(), "labels": [int(p > 0.4) for p in ROWS]}
    for method in ("platt", "isotonic", "beta", "venn-abers"):
        api.post("/maps", json={"method": method, "name": method, "tags": {"t": method}, **rows}).raise_for_status()
    asked = {"predictions": np.random.default_rng(1).uniform(size=200).tolist()}
    before = [api.post("/calibrate", json={"map": m["id"], **asked}).content for m in api.get("/maps").json()["items"]]
    listed = api.get("/maps").json()
    _moved(redis)
    assert api.get("/maps").json() == listed
    after = [api.post("/calibrate", json={"map": m["id"], **asked}).content for m in listed["items"]]
    assert after == before
    assert [m["name"] for m in api.get("/maps", params={"tag": "t=beta", "method": "beta"}).json()["items"]] == ["beta"]


def test_a_key_is_taken_after_a_restore_and_its_secret_stands_nowhere(redis: Redis, redis_url: str) -> None:
    made = ApiKeyStore(redis).create("ci", tenant="solo", scope="write")
    secret = made.text.rpartition("_")[2]
    file = _backup(redis)
    assert secret.encode() not in ZstdDecompressor().stream_reader(io.BytesIO(file.getvalue())).read()
    redis.flushall()
    restore(redis, file, merge=False)
    with serving(Settings(redis_url)) as url:
        assert httpx.get(f"{url}/maps", headers={"Authorization": f"Bearer {made.text}"}).status_code == 200
        assert httpx.get(f"{url}/maps", headers={"Authorization": f"Bearer {made.text}x"}).status_code == 401


def test_a_tenant_of_which_there_is_only_a_batch_or_a_key_is_known(redis: Redis) -> None:
    _batch(Store.of(redis, "batches-only"))
    ApiKeyStore(redis).create("ci", tenant="key-only", scope="read")
    assert redis.smembers(Shared.tenants()) == {b"batches-only", b"key-only"}
    _moved(redis)
    assert redis.smembers(Shared.tenants()) == {b"batches-only", b"key-only"}


def test_without_batches_neither_they_nor_the_jobs_that_need_them_are_told(redis: Redis, store: Store) -> None:
    _fill(redis, "default")
    restored = _moved(redis, batches=False)
    assert (restored.written["batch"], restored.written["job"], restored.written["map"]) == (0, 1, 3)
    assert redis.keys("rq:*") == []
    assert [job.status for job in _jobs(store)] == ["succeeded"]


def _jobs(store: Store) -> list[JobRecord]:
    ids = [job_id.decode() for job_id in store.redis.zrange(store.keys.jobs(), 0, -1)]
    return [JobRecord.model_validate_json(store.redis.get(store.keys.job(job_id)) or b"") for job_id in ids]


def test_a_job_that_ran_is_queued_again_without_what_its_run_had_told(redis: Redis, store: Store) -> None:
    job = _submit(store, _job())
    ran = {"status": "running", "started_at": stamp(), "progress": {"done": 3, "total": 9, "stage": "folds"}}
    redis.set(store.keys.job(job.id), JobRecord.model_validate(job.model_dump() | ran).model_dump_json())
    _moved(redis)
    assert _jobs(store) == [job]
    assert redis.llen("rq:queue:fits") == 1
    assert redis.smembers(store.keys.unended_jobs()) == {job.id.encode()}


def test_a_backup_of_the_first_version_is_restored_as_todays(redis: Redis, api: httpx.Client) -> None:
    first = load_first_store(redis)
    _moved(redis)
    assert {b["id"]: (b["format"], b["parts"]) for b in api.get("/batches").json()["items"]} == dict.fromkeys(
        first["reports"], (2, 1)
    )
    assert {job["id"]: job["status"] for job in api.get("/jobs").json()["items"]} == {
        job_id: told["status"] for job_id, told in first["jobs"].items()
    }
    for map_id, told in first["maps"].items():
        answer = api.post("/calibrate", json={"map": map_id, "predictions": told["predictions"]}).raise_for_status()
        assert answer.json()["predictions"] == told["calibrated"]
    for batch_id, report in first["reports"].items():
        answer = api.post("/evaluate", json={"batch": batch_id}).raise_for_status()
        assert answer.json()["measures"]["ece"]["value"] == pytest.approx(report["measures"]["ece"]["value"], abs=1e-12)


def test_what_the_first_version_had_queued_is_done_after_a_restore(redis: Redis, folder: Path) -> None:
    first = load_first_store(redis)
    (queued,) = (job_id for job_id, told in first["jobs"].items() if told["status"] == "queued")
    file, data = _backup(redis), folder / "restored"
    with (folder / "restored.log").open("ab") as log:
        with embedded_server(data, log=log) as (url, _), Redis.from_url(url) as other:
            restore(other, file, merge=False)
        with stack(host="127.0.0.1", port=0, data=data, log=log) as running:
            answer = httpx.get(f"{running.url}/jobs/{queued}", headers={"Prefer": "wait=30"}, timeout=60)
            assert answer.json()["status"] == "succeeded"
            assert httpx.get(f"{running.url}/maps/ham").json()["version"] == 2
