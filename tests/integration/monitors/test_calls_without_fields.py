"""Calls about a monitor whose bodies have no fields: a field that would have no effect is refused."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.integration.responses import place_of

CALLS = (
    "recalibrate",
    "proposal/accept",
    "proposal/reject",
    "alarms/evidence/acknowledge",
    "deliveries/delivery_1/resend",
    "hooks/pager/test",
)


@pytest.fixture(autouse=True)
def _monitor(api: httpx.Client) -> None:
    api.post("/monitors", json={"name": "m"}).raise_for_status()


def _problem(answer: httpx.Response) -> tuple[int, str, list[tuple[str, str]]]:
    problem: dict[str, Any] = answer.json()
    errors = [(place_of(error), error["detail"]) for error in problem["errors"]]
    return answer.status_code, problem["type"].removeprefix("/problems/"), errors


@pytest.mark.parametrize("call", CALLS)
def test_fields_in_the_body_are_refused(api: httpx.Client, call: str) -> None:
    unknown = "is not a field of this request"
    refused = _problem(api.post(f"/monitors/m/{call}", json={"window": "day", "a/b": 1}))
    assert refused == (422, "invalid-field", [("/window", unknown), ("/a~1b", unknown)])
    for body in (b"[]", b"null", b"window=day", b'{"window"', b"\x1f\x8b", b" " * 20_000 + b"{}", b"[" * 10_000):
        status, code, _ = _problem(api.post(f"/monitors/m/{call}", content=body))
        assert (status, code) == (422, "invalid-field"), body[:20]
    assert api.get("/monitors/m/audit").json()["items"] == []


@pytest.mark.parametrize("call", CALLS)
def test_no_body_and_an_empty_object_are_the_same_call(api: httpx.Client, call: str) -> None:
    bare = api.post(f"/monitors/m/{call}")
    for content in (b"", b"{}", b" \r\n", b"\n{ }\n"):
        for headers in (
            {},
            {"Content-Type": "application/json"},
            {"Content-Type": "application/x-www-form-urlencoded"},
        ):
            again = api.post(f"/monitors/m/{call}", content=content, headers=headers)
            assert (again.status_code, again.json().get("type")) == (bare.status_code, bare.json().get("type"))
    assert bare.status_code == (202 if call == "recalibrate" else 404 if "alarms" not in call else 409)


def test_a_correction_in_the_body_is_refused_with_its_place(api: httpx.Client) -> None:
    refused = _problem(api.post("/monitors/m/recalibrate", json={"correction": "label-shift"}))
    assert refused == (422, "invalid-field", [("/correction", "must be in the query, not in the body")])
    keyed = {"Idempotency-Key": "k"}
    assert api.post("/monitors/m/recalibrate", json={"correction": "label-shift"}, headers=keyed).status_code == 422
    asked = api.post("/monitors/m/recalibrate?correction=label-shift", headers=keyed)
    assert (asked.status_code, asked.json()["number"]) == (202, 1)
