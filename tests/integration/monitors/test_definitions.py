"""Monitors over HTTP: made, read, listed, changed and forgotten."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.store.clock import at
from backend.store.keyspace import Keyspace
from backend.store.monitors.reference import read_reference
from tests.integration.conftest import SharedApi
from tests.integration.responses import body_of, patched, problem_of

_HOSTS = "a.example.com,b.example.com,c.example.com,d.example.com"
_PREDICTIONS = [0.05, 0.12, 0.2, 0.33, 0.47, 0.55, 0.68, 0.71, 0.86, 0.94]
_LABELS = [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]


@pytest.fixture
def api(redis: Redis, shared_api: SharedApi) -> Iterator[httpx.Client]:
    """An API that may send webhooks."""
    with httpx.Client(base_url=shared_api.url(webhook_hosts=_HOSTS), timeout=600) as http:
        yield http


def _new_monitor(api: httpx.Client, **fields: Any) -> dict[str, Any]:
    return body_of(api.post("/monitors", json={"name": "inbox", **fields}), 201)


def _code(answer: httpx.Response) -> tuple[int, str, list[str]]:
    problem = answer.json()
    places = [error.get("pointer", "") for error in problem["errors"]]  # an error of a header has none
    return answer.status_code, problem["type"].rpartition("/")[2], places


def test_creating_a_monitor_returns_its_whole_definition_and_location(api: httpx.Client) -> None:
    answer = api.post("/monitors", json={"name": "inbox"})
    monitor = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == "/monitors/inbox"
    assert (monitor["reduction"], monitor["bucket"], monitor["measures"]) == ("binary", 3600, ["ece", "ks", "log-loss"])
    read = api.get("/monitors/inbox/definition")
    assert read.json() == monitor
    assert read.headers["etag"] == answer.headers["etag"]


def test_a_name_is_given_once_and_again_when_it_is_free(api: httpx.Client) -> None:
    first = _new_monitor(api)
    assert _code(api.post("/monitors", json={"name": "inbox"})) == (409, "monitor-exists", ["/name"])
    assert api.delete("/monitors/inbox").status_code == 204
    assert _code(api.get("/monitors/inbox/definition")) == (404, "unknown-monitor", [])
    assert _new_monitor(api)["id"] != first["id"]


def test_a_request_that_is_sent_again_makes_one_monitor(api: httpx.Client) -> None:
    asked = {"name": "inbox", "hooks": [{"url": "https://a.example.com"}]}
    first, second = (api.post("/monitors", json=asked, headers={"Idempotency-Key": "once"}) for _ in range(2))
    assert second.status_code == 201
    assert second.json() == first.json()


def test_pages_go_through_all_monitors_newest_first(api: httpx.Client) -> None:
    names = [f"m{i}" for i in range(5)]
    for name in names:
        assert api.post("/monitors", json={"name": name}).status_code == 201
    seen: list[str] = []
    url: str | None = "/monitors?limit=2"
    while url is not None:
        answer = api.get(url)
        seen += [monitor["name"] for monitor in answer.json()["items"]]
        url = answer.links["next"]["url"] if "next" in answer.links else None
    assert seen == names[::-1]


def test_a_generated_secret_is_returned_once(api: httpx.Client) -> None:
    own = "whsec_" + "QUFB" * 10
    hooks = [
        {"name": "made", "url": "https://a.example.com"},
        {"name": "own", "url": "https://b.example.com", "secret": own},
    ]
    shown = _new_monitor(api, hooks=hooks)["hooks"]
    assert shown[0]["secret"].startswith("whsec_")
    assert shown[1]["secret"] is None
    for text in (api.get("/monitors/inbox/definition").text, api.get("/monitors").text):
        assert "whsec_" not in text
    # A hook of a known name keeps its secret; a new one gets one.
    patch = {
        "hooks": [{"name": "made", "url": "https://c.example.com"}, {"name": "new", "url": "https://d.example.com"}]
    }
    changed = patched(api, "/monitors/inbox", patch).json()["hooks"]
    assert changed[0]["secret"] is None
    assert changed[1]["secret"].startswith("whsec_")


def test_a_patch_changes_until_when_the_old_secret_signs(api: httpx.Client) -> None:
    hook = {"name": "own", "url": "https://a.example.com"}
    _new_monitor(api, hooks=[hook | {"secret": "whsec_" + "QUFB" * 10}])
    patched(api, "/monitors/inbox", {"hooks": [hook | {"secret": "whsec_" + "QkJC" * 10}]})
    until = at(time.time() + 60)
    changed = patched(api, "/monitors/inbox", {"hooks": [hook | {"old_secret_until": until}]}).json()
    assert changed["hooks"][0]["old_secret_until"] == until
    assert patched(api, "/monitors/inbox", {"hooks": [hook]}).json()["hooks"][0]["old_secret_until"] == until
    for wrong in (time.time() + 60, "1769860800", "2026-01-31T12:00:00", "0000-01-31T12:00:00Z", True, ["x"]):
        refused = patched(api, "/monitors/inbox", {"hooks": [hook | {"old_secret_until": wrong}]})
        assert problem_of(refused)[:2] == (422, "invalid-field")


def test_a_patch_changes_what_it_names(api: httpx.Client) -> None:
    before = _new_monitor(api, description="mails", interval=0.9)
    changed = body_of(patched(api, "/monitors/inbox", {"measures": ["brier"], "description": None, "interval": None}))
    assert (changed["measures"], changed["description"], changed["interval"]) == (["brier"], None, None)
    same = before.keys() - {"measures", "description", "interval"}
    assert {key: changed[key] for key in same} == {key: before[key] for key in same}
    assert api.get("/monitors/inbox/definition").json() == changed


def test_objects_of_a_patch_are_merged(api: httpx.Client) -> None:
    _new_monitor(api)
    first = {
        "reference": {"start": at(1.0), "end": at(9.0)},
        "recalibration": {"options": {"target_smoothing": False}, "pause": 60},
    }
    merged = patched(api, "/monitors/inbox", first).raise_for_status().json()
    changed = patched(
        api, "/monitors/inbox", {"reference": {"end": at(5.0)}, "recalibration": {"least_rows": 200}}
    ).json()
    assert changed["reference"] == {"start": at(1.0), "end": at(5.0), "batch": None}
    assert changed["recalibration"] == merged["recalibration"] | {"least_rows": 200}
    emptied = patched(api, "/monitors/inbox", {"recalibration": {"options": {"target_smoothing": None}}}).json()
    assert emptied["recalibration"] == changed["recalibration"] | {"options": {}}


@pytest.mark.parametrize(
    ("patch", "code", "pointer"),
    [
        ({"measures": ["nonsense"]}, "unknown-measure", "/measures/0"),
        ({"interval": 1.0 - 1e-16}, "invalid-option", "/interval"),
        ({"windows": [{"name": "w", "seconds": 60}]}, "invalid-option", "/windows/0/seconds"),
        ({"windows": None}, "invalid-field", "/windows"),
        ({"rules": [{"kind": "threshold", "window": "week", "above": 0.1}]}, "invalid-option", "/rules/0/window"),
        ({"rules": [{"kind": "secret"}]}, "invalid-field", "/rules/0/kind"),
        ({"rules": [{"alpha": 0.1}]}, "invalid-field", "/rules/0/kind"),
        ({"rules": [{"kind": "threshold", "above": 0.1}]}, "invalid-field", "/rules/0/window"),
        ({"name": "other"}, "invalid-field", "/name"),
        ({"reference": {"batch": "batch_of_nobody"}}, "unknown-batch-reference", "/reference/batch"),
    ],
)
def test_a_patch_leaves_a_whole_monitor_or_none(
    api: httpx.Client, patch: dict[str, Any], code: str, pointer: str
) -> None:
    before = _new_monitor(api)
    answer = patched(api, "/monitors/inbox", patch)
    assert _code(answer)[1:] == (code, [pointer])
    assert "secret" not in answer.text
    assert api.get("/monitors/inbox/definition").json() == before


def test_a_change_may_require_that_the_definition_is_unchanged(api: httpx.Client) -> None:
    _new_monitor(api)
    tag = api.get("/monitors/inbox/definition").headers["etag"]
    first = patched(api, "/monitors/inbox", {"description": "a"}, {"If-Match": tag})
    assert first.status_code == 200
    second = patched(api, "/monitors/inbox", {"description": "b"}, {"If-Match": tag})
    assert _code(second)[:2] == (412, "precondition-failed")
    assert _code(api.delete("/monitors/inbox", headers={"If-Match": tag}))[:2] == (412, "precondition-failed")
    assert api.delete("/monitors/inbox", headers={"If-Match": first.headers["etag"]}).status_code == 204


def test_an_unchanged_definition_is_304(api: httpx.Client) -> None:
    _new_monitor(api)
    tag = api.get("/monitors/inbox/definition").headers["etag"]
    assert api.get("/monitors/inbox/definition", headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize(
    ("fields", "code", "pointer"),
    [
        ({"reduction": "classwise", "n_classes": 3}, "unknown-reduction", "/reduction"),
        ({"map": "nobody"}, "unknown-map-reference", "/map"),
        ({"reference": {"batch": "batch_of_nobody"}}, "unknown-batch-reference", "/reference/batch"),
        ({"windows": []}, "invalid-field", "/windows"),
        ({"windows": [{"name": "Day", "seconds": 86400}]}, "invalid-field", "/windows/0/name"),
        ({"recalibration": {"policy": "auto", "method": "nonsense"}}, "unknown-method", "/recalibration/method"),
        ({"recalibration": {"method": "nonsense"}}, "unknown-method", "/recalibration/method"),
        ({"recalibration": {"options": {"nonsense": 1}}}, "invalid-option", "/recalibration/options"),
        ({"surplus": 1}, "invalid-field", "/surplus"),
    ],
)
def test_a_definition_that_is_wrong_is_refused(
    api: httpx.Client, fields: dict[str, Any], code: str, pointer: str
) -> None:
    assert _code(api.post("/monitors", json={"name": "inbox", **fields}))[1:] == (code, [pointer])
    assert api.get("/monitors").json()["items"] == []


def test_a_map_must_fit_what_is_watched(api: httpx.Client) -> None:
    fit = {"method": "platt", "name": "spam", "predictions": _PREDICTIONS, "labels": _LABELS}
    assert api.post("/maps", json=fit).status_code == 201
    assert _new_monitor(api, map="spam")["map"] == "spam"
    answer = api.post("/monitors", json={"name": "other", "map": "spam", "n_classes": 3})
    assert _code(answer) == (422, "wrong-shape", ["/n_classes"])


def test_a_reference_batch_is_kept_with_the_monitor(api: httpx.Client, redis: Redis) -> None:
    batch = api.post("/batches", json={"predictions": _PREDICTIONS, "labels": _LABELS}).json()["id"]
    uid = _new_monitor(api, reference={"batch": batch})["id"]
    assert api.delete(f"/batches/{batch}").status_code == 204
    reference = read_reference(redis, Keyspace(), uid).tally
    assert reference is not None
    event = reference.event()
    np.testing.assert_allclose(np.sort(event.p), _PREDICTIONS)
    assert event.y[np.argsort(event.p)].tolist() == _LABELS
    # Without a reference it is forgotten.
    assert patched(api, "/monitors/inbox", {"reference": None}).status_code == 200
    assert read_reference(redis, Keyspace(), uid).tally is None


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ({"predictions": [[0.2, 0.8], [0.9, 0.1]], "labels": [1, 0]}, "wrong-shape"),
        ({"predictions": [0.2, 0.8], "labels": [1, 0], "weights": [1, 2]}, "invalid-option"),
        ({"predictions": [0.2, 0.8]}, "no-labels"),
        ({"predictions": [0.2, 0.8], "labels": [1, 0], "scale": "logit"}, "scale-mismatch"),
    ],
)
def test_a_reference_batch_must_match_the_monitor(api: httpx.Client, batch: dict[str, Any], code: str) -> None:
    stored = api.post("/batches", json=batch).json()["id"]
    answer = api.post("/monitors", json={"name": "inbox", "reference": {"batch": stored}})
    assert _code(answer)[1:] == (code, ["/reference/batch"])


def test_no_more_monitors_than_the_quota_are_created(api: httpx.Client) -> None:
    for i in range(100):
        assert api.post("/monitors", json={"name": f"m{i}"}).status_code == 201
    assert _code(api.post("/monitors", json={"name": "one-more"}))[:2] == (429, "quota-exceeded")
    limits = api.get("/limits").json()
    assert (limits["limits"]["max_monitors"]["value"], limits["used"]["max_monitors"]) == (100, 100)
