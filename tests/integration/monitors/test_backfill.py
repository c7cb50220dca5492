"""Backfills of monitors over HTTP: files in the folders that an administrator declares, for two tenants."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from typer.testing import CliRunner

from calibrant.cli.main import app
from calibrant.client import Calibrant
from tests.hostile_paths import hostile_paths
from tests.integration.conftest import keyed_service
from tests.integration.responses import body_of, problem_of

WAIT = {"Prefer": "wait=600"}
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
    settings = {"CALIBRANT_SOURCES": json.dumps(declared), "OMP_NUM_THREADS": "1"}
    scopes = (("owner", "write"), ("next", "write"), ("owner", "read"))
    with keyed_service(folder / "backfills", settings, *scopes) as running:
        owner, neighbour, reader = running.clients
        yield Served(root, running.stack.url, owner, neighbour, reader, running.keys[0])


def _files(root: Path) -> None:
    """The rows in two countries, and as one file of each format."""
    columns = rows()
    for i, country in enumerate(("de", "no")):
        part = slice(ROWS // 2 * i, ROWS // 2 * (i + 1))
        folder = root / "parts" / f"country={country}"
        folder.mkdir(parents=True)
        table = pa.table({name: column[part] for name, column in columns.items()})
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
    counts_of_rows: dict[str, int] = body_of(client.get(f"/monitors/{name}"))["counts"]
    return {field: n for field, n in counts_of_rows.items() if n}


@pytest.mark.parametrize(
    "path",
    [
        "parts",
        "rows.csv",
        *(pytest.param(path, marks=pytest.mark.slow) for path in ("parts/**/*.parquet", "rows.arrow", "rows.ndjson")),
    ],
)
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


def test_late_labels_are_joined_to_other_predictions_than_those_with_their_ids(served: Served) -> None:
    name = monitor(served.owner, "late")
    predicted = {field: COLUMNS[field] for field in ("ids", "predictions", "timestamps", "groups")}
    receipt = body_of(backfill(served.owner, name, source(columns=predicted)))
    assert (receipt["accepted"], receipt["joined"]) == (ROWS, 0)
    where = [["country", "=", "no"]]
    labels = {"ids": "request", "labels": "outcome"}
    receipt = body_of(backfill(served.owner, name, source(columns=labels, where=where)))
    assert (receipt["rows"], receipt["joined"], receipt["waiting"]) == (ROWS // 2, ROWS // 2, 0)
    assert counts(served.owner, name) == {
        "predictions": ROWS,
        "labels": ROWS // 2,
        "joined": ROWS // 2,
        "pending": ROWS // 2,
    }


def test_rows_by_reference_are_measured_differently_from_those_in_a_body(served: Served) -> None:
    name = monitor(served.owner, "measured", measures=["brier"], windows=[{"name": "day", "seconds": 86400}])
    body_of(backfill(served.owner, name, source()))
    columns = rows()
    expected = np.mean((columns["score"] - columns["outcome"]) ** 2)
    body_of(served.owner.get(f"/monitors/{name}"))
    shown = body_of(served.owner.get(f"/monitors/{name}"))
    (window,) = shown["windows"]
    assert window["rows"] == ROWS
    assert abs(window["measures"]["brier"]["value"] - expected) < 1e-3  # of a tally


@pytest.mark.slow
def test_vectors_of_several_classes_are_read_from_other_columns(served: Served) -> None:
    random = np.random.default_rng(8)
    probs = random.dirichlet(np.ones(3), 11_000)
    labels = random.integers(0, 3, 11_000)
    as_columns = {f"p{k}": probs[:, k] for k in range(3)}
    flat = pa.FixedSizeListArray.from_arrays(pa.array(probs.ravel()), 3)
    ids = [f"v{i}" for i in range(11_000)]
    parquet.write_table(
        pa.table({"id": ids, "y": labels, "p": flat, **as_columns}), served.root / "vectors.parquet", row_group_size=900
    )
    name = monitor(served.owner, "vectors", n_classes=3, reduction="confidence")
    lists = {"ids": "id", "predictions": "p", "labels": "y"}
    receipt = body_of(backfill(served.owner, name, source("vectors.parquet", columns=lists)))
    assert (receipt["accepted"], receipt["refused"]) == (11_000, 0)
    several = lists | {"predictions": ["p0", "p1", "p2"]}
    receipt = body_of(backfill(served.owner, name, source("vectors.parquet", columns=several)))
    assert (receipt["duplicates"], receipt["contradicted"]) == (11_000, 0)  # the same vectors
    refused = backfill(served.owner, name, source("vectors.parquet", columns=lists | {"predictions": ["p0", "p1"]}))
    assert problem_of(refused) == (422, "wrong-shape", "/source/columns/predictions")


def test_forecasts_are_not_counted(served: Served) -> None:
    n = 300
    table = {"id": range(n), "mean": np.arange(n) / n, "variance": np.ones(n), "observed": np.arange(n) / n}
    parquet.write_table(pa.table({key: pa.array(column) for key, column in table.items()}), served.root / "f.parquet")
    fields = {"prediction_kind": "regression", "forecast": {"kind": "normal"}}
    body_of(served.owner.post("/monitors", json={"name": "forecasts", **fields}), 201)
    columns = {"ids": "id", "predictions": ["mean", "variance"], "labels": "observed"}
    receipt = body_of(backfill(served.owner, "forecasts", source("f.parquet", columns=columns)))
    assert (receipt["rows"], receipt["joined"], receipt["refused"]) == (n, n, 0)


def test_refused_rows_are_not_listed_with_their_file(served: Served) -> None:
    name = monitor(served.owner, "refusing")
    old = NOW - timedelta(days=3000)
    n = 5_200  # more than one block
    table = {
        "request": ["a", "", None, "b" * 201, "c", "d", "e", "f", *(f"x{i}" for i in range(n - 8))],
        "score": [0.5, 0.5, 0.5, 0.5, 1.5, None, float("nan"), 0.5, *([0.5] * (n - 8))],
        "outcome": [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 7.0, *([1.0] * (n - 8))],
        "at": ["2026-01-01", *([NOW.isoformat()] * 7), *([old.isoformat()] * (n - 8))],
        "country": ["de", None, "(other)", *(["de"] * (n - 3))],
    }
    parquet.write_table(pa.table(table), served.root / "refused.parquet")
    receipt = body_of(backfill(served.owner, name, source("refused.parquet")))
    assert (receipt["rows"], receipt["refused"], receipt["accepted"]) == (n, n, 0)
    listed = {row["row"]: (row["code"], row["rows"], row["file"]) for row in receipt["refusals"]}
    assert listed == {
        row: (code, times, "refused.parquet")
        for row, code, times in (
            (0, "invalid-timestamp", 1),
            (1, "missing-id", 1),
            (2, "invalid-group", 1),
            (3, "invalid-id", 1),
            (4, "out-of-range", 1),
            (5, "missing-prediction", 1),
            (6, "not-finite", 1),
            (7, "invalid-label", 1),
            (8, "too-old", n - 8),
        )
    }
    assert counts(served.owner, name) == {"refused": n}


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "arrow"])
@pytest.mark.parametrize("others", [[], [NOW.isoformat(), NOW.astimezone(timezone(timedelta(hours=2))).isoformat()]])
def test_a_text_without_an_offset_is_a_time_in_utc(served: Served, form: str, others: list[str]) -> None:
    texts = [NOW.replace(tzinfo=None).isoformat(), NOW.date().isoformat(), *others]
    n = len(texts)
    table = pa.table({"request": [f"t{i}" for i in range(n)], "score": [0.5] * n, "outcome": [1] * n, "at": texts})
    file = served.root / f"texts-{len(others)}.{form}"
    match form:
        case "csv":
            csv.write_csv(table, file)
        case "ndjson":
            file.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case "parquet":
            parquet.write_table(table, file)
        case _:
            feather.write_feather(table, file)
    name = monitor(served.owner, f"texts-{len(others)}-{form}")
    columns = {field: COLUMNS[field] for field in ("ids", "predictions", "labels", "timestamps")}
    answer = body_of(backfill(served.owner, name, source(file.name, columns=columns)))
    assert (answer["rows"], answer["accepted"]) == (n, len(others))
    assert [(row["row"], row["code"]) for row in answer["refusals"]] == [(i, "invalid-timestamp") for i in (0, 1)]


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"columns": {"predictions": "score"}}, "invalid-field", "/source/columns/ids"),
        ({"columns": {"labels": "outcome"}}, "invalid-field", "/source/columns/ids"),
        ({"columns": {"ids": "request"}}, "invalid-field", "/source/columns"),
        (
            {"columns": {"ids": "request", "labels": "outcome", "groups": "country"}},
            "invalid-field",
            "/source/columns/groups",
        ),
        ({"columns": COLUMNS | {"weights": "score"}}, "invalid-field", "/source/columns/weights"),
        ({"columns": COLUMNS | {"predictions": ["score", "score"]}}, "wrong-shape", "/source/columns/predictions"),
        ({"columns": COLUMNS | {"predictions": "absent"}}, "invalid-option", "/source/columns/predictions"),
        ({"columns": COLUMNS | {"ids": "absent"}}, "invalid-option", "/source/columns/ids"),
        ({"columns": COLUMNS | {"labels": "absent"}}, "invalid-option", "/source/columns/labels"),
        ({"columns": COLUMNS | {"timestamps": "absent"}}, "invalid-option", "/source/columns/timestamps"),
        ({"columns": COLUMNS | {"groups": "absent"}}, "invalid-option", "/source/columns/groups"),
        ({"columns": COLUMNS | {"ids": "score"}}, "invalid-field", "/source/columns/ids"),
        ({"columns": COLUMNS | {"predictions": "request"}}, "invalid-field", "/source/columns/predictions"),
        ({"columns": COLUMNS | {"labels": "request"}}, "invalid-field", "/source/columns/labels"),
        ({"columns": COLUMNS | {"timestamps": "score"}}, "invalid-field", "/source/columns/timestamps"),
        ({"columns": COLUMNS | {"groups": "score"}}, "invalid-field", "/source/columns/groups"),
        ({"where": [["score", "like", 1]]}, "invalid-option", "/source/where/0/1"),
        ({"where": [["country", "=", "fr"]]}, "empty-batch", "/source"),
        ({"path": "absent/*.parquet"}, "empty-batch", "/source"),
        ({"source": "nowhere"}, "unknown-source", "/source/source"),
        ({"url": "s3://bucket/x"}, "invalid-field", "/source/url"),
        ({"format": "pickle"}, "invalid-field", "/source/format"),
    ],
)
def test_an_invalid_reference_is_not_named(served: Served, changes: dict[str, Any], code: str, pointer: str) -> None:
    name = "invalid-references"
    if served.owner.get(f"/monitors/{name}").status_code == 404:
        monitor(served.owner, name)
    response = backfill(served.owner, name, source() | changes)
    _, problem, place = problem_of(response)
    assert (problem, place) == (code, pointer)
    assert counts(served.owner, name) == {}


def _text(content: bytes, kind: Any) -> Any:
    """A column of one text, which need not be UTF-8."""
    buffers = [None, pa.array([0, len(content)], pa.int32()).buffers()[1], pa.py_buffer(content)]
    return pa.Array.from_buffers(kind, 1, buffers)


@pytest.mark.parametrize("field", ["request", "at", "country"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_text_that_is_not_unicode_is_an_internal_error(served: Served, field: str, form: str) -> None:
    table = {"request": ["a"], "score": [0.5], "outcome": [1], "at": [NOW.isoformat()], "country": ["de"]}
    bad = pa.table(table | {field: _text(b"\xff\xfe", pa.string())})
    file = served.root / f"{field}.{form}"
    (parquet.write_table if form == "parquet" else feather.write_feather)(bad, file)
    name = monitor(served.owner, f"{field}-{form}")
    assert problem_of(backfill(served.owner, name, source(file.name)))[1] == "source-unreadable"
    assert counts(served.owner, name) == {}


def test_views_or_dictionaries_of_texts_are_read_differently(served: Served) -> None:
    texts = {"request": ["a", "b"], "at": [NOW.isoformat()] * 2, "country": ["de", None]}
    numbers = {"score": [0.5, 0.25], "outcome": [True, False]}
    name = monitor(served.owner, "texts")
    for i, kind in enumerate((pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()))):
        columns = {field: pa.array(column, pa.string()).cast(kind) for field, column in texts.items()}
        feather.write_feather(pa.table(columns | numbers), served.root / f"texts-{i}.arrow", compression="uncompressed")
        receipt = body_of(backfill(served.owner, name, source(f"texts-{i}.arrow")))
        assert (receipt["accepted"], receipt["duplicates"], receipt["refused"]) == ((0, 2, 0) if i else (2, 0, 0))


def test_a_file_with_other_types_undoes_the_files_before_it_or_is_not_named(served: Served) -> None:
    (served.root / "mixed").mkdir()
    table = {"request": ["a", "b"], "score": [0.5, 0.25], "outcome": [1, 0]}
    parquet.write_table(pa.table(table), served.root / "mixed" / "0.parquet")
    parquet.write_table(pa.table(table | {"score": ["x", "y"]}), served.root / "mixed" / "1.parquet")
    (served.root / "mixed" / "2.parquet").write_bytes(b"PAR1 not a file PAR1")
    columns = {"ids": "request", "predictions": "score", "labels": "outcome"}
    name = monitor(served.owner, "mixed")
    response = backfill(served.owner, name, source("mixed", columns=columns))
    assert problem_of(response)[1:] == ("invalid-field", "/source/columns/predictions")
    assert "mixed/1.parquet" in response.json()["detail"]
    response = backfill(served.owner, name, source("mixed/2.parquet", columns=columns))
    assert problem_of(response)[1] == "source-unreadable"
    assert counts(served.owner, name)["joined"] == 2


@pytest.mark.parametrize("path", hostile_paths()[::10], ids=ascii)
def test_a_hostile_path_is_read(served: Served, path: str) -> None:
    name = "of-hostile-paths"
    if served.neighbour.get(f"/monitors/{name}").status_code == 404:
        monitor(served.neighbour, name)
    body = json.dumps({"source": source(path)}).encode()
    response = served.neighbour.post(
        f"/monitors/{name}/backfill", content=body, headers={"Content-Type": "application/json"}
    )
    assert response.status_code in (400, 422)
    assert problem_of(response)[1] in ("refused-path", "invalid-field", "malformed-json")
    assert served.neighbour.get("/jobs").json()["items"] == []


def test_a_tenant_fills_the_monitor_or_reads_the_source_of_another(served: Served) -> None:
    mine = monitor(served.owner, "mine")
    assert problem_of(backfill(served.neighbour, mine, source()))[:2] == (404, "unknown-monitor")
    theirs = monitor(served.neighbour, "theirs")
    refused = backfill(served.neighbour, theirs, source(source="owned"))
    assert problem_of(refused) == (422, "unknown-source", "/source/source")
    assert problem_of(backfill(served.reader, mine, source()))[:2] == (403, "forbidden")
    assert body_of(backfill(served.owner, mine, source(source="owned")))["accepted"] == ROWS
    assert counts(served.neighbour, theirs) == {}


def test_a_repeated_request_makes_a_second_job(served: Served) -> None:
    name = monitor(served.owner, "repeated")
    headers = {"Idempotency-Key": "backfill-1"}
    columns = {"predictions": "score", "labels": "outcome"}  # rows without ids are counted once for each job
    for _ in range(2):
        body = {"source": source(columns=columns)}
        job = body_of(served.owner.post(f"/monitors/{name}/backfill", json=body, headers=headers), 202)
        assert job["kind"] == "backfill"
    client = Calibrant(served.url, api_key=served.key)
    with client:
        assert client.wait(job["id"]).status == "succeeded"
    assert counts(served.owner, name)["joined"] == ROWS


def test_the_client_or_the_command_lacks_backfills(served: Served) -> None:
    for name in ("by-the-client", "by-the-command"):
        monitor(served.owner, name)
    stages = []
    with Calibrant(served.url, api_key=served.key) as client:
        answer = client.backfill("by-the-client", source(), progress=lambda job: stages.append(job.progress.stage))
    assert (answer.rows, answer.joined, answer.files) == (ROWS, ROWS, 2)
    assert stages[-1] == "done"
    words = ["--source", "scores", "--id", "request", "--prediction", "score", "--label", "outcome", "--time", "at"]
    words += ["--group", "country", "--where", "country = no", "--server", served.url]
    command = ["monitors", "backfill", "by-the-command", "parts"]
    outcome = CliRunner().invoke(app, [*command, *words], env={"CALIBRANT_API_KEY": served.key})
    assert (outcome.exit_code, outcome.stdout) == (0, f"{ROWS // 2:,} accepted, {ROWS // 2:,} joined\n"), outcome.stderr
    parquet.write_table(pa.table({"id": ["a"], "p": [7.0], "y": [1]}), served.root / "command.parquet")
    words = ["--source", "scores", "--id", "id", "--prediction", "p", "--label", "y", "--server", served.url]
    outcome = CliRunner().invoke(app, [*command[:3], "command.parquet", *words], env={"CALIBRANT_API_KEY": served.key})
    assert (outcome.exit_code, outcome.stdout) == (1, "1 refused\n")
    assert "command.parquet, row 1: has a prediction outside [0, 1]" in outcome.stderr
    assert "ids: none" not in outcome.stderr
    unnamed = [word for word in words if word not in ("--id", "id")]
    outcome = CliRunner().invoke(
        app, [*command[:3], "command.parquet", *unnamed], env={"CALIBRANT_API_KEY": served.key}
    )
    assert "another backfill counts these rows again" in outcome.stderr
