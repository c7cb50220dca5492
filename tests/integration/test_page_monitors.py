"""The pages of monitors: what they show, what their forms change, and to whom."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

from backend.monitors.alarms import happened
from backend.store.api_keys import ApiKeyStore
from backend.store.clock import stamp
from backend.store.keyspace import Keyspace
from backend.store.monitors.standings import StandingChange, Standings
from backend.store.store import Store
from schemas.monitor_alarms import Occasion, Proposal, RecalibrationData
from schemas.monitor_online import OnlineStanding, OnlineVersion
from schemas.monitor_rules import ChangeReading, EvidenceReading, RuleState
from service.settings import Settings
from tests.integration.conftest import SharedApi, serving
from tests.integration.responses import text_of
from tests.integration.visiting import ROWS, Visitor, hidden
from tests.rows import draw_event

HOSTILE = "<script>alert(1)</script>\"'&{{ 7*7 }}"
PART = {"HX-Request": "true"}
DRIFT = EvidenceReading(
    log_e=20.0, largest=20.0, bound=4.6, level=2e-9, since=None, shape="part", delta=0.5, spread=0, low=0.2, high=0.4,
    description="predictions of 0.2 to 0.4 are too low",
    change=ChangeReading(
        time="2026-03-14T06:00:00.000Z", interval=("2026-03-13T18:00:00.000Z", "2026-03-14T21:00:00.000Z"),
        predictions=(0.2, 0.4), gap=0.08, rows=1234,
        message="since 14 March predictions of 0.2 to 0.4 are 8 points too low",
    ),
)  # fmt: skip


#: Settings of a service that may send webhooks; no worker sends them.
SETTINGS: dict[str, Any] = {"webhook_hosts": "203.0.113.9", "webhook_private_addresses": "203.0.113.0/24"}


@pytest.fixture
def url(redis: Redis, shared_api: SharedApi) -> str:
    return shared_api.url(**SETTINGS)


def created(http: httpx.Client, name: str = "inbox", **fields: Any) -> None:
    windows = [{"name": "day", "seconds": 86_400}, {"name": "last", "rows": 100}]
    answer = http.post("/monitors", json={"name": name, "windows": windows, "measures": ["ece", "brier"]} | fields)
    assert answer.status_code == 201, answer.text


def sent(http: httpx.Client, name: str = "inbox", n: int = 200, **fields: Any) -> None:
    p, y = draw_event(n, 1, dtype=bool)
    rows = [{"prediction": a, "label": int(b)} | fields for a, b in zip(p.tolist(), y.tolist(), strict=True)]
    answer = http.post(f"/monitors/{name}/rows", json={"rows": rows})
    assert answer.json()["accepted"] == n


def standing_of(redis: Redis, tenant: str = "default", name: str = "inbox") -> Standings:
    keys = Keyspace(tenant)
    return Standings(redis, keys, Store.of(redis, tenant).monitors.get(name))


def alarm(redis: Redis, tenant: str = "default", number: int = 1, evidence: EvidenceReading = DRIFT) -> None:
    """Raise the alarm of the rule ``evidence``, as a check does."""
    state = RuleState(rule="evidence", kind="evidence", status="alarm", alarms=number, rows=200, evidence=evidence)
    state = state.model_copy(update={"since": stamp()})
    standing_of(redis, tenant).change(
        lambda record, standing: StandingChange(
            standing.model_copy(update={"rules": {"evidence": state}}),
            [happened(record, state, "raised", time.time())],
        )
    )


def propose(redis: Redis, map_id: str, number: str = "1") -> None:
    """Leave a challenger waiting."""
    reason = RecalibrationData(monitor="inbox", gain=0.02, low=0.01, high=0.03, rows=500)
    proposal = Proposal(id=f"proposal_{number}", created_at=stamp(), occasion=Occasion(number=1), map=map_id,
                        name="spam", alias="champion", revision=None, found=reason)  # fmt: skip
    standing_of(redis).change(lambda _, standing: StandingChange(standing.model_copy(update={"proposal": proposal})))


def events_of(visitor: Visitor, path: str, until: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """The last data of each event of a stream, once they are complete."""
    events: dict[str, str] = {}
    with visitor.stream("GET", path) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        kind, lines = "", []
        for line in answer.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                lines.append(line.removeprefix("data: "))
            elif not line and kind:
                events[kind] = "\n".join(lines)
                kind, lines = "", []
                if until(events):
                    return events
    raise AssertionError("the stream ended early")


def test_the_list_has_the_state_the_alarms_and_the_rows_of_each_monitor(visitor: Visitor, redis: Redis) -> None:
    assert "No monitors yet" in visitor.get("/ui/monitors").text
    created(visitor)
    sent(visitor)
    alarm(redis)
    created(visitor, "quiet")
    text = visitor.get("/ui/monitors").text
    quiet, inbox = (text.index(f'href="/ui/monitors/{name}"') for name in ("quiet", "inbox"))
    assert quiet < inbox
    row = re.sub(r"<[^>]+>|\s+", " ", text[inbox : text.index("</tr>", inbox)])
    assert re.search(r"inbox +alarm +1 +200 +200 ", row)
    assert "unknown" in text[quiet:inbox]
    for i in range(20):
        created(visitor, f"m{i}")
    assert 'href="/ui/monitors?cursor=' in visitor.get("/ui/monitors").text
    assert visitor.get("/ui/monitors?cursor=nonsense").status_code == 422


def test_an_alarm_without_a_change_time_shows_its_evidence(visitor: Visitor, redis: Redis) -> None:
    created(visitor)
    alarm(redis, evidence=DRIFT.model_copy(update={"change": None, "since": "2026-03-14T06:00:00.000Z"}))
    text = visitor.get("/ui/monitors/inbox").text
    assert "Predictions of 0.2 to 0.4 are too low." in text
    assert "Strongest since</dt><dd>2026-03-14 06:00 UTC" in text


def test_evidence_below_its_threshold_is_not_shown_as_a_change(visitor: Visitor, redis: Redis) -> None:
    created(visitor)
    below = DRIFT.model_copy(update={"change": None, "log_e": -0.1, "largest": 0.9})
    state = RuleState(rule="evidence", kind="evidence", status="ok", rows=200, since=stamp(), evidence=below)
    standing_of(redis).change(
        lambda _, standing: StandingChange(standing.model_copy(update={"rules": {"evidence": state}}))
    )
    text = visitor.get("/ui/monitors/inbox").text
    assert "The evidence against calibration does not reach the threshold." in text
    assert "too low" not in text


def test_an_online_map_shows_its_versions_and_its_experts(visitor: Visitor, redis: Redis) -> None:
    created(visitor, recalibration={"policy": "online"})
    assert "Online recalibration" not in visitor.get("/ui/monitors/inbox").text
    version = OnlineVersion(
        map="map_1", version=3, at="2026-03-14T06:00:00.000Z", reason="evidence", rounds=40, rows=1234
    )
    online = OnlineStanding(
        in_force="map_1", started_at=stamp(), rounds=47, rows=2345, weights={"identity": 0.25, "platt-500": 0.75},
        versions=[version], options={}, following=0, written_at=0.0,
    )  # fmt: skip
    standing_of(redis).change(lambda _, standing: StandingChange(standing.model_copy(update={"online": online})))
    text = visitor.get("/ui/monitors/inbox").text
    words = re.sub(r"<[^>]+>|\s+", " ", text[text.index('id="online"') :])
    assert re.search(r"Time buckets +47 +Labelled rows +2,345 ", words)
    assert re.search(r" 3 +2026-03-14 06:00 +evidence +1,234 ", words)
    assert re.search(r" platt-500 +75\.0 % +identity +25\.0 % ", words)
    assert 'href="/ui/maps/map_1"' in text


def test_a_monitor_is_whole_without_scripts(visitor: Visitor, redis: Redis) -> None:
    created(visitor, description=HOSTILE)
    sent(visitor, group=HOSTILE)
    alarm(redis)
    answer = text_of(visitor.get("/ui/monitors/inbox?window=last&measure=brier"))
    text = answer
    assert "<script>alert" not in text
    assert "{{ 7*7 }}" in text
    assert "49" not in re.findall(r'class="lead">([^<]*)<', text)[0]
    assert "Since 14 March predictions of 0.2 to 0.4 are 8 points too low." in text
    assert "2026-03-14 06:00 UTC (95 % interval: 2026-03-13 18:00 to 2026-03-14 21:00)" in text
    charts = re.findall(r'src="(/ui/monitors/inbox/charts/([a-z]+)\.svg\?[^"]*)"', text.replace("&amp;", "&"))
    assert [key for _, key in charts] == ["error", "evidence", "frequency", "volume", "delay", "groups", "diagram"]
    for path, _ in charts:
        drawn = visitor.get(path)
        assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml")
        assert "sandbox" in drawn.headers["content-security-policy"]
        assert "<script" not in drawn.text
    assert ("diagram", "window=last&measure=brier") in [(key, path.split("?")[1]) for path, key in charts]
    assert "/monitors/inbox/predictions" in text
    assert "client.send_predictions(" in text


def test_estimates_of_the_page_use_weighted_rows(visitor: Visitor) -> None:
    created(visitor)
    sent(visitor)
    p = np.linspace(0.01, 0.99, 300)
    rows = {"predictions": p.tolist(), "labels": (p > 0.4).astype(int).tolist(), "weights": p.tolist()}
    batch = visitor.post("/batches", json=rows | {"weights_kind": "importance"}).json()["id"]
    page = visitor.get(f"/ui/monitors/inbox?window=day&reference={batch}").text
    assert f"the weighted rows of {batch}, which count as {round(p.sum() ** 2 / (p @ p))}, without labels" in page
    assert f'name="reference" value="{batch}"' in page
    assert f"reference={batch}" in re.search(r'sse-connect="([^"]+)"', page)[1]  # type: ignore[index]
    with visitor.stream("GET", f"/ui/monitors/inbox/events?window=day&reference={batch}") as stream:
        assert any(f"the weighted rows of {batch}" in line for line in stream.iter_lines())
    refused = visitor.get("/ui/monitors/inbox?window=day&reference=batch_0")
    assert refused.status_code == 404
    hostile = text_of(visitor.get("/ui/monitors/inbox", params={"window": "day", "reference": HOSTILE}), 404)
    assert HOSTILE not in hostile


def test_a_new_monitor_has_charts_without_values(visitor: Visitor) -> None:
    created(visitor, rules=[], max_groups=0)
    text = visitor.get("/ui/monitors/inbox").text
    assert "The window has no labelled rows yet." in text
    charts = re.findall(r"/charts/([a-z]+)\.svg", text)
    assert charts == ["error", "frequency", "volume", "delay"]
    for key in charts:
        assert "yet" in visitor.get(f"/ui/monitors/inbox/charts/{key}.svg").text
    for key in ("evidence", "groups", "nothing", "..%2f..%2fx"):
        assert visitor.get(f"/ui/monitors/inbox/charts/{key}.svg").status_code == 404


@pytest.mark.parametrize("path", ["", "/charts/error.svg", "/events"])
def test_unknown_windows_measures_and_monitors_are_refused(visitor: Visitor, path: str) -> None:
    created(visitor)
    for query in ("window=week", "measure=auroc", "window=" + "x" * 5000, "measure=%00"):
        answer = visitor.get(f"/ui/monitors/inbox{path}?{query}")
        assert answer.status_code == 422
    for name in ("nobody", "%2e%2e", "x" * 500, "%3Cscript%3E"):
        missing = text_of(visitor.get(f"/ui/monitors/{name}{path}"), 404)
        assert "<script>" not in missing


def test_the_stream_sends_the_changed_parts_and_nothing_while_nothing_changes(visitor: Visitor, redis: Redis) -> None:
    created(visitor)
    sent(visitor, group="north")
    alarm(redis)
    events = events_of(visitor, "/ui/monitors/inbox/events?window=day&measure=ece", lambda seen: len(seen) == 2)
    assert events["figures"].count('src="data:image/svg+xml;base64,') == 7
    assert 'alt="Calibration error: ece, ' in events["figures"]
    assert 'id="acknowledge-evidence"' in events["actions"]
    (state,) = re.findall(r"events\?[^\"]*state=([0-9a-f]+)", visitor.get("/ui/monitors/inbox").text)
    with visitor.stream("GET", f"/ui/monitors/inbox/events?state={state}") as answer:
        chunks = answer.iter_text()
        assert next(chunks) == "retry: 1000\n\n"
        sent(visitor, n=17)
        assert "217" in next(chunks)


def test_a_stream_ends_with_its_monitor(visitor: Visitor) -> None:
    created(visitor)
    with visitor.stream("GET", "/ui/monitors/inbox/events", headers={"Last-Event-ID": "x" * 2000}) as answer:
        chunks = answer.iter_text()
        next(chunks)
        assert visitor.delete("/monitors/inbox").status_code == 204
        assert "".join(chunks).count("event: figures") <= 1


@pytest.mark.parametrize("part", [{}, PART])
def test_an_alarm_is_acknowledged_once(visitor: Visitor, redis: Redis, part: dict[str, str]) -> None:
    created(visitor)
    alarm(redis)
    text = visitor.get("/ui/monitors/inbox").text
    fields = {name: hidden(text, "acknowledge-evidence", name) for name in ("alarm", "csrf_token", "window", "measure")}
    path = "/ui/monitors/inbox/alarms/evidence/acknowledge"
    first = visitor.post(path, data=fields, headers=part)
    if part:
        assert "Acknowledged the alarm of evidence." in first.text
        assert 'id="actions" sse-swap="actions" hx-swap-oob="innerHTML"' in first.text
    else:
        assert (first.status_code, first.headers["location"]) == (303, "/ui/monitors/inbox")
    assert visitor.get("/monitors/inbox/alarms").json()["rules"][0]["status"] != "alarm"
    again = text_of(visitor.post(path, data=fields, headers=part), 409)
    assert "acknowledge-evidence" not in again


def test_another_alarm_than_the_one_on_the_page_stays(visitor: Visitor, redis: Redis) -> None:
    created(visitor)
    alarm(redis)
    fields = {"alarm": "1", "csrf_token": visitor.token("/ui/monitors/inbox")}
    alarm(redis, number=2)
    answer = visitor.post("/ui/monitors/inbox/alarms/evidence/acknowledge", data=fields)
    assert (answer.status_code, "another alarm since this page was loaded" in answer.text) == (409, True)
    assert visitor.get("/monitors/inbox/alarms").json()["rules"][0]["status"] == "alarm"
    unknown = visitor.submit("/ui/monitors/inbox/alarms/nothing/acknowledge", {"alarm": "1"})
    assert unknown.status_code == 404


@pytest.fixture
def challenger(visitor: Visitor, redis: Redis) -> str:
    """A map that waits to be promoted or rejected."""
    fitted = visitor.post("/maps", json=ROWS | {"method": "platt"})
    created(visitor)
    propose(redis, fitted.json()["id"])
    return str(fitted.json()["id"])


def test_a_challenger_is_promoted(visitor: Visitor, challenger: str) -> None:
    text = visitor.get("/ui/monitors/inbox").text
    assert f'href="/ui/maps/{challenger}"' in text
    fields = {name: hidden(text, "accept", name) for name in ("proposal", "csrf_token")}
    answer = visitor.post("/ui/monitors/inbox/proposal/accept", data=fields, headers=PART)
    assert "champion of spam now points at version 1." in answer.text
    assert visitor.get("/maps/spam/aliases/champion").json()["map"] == challenger
    assert visitor.post("/ui/monitors/inbox/proposal/accept", data=fields).status_code == 404


def test_a_challenger_is_rejected(visitor: Visitor, challenger: str) -> None:
    text = visitor.get("/ui/monitors/inbox").text
    fields = {name: hidden(text, "reject", name) for name in ("proposal", "csrf_token")}
    assert visitor.post("/ui/monitors/inbox/proposal/reject", data=fields).status_code == 303
    assert visitor.get("/maps/spam/aliases/champion").status_code == 404
    assert 'id="challenger"' not in visitor.get("/ui/monitors/inbox").text


@pytest.mark.parametrize("decision", ["accept", "reject"])
def test_a_challenger_that_replaced_the_one_on_the_page_is_left_alone(
    visitor: Visitor, redis: Redis, challenger: str, decision: str
) -> None:
    fields = {"proposal": "proposal_1"}
    propose(redis, challenger, "2")
    answer = visitor.submit(f"/ui/monitors/inbox/proposal/{decision}", fields)
    assert (answer.status_code, "Another challenger has replaced" in answer.text) == (404, True)
    assert visitor.get("/monitors/inbox/proposal").json()["id"] == "proposal_2"


def test_a_delivery_is_sent_again(visitor: Visitor) -> None:
    created(visitor, hooks=[{"name": "ops", "url": "https://203.0.113.9/hook"}])
    delivery = visitor.post("/monitors/inbox/hooks/ops/test").json()["id"]
    text = visitor.get("/ui/monitors/inbox").text
    assert f'id="resend-{delivery}"' in text
    answer = visitor.submit(f"/ui/monitors/inbox/deliveries/{delivery}/resend", {}, part=True)
    assert "The delivery will be sent again." in answer.text
    assert visitor.submit("/ui/monitors/inbox/deliveries/delivery_0/resend", {}).status_code == 404


FORMS = [
    "alarms/evidence/acknowledge",
    "proposal/accept",
    "proposal/reject",
    "deliveries/delivery_0/resend",
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_form_needs_the_token_and_the_origin_of_the_page(visitor: Visitor, redis: Redis, form: str) -> None:
    created(visitor)
    alarm(redis)
    token = visitor.token("/ui/monitors/inbox")
    path = f"/ui/monitors/inbox/{form}"
    assert visitor.post(path, data={"alarm": "1"}).status_code == 403
    assert visitor.post(path, data={"alarm": "1", "csrf_token": token + "x"}).status_code == 403
    other = visitor.post(path, data={"alarm": "1", "csrf_token": token}, headers={"Origin": "http://evil.example"})
    assert other.status_code == 403
    assert visitor.post(path, content=json.dumps({}), headers={"Content-Type": "application/json"}).status_code == 415
    assert visitor.get(path).status_code == 405
    assert visitor.get("/monitors/inbox/alarms").json()["rules"][0]["status"] == "alarm"


def test_a_key_sees_and_changes_its_own_monitors_only(redis: Redis, redis_url: str) -> None:
    keys = [ApiKeyStore(redis).create(tenant, tenant=tenant, scope="write").text for tenant in ("owner", "next")]
    with (
        serving(Settings(redis_url, **SETTINGS)) as url,
        Visitor(url) as owner,
        Visitor(url) as other,
        Visitor(url) as stranger,
    ):
        for visitor, key in ((owner, keys[0]), (other, keys[1])):
            assert visitor.sign_in(key).status_code == 303
            visitor.headers["x-csrf-token"] = visitor.token()
        created(owner, description="between us")
        sent(owner)
        alarm(redis, "owner")
        created(other, "mine")
        assert "inbox" in owner.get("/ui/monitors").text
        listed = other.get("/ui/monitors").text
        assert ("inbox" in listed, "mine" in listed) == (False, True)
        for path in ("", "/charts/error.svg", "/events"):
            answer = other.get(f"/ui/monitors/inbox{path}")
            assert (answer.status_code, "between us" in answer.text) == (404, False)
            assert stranger.get(f"/ui/monitors/inbox{path}").headers["location"].startswith("/ui/sign-in")
        for form in FORMS:
            assert other.submit(f"/ui/monitors/inbox/{form}", {"alarm": "1"}).status_code == 404
            answer = stranger.post(f"/ui/monitors/inbox/{form}", data={"alarm": "1"})
            assert answer.headers["location"].startswith("/ui/sign-in")
        assert owner.get("/monitors/inbox/alarms").json()["rules"][0]["status"] == "alarm"
        text = owner.get("/ui/monitors/inbox").text
        assert "Authorization: Bearer $CALIBRANT_API_KEY" in text.replace("&#34;", '"')
        assert keys[0] not in text


def test_a_key_that_may_only_read_gets_no_buttons_and_changes_nothing(redis: Redis, redis_url: str) -> None:
    keys = {scope: ApiKeyStore(redis).create(scope, tenant="one", scope=scope).text for scope in ("read", "write")}
    with serving(Settings(redis_url, **SETTINGS)) as url, Visitor(url) as writer, Visitor(url) as reader:
        writer.sign_in(keys["write"])
        writer.headers["x-csrf-token"] = writer.token()
        reader.sign_in(keys["read"])
        created(writer, hooks=[{"name": "ops", "url": "https://203.0.113.9/hook"}])
        writer.post("/monitors/inbox/hooks/ops/test")
        alarm(redis, "one")
        text = reader.get("/ui/monitors/inbox").text
        assert "monitor.test" in text
        assert 'id="acknowledge-evidence"' not in text
        assert "Resend" not in text
        for form in FORMS:
            assert reader.submit(f"/ui/monitors/inbox/{form}", {"alarm": "1"}).status_code == 403
        assert reader.get("/monitors/inbox/alarms").json()["rules"][0]["status"] == "alarm"
