"""No call of the service reads a JSON body with more values than ``max_json_values``."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import httpx
import pytest
import zstandard

from backend.store.store import Store
from tests.integration.conftest import SharedApi
from tests.integration.monitors.monitored import monitored

MOST = 40
MANY = json.dumps([0] * (MOST + 2)).encode()
LENGTH = "Inference-Header-Content-Length"
EVENT = {"specversion": "1.0", "id": "1", "source": "/", "type": "com.calibrant.rows"}


@pytest.fixture
def http(store: Store, shared_api: SharedApi) -> Iterator[httpx.Client]:
    monitored(store)
    rows = {"predictions": [0.1, 0.9] * 4, "labels": [0, 1, 1, 0] * 2, "method": "platt", "name": "m"}
    with httpx.Client(base_url=shared_api.url(max_json_values=MOST), timeout=600) as http:
        assert http.post("/maps", json=rows).status_code == 201
        yield http


def _is_too_large(answer: httpx.Response) -> bool:
    return answer.status_code == 413 and f"at most {MOST} values" in answer.text and "max_json_values" in answer.text


def _paths(http: httpx.Client) -> dict[str, list[str]]:
    """Calls with a JSON body, and the content types of each."""
    paths = {}
    for path, calls in http.get("/openapi.json").json()["paths"].items():
        for method, call in calls.items():
            kinds = [kind for kind in call.get("requestBody", {}).get("content", {}) if "json" in kind]
            if kinds:
                paths[f"{method.upper()} {path}"] = kinds
    return paths


@pytest.mark.slow
def test_every_call_with_a_json_body_refuses_too_many_values(http: httpx.Client) -> None:
    calls = _paths(http)
    known = ("/evaluate", "/batches", "/calibrate", "/diagrams", "/maps", "/maps/import", "/v2/models/{name}/infer")
    assert {f"POST {path}" for path in (*known, "/monitors/{name}/rows", "/monitors/{name}/events")} <= calls.keys()
    assert sum(map(len, calls.values())) > len(calls)
    accepted = []
    for call, kinds in calls.items():
        method, path = call.split()
        path = path.replace("{name}", "m").replace("{version}", "1").replace("{id}", "x").replace("{hook}", "x")
        for kind in kinds:
            answer = http.request(method, path, content=MANY, headers={"Content-Type": kind})
            if not _is_too_large(answer):
                accepted.append((call, kind, answer.status_code, answer.text))
    assert accepted == []


@pytest.mark.parametrize(
    ("path", "headers", "body"),
    [
        ("/evaluate", {"Content-Type": "application/json", "Content-Encoding": "zstd"}, zstandard.compress(MANY)),
        ("/maps/import", {"Content-Type": "application/json", "Content-Encoding": "zstd"}, zstandard.compress(MANY)),
        ("/v2/models/m/infer", {LENGTH: str(len(MANY))}, MANY + bytes(8)),
        ("/v2/models/m/versions/1/infer", {"Content-Encoding": "zstd"}, zstandard.compress(MANY)),
        ("/monitors/m/events", {f"ce-{name}": attribute for name, attribute in EVENT.items()}, MANY),
        (
            "/monitors/m/events",
            {"Content-Type": "application/cloudevents+json"},
            json.dumps(EVENT | {"data_base64": base64.b64encode(MANY).decode()}).encode(),
        ),
    ],
)
def test_encoded_and_embedded_json_counts_too(
    http: httpx.Client, path: str, headers: dict[str, str], body: bytes
) -> None:
    answer = http.post(path, content=body, headers=headers)
    assert _is_too_large(answer), (answer.status_code, answer.text)


def test_values_in_binary_formats_are_not_counted(http: httpx.Client) -> None:
    csv = b"predictions,labels\n" + b"0.25,0\n0.75,1\n" * 50
    assert http.post("/evaluate", content=csv, headers={"Content-Type": "text/csv"}).status_code == 200
