"""What an ended job has left of its data set is removed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from redis import Redis

from backend.references import discard
from backend.store.chores import Chore
from backend.store.keyspace import Keyspace, Shared
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.responses import body_of


def test_files_of_a_job_that_ended_without_success_stay_or_those_of_a_running_one_go(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = json.dumps({"local": {"root": f"file://{tmp_path}", "write": True}})
    monkeypatch.setenv("CALIBRANT_SOURCES", sources)
    with serving_client(Settings(redis_url, sources=sources)) as http:
        rows = {"predictions": [0.1, 0.4, 0.6, 0.9] * 25, "labels": [0, 1, 0, 1] * 25}
        fitted = body_of(http.post("/maps", json=rows | {"method": "platt"}), 201)["id"]
        source = {"source": "local", "path": "rows/*.parquet", "columns": {"predictions": "p"}}
        body = {"map": fitted, "source": source, "target": {"source": "local", "path": "scored"}}
        job = body_of(http.post("/datasets", json=body), 202)["id"]
        staged = tmp_path / f".calibrant-{job}"
        staged.mkdir()
        (staged / "part-00000.parquet").write_bytes(b"PAR1")
        chore, place = Chore("discard", "default", job), Keyspace().job_target(job)
        redis.set(place, json.dumps(body["target"]))  # as when it begins
        assert discard(redis, chore) == 60.0
        assert staged.exists()
        body_of(http.post(f"/jobs/{job}/cancel"), 200)
        other = body_of(http.post("/datasets", json=body), 202)["id"]
        key = Shared.target(hashlib.sha256(f"file://{tmp_path}/scored".encode()).hexdigest())
        for holder in (f"default:{other}", f"default:{other}:discarding"):  # whose files have the same names
            redis.set(key, holder)
            assert discard(redis, chore) == 60.0
            assert staged.exists()
            assert redis.get(key) == holder.encode()
        body_of(http.post(f"/jobs/{other}/cancel"), 200)
        redis.set(key, f"default:{other}")
        assert discard(redis, chore) == 60.0
        assert not staged.exists()
        assert not redis.exists(key)
        assert discard(redis, chore) is None
        assert not redis.exists(place)
        redis.set(place, json.dumps(body["target"]))
        staged.mkdir()
        assert http.delete(f"/jobs/{job}").status_code == 204
        assert discard(redis, chore) == 60.0
        assert not staged.exists()
        assert discard(redis, Chore("discard", "default", "job_" + "0" * 24)) is None
        redis.set(place, json.dumps(body["target"]))
        monkeypatch.setenv("CALIBRANT_SOURCES", "{}")
        assert discard(redis, chore) is None
    assert not redis.exists(key)
