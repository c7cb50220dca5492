"""Backups of real stores, taken while they are written, and restored through the store's own transactions."""

from __future__ import annotations

import contextlib
import io
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import orjson
import pytest
from redis import Redis
from zstandard import ZstdCompressor, ZstdDecompressor

from backend.store.api_keys import ApiKeyStore
from backend.store.backup.contents import write_backup
from backend.store.backup.file import BackupWriter, Text, new_file, read_lines
from backend.store.backup.restoring import Restored, restore, restore_job
from backend.store.batches import BatchStore
from backend.store.clock import stamp
from backend.store.errors import DamagedBackup, LaterFormat, StorageError, StoreNotEmpty
from backend.store.idempotency import Reservation, pack
from backend.store.jobs.runs import HELD_EXPIRES, part_id
from backend.store.keyspace import Shared, new_id
from backend.store.server.embedded import embedded_server
from backend.store.store import Store
from calibrant.client import Calibrant
from schemas.batches import BatchRecord
from schemas.jobs import JobRecord
from schemas.maps import FitSpec, MapRecord
from service.settings import Settings
from tests.integration.conftest import own_service, serving
from tests.integration.monitors.stored import fill_monitor
from tests.integration.stored import load_first_store

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
    arrays: dict[str, Any] = {"predictions": ROWS, "labels": (ROWS > 0.5).astype(np.int8)}
    batches.put(record, arrays, ttl=600)
    return batches.append(record.id, "part_1", record, arrays, most_rows=1000)


def _job(status: str = "queued", **changes: Any) -> JobRecord:
    spec = FitSpec(method="platt", name="m", options={}, batch="batch_x", reduction=None, seed=0).model_dump()
    fields = {"id": new_id("job"), "kind": "fit", "status": status, "created_at": stamp(), "ttl": 600, "spec": spec}
    return JobRecord.model_validate(fields | changes)


def _submit(store: Store, job: JobRecord) -> JobRecord:
    return store.jobs.submit(job)


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
    fill_monitor(store)
    held = store.idempotency.reserve("once", "fingerprint", ttl=600, lease=60)
    answer = pack(201, {"Location": f"/maps/{first.id}"}, b"{}")
    assert isinstance(held, Reservation)
    assert answer is not None
    store.idempotency.settle(held, answer, ttl=600)


def _snapshot(redis: Redis) -> dict[str, Any]:
    """Every key of the store but RQ's, what is counted and measured, and the times of changes of jobs."""
    read: dict[str, Callable[[str], Any]] = {
        "string": redis.get,
        "hash": redis.hgetall,
        "set": redis.smembers,
        # The order of jobs that wait is restored, and not the work that was done before them.
        "zset": lambda key: redis.zrange(key, 0, -1, withscores=":waiting:" not in key),
        "stream": lambda key: [fields for _, fields in cast(Any, redis.xrange(key))],
        "list": lambda key: redis.lrange(key, 0, -1),
    }
    names = {cast(bytes, key).decode() for key in redis.scan_iter("calibrant:*")}
    keys = sorted(
        names - {Shared.work(), Shared.job_counts(), Shared.busy_since(), Shared.ends("fits"), Shared.chores_due()}
    )
    # Hooks of the audit log, which are not in a backup, do not get the entries of one.
    keys = [key for key in keys if not key.endswith((":audit-order", ":audit-serial"))]
    held = {key: read[cast(bytes, redis.type(key)).decode()](key) for key in keys}
    # Generations as they follow on each other: those of a restored monitor are others.
    for key in [key for key in held if key.endswith(":generations")]:
        state = held[key.removesuffix("generations") + "state"]
        held[key] = {field: int(number) - int(state[b"generations"]) for field, number in held[key].items()}
        state[b"generations"] = b"0"
    return held


def _backup(redis: Redis, **how: Any) -> io.BytesIO:
    file = io.BytesIO()
    write_backup(redis, file, **how)
    return file


def _moved(redis: Redis, **how: Any) -> Restored:
    """Back up, empty the store, restore."""
    file = _backup(redis, **how)
    redis.flushall()
    return restore(redis, file, merge=False)


