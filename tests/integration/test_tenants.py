"""Two tenants on one store: every route, asked by one for what is the other's, answers as if it did not exist."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from benchmarks.examples.record import admitting
from service.examples.calls import HOST
from tests.integration.conftest import keyed_service
from tests.process_tree import paused

ROWS = {"predictions": [0.1] * 20 + [0.9] * 20, "labels": [0, 0, 0, 1] * 5 + [1, 1, 1, 0] * 5}
FIT = {"method": "pl", "options": {"folds": 2, "candidates": [1]}}
#: Calls that tell what exists for everyone, and nothing of a tenant.
CATALOGUE = {"/measures", "/diagrams", "/methods"}
#: What a call needs of its body to be well formed but for the tenant of what it names.
BODIES: dict[tuple[str, str], Any] = {
    ("post", "/batches/{batch}/rows"): ROWS,
    ("post", "/jobs/{job}/cancel"): {},
    ("patch", "/maps/{map}"): {"description": "mine"},
    ("put", "/maps/{name}/aliases/{alias}"): {"version": 1},
    ("put", "/audit/hooks/{hook}"): {"url": "https://elsewhere.example.com"},
    ("patch", "/monitors/{name}"): {"description": "mine"},
    ("post", "/monitors/{name}/deliveries/{delivery}/resend"): {},
    ("post", "/monitors/{name}/hooks/{hook}/test"): {},
    ("post", "/monitors/{name}/alarms/{rule}/acknowledge"): {},
    ("post", "/monitors/{name}/recalibrate"): {},
    ("post", "/monitors/{name}/proposal/accept"): {},
    ("post", "/monitors/{name}/proposal/reject"): {},
    ("post", "/monitors/{name}/backfill"): {
        "source": {"source": "secret", "path": "a.csv", "columns": {"ids": "id", "labels": "y"}}
    },
    ("post", "/monitors/{name}/rows"): {"rows": []},
    ("post", "/monitors/{name}/predictions"): {"rows": []},
    ("post", "/monitors/{name}/labels"): {"rows": []},
    ("post", "/monitors/{name}/events"): {},
    ("post", "/v2/models/{name}/infer"): {
        "inputs": [{"name": "predictions", "shape": [1], "datatype": "FP64", "data": [0.5]}]
    },
    ("post", "/v2/models/{name}/versions/{version}/infer"): {
        "inputs": [{"name": "predictions", "shape": [1], "datatype": "FP64", "data": [0.5]}]
    },
}
#: Calls whose bodies name something stored: the field, with the other fields of the body.
NAMING: list[tuple[str, Callable[[dict[str, str]], dict[str, Any]]]] = [
    ("/evaluate", lambda own: {"batch": own["batch"]}),
    ("/evaluate", lambda own: {"batches": [own["batch"], own["other_batch"]]}),
    ("/evaluate", lambda own: ROWS | {"map": own["map"]}),
    ("/evaluate", lambda own: ROWS | {"map": own["name"]}),
    ("/evaluate", lambda own: ROWS | {"maps": [own["map"]]}),
    ("/diagrams", lambda own: {"batch": own["batch"]}),
    ("/diagrams", lambda own: {"batches": [own["batch"], own["other_batch"]]}),
    ("/diagrams", lambda own: {"batch": own["batch"], "diagram": {"name": "by-size", "start": 10}}),
    ("/diagrams", lambda own: {"batches": [own["batch"], own["other_batch"]], "diagram": "cost-plane"}),
    ("/diagrams", lambda own: ROWS | {"map": own["map"]}),
    ("/maps", lambda own: FIT | {"batch": own["batch"]}),
    ("/monitors", lambda own: {"name": "of-map", "map": own["map"]}),
    ("/monitors", lambda own: {"name": "of-batch", "reference": {"batch": own["batch"]}}),
    ("/calibrate", lambda own: {"map": own["map"], "predictions": [0.5]}),
    ("/calibrate", lambda own: {"map": f"{own['name']}@{own['alias']}", "predictions": [0.5]}),
    ("/calibrate", lambda own: {"map": f"{own['name']}:1", "predictions": [0.5]}),
]


@dataclass
class Two:
    """The owner of what is stored, a neighbour who has nothing, and what the owner's things are called."""

    owner: httpx.Client
    neighbour: httpx.Client
    redis: Redis
    own: dict[str, str]
    unknown: dict[str, str]


@pytest.fixture(scope="module")
def two(folder: Path) -> Iterator[Two]:
    scopes = (("owner", "write"), ("next", "write"))
    with keyed_service(folder / "tenants", admitting(), *scopes) as running, contextlib.ExitStack() as stopped:
        owner, neighbour = running.clients
        own = _stored(owner)
        # From here on nothing but these requests reads from the store.
        stopped.enter_context(paused(running.stack.worker.pid))
        own |= _watched(owner)
        unknown = {name: re.sub("[0-9a-f]{30}", "0" * 30, resource) for name, resource in own.items()}
        names = unknown | {"name": "nobody", "other_batch": "batch_" + "1" * 30}
        yield Two(owner, neighbour, running.redis, own, names)


def _stored(owner: httpx.Client) -> dict[str, str]:
    batches = [owner.post("/batches", json=ROWS).json()["id"] for _ in range(2)]
    record = owner.post("/maps", json=ROWS | {"method": "platt", "name": "secret-model"}).json()
    assert owner.put("/maps/secret-model/aliases/champion", json={"version": 1}).status_code == 200
    job = owner.post("/maps", json=FIT | {"batch": batches[0]}, headers={"Prefer": "respond-async"}).json()["id"]
    assert owner.get(f"/jobs/{job}", headers={"Prefer": "wait=600"}).json()["status"] == "succeeded"
    return {
        "batch": batches[0],
        "other_batch": batches[1],
        "job": job,
        "map": record["id"],
        "name": "secret-model",
        "alias": "champion",
        "version": "1",
    }


