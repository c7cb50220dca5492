"""Batch scoring whose workers are killed: every row is written once, and no partial data set is visible."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from redis import Redis

from backend.store.chores import Chore
from backend.store.keyspace import Shared
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.responses import body_of
from tests.integration.test_workers import horses, supervisor, until

FILES, ROWS, JOBS = 12, 200_000, 4
#: Complete staged files at which a process is killed; a third kill would end the job.
KILLED_AT = (3, 7)


def _staged(root: Path, job: str) -> int:
    return len(list((root / f".calibrant-{job}").glob("part-*.json")))


@pytest.mark.slow
def test_no_rows_are_lost_or_doubled_when_workers_are_killed_while_they_score(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "rows").mkdir(parents=True)
    for i in range(FILES):
        ids = np.arange(i * ROWS, (i + 1) * ROWS)
        parquet.write_table(pa.table({"id": ids, "p": (ids % 997) / 997}), root / "rows" / f"{i:02}.parquet")
    sources = json.dumps({"local": {"root": f"file://{root}", "write": True}})
    monkeypatch.setenv("CALIBRANT_SOURCES", sources)
    kills = 0
    with (
        serving_client(Settings(redis_url, sources=sources)) as http,
        supervisor(redis_url, tmp_path / "worker.log") as process,
    ):
        rows: dict[str, Any] = {"predictions": [0.1, 0.4, 0.6, 0.9] * 25, "labels": [0, 1, 0, 1] * 25}
        fitted = body_of(http.post("/maps", json=rows | {"method": "isotonic"}), 201)["id"]
        source = {"source": "local", "path": "rows/*.parquet", "columns": {"predictions": "p"}}
        for number in range(JOBS):
            target = root / f"scored-{number}"
            body = {"map": fitted, "source": source, "target": {"source": "local", "path": target.name}}
            job = body_of(http.post("/datasets", json=body), 202)["id"]
            for at in KILLED_AT:
                until(redis, lambda at=at, job=job: _staged(root, job) >= at)  # type: ignore[misc]
                assert not target.exists()
                os.kill(until(redis, lambda: horses(process.pid))[0], signal.SIGKILL)
                kills += 1
            until(redis, lambda job=job: http.get(f"/jobs/{job}").json()["status"] == "succeeded")  # type: ignore[misc]
            table = parquet.read_table(target)
            assert np.array_equal(table["id"].to_numpy(), np.arange(FILES * ROWS))
            manifest = json.loads((target / "_manifest.json").read_text())
            assert (manifest["rows"], manifest["files"]) == (FILES * ROWS, FILES)
            assert not (root / f".calibrant-{job}").exists()
        # A job whose worker was killed three times ends, and what it has staged is removed.
        body = {"map": fitted, "source": source, "target": {"source": "local", "path": "never"}}
        job = body_of(http.post("/datasets", json=body), 202)["id"]
        for at in (1, 3, 5):
            until(redis, lambda at=at: _staged(root, job) >= at)  # type: ignore[misc]
            os.kill(until(redis, lambda: horses(process.pid))[0], signal.SIGKILL)
        until(redis, lambda: http.get(f"/jobs/{job}").json()["status"] == "failed")
        assert _staged(root, job)
        chore = Chore("discard", "default", job).field
        redis.zadd(Shared.chores_due(), {chore: 1.0}, xx=True)  # now, and not a minute later
        until(redis, lambda: not (root / f".calibrant-{job}").exists())
        assert not (root / "never").exists()
    assert kills == JOBS * len(KILLED_AT)
