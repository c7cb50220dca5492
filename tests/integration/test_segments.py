"""Features of rows, sent in every format, stored, fitted to in jobs, and applied by the service and by a host."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from tests.body_formats import CSV, JSON, NPY, NPZ, WRITE_ARRAYS
from tests.integration.responses import body_of

RANDOM = np.random.default_rng(3)
N = 600
COUNTRY = RANDOM.choice(["DE", "FR"], N)
AGE = np.round(RANDOM.gamma(4.0, 10.0, N), 1)
Z = RANDOM.normal(-0.5, 1.2, N)
P = 1.0 / (1.0 + np.exp(-Z))
Y = (RANDOM.random(N) < 1.0 / (1.0 + np.exp(-Z - 1.5 * (COUNTRY == "FR")))).astype(int)
FEATURES: dict[str, Any] = {"country": [None, *COUNTRY[1:].tolist()], "age/years": [None, *AGE[1:].tolist()]}
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
NEW: dict[str, Any] = {"country": ["FR", "DE", "XX", None], "age/years": [30, None, 20.5, 1e6]}


@pytest.fixture(scope="module")
def expected() -> calibrant.CalibrationMap:
    return calibrant.fit("segments", P, Y, features=FEATURES)


def _columns(kind: str, features: dict[str, Any]) -> dict[str, Any]:
    """The arrays of features as a format has them."""
    columns = {f"features/{name.replace('/', '~1')}": column for name, column in features.items()}
    if kind == NPZ:
        country, age = columns.values()
        cells = [np.array([c or "" for c in country]), np.array([np.nan if a is None else a for a in age])]
        return dict(zip(columns, cells, strict=True))
    if kind == CSV:
        return {name: ["" if cell is None else cell for cell in column] for name, column in columns.items()}
    return columns


def _post(http: httpx.Client, path: str, kind: str, rows: dict[str, Any], features: Any, **options: Any) -> Any:
    if kind == JSON:
        return http.post(path, json=rows | {"features": features} | options)
    arrays = {name: np.array(column) for name, column in rows.items()}
    content = WRITE_ARRAYS[kind](arrays | _columns(kind, features))
    return http.post(path, content=content, headers={"Content-Type": kind}, params=options)


@pytest.mark.parametrize("kind", [kind for kind in WRITE_ARRAYS if kind != NPY])
def test_a_map_of_features_in_every_format_is_that_of_the_library(
    http: httpx.Client, kind: str, expected: calibrant.CalibrationMap
) -> None:
    fitted = _post(http, "/maps", kind, ROWS, FEATURES, method="segments")
    assert fitted.status_code == 201, fitted.text
    answer = http.get(f"/maps/{fitted.json()['id']}/document").json()
    assert calibrant.load(answer) == expected
    calibrated = body_of(_post(http, "/calibrate", kind, {"predictions": [0.3] * 4}, NEW, map=fitted.json()["id"]))
    wanted = expected.apply([0.3] * 4, features=NEW)
    np.testing.assert_allclose(calibrated["predictions"], wanted, atol=1e-15)
    assert calibrated["fallbacks"] == 3 == expected.fallbacks(NEW)["rows"] - 0


def test_a_batch_keeps_its_features_also_for_jobs(http: httpx.Client, expected: calibrant.CalibrationMap) -> None:
    body = ROWS | {"features": FEATURES | {"a:b": ["x", "y", None] * (N // 3)}}
    first, then = (_rows_of(body, rows) for rows in (slice(0, 400), slice(400, None)))
    batch = http.post("/batches", json=first).json()["id"]
    appended = http.post(f"/batches/{batch}/rows", json=then)
    assert appended.status_code == 200, appended.text
    queued = http.post("/maps", json={"batch": batch, "method": "segments"}, headers={"Prefer": "respond-async"})
    ended = http.get(queued.headers["Location"], headers={"Prefer": "wait=600"}).json()
    assert ended["status"] == "succeeded", ended
    document = http.get(f"/maps/{ended['result']['map']}/document").json()
    local = calibrant.fit("segments", P, Y, features=body["features"])
    assert calibrant.load(document) == local
    calibrated = http.post("/calibrate", json={"batch": batch, "map": ended["result"]["map"]}).json()
    np.testing.assert_allclose(calibrated["predictions"], local.apply(P, features=body["features"]), atol=1e-15)
    fewer = {**then, "features": {"country": then["features"]["country"]}}
    refused = http.post(f"/batches/{batch}/rows", json=fewer).json()
    assert refused["errors"][0]["pointer"] == "/features/a:b"


def _rows_of(body: dict[str, Any], rows: slice) -> dict[str, Any]:
    return {
        name: {own: feature[rows] for own, feature in column.items()} if name == "features" else column[rows]
        for name, column in body.items()
    }


def test_large_bodies_of_json_have_features_too(http: httpx.Client) -> None:
    copies = 40
    body = {
        "predictions": ROWS["predictions"] * copies,
        "features": {name: column * copies for name, column in FEATURES.items()},
        "labels": ROWS["labels"] * copies,
    }
    assert len(json.dumps(body)) > 2**18
    stored = body_of(http.post("/batches", json=body), 201)
    assert {"features/country", "features/age~1years"} <= set(stored["arrays"])


@pytest.mark.parametrize(
    ("features", "pointer"),
    [
        ({"a": ["x"] * (N - 1)}, "/features/a"),
        ({"a": ["x", 3] * (N // 2)}, "/features/a/1"),
        ({"a": [[1]] * N}, "/features/a"),
        ({"a": [{}] * N}, "/features/a"),
        ({"a": "text"}, "/features/a"),
        ({"a": None}, "/features/a"),
        ({"": ["x"] * N}, "/features"),
        ({"a": ["x" * 257] + ["y"] * (N - 1)}, "/features/a/0"),
        ({"a": ["x"] * N}, "/features/a"),
        ({}, "/features"),
        (["x"] * N, "/features"),
        ({f"f{i}": ["x"] * N for i in range(201)}, "/features"),
    ],
)
def test_bad_features_are_refused_with_their_place(http: httpx.Client, features: Any, pointer: str) -> None:
    answer = body_of(http.post("/maps", json=ROWS | {"features": features, "method": "segments"}), 422)
    assert answer["errors"][0]["pointer"] == pointer


def test_a_map_of_features_refuses_rows_without_them(http: httpx.Client, expected: calibrant.CalibrationMap) -> None:
    imported = http.post("/maps/import", json={"document": expected.to_document(), "name": "segments-import"})
    assert imported.status_code == 201, imported.text
    for body in (
        {"predictions": [0.3]},
        {"predictions": [0.3], "features": {"country": ["DE"]}},
        {"predictions": [0.3], "features": {"country": ["DE"], "age/years": [3], "more": [1]}},
    ):
        answer = body_of(http.post("/calibrate", json=body | {"map": "segments-import"}), 422)
        assert answer["errors"][0]["pointer"].startswith("/features")


def test_monitors_refuse_a_map_that_needs_features(http: httpx.Client, expected: calibrant.CalibrationMap) -> None:
    imported = http.post("/maps/import", json={"document": expected.to_document()}).json()["id"]
    answer = body_of(http.post("/monitors", json={"name": "of-segments", "map": imported}), 422)
    assert answer["errors"][0]["pointer"] == "/map"


def test_methods_of_the_client_take_features(client: Calibrant, expected: calibrant.CalibrationMap) -> None:
    fitted = client.fit("segments", P, labels=Y, features=FEATURES)
    assert calibrant.load(fitted.document) == expected
    calibrated = client.calibrate(fitted.id, [0.3] * 4, features=NEW)
    np.testing.assert_allclose(calibrated, expected.apply([0.3] * 4, features=NEW), atol=1e-15)


def test_features_are_inputs_of_a_model(http: httpx.Client, expected: calibrant.CalibrationMap) -> None:
    document = expected.to_document()
    assert http.post("/maps/import", json={"document": document, "name": "segments-v2"}).status_code == 201
    about = http.get("/v2/models/segments-v2").json()["inputs"]
    assert [(own["name"], own["datatype"]) for own in about] == [
        ("predictions", "FP64"),
        ("country", "BYTES"),
        ("age/years", "FP64"),
    ]
    inputs: list[dict[str, Any]] = [
        {"name": "predictions", "shape": [4], "datatype": "FP64", "data": [0.3] * 4},
        {"name": "age/years", "shape": [4, 1], "datatype": "FP64", "data": [[30], [None], [20.5], [1e6]]},
        {"name": "country", "shape": [4], "datatype": "BYTES", "data": NEW["country"]},
    ]
    answer = body_of(http.post("/v2/models/segments-v2/infer", json={"inputs": inputs}))
    wanted = expected.apply([0.3] * 4, features=NEW)
    np.testing.assert_allclose(answer["outputs"][0]["data"], wanted, atol=1e-15)


def test_a_map_without_terms_has_the_inputs_and_fallbacks_of_its_features(http: httpx.Client) -> None:
    labels = (np.random.default_rng(5).random(N) < P).astype(int).tolist()
    body = {"predictions": P.tolist(), "labels": labels, "features": FEATURES, "method": "segments"}
    fitted = body_of(http.post("/maps", json=body), 201)
    map_id = fitted["id"]
    assert http.get(f"/maps/{map_id}/document").json()["parameters"]["terms"] == []
    inputs = http.get(f"/v2/models/{map_id}").json()["inputs"]
    assert [own["name"] for own in inputs] == ["predictions", "country", "age/years"]
    answer = http.post("/calibrate", json={"predictions": [0.3] * 4, "features": NEW, "map": map_id}).json()
    np.testing.assert_allclose(answer["predictions"], [0.3] * 4, atol=1e-12)
    assert answer["fallbacks"] == 3
    assert http.post("/calibrate", json={"predictions": [0.3], "map": map_id}).status_code == 422


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "zip"}, "/inputs/1/name"),
        ({"name": "predictions"}, "/inputs/1/name"),
        ({"shape": [3]}, "/inputs/1/shape"),
        ({"shape": [2, 2]}, "/inputs/1/shape"),
        ({"data": None}, "/inputs/1/data"),
        ({"data": [1, 2, 3, 4]}, "/inputs/1/data/0"),
        ({"data": [["DE"], [["DE"]], ["DE"], ["DE"]]}, "/inputs/1/data/1"),
        ({"parameters": {"binary_data_size": 4}}, "/inputs/1/data"),
    ],
)
def test_bad_inputs_of_features_are_refused_with_their_place(
    http: httpx.Client, expected: calibrant.CalibrationMap, change: dict[str, Any], pointer: str
) -> None:
    http.post("/maps/import", json={"document": expected.to_document(), "name": "segments-v2"})
    country = {"name": "country", "shape": [4], "datatype": "BYTES", "data": NEW["country"], **change}
    predictions = {"name": "predictions", "shape": [4], "datatype": "FP64", "data": [0.3] * 4}
    answer = body_of(http.post("/v2/models/segments-v2/infer", json={"inputs": [predictions, country]}), 400)
    assert f"{pointer}:" in answer["error"]