def _watched(owner: httpx.Client) -> dict[str, str]:
    """What is stored with a monitor; asked for once no worker looks for what is due."""
    hooks = [{"name": "pager", "url": f"https://{HOST}/"}]
    assert owner.post("/monitors", json={"name": "secret-model", "hooks": hooks}).status_code == 201
    delivery = owner.post("/monitors/secret-model/hooks/pager/test").json()
    return {"hook": "pager", "delivery": delivery["id"], "rule": "evidence"}


def _calls(two: Two) -> list[tuple[str, str]]:
    paths: dict[str, dict[str, Any]] = two.owner.get("/openapi.json").json()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


def _comparable(answer: httpx.Response) -> tuple[int, Any, list[str]]:
    """What an answer tells, but for the request's id."""
    return answer.status_code, answer.json(), sorted(answer.headers)


def test_every_route_answers_for_a_resource_of_another_tenant_as_for_a_missing_one(two: Two) -> None:
    looked = 0
    for method, path in _calls(two):
        names = set(re.findall(r"{(\w+)}", path))
        if not names or names == {"code"}:
            continue
        assert names <= set(two.own), f"{path} has a parameter that this test does not know"
        body = BODIES.get((method, path))
        assert body is not None or method in ("get", "delete"), f"{method} {path} needs a body in this test"
        headers = {"Content-Type": "application/merge-patch+json"} if method == "patch" else {}
        anothers, unknown = (
            two.neighbour.request(method, path.format(**ids), json=body, headers=headers)
            for ids in (two.own, two.unknown)
        )
        assert anothers.status_code == (403 if path.startswith("/audit/hooks") else 404), f"{method} {path}"
        assert _comparable(anothers) == _comparable(unknown), f"{method} {path}"
        assert two.own["name"] not in anothers.text
        looked += 1
    assert looked >= 20


def test_references_in_bodies_are_those_of_the_tenant(two: Two) -> None:
    for path, body in NAMING:
        anothers = two.neighbour.post(path, json=body(two.own))
        unknown = two.neighbour.post(path, json=body(two.unknown))
        assert anothers.status_code == 422, path
        assert _comparable(anothers) == _comparable(unknown), path
        assert two.owner.post(path, json=body(two.own)).status_code in (200, 201, 202), path


def test_lists_counts_and_quotas_are_the_callers_own(two: Two) -> None:
    lists = [path for method, path in _calls(two) if method == "get" and "{" not in path]
    for path in lists:
        answer = two.neighbour.get(path)
        if path in ("/metrics", "/audit/hooks"):
            assert answer.status_code == 403
        elif answer.headers["content-type"] == "application/json" and path not in CATALOGUE:
            assert not [resource for resource in two.own.values() if len(resource) > 10 and resource in answer.text], (
                path
            )
            entries = answer.json().get("items", [])
            assert [entry for entry in entries if entry.get("action") != "key-created"] == [], path
    assert set(two.neighbour.get("/limits").json()["used"].values()) == {0}
    assert two.owner.get("/limits").json()["used"]["quota_maps"] >= 1


@pytest.mark.slow
def test_a_resource_of_another_tenant_costs_the_store_as_much_as_a_missing_one(two: Two) -> None:
    """Not by the clock: by the commands that are run for it."""

    def commands(path: str) -> dict[str, int]:
        def counted() -> dict[str, int]:
            stats = two.redis.info("commandstats")
            return {name: stat["calls"] for name, stat in stats.items() if "get" in name}

        before = counted()
        assert two.neighbour.get(path).status_code == 404
        return {name: calls - before.get(name, 0) for name, calls in counted().items() if calls != before.get(name, 0)}

    def least(path: str) -> dict[str, int]:
        """Without those that the worker sends meanwhile."""
        return min((commands(path) for _ in range(10)), key=lambda counts: sum(counts.values()))

    for path in ("/batches/{batch}", "/maps/{map}", "/maps/{name}", "/jobs/{job}"):
        assert least(path.format(**two.own)) == least(path.format(**two.unknown)), path


def test_an_idempotency_key_is_its_tenants_own(two: Two) -> None:
    sent = {"Idempotency-Key": "the-same"}
    mine = two.owner.post("/batches", json=ROWS, headers=sent)
    other = two.neighbour.post("/batches", json=ROWS | {"labels": [0, 1] * 20}, headers=sent)
    assert mine.status_code == other.status_code == 201
    assert mine.json()["id"] != other.json()["id"]
    assert two.neighbour.delete(f"/batches/{other.json()['id']}").status_code == 204


@pytest.mark.slow
def test_a_request_with_the_keys_of_two_tenants_is_refused(two: Two) -> None:
    keys = [("Authorization", client.headers["authorization"]) for client in (two.owner, two.neighbour)]
    for sent in (keys, keys[::-1], keys[:1] * 2):
        refused = httpx.get(f"{two.owner.base_url}/maps", headers=sent, timeout=600)
        assert (refused.status_code, refused.json()["type"]) == (400, "/problems/bad-request")


@pytest.mark.slow
def test_the_resources_of_the_owner_are_unchanged(two: Two) -> None:
    for path in ("/batches/{batch}", "/maps/{map}", "/maps/{name}@{alias}", "/jobs/{job}"):
        assert two.owner.get(path.format(**two.own)).status_code == 200
    assert two.owner.get(f"/maps/{two.own['map']}").json()["description"] is None
