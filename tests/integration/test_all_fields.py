"""The pages and commands of a monitor, a map, a job and a key show every field, whichever fields there are."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from redis import Redis

from backend.store.api_keys import ApiKeyStore
from calibrant.client import Calibrant
from calibrant.reports.text import is_empty
from schemas.jobs import JobSummary
from schemas.keys import KeyRecord
from schemas.maps import MapSummary
from schemas.monitor_answers import MonitorAnswer
from service.stack import Stack
from tests.commands import invoked
from tests.integration.visiting import ROWS, Visitor

DAY = 86_400
#: Monitors that together have a value of each field.
MONITORS: Mapping[str, dict[str, Any]] = {
    "of-classes": {
        "description": "watched by all", "n_classes": 3, "reservoir": 2000, "reduction": "class:2", "map": "shown-map",
        "windows": [{"name": "week", "seconds": 7 * DAY}], "measures": ["brier"], "interval": 0.9, "bucket": 3600,
        "horizon": 2 * DAY, "skew": 17, "max_groups": 7, "max_ids": 12_345, "retention": 40 * DAY,
        "reference": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
        "rules": [{"kind": "evidence", "name": "proof"}], "recalibration": {"pause": 77},
    },
    "of-forecasts": {"prediction_kind": "regression", "forecast": {"kind": "normal"}, "measures": ["crps"]},
    "of-sets": {"coverage": 0.9, "n_classes": 3},
}  # fmt: skip
#: Fields that a monitor here has no value of: keys and webhooks need settings.
UNSET = {"hooks", "created_by", "configured_by"}


def _shown(page: str) -> dict[str, str]:
    """The fields in the table of all fields of a page."""
    (table,) = re.findall(r'<details class="all-fields">(.*?)</details>', page, re.DOTALL)
    rows = re.findall(r"<code>(\w+)</code>.*?<bdi>(.*?)</bdi>", table, re.DOTALL)
    return {name: html.unescape(value) for name, value in rows}


@pytest.fixture
def visitor(service: Stack) -> Iterator[Visitor]:
    with Visitor(service.url) as visitor:
        yield visitor


@pytest.fixture
def monitors(http: httpx.Client) -> Iterator[list[dict[str, Any]]]:
    vectors = {"predictions": [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]] * 20, "labels": [0, 2] * 10 + [1, 2] * 10}
    http.post("/maps", json=vectors | {"method": "temperature", "name": "shown-map"})
    answers = [http.post("/monitors", json={"name": name} | fields) for name, fields in MONITORS.items()]
    assert [answer.status_code for answer in answers] == [201] * len(MONITORS), [answer.text for answer in answers]
    yield [answer.json() for answer in answers]
    for name in MONITORS:
        http.delete(f"/monitors/{name}")


def test_the_page_and_the_command_of_a_monitor_show_every_field(
    service: Stack, visitor: Visitor, monitors: list[dict[str, Any]]
) -> None:
    stated: set[str] = set()
    for monitor in monitors:
        fields = {name for name, value in monitor.items() if not is_empty(value)}
        on_page = _shown(visitor.get(f"/ui/monitors/{monitor['name']}").text)
        assert on_page.keys() == fields
        command = invoked(None, "monitors", "show", monitor["name"], "--server", service.url).stdout
        for name, value in on_page.items():
            assert re.search(rf"^{name} +{re.escape(value)}$", command, re.MULTILINE), name
        stated |= fields
    assert stated == MonitorAnswer.model_fields.keys() - UNSET


def test_the_pages_of_a_map_and_of_its_job_show_every_field(client: Calibrant, visitor: Visitor) -> None:
    headers = {"Prefer": "respond-async", "x-csrf-token": visitor.token()}
    job_id = visitor.post("/maps", json=ROWS | {"method": "platt"}, headers=headers).json()["id"]
    job = client.wait(job_id, timeout=600)
    record = client.map(str((job.result or {})["map"])).to_dict()
    of_map = {name for name in MapSummary.model_fields if not is_empty(record[name])}
    assert _shown(visitor.get(f"/ui/maps/{record['id']}").text).keys() == of_map
    of_job = {name for name in JobSummary.model_fields if not is_empty(job.to_dict()[name])}
    assert _shown(visitor.get(f"/ui/jobs/{job_id}").text).keys() == of_job


def test_the_list_of_keys_has_a_column_of_every_field(redis: Redis, redis_url: str) -> None:
    ApiKeyStore(redis).create("a-key", tenant="a-tenant", scope="read", rate_limit=7)
    titles, row = invoked(None, "keys", "list", "--redis-url", redis_url).stdout.splitlines()
    assert len(re.split(r" {2,}", titles.strip())) == len(KeyRecord.model_fields.keys() - {"format", "secrets"})
    assert {"a-key", "a-tenant", "read", "live", "7"} <= {*row.split()}
