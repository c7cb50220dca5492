"""The CloudEvents SDK for Python, of both generations, against the call that receives events."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import httpx
import pytest
import requests
from cloudevents.core.bindings.http import to_binary_event, to_structured_event
from cloudevents.core.v1.event import CloudEvent
from cloudevents.v1.conversion import to_binary, to_structured
from cloudevents.v1.http import CloudEvent as FirstCloudEvent

from backend.store.store import Store
from tests.integration.monitors.monitored import counted, monitored

#: A request of an event: its headers and its body.
Message = tuple[dict[str, str], bytes]
Attributes = dict[str, Any]


def current(write: Callable[[CloudEvent], Any]) -> Callable[[Attributes, Any], Message]:
    def message(attributes: Attributes, rows: Any) -> Message:
        written = write(CloudEvent(attributes, rows))
        return written.headers, written.body

    return message


def first(write: Callable[[FirstCloudEvent], Any]) -> Callable[[Attributes, Any], Message]:
    def message(attributes: Attributes, rows: Any) -> Message:
        headers, body = write(FirstCloudEvent(attributes, rows))
        return headers, body

    return message


SENDERS = {
    "binary": current(to_binary_event),
    "structured": current(to_structured_event),
    "first-binary": first(to_binary),
    "first-structured": first(to_structured),
}


@pytest.fixture(params=SENDERS)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def send(mode: str, api: httpx.Client) -> Callable[..., dict[str, Any]]:
    """Sends an event in one mode; what is not 0 of the answer."""

    def sent(kind: str, name: str, rows: Any, **attributes: Any) -> dict[str, Any]:
        headers, body = SENDERS[mode](
            {"type": f"com.calibrant.{kind}", "source": "/shop", "id": name, **attributes}, rows
        )
        url = api.base_url.join("/monitors/m/events")
        answer = requests.post(str(url), data=body, headers=headers, timeout=600)
        assert answer.status_code == 200, answer.text
        return {field: count for field, count in answer.json().items() if count}

    return sent


def test_an_event_of_the_sdk_counts_once(store: Store, send: Callable[..., dict[str, Any]]) -> None:
    ledger = monitored(store)
    rows = {"rows": [{"prediction": 0.2, "label": 0}, {"prediction": 0.8, "label": 1}]}
    assert send("rows", "event-1", rows) == {"accepted": 2, "joined": 2}
    assert send("rows", "event-1", rows) == {"duplicates": 2}
    assert send("rows", "event-2", {"prediction": 0.4, "label": 1}) == {"accepted": 1, "joined": 1}
    assert counted(ledger) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["order-17", "100%", "a b", 'say "x"', "Größe", "a%2Fb"])
def test_a_label_finds_its_prediction_by_the_id_of_the_event(
    store: Store, api: httpx.Client, mode: str, send: Callable[..., dict[str, Any]], name: str
) -> None:
    monitored(store)
    at: Any = datetime.now(UTC)
    if mode.startswith("first"):  # which sends text as it is given
        at = at.isoformat()
    assert send("predictions", name, {"prediction": 0.25}, time=at) == {"accepted": 1}
    # The specification has header values percent-encoded; the first generation of the SDK does not encode them.
    stored = unquote(name) if mode == "first-binary" else name
    labels = {"rows": [{"id": stored, "label": 1}]}
    assert api.post("/monitors/m/labels", json=labels).json()["joined"] == 1


def test_data_in_bytes_are_read(store: Store, send: Callable[..., dict[str, Any]]) -> None:
    monitored(store)
    body = json.dumps({"prediction": 0.4, "label": 0}).encode()
    assert send("rows", "event-1", body, datacontenttype="application/json") == {"accepted": 1, "joined": 1}


def test_an_event_of_another_type_is_ignored(store: Store, send: Callable[..., dict[str, Any]]) -> None:
    monitored(store)
    assert send("unknown", "event-1", {"prediction": 0.4}) == {"ignored": 1}
