"""Nothing that stands twice is resolved silently, and an empty id is no id, in whatever format rows come."""

from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import pytest

from backend.store.store import Store
from calibrant.client import Calibrant
from service.formats.json_body import PIECE
from tests.integration.monitors.monitored import answered, counted, monitored, refusals_of
from tests.integration.responses import problem_of
from tests.packed import arrow, npz

JSON = "application/json"
LINES = "application/x-ndjson"
EVENT = "application/cloudevents+json"
EVENTS = "application/cloudevents-batch+json"
ATTRIBUTES = {"ce-specversion": "1.0", "ce-id": "a", "ce-source": "/t", "ce-type": "com.calibrant.rows"}
TWICE = b'{"prediction": 0.5, "prediction": 0.9, "label": 1}'
ROW = b'{"prediction": 0.5, "label": 1}'
NESTED = b'{"prediction": 0.5, "label": 1, "group": null, "x": {"a": 1, "a": 2}}'


def event(content: bytes, name: str = "e") -> bytes:
    encoded = base64.b64encode(content).decode()
    kind = "com.calibrant.rows"
    return json.dumps({"specversion": "1.0", "id": name, "source": "/t", "type": kind, "data_base64": encoded}).encode()


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("rows", b'{"rows": [' + TWICE + b"]}", {"content-type": JSON}),
        ("rows", b'{"rows": [' + b'{"prediction": 0.5, "label": 1},' * 20_000 + TWICE + b"]}", {"content-type": JSON}),
        ("events", event(TWICE), {"content-type": EVENT}),
        ("events", event(b'{"rows": [' + NESTED + b"]}"), {"content-type": EVENT}),
        ("events", TWICE, ATTRIBUTES | {"content-type": JSON}),
        ("events", b'{"rows": [' + TWICE + b"]}", ATTRIBUTES | {"content-type": "text/plain"}),
    ],
)
def test_a_duplicate_key_is_refused(
    store: Store, api: httpx.Client, path: str, body: bytes, headers: dict[str, str]
) -> None:
    ledger = monitored(store)
    answer = api.post(f"/monitors/m/{path}", content=body, headers=headers)
    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (422, "invalid-field")
    assert counted(ledger) == 0


def test_the_row_with_a_duplicate_key_is_named(store: Store, api: httpx.Client) -> None:
    monitored(store)
    answer = api.post(
        "/monitors/m/rows", content=b'{"rows": [' + ROW + b"," + TWICE + b"]}", headers={"content-type": JSON}
    )
    assert problem_of(answer) == (422, "invalid-field", "/rows/1/prediction")


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ([TWICE], [0]),
        ([ROW, TWICE, ROW], [1]),
        ([b'{"prediction": "', TWICE], [0, 1]),
        ([TWICE, b"["], [0, 1]),
        ([b"null", NESTED, ROW], [0, 1]),
        ([ROW] * 20_000 + [b"{", TWICE], [20_000, 20_001]),
        ([ROW, TWICE[:-1] + b', "group": "' + b"g" * PIECE + b'"}'], [1]),
    ],
)
def test_a_line_with_a_duplicate_key_is_refused_alone(
    store: Store, api: httpx.Client, lines: list[bytes], refused: list[int]
) -> None:
    ledger = monitored(store)
    answer = answered(api.post("/monitors/m/rows", content=b"\n".join(lines), headers={"content-type": LINES}))
    assert refusals_of(answer) == [(row, "unreadable") for row in refused]
    assert counted(ledger) == len(lines) - len(refused)


def test_a_duplicate_key_in_an_event_of_a_batch_refuses_its_row_alone(store: Store, api: httpx.Client) -> None:
    monitored(store)
    body = b"[" + event(TWICE, "a") + b"," + event(b'{"prediction": 0.5, "label": 1}', "b") + b"]"
    answer = answered(api.post("/monitors/m/events", content=body, headers={"content-type": EVENTS}))
    assert (answer["joined"], answer["refused"], answer["refusals"][0]["code"]) == (1, 1, "unreadable")


@pytest.mark.parametrize(
    "headers",
    [
        [*ATTRIBUTES.items(), ("ce-id", "b"), ("content-type", JSON)],
        [("content-type", EVENT), ("content-type", JSON)],
        [("content-type", EVENT), ("content-encoding", "gzip"), ("content-encoding", "zstd")],
    ],
)
def test_a_duplicate_header_is_refused(store: Store, api: httpx.Client, headers: list[tuple[str, str]]) -> None:
    ledger = monitored(store)
    answer = api.post("/monitors/m/events", content=event(b'{"prediction": 0.5, "label": 1}'), headers=headers)
    assert answer.status_code in (415, 400, 422)
    assert counted(ledger) == 0


ROWS = [{"id": "", "prediction": 0.5, "label": 1}, {"id": "a", "prediction": 0.5, "label": 1}]


