"""Labels that are booleans, in every format and on every call that takes labels: true is the event."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from tests.body_formats import CSV, JSON, NPY, NPZ, WITH_NULL, WRITE_ARRAYS, WRITE_ROWS
from tests.integration.responses import problem_of
from tests.packed import arrow, npz

RANDOM = np.random.default_rng(1)
P = RANDOM.uniform(size=300)
Y = RANDOM.uniform(size=300) < P
FORMATS = [kind for kind in WRITE_ARRAYS if kind != NPY]


def _send(http: httpx.Client, path: str, kind: str, arrays: dict[str, Any], **options: Any) -> httpx.Response:
    return http.post(path, content=WRITE_ARRAYS[kind](arrays), headers={"Content-Type": kind}, params=options)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("predictions", [P, np.column_stack([1 - P, P])], ids=["one column", "two columns"])
def test_true_is_the_event(http: httpx.Client, kind: str, predictions: Any) -> None:
    expected = http.post("/evaluate", json={"predictions": predictions.tolist(), "labels": Y.astype(int).tolist()})
    answer = _send(http, "/evaluate", kind, {"predictions": predictions, "labels": Y})
    assert answer.json() == expected.raise_for_status().json()


@pytest.mark.parametrize("kind", FORMATS)
def test_boolean_labels_are_stored_and_fitted_as_numbers(http: httpx.Client, kind: str) -> None:
    rows = {"predictions": P, "labels": Y}
    whole = {"predictions": P, "labels": Y.astype(int)}
    stored = _send(http, "/batches", kind, rows).raise_for_status().json()
    appended = _send(http, f"/batches/{stored['id']}/rows", kind, whole).raise_for_status().json()
    assert appended["n"] == 600
    query = {} if kind == JSON else {"method": "isotonic"}
    if kind == JSON:
        fits = [
            http.post("/maps", json={"predictions": P.tolist(), "labels": y.tolist(), "method": "isotonic"}).json()
            for y in (Y, Y.astype(int))
        ]
    else:
        fits = [_send(http, "/maps", kind, body, **query).json() for body in (rows, whole)]
    assert fits[0]["digest"] == fits[1]["digest"]


@pytest.mark.parametrize("kind", FORMATS)
def test_booleans_of_several_classes_are_refused(http: httpx.Client, kind: str) -> None:
    predictions = np.full((300, 3), 1 / 3)
    refused = _send(http, "/evaluate", kind, {"predictions": predictions, "labels": Y})
    assert problem_of(refused) == (422, "invalid-label", "/labels")
    assert "from 0 to 2, not booleans" in refused.json()["detail"]


def test_booleans_with_names_of_classes_are_refused(http: httpx.Client) -> None:
    body = {"predictions": [0.2, 0.8], "labels": [False, True], "class_names": ["true", "false"]}
    assert problem_of(http.post("/evaluate", json=body)) == (422, "invalid-label", "/labels")


@pytest.mark.parametrize(
    "labels", [[True, 0, 1], [0, True, 1], [True, None, False], [True, "true", False], [[True], [False], [True]]]
)
def test_labels_of_several_types_are_refused(http: httpx.Client, labels: list[Any]) -> None:
    refused = http.post("/evaluate", json={"predictions": [0.1, 0.5, 0.9], "labels": labels})
    assert refused.status_code in (400, 422)
    assert refused.json()["errors"][0]["pointer"].startswith("/labels")


@pytest.mark.parametrize("at", [199_999, *(pytest.param(at, marks=pytest.mark.slow) for at in (0, 99_999))])
def test_one_number_among_many_booleans_is_refused(http: httpx.Client, at: int) -> None:
    labels: list[Any] = [True, False] * 100_000
    labels[at] = 1
    refused = http.post("/evaluate", json={"predictions": [0.5] * 200_000, "labels": labels})
    assert problem_of(refused)[:2] == (422, "not-a-number")
    text = "predictions,labels\n" + "".join(f"0.5,{label}\n" for label in labels)
    refused = http.post("/evaluate", content=text, headers={"Content-Type": CSV})
    assert problem_of(refused)[:2] == (422, "not-a-number")


@pytest.mark.parametrize("field", ["predictions", "weights"])
def test_other_booleans_are_refused(http: httpx.Client, field: str) -> None:
    rows: dict[str, Any] = {"predictions": P, "labels": Y, "weights": np.ones(300)} | {field: Y}
    for kind in FORMATS:
        refused = _send(http, "/evaluate", kind, rows)
        assert problem_of(refused)[1] == "not-a-number"
        assert problem_of(refused)[2].startswith(f"/{field}")


def test_empty_cells_beside_words_and_nulls_are_refused(http: httpx.Client) -> None:
    text = b"predictions,labels\n0.5,true\n0.5,\n"
    assert problem_of(http.post("/evaluate", content=text, headers={"Content-Type": CSV}))[2] == "/labels/1"
    body = arrow({"predictions": [0.5, 0.5], "labels": [True, None]})
    sent = http.post("/evaluate", content=body, headers={"Content-Type": "application/vnd.apache.arrow.stream"})
    assert problem_of(sent)[1:] == ("not-a-number", "/labels/1")


# --- Monitors


def _monitor(http: httpx.Client, name: str, **fields: Any) -> str:
    http.post("/monitors", json={"name": name, **fields}).raise_for_status()
    return f"/monitors/{name}/rows"


@pytest.mark.parametrize("kind", list(WRITE_ROWS))
def test_a_monitor_counts_true_as_the_event(http: httpx.Client, kind: str) -> None:
    name = f"booleans-{list(WRITE_ROWS).index(kind)}"
    path = _monitor(http, name)
    rows = [{"id": str(i), "prediction": 0.5, "label": i < 3} for i in range(4)]
    sent = http.post(path, content=WRITE_ROWS[kind](rows), headers={"Content-Type": kind})
    assert sent.json()["accepted"] == 4, sent.text
    window = http.get(f"/monitors/{name}").json()["windows"][0]
    assert window["label_rate"] == 0.75


@pytest.mark.parametrize("kind", WITH_NULL)
def test_a_monitor_of_several_classes_refuses_booleans(http: httpx.Client, kind: str) -> None:
    path = _monitor(http, f"many-{list(WRITE_ROWS).index(kind)}", n_classes=3)
    rows = [{"id": "a", "prediction": [0.2, 0.3, 0.5], "label": True}]
    sent = http.post(path, content=WRITE_ROWS[kind](rows), headers={"Content-Type": kind})
    assert sent.status_code == 422 or sent.json()["accepted"] == 0


def test_a_monitor_of_several_classes_refuses_an_array_of_booleans(http: httpx.Client) -> None:
    path = _monitor(http, "many-npz", n_classes=3)
    body = npz(predictions=np.full((2, 3), 1 / 3), labels=np.array([True, False]))
    assert problem_of(http.post(path, content=body, headers={"Content-Type": NPZ}))[1] == "not-a-number"


def test_a_row_without_a_label_beside_booleans_is_refused_alone(http: httpx.Client) -> None:
    path = _monitor(http, "gaps")
    rows: list[dict[str, Any]] = [
        {"id": "a", "prediction": 0.5, "label": True},
        {"id": "b", "prediction": 0.5, "label": None},
    ]
    for i, kind in enumerate(WITH_NULL):
        named = [row | {"id": f"{row['id']}{i}"} for row in rows]
        sent = http.post(path, content=WRITE_ROWS[kind](named), headers={"Content-Type": kind}).json()
        assert (sent["accepted"], sent["refused"], sent["refusals"][0]["code"]) == (1, 1, "missing-label"), kind
