"""Alarms over HTTP, and the workers that look, deliver and recalibrate."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest
from redis import Redis
from scipy.special import ndtri

from backend.store.api_keys import ApiKeyStore
from backend.store.chores import Chore, schedule
from backend.store.jobs.queues import queue_key
from backend.store.keyspace import Shared
from backend.store.store import Store
from benchmarks.chaos.proc import children
from tests.integration.test_workers import supervisor, until

BODY: dict[str, Any] = {"name": "m", "windows": [{"name": "day", "seconds": 86_400}], "bucket": 3600}


def labelled(n: int, seed: int, shift: float) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    p = random.uniform(0.05, 0.95, size=n)
    true = p / (p + (1 - p) * np.exp(-shift))
    labels = (random.random(n) < true).astype(int)
    rows = zip(p.tolist(), labels.tolist(), strict=True)
    return {"rows": [{"id": f"{seed}-{i}", "prediction": q, "label": y} for i, (q, y) in enumerate(rows)]}


def send(api: httpx.Client, call: str, body: Any = None, method: str = "POST") -> Any:
    answer = api.request(method, call, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def status(api: httpx.Client) -> str:
    return str(send(api, "/monitors/m/alarms", method="GET")["rules"][0]["status"])


@pytest.mark.slow
def test_a_drift_is_detected_reported_and_corrected_automatically(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    rows = {"predictions": [0.1, 0.4, 0.6, 0.9] * 20, "labels": [0, 1, 0, 1] * 20}
    send(api, "/maps", rows | {"method": "identity", "name": "scores"})
    send(api, "/maps/scores/aliases/champion", {"version": 1}, "PUT")
    send(api, "/monitors", BODY | {"map": "scores@champion", "recalibration": {"policy": "auto", "least_rows": 500}})
    assert status(api) == "unknown"
    send(api, "/monitors/m/rows", labelled(3000, 0, 1.0))
    until(redis, lambda: send(api, "/maps/scores/aliases/champion", method="GET")["version"] == 2)
    calibrated = send(api, "/calibrate", {"map": "scores@champion", "predictions": [0.5]})["predictions"]
    assert calibrated[0] == pytest.approx(0.73, abs=0.03)
    # The alias is moved before that is noted, and the alarm may be cleared soon after.
    audit = until(redis, lambda: (entries := send(api, "/monitors/m/audit", method="GET")["items"])[3:] and entries)
    assert [entry["action"] for entry in audit[-4:]] == [
        "evidence-restarted",
        "alias-moved",
        "challenger-proposed",
        "alarm-raised",
    ]
    # Rows that come now are mapped by the challenger before they are counted.
    before = Store.of(redis).monitors.get("m")
    send(api, "/monitors/m/predictions", {"rows": [{"id": "x", "prediction": 0.5}]})
    entry = cast(bytes, redis.hget(Store.of(redis).keys.monitor(before.id).ids(), "x"))
    assert np.frombuffer(entry[1:9], "<f8")[0] == pytest.approx(calibrated[0])
    assert len(children(worker.pid)) == 3  # one of jobs, one that looks, one that recalibrates


def test_an_alarm_is_listed_and_acknowledged(api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]) -> None:
    send(api, "/monitors", BODY)
    send(api, "/monitors/m/rows", labelled(3000, 0, 1.0))
    until(redis, lambda: status(api) == "alarm")
    alarms = send(api, "/monitors/m/alarms?limit=1", method="GET")
    assert [event["type"] for event in alarms["items"]] == ["monitor.alarm.raised"]
    assert alarms["rules"][0]["evidence"]["largest"] >= alarms["rules"][0]["evidence"]["bound"]
    assert send(api, "/monitors/m/alarms/evidence/acknowledge")["status"] == "unknown"
    again = api.post("/monitors/m/alarms/evidence/acknowledge")
    assert (again.status_code, again.json()["type"]) == (409, "/problems/no-alarm")
    first = send(api, "/monitors/m/audit?limit=1", method="GET")
    rest = send(api, f"/monitors/m/audit?cursor={first['next']}", method="GET")
    actions = [entry["action"] for entry in (*first["items"], *rest["items"])]
    assert actions == ["evidence-restarted", "alarm-acknowledged", "alarm-raised"]
    assert rest["next"] is None


@pytest.mark.slow
def test_a_long_recalibration_of_a_tenant_does_not_delay_that_of_another(
    api: httpx.Client, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    keys = {name: ApiKeyStore(redis).create(name, tenant=name, scope="write").text for name in ("greedy", "other")}

    def request(tenant: str, name: str, **fields: Any) -> None:
        """A monitor with rows, and a request for a challenger."""
        headers = {"Authorization": f"Bearer {keys[tenant]}"}
        recalibration = {"policy": "off", "least_rows": 500} | fields
        calls = (
            ("/monitors", BODY | {"name": name, "rules": [], "recalibration": recalibration}),
            (f"/monitors/{name}/rows", labelled(3000, 0, 1.0)),
            (f"/monitors/{name}/recalibrate", None),
        )
        for call, body in calls:
            api.post(call, json=body, headers=headers).raise_for_status()

    def running() -> list[str]:
        owned = cast(list[bytes], redis.hkeys(Shared.chore_owners()))
        return [tenant for kind, tenant, _ in (name.decode().split(":") for name in owned) if kind == "recalibrate"]

    def has_proposal(tenant: str) -> bool:
        headers = {"Authorization": f"Bearer {keys[tenant]}"}
        return api.get("/monitors/m/proposal", headers=headers).is_success

    until(redis, lambda: api.get("/monitors").status_code == 401)  # the API has read the keys
    with supervisor(redis_url, tmp_path / "worker.log", "--drain-seconds", "0.3"):
        for name in "abc":
            request("greedy", name, method="pl-de", options={"max_segments": 20, "folds": 100})
        until(redis, running)
        request("other", "m")
        until(redis, lambda: has_proposal("other"))
        assert running().count("greedy") == 1


@pytest.mark.slow
def test_a_challenger_is_fitted_on_request_without_an_alarm(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    send(api, "/monitors", BODY | {"rules": [], "recalibration": {"policy": "off", "least_rows": 500}})
    send(api, "/monitors/m/rows", labelled(3000, 0, 1.0))
    answer = api.post("/monitors/m/recalibrate")
    assert (answer.status_code, answer.json()["number"], answer.json()["recalibration"]["method"]) == (202, 1, "platt")
    until(redis, lambda: api.get("/monitors/m/proposal").is_success)
    audit = send(api, "/monitors/m/audit", method="GET")["items"]
    assert [(entry["action"], entry["rule"], entry["alarm"]) for entry in audit] == [
        ("challenger-proposed", None, 1),
        ("recalibration-requested", None, 1),
    ]
    seen = api.get("/monitors/m/proposal").headers["ETag"]
    assert api.get("/monitors/m/proposal", headers={"If-None-Match": seen}).status_code == 304
    for decision in ("accept", "reject"):
        refused = api.post(f"/monitors/m/proposal/{decision}", headers={"If-Match": '"of-another-proposal"'})
        assert (refused.status_code, refused.json()["type"]) == (412, "/problems/precondition-failed")
    assert api.post("/monitors/m/proposal/accept", headers={"If-Match": seen}).json()["version"] == 1


@pytest.mark.slow
def test_a_challenger_of_forecasts_is_accepted_and_applied(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    forecast = {"kind": "quantiles", "levels": levels}
    body = {"name": "m", "prediction_kind": "regression", "forecast": forecast, "rules": []}
    created = send(api, "/monitors", body | {"recalibration": {"options": {"support": [None, 40.0]}}})
    assert created["recalibration"]["method"] == "quantile-recalibration"
    outcomes, narrow = np.random.default_rng(4).normal(size=3000), (0.5 * ndtri(levels)).tolist()
    send(api, "/monitors/m/rows", {"rows": [{"quantiles": narrow, "observed": float(y)} for y in outcomes]})
    send(api, "/monitors/m/recalibrate", {})
    until(redis, lambda: api.get("/monitors/m/proposal").is_success)
    page = api.get("/ui/monitors/m").text
    assert "Promote to champion" in page
    accepted = send(api, "/monitors/m/proposal/accept")
    assert (accepted["version"], accepted["found"]["champion"]) == (1, None)
    applied = {"map": "m@champion", "prediction_kind": "regression", "quantiles": [narrow], "levels": levels}
    assert send(api, "/calibrate", applied)["quantiles"][0][0] == pytest.approx(ndtri(0.05), abs=0.1)
    assert api.get(f"/maps/{accepted['map']}").json()["document"]["support"] == [None, 40.0]
    assert "quantile-recalibration" in api.get(f"/ui/maps/{accepted['map']}").text


@pytest.mark.parametrize(
    ("call", "method", "code"),
    [
        ("/monitors/other/recalibrate", "POST", "unknown-monitor"),
        ("/monitors/other/alarms", "GET", "unknown-monitor"),
        ("/monitors/other/audit", "GET", "unknown-monitor"),
        ("/monitors/m/alarms/other/acknowledge", "POST", "unknown-rule"),
        ("/monitors/m/alarms/evidence/acknowledge", "POST", "no-alarm"),
        ("/monitors/m/proposal", "GET", "unknown-proposal"),
        ("/monitors/m/proposal/accept", "POST", "unknown-proposal"),
        ("/monitors/m/proposal/reject", "POST", "unknown-proposal"),
        ("/monitors/m/alarms?cursor=x", "GET", "invalid-cursor"),
    ],
)
def test_missing_monitors_alarms_and_challengers_are_404(api: httpx.Client, call: str, method: str, code: str) -> None:
    send(api, "/monitors", BODY)
    answer = api.request(method, call)
    assert answer.json()["type"] == f"/problems/{code}"


@pytest.mark.slow
def test_the_chore_of_a_worker_that_is_killed_is_done_again_and_once(
    api: httpx.Client, redis: Redis, worker: subprocess.Popen[bytes]
) -> None:
    policy = {"policy": "propose", "least_rows": 500, "method": "pl3"}
    send(api, "/monitors", BODY | {"recalibration": policy})
    send(api, "/monitors/m/rows", labelled(3000, 0, 1.0))
    chore = Chore("recalibrate", "default", Store.of(redis).monitors.get("m").id)
    owner = until(redis, lambda: redis.hget(Shared.chore_owners(), chore.field)).decode()
    os.kill(int(redis.hget(f"rq:worker:{owner}", "pid") or 0), signal.SIGKILL)
    proposal = until(
        redis, lambda: api.get("/monitors/m/proposal").is_success and send(api, "/monitors/m/proposal", method="GET")
    )
    assert proposal["version"] is None
    until(redis, lambda: not redis.hexists(Shared.chore_owners(), chore.field))
    audit = send(api, "/monitors/m/audit", method="GET")["items"]
    assert [entry["action"] for entry in audit] == ["challenger-proposed", "alarm-raised"]
    assert send(api, "/monitors/m/proposal/accept")["version"] == 1
    assert send(api, "/maps/m/aliases/champion", method="GET")["version"] == 1


@pytest.mark.slow
def test_a_supervisor_drains_and_keeps_no_idle_worker_of_chores(redis: Redis, worker: subprocess.Popen[bytes]) -> None:
    until(redis, lambda: len(children(worker.pid)) == 1)
    schedule(redis, Chore("look", "default", "gone"))
    until(redis, lambda: len(children(worker.pid)) == 2)
    until(redis, lambda: redis.keys("calibrant::chore*") == [])
    assert redis.keys("rq:queue:*") == redis.keys("rq:job:*") == []
    assert redis.llen(queue_key("chores-look")) == 0
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(600) == 0
    assert redis.keys("rq:workers*") == []