@pytest.mark.parametrize(
    ("path", "content", "kind"),
    [
        ("rows", json.dumps({"rows": ROWS}).encode(), JSON),
        ("rows", b"\n".join(json.dumps(row).encode() for row in ROWS), LINES),
        ("rows", npz(ids=np.array(["", "a"]), predictions=[0.5, 0.5], labels=[1, 1]), "application/x-npz"),
        ("rows", npz(ids=np.array([b"", b"a"]), predictions=[0.5, 0.5], labels=[1, 1]), "application/x-npz"),
        (
            "rows",
            arrow({"ids": ["", "a"], "predictions": [0.5, 0.5], "labels": [1, 1]}),
            "application/vnd.apache.arrow.stream",
        ),
        ("events", event(json.dumps({"rows": ROWS}).encode()), EVENT),
        ("events", b"[" + event(json.dumps({"rows": ROWS}).encode()) + b"]", EVENTS),
    ],
)
def test_a_row_with_an_empty_id_is_refused_in_every_format(
    store: Store, api: httpx.Client, path: str, content: bytes, kind: str
) -> None:
    ledger = monitored(store)
    for joined in (1, 0):  # sent again it counts no more than before
        answer = answered(api.post(f"/monitors/m/{path}", content=content, headers={"content-type": kind}))
        assert (answer.get("joined", 0), answer["refused"]) == (joined, 1)
        assert refusals_of(answer) == [(0, "missing-id")]
    assert counted(ledger) == 1


def test_a_row_without_an_id_still_counts(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    body = arrow({"ids": [None, "a"], "predictions": [0.5, 0.5], "labels": [1, 1]})
    kind = "application/vnd.apache.arrow.stream"
    assert answered(api.post("/monitors/m/rows", content=body, headers={"content-type": kind}))["joined"] == 2
    rows = [{"id": None, "prediction": 0.5, "label": 1}, {"prediction": 0.5, "label": 1}]
    assert answered(api.post("/monitors/m/rows", json={"rows": rows}))["joined"] == 2
    assert counted(ledger) == 4


def test_the_client_sends_an_empty_id_as_it_is(store: Store, api: httpx.Client) -> None:
    monitored(store)
    with Calibrant(str(api.base_url)) as client:
        taken = client.send_rows("m", [0.5, 0.5], [1, 0], ids=["", "b"])
    assert (taken.joined, taken.refused) == (1, 1)


@pytest.mark.slow
def test_large_bodies_of_rows_count_as_small_ones_do(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store)
    n = 30_000
    rows = [{"id": str(i), "prediction": 0.25, "label": i % 2, "group": "ab"[i % 2]} for i in range(n)]
    rows[n // 2]["label"] = 2
    document = {"rows": rows}
    sent = {"specversion": "1.0", "id": "e", "source": "/t", "type": "com.calibrant.rows", "data": document}
    several = [sent | {"id": f"e{i}", "data": row} for i, row in enumerate(rows[:9000])]
    for path, body, kind, count, joined in (
        ("rows", json.dumps(document).encode(), JSON, n, n - 1),
        ("rows", b"\n".join(json.dumps(row).encode() for row in rows), LINES, n, 0),
        ("events", json.dumps(sent).encode(), EVENT, n, 0),
        ("events", json.dumps(several).encode(), EVENTS, 9000, 0),
        ("events", json.dumps(document).encode(), "binary", n, 0),
    ):
        headers = ATTRIBUTES | {"content-type": JSON} if kind == "binary" else {"content-type": kind}
        answer = answered(api.post(f"/monitors/m/{path}", content=body, headers=headers))
        refusals = answer.pop("refusals", [])
        assert answer.get("joined", 0) == joined
        assert sum(answer.get(name, 0) for name in ("joined", "duplicates", "refused")) == count
        assert [(refusal["row"], refusal["code"]) for refusal in refusals] == [(n // 2, "invalid-label")][: count // n]
    assert counted(ledger) == n - 1


@pytest.mark.slow
def test_long_tensors_of_inference_servers_count_by_row(store: Store, api: httpx.Client) -> None:
    ledger = monitored(store, reduction="confidence", n_classes=3)
    n = 20_000
    flat = {"name": "p", "datatype": "FP64", "shape": [n, 3], "data": [0.25, 0.25, 0.5] * n}
    nested = flat | {"data": [[0.25, 0.25, 0.5]] * n}
    for i, tensor in enumerate((flat, nested)):
        headers = ATTRIBUTES | {"ce-type": "org.kubeflow.serving.inference.response", "ce-id": str(i)}
        body = json.dumps({"model_name": "m", "outputs": [tensor]}).encode()
        answer = answered(api.post("/monitors/m/events", content=body, headers=headers | {"content-type": JSON}))
        assert answer == {"accepted": n}
    labels = [{"id": f"{i}/{row}", "label": 2} for i in range(2) for row in (0, n // 2, n - 1)]
    assert answered(api.post("/monitors/m/labels", json={"rows": labels}))["joined"] == 6
    assert counted(ledger) == 6
