"""What the first version stored, through the present service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from redis import Redis

from backend.store.formats import newest_format
from backend.store.keyspace import Keyspace
from backend.store.store import Store
from schemas.aliases import StoredAlias
from schemas.jobs import JobRecord
from schemas.maps import MapRecord
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.responses import patched
from tests.integration.stored import load_first_store

#: The default measures of the first version.
DEFAULT_MEASURES = ["ece", {"name": "ece", "binning": "equal-width", "as": "ece-equal-width"}, "ece-sweep", "ks"]


@pytest.fixture
def first(redis: Redis) -> dict[str, Any]:
    return load_first_store(redis)


@pytest.fixture
def api(first: dict[str, Any], redis_url: str) -> Iterator[httpx.Client]:
    """A service that starts with this store; one that runs would hold maps of other tests with the same names."""
    assert first
    with serving_client(Settings(redis_url)) as http:
        yield http


def test_its_maps_are_listed_found_and_apply_bit_for_bit(first: dict[str, Any], api: httpx.Client) -> None:
    listed = api.get("/maps").raise_for_status().json()["items"]
    assert {record["id"] for record in listed} == set(first["maps"])
    assert {record["id"] for record in api.get("/maps", params={"name": "spam"}).json()["items"]} == {
        map_id for map_id, record in first["maps"].items() if record["name"] == "spam"
    }
    for map_id, record in first["maps"].items():
        refs = [map_id] + ([] if record["name"] is None else [f"{record['name']}:{record['version']}"])
        for ref in refs:
            answer = api.post("/calibrate", json={"map": ref, "predictions": record["predictions"]}).raise_for_status()
            assert answer.json()["predictions"] == record["calibrated"]
    assert api.get("/maps/spam").json()["version"] == 2


def test_its_maps_take_aliases_tags_and_further_versions(first: dict[str, Any], api: httpx.Client) -> None:
    alias = api.put("/maps/spam/aliases/champion", json={"version": 1}).raise_for_status().json()
    assert (first["maps"][alias["map"]]["version"], alias["revision"]) == (1, 1)
    assert api.get("/maps/spam@champion").json()["id"] == alias["map"]
    assert patched(api, "/maps/spam@champion", {"tags": {"stage": "live"}}).raise_for_status().json()["version"] == 1
    assert [record["id"] for record in api.get("/maps", params={"tag": "stage=live"}).json()["items"]] == [alias["map"]]
    body = {"method": "platt", "name": "spam", "predictions": [0.1, 0.4, 0.6, 0.9], "labels": [0, 1, 0, 1]}
    assert api.post("/maps", json=body).raise_for_status().json()["version"] == 3


def test_its_batches_are_read_evaluated_and_appended_to(first: dict[str, Any], api: httpx.Client) -> None:
    for batch_id, report in first["reports"].items():
        assert api.get(f"/batches/{batch_id}").raise_for_status().json()["n"] == report["n"]
        body = {"batch": batch_id, "measures": DEFAULT_MEASURES}
        measures = api.post("/evaluate", json=body).raise_for_status().json()["measures"]
        for name, measure in report["measures"].items():
            assert measures[name]["value"] == pytest.approx(measure["value"], abs=1e-12), (batch_id, name)
    chunked = next(batch_id for batch_id in first["reports"] if batch_id.startswith("batch_0c"))
    rows = {"predictions": [0.5, 0.6], "labels": [0, 1]}
    grown = api.post(f"/batches/{chunked}/rows", json=rows).raise_for_status().json()
    assert (grown["n"], grown["parts"], grown["format"]) == (62, 2, 2)
    assert api.post("/evaluate", json={"batch": chunked}).raise_for_status().json()["n"] == 62


def test_its_jobs_are_returned_unchanged(first: dict[str, Any], api: httpx.Client) -> None:
    for job_id, job in first["jobs"].items():
        answer = api.get(f"/jobs/{job_id}").raise_for_status().json()
        assert answer | job == answer


def test_its_documents_are_read_as_todays(first: dict[str, Any], store: Store, redis: Redis) -> None:
    keys = Keyspace()
    assert {store.maps.read(map_id).format for map_id in first["maps"]} == {newest_format(MapRecord)}
    assert {store.jobs.get(job_id).format for job_id in first["jobs"]} == {newest_format(JobRecord)}
    assert {(b.format, b.parts) for b in map(store.batches.record, first["reports"])} == {(2, 1)}
    # Aliases named no format before they had one.
    alias = {"name": "spam", "alias": "a", "version": 1, "map": "map_1", "revision": 4, "updated_at": "2026-01-01"}
    redis.hset(keys.aliases("spam"), "a", StoredAlias(**alias).model_dump_json(exclude={"format"}))
    assert store.aliases.get("spam", "a").revision == 4
