"""Rows in clusters, sent in every format, stored, appended, and evaluated at once and in jobs."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from schemas.maps import FitSpec
from tests.body_formats import JSON, NPY, WRITE_ARRAYS
from tests.integration.responses import body_of, text_of

RANDOM = np.random.default_rng(2)
P = RANDOM.random(120)
Y = (RANDOM.random(120) < P).astype(int)
CLUSTERS = [f"user {i // 4}" for i in range(120)]
ROWS = {"predictions": P, "labels": Y, "clusters": np.array(CLUSTERS)}
BODY: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist(), "clusters": CLUSTERS}
OPTIONS: dict[str, Any] = {"measures": ["brier", "ece", "calibration-slope"], "interval": 0.9, "resamples": 200}


def _local(**options: Any) -> Any:
    report = calibrant.evaluate(P, Y, clusters=CLUSTERS, **OPTIONS, **options).to_dict()
    return json.loads(json.dumps(report["measures"]))


@pytest.mark.parametrize("kind", [kind for kind in WRITE_ARRAYS if kind != NPY])
def test_the_answer_in_every_format_is_that_of_the_library(http: httpx.Client, kind: str) -> None:
    if kind == JSON:
        answer = http.post("/evaluate", json=BODY | OPTIONS | {"cluster_variance": "cr1"})
    else:
        query = {**OPTIONS, "measures": json.dumps(OPTIONS["measures"]), "cluster_variance": "cr1"}
        answer = http.post("/evaluate", content=WRITE_ARRAYS[kind](ROWS), headers={"Content-Type": kind}, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.json()["clusters"] == 30
    assert answer.json()["measures"] == _local(cluster_variance="cr1")


def test_a_batch_keeps_its_clusters_also_for_jobs(http: httpx.Client) -> None:
    first, then = ({name: column[rows] for name, column in BODY.items()} for rows in (slice(0, 70), slice(70, None)))
    batch = http.post("/batches", json=first).json()["id"]
    appended = http.post(f"/batches/{batch}/rows", json=then)
    assert appended.status_code == 200, appended.text
    assert http.post("/evaluate", json=OPTIONS | {"batch": batch}).json()["measures"] == _local()
    queued = http.post("/evaluate", json=OPTIONS | {"batch": batch}, headers={"Prefer": "respond-async"})
    ended = http.get(queued.headers["Location"], headers={"Prefer": "wait=600"}).json()
    assert ended["result"]["report"]["measures"] == _local()
    without = {name: column for name, column in then.items() if name != "clusters"}
    refused = http.post(f"/batches/{batch}/rows", json=without).json()
    assert refused["errors"][0]["pointer"] == "/clusters"


def test_methods_of_the_client_take_clusters(client: Calibrant) -> None:
    answer = client.evaluate(P, Y, clusters=np.arange(120) // 4, **OPTIONS)
    assert answer["brier"].interval == pytest.approx(_local()["brier"]["interval"])
    for method in ("spline", "update"):
        fitted = client.fit(method, P, labels=Y, clusters=CLUSTERS)
        assert fitted.document == calibrant.fit(method, P, Y, clusters=CLUSTERS).to_document()


def test_a_report_of_clusters_says_how_to_repeat_it(http: httpx.Client) -> None:
    page = text_of(http.post("/evaluate", json=BODY, headers={"Accept": "text/html"}))
    assert "&#34;clusters&#34;" in page or '"clusters"' in page


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"clusters": CLUSTERS[1:]}, "/clusters"),
        ({"clusters": ["", *CLUSTERS[1:]]}, "/clusters/0"),
        ({"clusters": [None, *CLUSTERS[1:]]}, "/clusters/0"),
        ({"clusters": list(range(120))}, "/clusters/0"),
        ({"clusters": [[name] for name in CLUSTERS]}, "/clusters/0"),
        ({"clusters": "user"}, "/clusters"),
        ({"clusters": []}, "/clusters"),
        ({"clusters": ["x" * 257, *CLUSTERS[1:]]}, "/clusters/0"),
        ({"cluster_variance": "hc3"}, "/cluster_variance"),
    ],
)
def test_invalid_clusters_are_refused(http: httpx.Client, fields: dict[str, Any], pointer: str) -> None:
    problem = http.post("/evaluate", json=BODY | {"measures": ["brier"]} | fields).json()
    assert problem["status"] == 422
    assert problem["errors"][0]["pointer"] == pointer
    assert "user" not in json.dumps(problem)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/diagrams", {"diagram": "by-size"}),
        ("/decisions", {"recall": 0.5}),
        ("/grades", {"groups": ["A"] * 120, "predictions": [0.25] * 120}),
    ],
)
def test_calls_that_assume_independent_rows_refuse_clusters(
    http: httpx.Client, path: str, fields: dict[str, Any]
) -> None:
    refused = body_of(http.post(path, json=BODY | fields), 422)
    assert refused["errors"][0]["pointer"] == "/clusters"


def test_rows_of_monitors_have_no_clusters(http: httpx.Client) -> None:
    http.post("/monitors", json={"name": "clustered"})
    rows = {"rows": [{"id": "1", "prediction": 0.5, "label": 1, "cluster": "a"}]}
    answer = http.post("/monitors/clustered/rows", json=rows).json()
    assert answer["accepted"] == 0
    batch = http.post("/batches", json=BODY).json()["id"]
    refused = http.post("/monitors", json={"name": "beside", "reference": {"batch": batch}}).json()
    assert refused["errors"][0]["pointer"] == "/reference/batch"
    assert "clusters" in refused["errors"][0]["detail"]
    assert "cluster" in json.dumps(answer)


def test_jobs_of_earlier_versions_state_that_groups_are_clusters() -> None:
    stored = {"method": "pl", "options": {}, "batch": "batch_1", "seed": 0, "reduction": None, "group_folds": True}
    assert FitSpec.model_validate(stored).group_folds
