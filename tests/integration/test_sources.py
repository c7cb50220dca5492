"""Rows by reference over HTTP: files in the folders that an administrator declares, for two tenants."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from pyarrow import parquet

import calibrant
from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from calibrant.client import Calibrant
from schemas.sources import read_declarations
from tests.hostile_paths import hostile_paths
from tests.integration.conftest import patient
from tests.integration.responses import body_of, problem_of
from tests.warm_service import stack

COLUMNS = {"predictions": "score", "labels": "outcome"}
WAIT = {"Prefer": "wait=600"}
#: In a file beside the root; no answer may depend on it.
SECRET = 0.123456789


@dataclass
class Served:
    """A service with sources: ``scores`` of both tenants, and one of each alone."""

    root: Path
    owner: httpx.Client
    neighbour: httpx.Client
    key: str
    p: Any
    y: Any


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    base = tmp_path_factory.mktemp("sources")
    root, p, y = base / "root", *_files(base)
    declared = {
        "scores": {"root": f"file://{root}", "write": True},
        "readable": {"root": f"file://{root}"},
        "owned": {"root": f"file://{root}", "write": True, "tenants": ["owner"]},
    }
    inherited = patient() | {"CALIBRANT_SOURCES": json.dumps(declared), "OMP_NUM_THREADS": "1"}
    with (folder / "sources.log").open("ab") as log, contextlib.ExitStack() as opened:
        url, _ = opened.enter_context(embedded_server(folder / "sources", log=log))
        redis = opened.enter_context(contextlib.closing(connect(url)))
        keys = [ApiKeyStore(redis).create(tenant, tenant=tenant, scope="write").text for tenant in ("owner", "next")]
        running = opened.enter_context(
            stack(host="127.0.0.1", port=0, data=folder, log=log, redis_url=url, inherited=inherited)
        )
        clients = [
            opened.enter_context(
                httpx.Client(base_url=running.url, headers={"Authorization": f"Bearer {key}"}, timeout=600)
            )
            for key in keys
        ]
        yield Served(root, clients[0], clients[1], keys[0], p, y)


def _files(base: Path) -> tuple[Any, Any]:
    """Two countries below the root, with links out of it, and a file beside it."""
    random = np.random.default_rng(5)
    p = random.random(600).round(3)
    y = (random.random(600) < p**1.3).astype(np.int64)
    for i, country in enumerate(("de", "no")):
        part = slice(300 * i, 300 * (i + 1))
        folder = base / "root" / "2026-11" / f"country={country}"
        folder.mkdir(parents=True)
        rows = {"id": np.arange(600)[part], "score": p[part], "outcome": y[part], "segment": ["a", "b", "c"] * 100}
        parquet.write_table(pa.table(rows), folder / "part-0.parquet", row_group_size=100)
    parquet.write_table(pa.table({"score": [SECRET] * 4, "outcome": [0, 1] * 2}), base / "secret.parquet")
    links = base / "root" / "links"
    links.mkdir()
    (links / "secret.parquet").symlink_to(base / "secret.parquet")
    (base / "root" / "outside").symlink_to(base)
    return p, y


def _source(path: str = "2026-11/**/*.parquet", source: str = "scores", **changes: Any) -> dict[str, Any]:
    return {"source": source, "path": path, "columns": COLUMNS} | changes


def _evaluated(client: httpx.Client, source: dict[str, Any], **options: Any) -> httpx.Response:
    return client.post("/evaluate", json={"source": source, **options}, headers=WAIT)


def test_an_evaluation_by_reference_differs_from_that_of_the_same_rows_in_a_body(served: Served) -> None:
    options: dict[str, Any] = {"measures": ["ece", "brier", "auroc", "ks"], "interval": 0.9, "resamples": 100}
    by_reference = body_of(_evaluated(served.owner, _source(), **options))
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist()}
    in_a_body = body_of(served.owner.post("/evaluate", json=rows | options, headers=WAIT))
    basis = by_reference.pop("basis")
    assert by_reference == in_a_body
    assert (basis["form"], basis["rows"], basis["files"], basis["tolerance"]) == ("rows", 600, 2, None)


@pytest.mark.slow
def test_conditions_and_groups_select_other_rows_than_those_of_the_files(served: Served) -> None:
    where = [["country", "=", "no"], ["score", "<", 0.5]]
    columns = COLUMNS | {"groups": "segment"}
    found = body_of(_evaluated(served.owner, _source(where=where, columns=columns), measures=["brier"]))
    there = served.p[300:] < 0.5
    assert found["n"] == int(there.sum())
    assert_allclose(
        found["measures"]["brier"]["value"], np.mean((served.p[300:][there] - served.y[300:][there]) ** 2), rtol=1e-12
    )
    assert set(found["groups"]) == {"a", "b", "c"}


def test_a_fit_by_reference_differs_from_that_of_the_same_rows_in_a_body(served: Served) -> None:
    made = body_of(served.owner.post("/maps", json={"source": _source(), "method": "beta"}, headers=WAIT), 201)
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist(), "method": "beta"}
    other = body_of(served.owner.post("/maps", json=rows), 201)
    assert made["document"] == other["document"]
    assert (made["n"], made["digest"], made["in_sample"]) == (600, other["digest"], other["in_sample"])
    options = {"source": _source(), "maps": [made["id"]], "measures": ["log-loss"]}
    compared = body_of(served.owner.post("/compare", json=options, headers=WAIT))
    assert [contestant["name"] for contestant in compared["comparison"]["contestants"]] == ["uncalibrated", made["id"]]


@pytest.mark.slow
def test_a_diagram_by_reference_differs_from_that_of_the_same_rows_in_a_body(served: Served) -> None:
    asked = {"diagram": {"name": "reliability", "n_bins": 7}, "resamples": 100}
    headers = WAIT | {"Accept": "application/json"}
    found = body_of(served.owner.post("/diagrams", json={"source": _source(), **asked}, headers=headers))
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist()}
    assert found == body_of(served.owner.post("/diagrams", json=rows | asked, headers=headers))
    drawn = served.owner.post("/diagrams", json={"source": _source(), **asked}, headers=WAIT)
    assert drawn.text.startswith("<svg")
    refused = served.owner.post("/diagrams", json={"source": _source(), "diagram": "by-size"})
    assert problem_of(refused)[2] == "/source"


def test_models_by_reference_are_compared_otherwise_than_in_a_body(served: Served) -> None:
    columns = {"models": {"one": "score", "two": "score"}, "labels": "outcome"}
    asked = {"measures": ["log-loss"], "resamples": 100}
    found = body_of(served.owner.post("/compare", json={"source": _source(columns=columns), **asked}, headers=WAIT))
    models = {name: served.p.tolist() for name in columns["models"]}
    expected = body_of(served.owner.post("/compare", json={"models": models, "labels": served.y.tolist(), **asked}))
    basis = found.pop("basis")
    expected.pop("basis", None)
    assert (basis["form"], basis["rows"]) == ("rows", len(served.p))
    assert found == expected


@pytest.mark.parametrize(
    ("path", "columns", "pointer"),
    [
        ("/compare", COLUMNS, "/source/columns/predictions"),
        ("/compare", {"models": {"a": "score", "b": ["score"]}, "labels": "outcome"}, "/source/columns/models"),
        ("/evaluate", {"models": {"a": "score", "b": "score"}, "labels": "outcome"}, "/source/columns/models"),
        ("/evaluate", {"labels": "outcome"}, "/source/columns/predictions"),
        ("/compare", {"models": {"a": "score"}, "labels": "outcome"}, "/source/columns/models"),
    ],
)
def test_columns_that_a_call_does_not_use_are_not_named(
    served: Served, path: str, columns: dict[str, Any], pointer: str
) -> None:
    found = problem_of(served.owner.post(path, json={"source": _source(columns=columns)}))
    assert found[2].startswith(pointer)


def test_the_application_of_a_map_to_a_source_does_not_name_the_call(served: Served) -> None:
    refused = served.owner.post("/calibrate", json={"map": "x", "source": _source()})
    assert problem_of(refused)[2] == "/source"
    assert "POST /datasets" in refused.text


def test_scored_rows_differ_from_the_map_or_lack_columns(served: Served) -> None:
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist(), "method": "platt"}
    made = body_of(served.owner.post("/maps", json=rows), 201)
    body = {
        "map": made["id"],
        "source": {**_source(), "columns": {"predictions": "score"}},
        "target": {"source": "scores", "path": "scored/2026-11"},
    }
    scored = body_of(served.owner.post("/datasets", json=body, headers=WAIT), 201)
    assert (scored["rows"], scored["files"], scored["map"]) == (600, 2, made["id"])
    written = served.root / "scored" / "2026-11"
    assert sorted(file.name for file in written.iterdir()) == [
        "_manifest.json",
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    table = parquet.read_table(written)
    assert table.column_names == ["id", "score", "outcome", "segment", "calibrated", "country"]
    expected = calibrant.load(made["document"]).apply(table["score"].to_numpy())
    assert_allclose(table["calibrated"].to_numpy(), expected, rtol=0, atol=1e-15)
    assert table["id"].to_pylist() == list(range(600))
    assert [file.name for file in written.parent.iterdir()] == ["2026-11"]
    again = served.owner.post("/datasets", json=body, headers=WAIT)
    assert problem_of(again) == (409, "target-exists", "/target/path")
    evaluated = body_of(
        _evaluated(served.owner, _source("scored/2026-11", columns=COLUMNS | {"predictions": "calibrated"}))
    )
    assert evaluated["n"] == 600


def test_the_client_lacks_sources(served: Served) -> None:
    with Calibrant(str(served.owner.base_url), api_key=served.key) as client:
        report = client.evaluate(source=_source(), measures=["ece"])
        assert (report.n, report.basis.form if report.basis else None) == (600, "rows")
        fitted = client.fit("platt", source=_source())
        columns = {"predictions": "score"}
        scored = client.calibrate_source(
            fitted.id, {**_source(), "columns": columns}, {"source": "owned", "path": "by-the-client"}
        )
        assert scored.rows == 600


@pytest.mark.parametrize("who", ["owner", "neighbour"])
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if i % 6 else []) for i, path in enumerate(hostile_paths())],
    ids=ascii,
)
def test_a_hostile_path_is_read(served: Served, who: str, path: str) -> None:
    client: httpx.Client = getattr(served, who)
    body = json.dumps({"source": _source(path)}).encode()
    response = client.post("/evaluate", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert problem_of(response)[1] in ("refused-path", "invalid-field", "malformed-json")
    assert client.get("/jobs").json()["items"] == [] or who == "owner"


@pytest.mark.parametrize(
    "path", ["links/secret.parquet", "links/*.parquet", "links", "outside/secret.parquet", "outside/*.parquet", "**"]
)
def test_a_symbolic_link_leads_out_of_the_root(served: Served, path: str) -> None:
    status, code, _ = problem_of(_evaluated(served.owner, _source(path), measures=["brier"]))
    assert status == 422
    assert code in ("refused-path", "empty-batch")


def test_a_tenant_uses_the_source_of_another_or_writes_where_it_may_only_read(served: Served) -> None:
    refused = (422, "unknown-source", "/source/source")
    assert problem_of(_evaluated(served.neighbour, _source(source="owned"))) == refused
    assert problem_of(_evaluated(served.neighbour, _source(source="nowhere"))) == refused
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist(), "method": "platt"}
    made = body_of(served.owner.post("/maps", json=rows), 201)
    source = {**_source(), "columns": {"predictions": "score"}}
    body = {"map": made["id"], "source": source, "target": {"source": "readable", "path": "x"}}
    response = served.owner.post("/datasets", json=body)
    assert problem_of(response) == (422, "unknown-source", "/target/source")
    for path in ("../x", "a/*.parquet", "/x", "_hidden"):
        body["target"] = {"source": "scores", "path": path}
        assert problem_of(served.owner.post("/datasets", json=body)) == (422, "refused-path", "/target/path")


@pytest.mark.parametrize(
    ("changes", "code", "pointer"),
    [
        ({"columns": {"predictions": "score"}}, "invalid-field", "/source/columns/labels"),
        ({"columns": COLUMNS | {"predictions": "absent"}}, "invalid-option", "/source/columns/predictions"),
        ({"columns": COLUMNS | {"groups": "absent"}}, "invalid-option", "/source/columns/groups"),
        ({"columns": COLUMNS | {"predictions": "id"}}, "out-of-range", "/source"),
        ({"columns": COLUMNS | {"labels": "segment"}}, "not-a-number", "/source"),
        ({"where": [["score", "like", 1]]}, "invalid-option", "/source/where/0/1"),
        ({"where": [["absent", "=", 1]]}, "invalid-option", "/source/where/0"),
        ({"where": [["segment", "<", 1]]}, "invalid-option", "/source/where"),
        ({"where": [["country", "=", "fr"]]}, "empty-batch", "/source"),
        ({"path": "2026-12/*.parquet"}, "empty-batch", "/source"),
        ({"url": "s3://bucket/x"}, "invalid-field", "/source/url"),
        ({"engine": "dask"}, "invalid-field", "/source/engine"),
        ({"engine": "tcp://127.0.0.1:8786"}, "invalid-field", "/source/engine"),
    ],
)
def test_an_invalid_reference_is_not_named(served: Served, changes: dict[str, Any], code: str, pointer: str) -> None:
    _, found, place = problem_of(_evaluated(served.owner, _source() | changes))
    assert (found, place) == (code, pointer)


def test_prediction_sets_are_fitted_to_a_source_or_written_to_a_data_set(served: Served) -> None:
    body: dict[str, Any] = {"method": "lac", "source": _source()}
    assert problem_of(served.owner.post("/maps", json=body)) == (422, "invalid-option", "/method")
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist(), "method": "lac"}
    made = body_of(served.owner.post("/maps", json=rows), 201)
    source = {**_source(), "columns": {"predictions": "score"}}
    body = {"map": made["id"], "source": source, "target": {"source": "scores", "path": "sets"}}
    refused = served.owner.post("/datasets", json=body)
    assert problem_of(refused)[:2] == (422, "prediction-kind-mismatch")
    bounds = served.owner.post("/datasets", json=body | {"bounds": True})
    assert problem_of(bounds) == (422, "invalid-field", "/bounds")


def test_the_error_of_a_bad_row_lacks_its_file_or_repeats_its_value(served: Served) -> None:
    bad = served.root / "bad.parquet"
    parquet.write_table(pa.table({"score": [0.5, 7.25], "outcome": [0, 1]}), bad)
    response = _evaluated(served.owner, _source("bad.parquet"))
    assert response.status_code == 422
    assert "bad.parquet, row 1: predictions" in response.json()["detail"]
    assert "7.25" not in response.text


GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "object-storage.md"


@pytest.mark.slow
def test_the_guide_names_what_does_not_run(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = GUIDE.read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "rows").symlink_to(served.root / "2026-11")  # on the caller's own machine, links are followed
    monkeypatch.chdir(tmp_path)
    there: dict[str, Any] = {"calibrant": calibrant}
    exec(compile(block, GUIDE.name, "exec"), there)
    assert (there["report"].n, there["scored"].rows) == (400, 600)
    (declared,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    sources = read_declarations(json.dumps(tomllib.loads(declared)["sources"]))
    assert (sources["scores"].tenants, sources["shared"].write) == (("risk",), False)
    evaluation, scoring, filling = (
        json.loads(body) for body in re.findall(r"-d '(\{.*?^\})'", page, re.MULTILINE | re.DOTALL)
    )
    evaluation["source"]["path"] = "2026-11/**/*.parquet"
    report = body_of(served.owner.post("/evaluate", json=evaluation, headers=WAIT))
    assert (report["n"], set(report["groups"])) == (400, {"de", "no"})
    rows = {"predictions": served.p.tolist(), "labels": served.y.tolist(), "method": "platt", "name": "spam"}
    body_of(served.owner.post("/maps", json=rows), 201)
    assert served.owner.put("/maps/spam/aliases/champion", json={"version": 1}).status_code == 200
    scoring["source"]["path"] = "2026-11/**/*.parquet"
    assert body_of(served.owner.post("/datasets", json=scoring, headers=WAIT), 201)["rows"] == 600
    body_of(served.owner.post("/monitors", json={"name": "churn"}), 201)
    filling["source"]["path"] = "2026-11/**/*.parquet"
    assert body_of(served.owner.post("/monitors/churn/backfill", json=filling, headers=WAIT))["joined"] == 600