def _without_expiry(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Batches tell when they were to expire as they were stored, and when they are once no job holds them."""

    def strip(record: Any) -> Any:
        if not isinstance(record, dict) or b"record" not in record:
            return record
        held = {} if b"expires" not in record else {b"expires": None}
        return record | {b"record": orjson.loads(record[b"record"]) | {"expires_at": None}} | held

    return {key: strip(record) for key, record in snapshot.items()}


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
    counts = {
        "key": 1,
        "map": 6,
        "alias": 2,
        "batch": 2,
        "job": 4,
        "answer": 2,
        "version": 2,
        "monitor": 2,
        "audit": 17,
    }
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
    created = ApiKeyStore(redis).create("ci", tenant="solo", scope="write")
    secret = created.text.split("_", 2)[2]
    file = _backup(redis)
    assert secret.encode() not in ZstdDecompressor().stream_reader(io.BytesIO(file.getvalue())).read()
    redis.flushall()
    restore(redis, file, merge=False)
    with serving(Settings(redis_url)) as url:
        for key, status in ((created.text, 200), (f"{created.text}x", 401)):
            answer = httpx.get(f"{url}/maps", headers={"Authorization": f"Bearer {key}"}, timeout=600)
            assert answer.status_code == status


def test_a_tenant_of_which_there_is_only_a_batch_or_a_key_is_known(redis: Redis) -> None:
    _batch(Store.of(redis, "batches-only"))
    ApiKeyStore(redis).create("ci", tenant="key-only", scope="read")
    assert redis.smembers(Shared.tenants()) == {b"batches-only", b"key-only"}
    _moved(redis)
    assert redis.smembers(Shared.tenants()) == {b"batches-only", b"key-only"}


def test_a_backup_without_batches_omits_them_and_the_jobs_that_need_them(redis: Redis, store: Store) -> None:
    _fill(redis, "default")
    restored = _moved(redis, batches=False)
    assert (restored.written["batch"], restored.written["job"], restored.written["map"]) == (0, 1, 3)
    assert redis.keys("rq:*") == []
    assert [job.status for job in _jobs(store)] == ["succeeded"]


def _jobs(store: Store) -> list[JobRecord]:
    ids = [job_id.decode() for job_id in cast(list[bytes], store.redis.zrange(store.keys.jobs(), 0, -1))]
    return [JobRecord.model_validate_json(store.redis.get(store.keys.job(job_id)) or b"") for job_id in ids]


def test_a_restored_running_job_is_queued_without_its_progress(redis: Redis, store: Store) -> None:
    job = _submit(store, _job())
    ran = {"status": "running", "started_at": stamp(), "progress": {"done": 3, "total": 9, "stage": "folds"}}
    redis.set(store.keys.job(job.id), JobRecord.model_validate(job.model_dump() | ran).model_dump_json())
    _moved(redis)
    assert _jobs(store) == [job]
    assert redis.llen("rq:queue:fits") == 1
    assert redis.smembers(store.keys.unended_jobs()) == {job.id.encode()}


def test_a_job_in_parts_is_begun_again_as_a_whole(redis: Redis, store: Store) -> None:
    job = _submit(store, _job(parts=3, left=3))
    begun = job.model_copy(update={"status": "running", "started_at": stamp(), "left": 1})
    redis.set(store.keys.job(job.id), begun.model_dump_json())
    redis.delete(store.keys.job(part_id(job.id, 0)))
    file = _backup(redis)
    assert [line.kind for line in read_lines(file)] == ["job"]
    redis.flushall()
    restore(redis, file, merge=False)
    assert _jobs(store) == [job]
    assert redis.exists(*(store.keys.job(part_id(job.id, part)) for part in range(3))) == 3


def test_a_batch_that_a_job_holds_is_there_for_the_restored_job_though_its_own_time_has_passed(
    redis: Redis, store: Store
) -> None:
    batch = _batch(store)
    job = _submit(store, _job(spec=_job().spec | {"batch": batch.id}))
    redis.hset(store.keys.batch(batch.id), HELD_EXPIRES, "1000")
    _moved(redis)
    assert redis.pttl(store.keys.batch(batch.id)) == -1
    store.jobs.cancel(job.id)
    assert 0 < redis.pttl(store.keys.batch(batch.id)) <= 24 * 3_600_000


def test_a_backup_of_the_first_version_is_restored_as_todays(redis: Redis, api: httpx.Client) -> None:
    first = load_first_store(redis)
    _moved(redis)
    batches = api.get("/batches").json()["items"]
    assert {b["id"]: (b["format"], b["parts"]) for b in batches} == dict.fromkeys(first["reports"], (2, 1))
    statuses = {job["id"]: job["status"] for job in api.get("/jobs").json()["items"]}
    assert statuses == {job_id: job["status"] for job_id, job in first["jobs"].items()}
    for map_id, statuses in first["maps"].items():
        answer = api.post("/calibrate", json={"map": map_id, "predictions": statuses["predictions"]}).raise_for_status()
        assert answer.json()["predictions"] == statuses["calibrated"]
    for batch_id, report in first["reports"].items():
        answer = api.post("/evaluate", json={"batch": batch_id}).raise_for_status()
        assert answer.json()["measures"]["ece"]["value"] == pytest.approx(report["measures"]["ece"]["value"], abs=1e-12)


@pytest.mark.slow
def test_jobs_queued_by_the_first_version_run_after_a_restore(redis: Redis, folder: Path) -> None:
    first = load_first_store(redis)
    (queued,) = (job_id for job_id, record in first["jobs"].items() if record["status"] == "queued")
    file, directory = _backup(redis), folder / "restored"
    with (
        (folder / "restored.log").open("ab") as log,
        embedded_server(directory, log=log) as (url, _),
        Redis.from_url(url) as other,
    ):
        restore(other, file, merge=False)
    with own_service(directory) as running, Calibrant(running.url) as client:
        assert client.wait(queued, timeout=600).status == "succeeded"
        assert client.map("ham").version == 2


def test_a_file_that_was_cut_off_anywhere_is_refused_before_anything_is_written(redis: Redis) -> None:
    _fill(redis, "default")
    whole = _backup(redis).getvalue()
    redis.flushall()
    cuts = [*range(0, len(whole), len(whole) // 50), *range(len(whole) - 20, len(whole))]
    for cut in cuts:
        with pytest.raises(DamagedBackup):
            restore(redis, io.BytesIO(whole[:cut]), merge=False)
    assert redis.dbsize() == 0
    assert restore(redis, io.BytesIO(whole), merge=False).written["map"] == 3


def test_a_file_with_a_changed_byte_anywhere_is_refused_before_anything_is_written(redis: Redis) -> None:
    _fill(redis, "default")
    whole = _backup(redis).getvalue()
    lines = list(read_lines(io.BytesIO(whole)))
    redis.flushall()
    places = range(0, len(whole), len(whole) // 100)
    harmless = 0
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        try:
            restore(redis, io.BytesIO(damaged), merge=False)
        except DamagedBackup:
            assert redis.dbsize() == 0
        else:
            # Some bits of the compressed form, as that of its window, tell nothing of what is in it.
            harmless += 1
            assert list(read_lines(io.BytesIO(damaged))) == lines
            redis.flushall()
    assert harmless < len(places) / 20


def _packed(*lines: bytes) -> io.BytesIO:
    return io.BytesIO(ZstdCompressor().compress(b"".join(line + b"\n" for line in lines)))


@pytest.mark.parametrize(
    "foreign",
    [
        io.BytesIO(b""),
        io.BytesIO(b"REDIS0011\xfa\tredis-ver"),
        _packed(b"a text"),
        _packed(b'{"kind": "another"}', b'{"kind": "end"}'),
        _packed(b'{"kind": "calibrant-backup", "format": 1, "version": "1", "created_at": "now"}', b"x" * 100),
        _packed(b"x" * 10_000),
    ],
)
def test_a_file_that_is_no_backup_is_refused(redis: Redis, foreign: io.BytesIO) -> None:
    with pytest.raises(DamagedBackup):
        restore(redis, foreign, merge=False)
    assert redis.dbsize() == 0


@pytest.mark.slow
def test_a_line_without_end_is_not_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.store.backup.file._LONGEST_LINE", 1 << 20)
    header = b'{"kind": "calibrant-backup", "format": 1, "version": "1", "created_at": "now"}'
    endless = _packed(header, b" " * (1 << 28))
    tracemalloc.start()
    try:
        with pytest.raises(DamagedBackup, match="invalid line"):
            list(read_lines(endless))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


def test_two_backups_in_one_file_are_refused(redis: Redis) -> None:
    whole = _backup(redis).getvalue()
    with pytest.raises(DamagedBackup, match="do not match the last line"):
        list(read_lines(io.BytesIO(whole + whole)))


def test_a_backup_of_a_later_format_is_refused(redis: Redis) -> None:
    later = _packed(b'{"kind": "calibrant-backup", "format": 2, "version": "9", "created_at": "now"}')
    with pytest.raises(LaterFormat, match="format 2"):
        restore(redis, later, merge=False)


@pytest.mark.parametrize(
    ("kind", "record", "error"),
    [
        ("map", _map(version=1, format=2).model_dump(), LaterFormat),
        ("map", {"format": 2, "of": "the future"}, LaterFormat),
        ("map", {"format": 1}, StorageError),
        ("job", _job(format=9).model_dump(), LaterFormat),
        ("batch", {"format": 3}, LaterFormat),
    ],
)
def test_an_unreadable_document_is_refused_before_anything_is_written(
    redis: Redis, kind: str, record: dict[str, Any], error: type[StorageError]
) -> None:
    file = io.BytesIO()
    writer = BackupWriter(file)
    life = {"life": None} if kind in ("job", "batch") else {}
    for stored in (_map(version=1).model_dump(), record):
        named = kind if stored is record else "map"
        line = {"kind": named, "tenant": "default", "record": stored, **(life if stored is record else {})}
        writer.add(Text(named, orjson.dumps(line)))
    writer.end()
    with pytest.raises(error):
        restore(redis, file, merge=False)
    assert redis.dbsize() == 0


def test_a_stored_document_of_a_later_format_is_a_problem_over_http(
    redis: Redis, store: Store, api: httpx.Client
) -> None:
    stored = store.maps.put(_map())
    redis.set(store.keys.map(stored.id), stored.model_copy(update={"format": 2}).model_dump_json())
    answer = api.get(f"/maps/{stored.id}")
    assert (answer.status_code, answer.json()["type"]) == (503, "/problems/later-format")
    assert answer.headers["Retry-After"] == "30"


@pytest.mark.parametrize("fill", ["map", "batch", "job", "key", "answer", "version"])
def test_a_store_that_holds_anything_is_refused(redis: Redis, store: Store, fill: str) -> None:
    file = _backup(redis)
    fills: dict[str, Callable[[], Any]] = {
        "map": lambda: store.maps.put(_map()),
        "batch": lambda: _batch(store),
        "job": lambda: _submit(store, _job()),
        "key": lambda: ApiKeyStore(redis).create("ci", tenant="t", scope="read"),
        "answer": lambda: store.idempotency.reserve("once", "f", ttl=60, lease=60),
        "version": lambda: store.maps.delete(store.maps.put(_map()).id),
    }
    fills[fill]()
    with pytest.raises(StoreNotEmpty):
        restore(redis, file, merge=False)


def test_unrelated_keys_do_not_make_a_store_count_as_filled(redis: Redis) -> None:
    redis.set("another-program:map:1", "1")
    restore(redis, _backup(redis), merge=False)


def test_a_merge_changes_nothing_that_is_there(redis: Redis, store: Store) -> None:
    _fill(redis, "default")
    file = _backup(redis)
    before = _snapshot(redis)
    again = restore(redis, file, merge=True)
    assert _snapshot(redis) == before
    assert (+again.written, again.left["map"], again.left["job"]) == ({}, 3, 2)

    redis.flushall()
    other = store.maps.put(_map())
    store.aliases.point("m", "champion", 1, who=None, check=lambda _: None)
    merged = restore(redis, file, merge=True)
    assert (merged.written["map"], merged.left["map"], merged.left["alias"]) == (2, 1, 1)
    assert (store.maps.get("m:1"), store.maps.get("m@champion")) == (other, other)
    assert store.maps.get("m:2").version == 2
    assert store.maps.put(_map()).version == 4


def test_an_alias_is_left_out_where_its_version_is_another_map(redis: Redis, store: Store) -> None:
    store.maps.put(_map())
    store.aliases.point("m", "champion", 1, who=None, check=lambda _: None)
    file = _backup(redis)
    redis.flushall()
    store.maps.put(_map())
    assert restore(redis, file, merge=True).left == {"map": 1, "alias": 1, "version": 1}
    assert store.aliases.all("m") == []


def test_an_interrupted_restore_is_completed_by_a_merge(redis: Redis, store: Store) -> None:
    _fill(redis, "default")
    before, file = _snapshot(redis), _backup(redis)
    redis.flushall()
    pieces = [line for line in read_lines(file) if line.kind == "piece"]
    store.batches.arrive(pieces[0].batch, "left over", b"x", first=True)
    restore(redis, file, merge=True)
    leases = {key for key in before if ":idempotency-lease:" in key}
    assert _without_expiry(_snapshot(redis)) == _without_expiry({k: v for k, v in before.items() if k not in leases})


@pytest.mark.slow
def test_a_backup_under_writes_holds_what_was_there_and_nothing_by_half(redis: Redis, store: Store) -> None:
    there = [store.maps.put(_map(f"old-{i % 20}")) for i in range(200)]
    done, enough = threading.Event(), threading.Event()

    def write() -> None:
        """Aliases move on to new versions, and what they left is deleted; jobs come with their batches."""
        mine = Store.of(redis)
        version = 0
        while not done.is_set():
            version = mine.maps.put(_map("moving")).version or 0
            mine.aliases.point("moving", "champion", version, who=None, check=lambda _: None)
            if version > 1:
                mine.maps.delete(mine.maps.resolve(f"moving:{version - 1}"))
            batch = _batch(mine, chunk_bytes=10_000)
            _submit(mine, _job(spec=_job().spec | {"batch": batch.id}))
            if version == 3:
                enough.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert enough.wait(600)
        files = [_backup(redis) for _ in range(3)]
    finally:
        done.set()
        writer.join()
    for file in files:
        redis.flushall()
        restored = restore(redis, file, merge=False)
        assert {m.id for m in there} <= {m.decode() for m in cast(list[bytes], redis.zrange(store.keys.maps(), 0, -1))}
        assert restored.left["alias"] == 0
        champion = store.maps.get("moving@champion")
        assert (store.maps.put(_map("moving")).version or 0) > (champion.version or 0)
        for job in _jobs(store):
            assert store.batches.arrays(job.spec["batch"])[1]["predictions"].tolist() == [*ROWS, *ROWS]


@pytest.mark.slow
def test_a_large_store_is_never_in_memory_as_a_whole(redis: Redis, store: Store) -> None:
    document = DOCUMENT | {"diagnostics": {"text": "0123456789abcdef" * 16_384}}
    for _ in range(240):
        store.maps.put(_map(document=document))
    restore_job(store, _job("succeeded", result={"report": "x" * 3_000_000}, finished_at=stamp()), life=90_000)
    file = io.BytesIO()
    tracemalloc.start()
    try:
        write_backup(redis, file)
        _, backing_up = tracemalloc.get_traced_memory()
        redis.flushall()
        tracemalloc.reset_peak()
        assert restore(redis, file, merge=False).written["map"] == 240
        _, restoring = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(backing_up, restoring) < 30e6, (backing_up, restoring)  # the maps alone are 63 MB


def test_a_file_is_its_owners_alone_and_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    with new_file(path, force=False) as file:
        file.write(b"first")
        assert not path.exists()
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"first", 0o600)
    with pytest.raises(FileExistsError), new_file(path, force=False):
        pass
    with contextlib.suppress(ZeroDivisionError), new_file(path, force=True) as file:
        file.write(b"second")
        raise ZeroDivisionError
    assert path.read_bytes() == b"first"
    with new_file(path, force=True) as file:
        file.write(b"third")
    assert path.read_bytes() == b"third"
    assert [p.name for p in tmp_path.iterdir()] == ["backup"]
