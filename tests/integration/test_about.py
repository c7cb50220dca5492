"""What callers say about a map reaches every place that accepts, stores or shows it, whichever fields it has."""

from __future__ import annotations

import html
from itertools import product
from typing import Any

import httpx
import pytest
from redis import Redis
from typer.testing import CliRunner

from backend.store.api_keys import ApiKeyStore
from calibrant.cli.commands.maps import maps as maps_command
from calibrant.client import Calibrant
from schemas.maps import About, MapChanges
from service.settings import Settings
from service.stack import Stack
from tests.integration.conftest import serving
from tests.integration.responses import patched, problem_of
from tests.integration.visiting import ROWS, Visitor

#: A value for each field.
SAID: dict[str, Any] = {name: {"stage": "live"} if name == "tags" else f"the {name}" for name in About.model_fields}
FORECASTS: dict[str, Any] = {
    "mean": [0.0, 1.0, 2.0, 4.0] * 5,
    "variance": [1.0] * 20,
    "observed": [0.5, 0.5, 3.5, 3.5] * 5,
}
P, Y = ROWS["predictions"], ROWS["labels"]
REGRESSION = {"prediction_kind": "regression"}
LATER = {"Prefer": "respond-async"}


def _said(record: dict[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in SAID}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(ROWS | {"method": "platt"}, id="classes"),
        pytest.param(REGRESSION | FORECASTS | {"method": "variance-scaling"}, id="forecasts"),
    ],
)
@pytest.mark.parametrize("headers", [pytest.param({}, id="at once"), pytest.param(LATER, id="as a job")])
def test_a_fitted_and_an_imported_map_have_every_field_that_the_caller_sent(
    http: httpx.Client, client: Calibrant, body: dict[str, Any], headers: dict[str, str]
) -> None:
    answer = http.post("/maps", json=body | SAID, headers=headers)
    record = answer.json()
    if headers:
        assert answer.status_code == 202
        record = client.map(str((client.wait(record["id"], timeout=600).result or {})["map"])).to_dict()
    assert _said(record) == SAID
    document = http.get(f"/maps/{record['id']}/document").json()
    assert _said(http.post("/maps/import", json={"document": document} | SAID).json()) == SAID


def test_every_field_is_changed_removed_and_listed(http: httpx.Client) -> None:
    record = http.post("/maps", json=ROWS | {"method": "platt", "name": "changed-about"}).json()
    without = _said(record)
    assert not any(without.values())
    assert MapChanges.model_fields.keys() == SAID.keys()
    path = f"/maps/{record['id']}"
    assert _said(patched(http, path, SAID).json()) == SAID
    assert _said(http.get("/maps", params={"name": "changed-about"}).json()["items"][0]) == SAID
    assert _said(patched(http, path, dict.fromkeys(SAID)).json()) == without


def test_the_refusal_of_a_field_that_cannot_be_changed_does_not_deny_that_it_exists(http: httpx.Client) -> None:
    record = http.post("/maps", json=ROWS | {"method": "platt", "name": "fixed-about"}).json()
    response = patched(http, f"/maps/{record['id']}", {"name": "other"})
    assert problem_of(response) == (422, "invalid-field", "/name")
    assert response.json()["detail"] == "/name: is not a field that this request can change"


def test_the_calls_of_the_client_have_every_field(client: Calibrant) -> None:
    forecasts = {name: FORECASTS[name] for name in ("mean", "variance")}
    fitted = client.fit("platt", P, Y, **SAID)
    of_forecasts = client.fit_distribution("variance-scaling", FORECASTS["observed"], **forecasts, **SAID)
    imported = client.import_map(client.export_map(fitted.id), **SAID)
    described = client.describe(client.fit("platt", P, Y).id, **SAID)
    for record in (fitted, of_forecasts, imported, described):
        assert _said(record.to_dict()) == SAID


def test_the_command_shows_every_field(service: Stack, client: Calibrant) -> None:
    fitted = client.fit("platt", P, Y, **SAID)
    shown = CliRunner().invoke(maps_command, ["show", fitted.id, "--server", service.url]).stdout
    for name, statement in SAID.items():
        assert [line for line in shown.splitlines() if name in line and _text(statement) in line], name


def test_the_pages_of_a_map_and_of_its_name_show_every_field_and_change_it(redis: Redis, redis_url: str) -> None:
    scopes = ("write", "read")
    keys = [ApiKeyStore(redis).create(scope, tenant="about", scope=scope).text for scope in scopes]
    with serving(Settings(redis_url)) as url, Visitor(url) as owner, Visitor(url) as reader:
        for visitor, key in zip((owner, reader), keys, strict=True):
            assert visitor.sign_in(key).status_code == 303
        token = {"x-csrf-token": owner.token()}
        fit = ROWS | {"method": "platt", "name": "said"} | SAID
        map_id = owner.post("/maps", json=fit, headers=token).json()["id"]
        path = f"/ui/maps/{map_id}"
        for visitor, address in product((owner, reader), (path, "/ui/maps/said")):
            page = html.unescape(visitor.get(address).text)
            assert [name for name, statement in SAID.items() if _text(statement) not in page] == [], address
        seen = owner.get(path).text.split('name="seen" value="')[1].split('"')[0]
        changed = {name: {"stage": "next"} if name == "tags" else f"another {name}" for name in SAID}
        form = {name: _text(statement) for name, statement in changed.items()}
        assert owner.submit(f"{path}/about", form | {"seen": seen}).status_code == 303
        assert _said(owner.get(f"/maps/{map_id}").json()) == changed


def _text(statement: dict[str, str] | str) -> str:
    return statement if isinstance(statement, str) else "\n".join(f"{name}={text}" for name, text in statement.items())
