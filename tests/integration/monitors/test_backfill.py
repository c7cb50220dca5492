"""Backfills of monitors over HTTP: files in the folders that an administrator declares, for two tenants."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from calibrant.client import Calibrant
from service.stack import stack
from tests.hostile_paths import hostile_paths
from tests.integration.responses import body_of, problem_of

WAIT = {"Prefer": "wait=60"}
COLUMNS = {"ids": "request", "predictions": "score", "labels": "outcome", "timestamps": "at", "groups": "country"}
ROWS = 12_000
NOW = datetime.now(UTC).replace(microsecond=0)


@dataclass
class Served:
    """A service with sources, ``scores`` of both tenants and ``owned`` of one, and a key of the other scope."""

    root: Path
    url: str
    owner: httpx.Client
    neighbour: httpx.Client
    reader: httpx.Client
    key: str


def rows() -> dict[str, Any]:
    random = np.random.default_rng(3)
    p = random.random(ROWS).round(3)
    ages = random.integers(0, 20 * 3600, ROWS)
    return {
        "request": [f"r-{i}" for i in range(ROWS)],
        "score": p,
        "outcome": (random.random(ROWS) < p).astype(np.int64),
        "at": [NOW - timedelta(seconds=int(age)) for age in ages],
    }


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    base = tmp_path_factory.mktemp("backfills")
    root = base / "root"
    _files(root)
    declared = {
        "scores": {"root": f"file://{root}"},
        "owned": {"root": f"file://{root}", "tenants": ["owner"]},
    }
    inherited = {**os.environ, "CALIBRANT_SOURCES": json.dumps(declared), "OMP_NUM_THREADS": "1"}
    with (folder / "backfills.log").open("ab") as log, contextlib.ExitStack() as opened:
        url, _ = opened.enter_context(embedded_server(folder / "backfills", log=log))
        redis = opened.enter_context(contextlib.closing(connect(url)))
        keys = [
            ApiKeyStore(redis).create(tenant, tenant=tenant, scope=scope).text
            for tenant, scope in (("owner", "write"), ("next", "write"), ("owner", "read"))
        ]
        running = opened.enter_context(
            stack(host="127.0.0.1", port=0, data=folder, log=log, redis_url=url, inherited=inherited)
        )
        clients = [
            opened.enter_context(
                httpx.Client(base_url=running.url, headers={"Authorization": f"Bearer {key}"}, timeout=90)
            )
            for key in keys
        ]
        yield Served(root, running.url, *clients, keys[0])


def _files(root: Path) -> None:
    """The rows in two countries, and as one file of each format."""
    columns = rows()
    for i, country in enumerate(("de", "no")):
        part = slice(ROWS // 2 * i, ROWS // 2 * (i + 1))
        folder = root / "parts" / f"country={country}"
        folder.mkdir(parents=True)
        table = pa.table({name: values[part] for name, values in columns.items()})
        parquet.write_table(table, folder / "part-0.parquet", row_group_size=1000)
    text = columns | {
        "at": [time.isoformat().replace("+00:00", "Z") for time in columns["at"]],
        "country": ["de"] * (ROWS // 2) + ["no"] * (ROWS // 2),
    }
    csv.write_csv(pa.table(text), root / "rows.csv")
    feather.write_feather(pa.table(text), root / "rows.arrow", compression="uncompressed", chunksize=700)
    keys = list(text)
    lines = (json.dumps(dict(zip(keys, row, strict=True)), default=float) for row in zip(*text.values(), strict=True))
    (root / "rows.ndjson").write_text("\n".join(lines) + "\n")


def monitor(client: httpx.Client, name: str, **changes: Any) -> str:
    body_of(client.post("/monitors", json={"name": name, "reduction": "binary"} | changes), 201)
    return name


def source(path: str = "parts", **changes: Any) -> dict[str, Any]:
    return {"source": "scores", "path": path, "columns": COLUMNS} | changes


def backfill(client: httpx.Client, name: str, rows: dict[str, Any]) -> httpx.Response:
    return client.post(f"/monitors/{name}/backfill", json={"source": rows}, headers=WAIT)


def counts(client: httpx.Client, name: str) -> dict[str, int]:
    found: dict[str, int] = body_of(client.get(f"/monitors/{name}"))["counts"]
    return {field: n for field, n in found.items() if n}


@pytest.mark.parametrize("path", ["parts", "parts/**/*.parquet", "rows.csv", "rows.arrow", "rows.ndjson"])
def test_a_backfill_counts_other_rows_than_those_of_its_files(served: Served, path: str) -> None:
    name = monitor(served.owner, f"of-{path.translate(str.maketrans('/*.', '---'))}")
    columns = rows()
    counted = body_of(backfill(served.owner, name, source(path)))
    assert (counted["rows"], counted["accepted"], counted["joined"]) == (ROWS, ROWS, ROWS)
    assert (counted["refused"], counted["duplicates"], counted["refusals"]) == (0, 0, [])
    assert (counted["monitor"], counted["files"]) == (name, 2 if path.startswith("parts") else 1)
    assert counts(served.owner, name) == {"predictions": ROWS, "labels": ROWS, "joined": ROWS}
    # The same rows in a body are the same rows.
    first = {"id": "r-0", "prediction": columns["score"][0], "label": int(columns["outcome"][0])}
    sent = body_of(served.owner.post(f"/monitors/{name}/rows", json={"rows": [first]}))
    assert sent["duplicates"] == 1
    again = body_of(backfill(served.owner, name, source(path)))
    assert (again["accepted"], again["duplicates"]) == (0, ROWS)
    assert counts(served.owner, name)["joined"] == ROWS


