"""Labels and classes by name, over HTTP and by the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import httpx
import numpy as np
import pandas as pd
import pytest
import torch

import calibrant
from calibrant.client import Calibrant, UnusableRows
from calibrant.core.errors import InvalidLabel, UnknownReduction
from tests.integration.responses import body_of, problem_of

NAMES = ["bird", "cat", "dog"]
RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.dirichlet(np.ones(3), 300)
LABELS = (RANDOM.random((300, 1)) > MATRIX.cumsum(axis=1)).sum(axis=1)
TEXTS = [NAMES[k] for k in LABELS]
ROWS: dict[str, Any] = {"predictions": MATRIX.tolist(), "labels": TEXTS, "class_names": NAMES}


def test_labels_may_be_names_of_classes(http: httpx.Client) -> None:
    plain = http.post("/evaluate", json=ROWS | {"labels": LABELS.tolist(), "class_names": None}).json()
    assert body_of(http.post("/evaluate", json=ROWS))["measures"] == plain["measures"]


def test_the_whole_vector_has_measures_of_its_own(http: httpx.Client) -> None:
    report = http.post("/evaluate", json=ROWS | {"reduction": "canonical"}).raise_for_status().json()
    assert list(report["measures"]) == ["brier", "log-loss", "ks-by-predicted-class"]
    assert report["measures"]["brier"]["value"] is not None


def test_a_map_keeps_the_names_of_its_classes_and_needs_them_only_once(http: httpx.Client) -> None:
    fitted = http.post("/maps", json=ROWS | {"method": "temperature"}).raise_for_status().json()
    assert fitted["class_names"] == NAMES
    assert fitted["document"]["class_names"] == NAMES
    body = {"predictions": ROWS["predictions"], "labels": TEXTS, "map": fitted["id"], "measures": ["brier"]}
    report = http.post("/evaluate", json=body).raise_for_status().json()
    assert report["after"]["measures"]["brier"]["value"] is not None
    copied = http.post("/maps/import", json={"document": fitted["document"]}).raise_for_status().json()
    assert copied["class_names"] == NAMES


def test_a_map_of_other_classes_than_the_rows_is_refused(http: httpx.Client) -> None:
    map_id = http.post("/maps", json=ROWS | {"method": "temperature"}).raise_for_status().json()["id"]
    other = ROWS | {"predictions": MATRIX[:, ::-1].tolist(), "class_names": NAMES[::-1]}
    batch, last = [http.post("/batches", json=other).raise_for_status().json()["id"] for _ in range(2)]
    for body, pointer in (
        (other | {"map": map_id}, "/map"),
        (other | {"maps": [map_id]}, "/maps/0"),
        ({"batch": batch, "map": map_id}, "/map"),
        ({"batches": [batch, last], "map": map_id}, "/map"),
    ):
        answer = http.post("/evaluate", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["errors"][0]["pointer"] == pointer
        assert "the rows have 'dog', 'cat', 'bird'" in answer.text


def test_a_batch_keeps_the_names_for_jobs_and_appended_rows(http: httpx.Client, client: Calibrant) -> None:
    batch = http.post("/batches", json=ROWS).raise_for_status().json()
    assert batch["class_names"] == NAMES
    more = {"predictions": ROWS["predictions"][:2], "labels": TEXTS[:2]}
    assert http.post(f"/batches/{batch['id']}/rows", json=more).raise_for_status().json()["n"] == 302
    assert client.fit("pl3", batch["id"], reduction="class:0").class_names == NAMES  # a job
    body = {"batch": batch["id"], "reduction": "classwise"}
    assert "bird" in http.post("/evaluate", json=body, headers={"Accept": "text/html"}).text


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"class_names": None}, "/labels"),
        ({"class_names": ["bird", "cat"]}, "/class_names"),
        ({"class_names": ["bird", "cat", "cat"]}, "/class_names"),
        ({"class_names": ["bird", "cat", ""]}, "/class_names/2"),
        ({"class_names": ["bird", "cat", "x" * 257]}, "/class_names/2"),
        ({"class_names": ["bird", "cat", 3]}, "/class_names/2"),
        ({"class_names": "bird,cat,dog"}, "/class_names"),
        ({"class_names": {"bird": 0}}, "/class_names"),
        ({"predictions": [], "labels": []}, "/predictions"),
        ({"labels": [*TEXTS[:-1], "secret"]}, "/labels/299"),
        ({"labels": [*TEXTS[:-1], 3]}, "/labels/299"),
        ({"labels": [*TEXTS[:-1], None]}, "/labels/299"),
        ({"labels": [*TEXTS[:-1], "do\0g"]}, "/labels/299"),
        ({"labels": [0, *TEXTS[1:]]}, "/labels/1"),
    ],
)
@pytest.mark.parametrize("path", ["/evaluate", "/maps", "/batches"])
def test_wrong_names_are_named_and_never_echoed(
    http: httpx.Client, path: str, changes: dict[str, Any], pointer: str
) -> None:
    answer = http.post(path, json=ROWS | changes)
    assert 400 <= answer.status_code < 500
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert "secret" not in answer.text


@pytest.mark.slow
def test_a_large_body_of_names_is_read_in_pieces(http: httpx.Client) -> None:
    n = 400_000
    p = np.round(np.random.default_rng(0).random(n), 3)
    labels = ["spam" if probability > 0.5 else "ham" for probability in p.tolist()]
    body = {"predictions": p.tolist(), "labels": labels, "class_names": ["ham", "spam"], "measures": ["brier"]}
    assert http.post("/evaluate", json=body).raise_for_status().json()["n"] == n


def test_the_client_takes_what_the_library_takes(client: Calibrant) -> None:
    frame = pd.DataFrame(MATRIX, columns=[f"prob_{name}" for name in NAMES])
    expected = client.evaluate(predictions=MATRIX, labels=LABELS, measures=["ece"]).measures
    assert client.evaluate(frame, TEXTS, measures="ece").measures == expected
    assert client.evaluate(MATRIX, TEXTS, class_names=NAMES, measures="ece").measures == expected
    assert client.fit("temperature", frame, TEXTS).class_names == NAMES
    assert client.upload(frame, TEXTS).class_names == NAMES
    binary = client.evaluate(
        [0.1, 0.9, 0.4], ["no", "yes", "no"], pos_label="yes", groups=[1, 2, 1], measures=["brier"]
    )
    assert set(binary.groups or {}) == {"1", "2"}
    with pytest.raises(TypeError):
        client.evaluate(MATRIX, TEXTS, TEXTS)
    with pytest.raises(UnusableRows, match="sample_weight"):
        client.evaluate([0.1, 0.9], [0, 1], weights=[1, 1], sample_weight=[1, 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/evaluate", {"measures": ["ece"]}),
        ("/evaluate", {"measures": ["ece"], "classes": [1, 2]}),
        ("/maps", {"method": "platt", "name": "of-a-named-class"}),
        ("/diagrams", {"diagram": "reliability"}),
        ("/diagrams", {"diagram": {"name": "by-size", "start": 50, "measures": ["ks"]}}),
        ("/decisions", {"capacity": 5}),
        ("/segments", {"features": {"x": LABELS.tolist()}, "min_rows": 20}),
    ],
)
def test_a_reduction_names_a_class_of_a_request_or_of_its_batch(
    http: httpx.Client, path: str, more: dict[str, Any]
) -> None:
    def answer(rows: dict[str, Any], reduction: str) -> Any:
        sent = http.post(path, json={**rows, **more, "reduction": reduction}, headers={"Accept": "application/json"})
        answer = body_of(sent, 201 if path == "/maps" else 200)
        return answer["document"]["parameters"] if path == "/maps" else answer

    k = 1 if "classes" in more else 2  # the place among the classes
    expected = answer(ROWS, f"class:{k}")
    assert answer(ROWS, "class:dog") == expected
    refused = http.post(path, json={**ROWS, **more, "reduction": "class:cow"})
    assert problem_of(refused) == (422, "unknown-reduction", "/reduction")
    if "features" not in more:
        batch = {"batch": http.post("/batches", json=ROWS).raise_for_status().json()["id"]}
        assert answer(batch, "class:dog") == expected


def test_a_reduction_names_a_class_of_a_map_or_of_models(http: httpx.Client) -> None:
    map_id = http.post("/maps", json=ROWS | {"method": "temperature"}).raise_for_status().json()["id"]
    rows = {"predictions": ROWS["predictions"], "labels": LABELS.tolist(), "measures": ["ece"]}
    named, numbered = (
        body_of(http.post("/evaluate", json=rows | {"map": map_id, "reduction": f"class:{name}"}))
        for name in ("dog", 2)
    )
    assert named == numbered
    shared = {"labels": TEXTS, "class_names": NAMES, "measures": ["brier"]}
    models = {"models": {"a": ROWS["predictions"], "b": MATRIX[:, [1, 0, 2]].tolist()}}
    named, numbered = (
        body_of(http.post("/compare", json=shared | models | {"reduction": f"class:{name}"})) for name in ("dog", 2)
    )
    assert named == numbered
    ids = [http.post("/batches", json=ROWS).raise_for_status().json()["id"] for _ in range(2)]
    body = {"batches": dict(zip("ab", ids, strict=True)), "reduction": "class:dog", "measures": ["brier"]}
    assert body_of(http.post("/compare", json=body))["reduction"] == "class:2"
    gone = {"batch": "batch_0", "reduction": "class:dog"}
    assert problem_of(http.post("/evaluate", json=gone))[1:] == ("unknown-batch-reference", "/batch")


def test_one_column_is_that_of_the_negative_class(http: httpx.Client) -> None:
    labels, names = ["yes" if k == 1 else "no" for k in LABELS], ["no", "yes"]
    rows: dict[str, Any] = {"predictions": MATRIX[:, 1].tolist(), "labels": labels, "class_names": names}
    features: dict[str, Any] = {"features": {"x": LABELS.tolist()}, "min_rows": 20}
    for path, more in (("/decisions", {"capacity": 5}), ("/segments", features), ("/maps", {"method": "platt"})):
        refused = http.post(path, json={**rows, **more, "reduction": "class:no"})
        assert problem_of(refused) == (422, "unknown-reduction", "/reduction")
        body_of(http.post(path, json={**rows, **more, "reduction": "class:yes"}), 201 if path == "/maps" else 200)
    for call in (calibrant.decision_curve, lambda *arrays, **how: calibrant.fit("platt", *arrays, **how)):
        with pytest.raises(UnknownReduction, match="the class of predictions of shape"):
            call(MATRIX[:, 1], labels, class_names=names, reduction="class:no")


def test_a_class_is_named_for_batches_with_other_orders(http: httpx.Client) -> None:
    ids = [
        http.post("/batches", json={**ROWS, "class_names": names}).raise_for_status().json()["id"]
        for names in (NAMES, NAMES[::-1])
    ]
    refused = http.post("/evaluate", json={"batches": ids, "reduction": "class:dog"})
    assert problem_of(refused) == (422, "invalid-option", "/reduction")


#: Names that are numbers, but not those of their classes.
DIGITS = ["1", "2", "0"]


@pytest.mark.parametrize("name", DIGITS)
def test_a_class_whose_name_is_a_number_is_another_with_the_client(client: Calibrant, name: str) -> None:
    """Over HTTP, digits are the number of a class; the library and its client look among the names first."""
    rows: dict[str, Any] = {"class_names": DIGITS, "reduction": f"class:{name}"}
    labels = [DIGITS[k] for k in LABELS]
    k = DIGITS.index(name)
    expected = calibrant.evaluate(MATRIX[:, k], k == LABELS, measures=["brier"])["brier"].value
    for evaluate in (calibrant.evaluate, client.evaluate):
        assert evaluate(MATRIX, labels, measures=["brier"], **rows).measures["brier"].value == pytest.approx(expected)
    local = calibrant.decision_curve(MATRIX, labels, thresholds=[0.5], **rows).to_dict()
    assert local["prevalence"] == pytest.approx(np.mean(k == LABELS))
    assert client.decision_curve(MATRIX, labels, thresholds=[0.5], **rows).to_dict() == local
    fitted = client.fit("platt", MATRIX, labels, **rows)
    assert fitted.reduction == f"class:{k}"


RECORDS = [[{"label": name, "score": p} for name, p in zip(NAMES, row, strict=True)] for row in MATRIX.tolist()]
P = MATRIX[:, 1]
Y = (LABELS == 1).astype(int)


@pytest.mark.parametrize(
    ("predictions", "labels", "options"),
    [
        (MATRIX, TEXTS, {"class_names": NAMES, "reduction": "class:cat"}),
        pytest.param(MATRIX, TEXTS, {"class_names": NAMES, "classes": ["bird", "cat"]}, marks=pytest.mark.slow),
        (pd.DataFrame(MATRIX[:, ::-1], columns=NAMES[::-1]), TEXTS, {"reduction": "class:cat"}),
        pytest.param(P.reshape(-1, 1), Y.reshape(-1, 1), {"weights": np.ones((300, 1))}, marks=pytest.mark.slow),
        pytest.param(MATRIX.astype(np.float16), LABELS, {}, marks=pytest.mark.slow),
        pytest.param(torch.tensor(MATRIX, dtype=torch.bfloat16), LABELS, {}, marks=pytest.mark.slow),
        pytest.param(RECORDS, TEXTS, {"reduction": "class:cat"}, marks=pytest.mark.slow),
    ],
)
def test_the_client_measures_what_the_library_measures(
    client: Calibrant, predictions: Any, labels: Any, options: dict[str, Any]
) -> None:
    expected = calibrant.evaluate(predictions, labels, measures=["ece", "brier"], **options)
    report = client.evaluate(predictions, labels, measures=["ece", "brier"], **options)
    assert {key: estimate.value for key, estimate in report.measures.items()} == {
        key: pytest.approx(estimate.value, abs=1e-12) for key, estimate in expected.measures.items()
    }
    if "classes" in options:
        return
    fitted = client.fit("isotonic", predictions, labels, name="accepted", **options)
    compared = client.compare(predictions, labels, ["accepted"], measures=["brier"], **options).comparison
    assert compared is not None
    assert len(compared.contestants) == 2
    drawn = client.diagram("reliability", predictions, labels, **options)
    assert drawn.startswith(b"<svg")
    assert client.report_html(predictions, labels, **options).startswith("<!doctype html>")
    applied = calibrant.load(fitted.document).apply(predictions)
    np.testing.assert_allclose(client.calibrate(fitted.id, predictions), applied)


def test_the_client_orders_columns_by_the_names_of_a_map(client: Calibrant) -> None:
    frame = pd.DataFrame(MATRIX, columns=NAMES)
    fitted = client.fit("temperature", frame, TEXTS)
    expected = client.calibrate(fitted.id, frame)
    pd.testing.assert_frame_equal(client.calibrate(fitted.id, frame[NAMES[::-1]])[NAMES], expected)
    report = client.evaluate(MATRIX, TEXTS, map=fitted.id, measures="brier")
    assert report == client.evaluate(MATRIX, LABELS, map=fitted.id, measures="brier")


def test_the_client_recognises_what_the_library_recognises(client: Calibrant) -> None:
    with pytest.raises(InvalidLabel, match="predictions are the first argument"):
        client.evaluate(Y, P)
    with pytest.warns(UserWarning, match="all predictions are 0 or 1"):
        client.evaluate((P > 0.5).astype(int), Y, measures="brier")
    fitted = calibrant.fit("platt", P, Y)
    calls: list[Callable[[], Any]] = [
        lambda: client.evaluate(P, Y, map=cast(Any, fitted)),
        lambda: client.compare(P, Y, [fitted]),
        lambda: client.calibrate(cast(Any, fitted), P),
        lambda: client.report_html(P, Y, map=cast(Any, fitted)),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"stored map; client\.import_map\(map, name=\.\.\.\) stores"):
            call()


def test_metadata_of_the_inference_protocol_has_the_names(http: httpx.Client, client: Calibrant) -> None:
    client.fit("temperature", MATRIX, LABELS, class_names=["bird", "ca,t", "dög"], name="named-model")
    client.fit("temperature", MATRIX, LABELS, name="unnamed-model")
    named, unnamed = (http.get(f"/v2/models/{name}-model").json()["parameters"] for name in ("named", "unnamed"))
    assert json.loads(named["class_names"]) == ["bird", "ca,t", "dög"]
    assert "class_names" not in unnamed
