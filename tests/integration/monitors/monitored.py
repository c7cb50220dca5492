"""Monitors that rows are sent to."""

from __future__ import annotations

from typing import Any

import httpx

from backend.store.clock import stamp
from backend.store.keyspace import new_id
from backend.store.monitors.definitions import Definitions
from backend.store.monitors.ledger import Ledger
from backend.store.store import Store
from schemas.base import DAY, HOUR
from schemas.monitors import MonitorBody, MonitorRecord
from tests.integration.responses import body_of


def monitored(store: Store, name: str = "m", **changes: Any) -> Ledger:
    """A monitor of these fields, by what it has counted."""
    definition = {"name": name, "reduction": "binary", "bucket": HOUR, "horizon": DAY} | changes
    body = MonitorBody.model_validate(definition)
    own = {"id": new_id("monitor"), "created_at": stamp(), "started_at": 0.0}
    record = Definitions(store.redis, store.keys).put(MonitorRecord(**body.model_dump(), **own))
    return Ledger(store.redis, store.keys, record)


def new_monitor(http: httpx.Client, **fields: Any) -> str:
    """The path of a monitor that was created with these fields, under a new name."""
    name = new_id("monitor").replace("_", "-").lower()
    body_of(http.post("/monitors", json={"name": name} | fields), 201)
    return f"/monitors/{name}"


def send(http: httpx.Client, monitor: str, what: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return answered(http.post(f"{monitor}/{what}", json={"rows": rows}))


def window_of(http: httpx.Client, monitor: str) -> dict[str, Any]:
    """The only window of a monitor."""
    (window,) = body_of(http.get(monitor))["windows"]
    return dict(window)


def answered(response: httpx.Response) -> dict[str, Any]:
    """The answer of a call that counted something; the counts that are 0 left out."""
    return {name: count for name, count in body_of(response).items() if count}


def refusals_of(answer: dict[str, Any]) -> list[tuple[int, str]]:
    """The row and the code of each refusal."""
    return [(refusal["row"], refusal["code"]) for refusal in answer["refusals"]]


def counted(ledger: Ledger) -> int:
    """How many rows a monitor has counted with their labels."""
    return len(ledger.buckets.tally(0, 2**31))
