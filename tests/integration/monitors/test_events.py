"""CloudEvents come to a monitor: ours, and those of the loggers of inference servers as they are."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from backend.store.monitors.ledger import Ledger
from backend.store.store import Store
from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.monitors.monitored import answered, counted, monitored, refusals_of

HOUR_AGO = datetime.now(UTC) - timedelta(hours=1)
#: As KServe's logger sends them, whatever the content type of the inference request was.
KSERVE = {
    "ce-specversion": "1.0",
    "ce-id": "0009174a-24a8-4603-b098-09c8799950e9",
    "ce-source": "http://localhost:9081/",
    "ce-type": "org.kubeflow.serving.inference.response",
    "ce-time": f"{HOUR_AGO:%Y-%m-%dT%H:%M:%S}.080736102Z",
    "ce-inferenceservicename": "sklearn-iris",
    "ce-namespace": "default",
    "ce-component": "predictor",
    "ce-endpoint": "",
    "content-type": "application/x-www-form-urlencoded",
}
#: As Seldon Core's executor does: the event's id is not the request's.
SELDON = {
    "ce-specversion": "1.0",
    "ce-id": "68345c32-d144-4e21-a840-55e7e809c002",
    "ce-requestid": "33fb419e-8d6b-44e0-a084-8bd4bd4dbf7b",
    "ce-source": "http://:8000/",
    "ce-type": "io.seldon.serving.inference.response",
    "ce-modelid": "classifier",
    "content-type": "application/json",
}
EVENT = {"content-type": "application/cloudevents+json"}


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return monitored(store, bucket=3600)


def event(kind: str, rows: Any, name: str = "e1", **attributes: Any) -> dict[str, Any]:
    fields = {"specversion": "1.0", "id": name, "source": "/tests", "type": f"com.calibrant.{kind}", "data": rows}
    return fields | attributes


def post(api: httpx.Client, body: Any, headers: dict[str, str], query: str = "") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return api.post(f"/monitors/m/events{query}", content=content, headers=headers)


def labelled(api: httpx.Client, *ids: str) -> int:
    """How many of these ids are those of predictions that waited for a label."""
    rows = [{"id": name, "label": 1} for name in ids]
    return int(api.post("/monitors/m/labels", json={"rows": rows}).json()["joined"])


def test_an_event_of_ours_counts_its_rows_once(ledger: Ledger, api: httpx.Client) -> None:
    rows = {"rows": [{"prediction": 0.2, "label": 0}, {"prediction": 0.8, "label": 1}, {"id": "own", "prediction": 1}]}
    answer = answered(post(api, event("rows", rows), EVENT))
    assert (answer["joined"], answer["refused"]) == (2, 1)
    assert answer["refusals"][0] | {"detail": ""} == {"row": 2, "code": "missing-label", "detail": "", "rows": 1}
    again = answered(post(api, event("rows", rows), EVENT))
    assert (again["duplicates"], again["refused"]) == (2, 1)
    assert counted(ledger) == 2
    assert set(ledger.totals()) == {"predictions", "labels", "joined", "duplicates", "refused"}


def test_an_event_may_be_a_single_row_and_gives_it_its_id_and_time(ledger: Ledger, api: httpx.Client) -> None:
    sent = event("predictions", {"prediction": 0.25}, "p1", time=f"{HOUR_AGO:%Y-%m-%dT%H:%M:%S}Z")
    assert answered(post(api, sent, EVENT)) == {"accepted": 1}
    labels = event("labels", {"label": 1}, "p1", time=f"{HOUR_AGO:%Y-%m-%dT%H:%M:%S}+00:00")
    assert answered(post(api, labels, EVENT)) == {"accepted": 1, "joined": 1}
    assert ledger.buckets.numbers(0, 2**31) == [int(HOUR_AGO.timestamp() // 3600)]


def test_a_batch_is_taken_in_its_order(ledger: Ledger, api: httpx.Client) -> None:
    batch = [
        event("predictions", {"prediction": 0.25}, "a"),
        event("labels", {"rows": [{"id": "a", "label": 0}, {"id": "b", "label": 2}]}, "c"),
        event("predictions", {"prediction": 0.5}, "b"),
        {**event("rows", None, "d"), "type": "com.example.other"},
    ]
    answer = answered(post(api, batch, {"content-type": "application/cloudevents-batch+json"}))
    refusals = answer.pop("refusals")
    assert answer == {"accepted": 3, "joined": 1, "refused": 1, "ignored": 1}
    assert [(refusal["row"], refusal["code"]) for refusal in refusals] == [(2, "invalid-label")]


BATCH = {"content-type": "application/cloudevents-batch+json"}


@pytest.mark.parametrize(
    "bad",
    [5, {}, event("rows", {"prediction": 0.5, "label": 1}, ""), event("rows", None, data_base64="%")]
    + [event("rows", {"prediction": 0.5, "label": 1}, data_base64=base64.b64encode(b'{"prediction": 0.5}').decode())]
    + [event("predictions", body) for body in ([1], None, 0.5, {"rows": 5}, {"rows": [], "more": 1})],
)
def test_a_bad_event_of_a_batch_is_one_refused_row_and_the_others_count(
    ledger: Ledger, api: httpx.Client, bad: Any
) -> None:
    good = [event("rows", {"prediction": p, "label": 1}, f"g{p}") for p in (0.25, 0.5)]
    answer = answered(post(api, [good[0], bad, good[1]], BATCH))
    assert (answer["accepted"], answer["refused"]) == (2, 1)
    assert refusals_of(answer) == [(1, "unreadable")]
    assert counted(ledger) == 2


def test_an_event_of_a_batch_that_holds_too_much_is_named(ledger: Ledger, redis_url: str) -> None:
    many = {"rows": [{"prediction": 0.5, "label": 1}] * 11}
    with serving_client(Settings(redis_url, max_rows=10)) as http:
        answer = post(http, [event("rows", {"prediction": 0.5, "label": 1}), event("rows", many)], BATCH)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (413, "/1/data/rows")
    assert ledger.totals() == {}


def test_the_same_id_of_two_sources_is_one_row_or_by_source_two(ledger: Ledger, api: httpx.Client) -> None:
    batch = [event("predictions", {"prediction": 0.5}, "1", source=f"/{name}") for name in "ab"]
    assert answered(post(api, batch, BATCH, "?by=id")) == {"accepted": 1, "duplicates": 1}
    assert answered(post(api, batch, BATCH, "?by=source")) == {"accepted": 2}
    assert labelled(api, "1", "/a/1", "/b/1") == 3
    answer = post(api, batch, BATCH, "?by=type")
    assert (answer.status_code, answer.json()["errors"][0]["parameter"]) == (422, "by")


def test_binary_mode_and_data_in_base64_say_the_same(ledger: Ledger, api: httpx.Client) -> None:
    body = json.dumps({"prediction": 0.25}).encode()
    headers = {
        "ce-specversion": "1.0",
        "ce-id": "%C3%A9%20%22",
        "ce-source": "/t",
        "ce-type": "com.calibrant.predictions",
    }
    assert answered(post(api, body, headers | {"content-type": "application/json"})) == {"accepted": 1}
    encoded = event("predictions", None, 'é "', data_base64=base64.b64encode(body).decode())
    assert answered(post(api, encoded, EVENT)) == {"duplicates": 1}


def test_kserve_logs_its_answers_as_they_are(ledger: Ledger, api: httpx.Client) -> None:
    several = {"predictions": [0.2, 0.9, [0.4]]}
    assert answered(post(api, several, KSERVE)) == {"accepted": 3}
    assert answered(post(api, several, KSERVE)) == {"duplicates": 3}
    assert labelled(api, *(f"{KSERVE['ce-id']}/{i}" for i in range(3))) == 3
    assert answered(post(api, {"predictions": [0.5]}, KSERVE | {"ce-id": "one"})) == {"accepted": 1}
    assert labelled(api, "one") == 1


def test_requests_are_ignored_and_the_answer_says_so(ledger: Ledger, api: httpx.Client) -> None:
    request = KSERVE | {"ce-type": "org.kubeflow.serving.inference.request"}
    assert answered(post(api, {"instances": [[6.8, 2.8]]}, request)) == {"ignored": 1}
    assert ledger.totals() == {}


def test_the_open_inference_protocol_has_outputs_of_which_one_is_taken(ledger: Ledger, api: httpx.Client) -> None:
    outputs = [
        {"name": "predict", "shape": [2], "datatype": "INT64", "data": [1, 0]},
        {"name": "score", "shape": [2, 1], "datatype": "FP32", "data": [0.75, 0.25]},
        {"name": "other", "shape": [2], "datatype": "FP32", "data": [0.5, 0.5]},
    ]
    assert answered(post(api, {"model_name": "m", "outputs": outputs}, KSERVE)) == {"accepted": 2}
    assert answered(post(api, {"outputs": outputs}, KSERVE | {"ce-id": "x"}, "?output=other")) == {"accepted": 2}
    assert labelled(api, f"{KSERVE['ce-id']}/0", "x/1") == 2
    assert ledger.buckets.tally(0, 2**31).event().p.tolist() == [0.5, 0.75]


@pytest.mark.parametrize(
    "answer",
    [
        {"data": {"names": ["proba"], "ndarray": [[0.4378]]}, "meta": {}},
        {"data": {"tensor": {"shape": [1, 1], "values": [0.4378]}}},
        {"predictions": [[0.4378]]},
    ],
)
def test_seldon_logs_its_answers_under_the_id_of_the_request(
    ledger: Ledger, api: httpx.Client, answer: dict[str, Any]
) -> None:
    assert answered(post(api, answer, SELDON)) == {"accepted": 1}
    assert labelled(api, SELDON["ce-requestid"]) == 1


def test_mlserver_states_an_older_version_of_the_same_headers(ledger: Ledger, api: httpx.Client) -> None:
    outputs = [{"name": "predict_proba", "shape": [1], "datatype": "FP64", "data": [0.5]}]
    assert answered(post(api, {"outputs": outputs}, SELDON | {"ce-specversion": "0.3"})) == {"accepted": 1}


@pytest.mark.parametrize(
    "answer",
    [b"\xff", {"outputs": []}, {"predictions": {"a": 1}}, {"data": {"strData": "x"}}, {"error": "away"}, [0.5]],
)
def test_an_answer_without_predictions_is_one_refused_row(ledger: Ledger, api: httpx.Client, answer: Any) -> None:
    counts = answered(post(api, answer, KSERVE))
    assert (counts["refused"], counts["refusals"][0]["code"]) == (1, "unreadable")
    assert ledger.totals() == {"refused": 1}


def test_vectors_are_taken_by_a_monitor_of_their_classes(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, n_classes=3, reduction="confidence", bucket=3600)
    outputs = [{"name": "p", "shape": [2, 3], "datatype": "FP32", "data": [0.5, 0.25, 0.25, 0.125, 0.125, 0.75]}]
    assert answered(post(api, {"outputs": outputs}, KSERVE)) == {"accepted": 2}
    labels = [{"id": f"{KSERVE['ce-id']}/{i}", "label": 2} for i in range(2)]
    api.post("/monitors/m/labels", json={"rows": labels})
    event_rows = ledger.buckets.tally(0, 2**31).event()
    assert (event_rows.p.tolist(), event_rows.y.tolist()) == ([0.5, 0.75], [0, 1])


@pytest.mark.parametrize(
    ("body", "headers", "pointer"),
    [
        ({"id": "1", "source": "/", "type": "t"}, EVENT, "/specversion"),
        (event("rows", {}, ""), EVENT, "/id"),
        (event("rows", 5), EVENT, "/data"),
        (event("rows", {"rows": 5}), EVENT, "/data/rows"),
        (event("rows", None, data_base64="%"), EVENT, "/data_base64"),
        (event("rows", {"prediction": 0.5, "label": 1}, data_base64="e30="), EVENT, "/data"),
        (event("rows", [], data_base64="e30="), EVENT, "/data"),
        ([], EVENT, ""),
        ({"rows": []}, {"content-type": "application/cloudevents-batch+json"}, ""),
        ({}, KSERVE | {"ce-specversion": "2.0"}, "/specversion"),
    ],
)
def test_an_invalid_event_is_refused_with_its_place(
    ledger: Ledger, api: httpx.Client, body: Any, headers: dict[str, str], pointer: str
) -> None:
    answer = post(api, body, headers)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert ledger.totals() == {}


def test_a_body_without_events_is_refused(ledger: Ledger, api: httpx.Client) -> None:
    assert post(api, {}, {"content-type": "text/plain"}).status_code == 415
    assert post(api, {}, {"content-type": "application/json"}).json()["errors"][0]["pointer"] == "/specversion"
    assert ledger.totals() == {}


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        (KSERVE, {"outputs": [{"name": "p", "shape": [2, 2], "datatype": "FP32", "data": [0.88, 0.12, 0.19, 0.81]}]}),
        (KSERVE, {"predictions": [[0.88, 0.12], [0.19, 0.81]]}),
        (SELDON, {"data": {"ndarray": [[0.88, 0.12], [0.19, 0.81]]}}),
    ],
)
def test_two_columns_of_a_binary_model_are_monitored_by_the_second(
    store: Store, api: httpx.Client, headers: dict[str, str], answer: Any
) -> None:
    ledger = monitored(store, n_classes=2, reduction="class:1", retention=1000 * 86_400, bucket=86_400)
    assert answered(post(api, answer, headers)) == {"accepted": 2}
    name = headers.get("ce-requestid", headers["ce-id"])
    assert labelled(api, f"{name}/0", f"{name}/1") == 2
    tally = ledger.buckets.tally(0, 2**31)
    assert sorted(tally.event().p) == pytest.approx([0.12, 0.81], abs=1e-6)
