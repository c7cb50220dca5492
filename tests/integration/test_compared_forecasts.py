"""Several forecasts of the same outcomes compared over HTTP, by the client and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from backend.store.store import Store
from calibrant.client import Calibrant
from service.settings import Settings
from service.stack import Stack
from tests.commands import invoked, same_output
from tests.integration.conftest import serving_client
from tests.integration.responses import body_of, problem_of

N = 150
REGRESSION = {"prediction_kind": "regression"}


@pytest.fixture
def rows() -> dict[str, Any]:
    random = np.random.default_rng(7)
    mean = random.normal(size=N)
    observed = mean + 2.0 * random.normal(size=N)
    return {"observed": observed.tolist(), "mean": mean.tolist(), "variance": [1.0] * N}


@pytest.fixture
def others(api: httpx.Client, rows: dict[str, Any]) -> list[str]:
    """Batches with variances that are right, and with means of 0."""
    bodies = [rows | {"variance": [4.0] * N}, rows | {"mean": [0.0] * N}]
    return [api.post("/batches", json=REGRESSION | body).json()["id"] for body in bodies]


def test_the_answer_is_that_of_the_library(api: httpx.Client, rows: dict[str, Any], others: list[str]) -> None:
    asked = {"against": others, "interval": 0.9, "clusters": [str(i // 3) for i in range(N)]}
    answer = body_of(api.post("/evaluate", json=REGRESSION | rows | asked))
    own = {name: rows[name] for name in ("mean", "variance")}
    forecasts = {"forecasts": own, others[0]: own | {"variance": [4.0] * N}, others[1]: own | {"mean": [0.0] * N}}
    expected = calibrant.compare_distributions(rows["observed"], forecasts, interval=0.9, clusters=asked["clusters"])
    assert answer["comparison"] == json.loads(json.dumps(expected.to_dict()))
    assert answer["comparison"]["ranking"][0] == others[0]
    plain = api.post("/evaluate", json=REGRESSION | rows).json()
    assert "comparison" not in plain


def test_a_job_gives_the_same_answer_and_holds_its_batches(service: Stack, rows: dict[str, Any]) -> None:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        other = rows | {"variance": [4.0] * N}
        own, against = (http.post("/batches", json=REGRESSION | body).json()["id"] for body in (rows, other))
        map_id = http.post("/maps", json=REGRESSION | {"batch": own, "method": "variance-scaling"}).json()["id"]
        asked = REGRESSION | {"batch": own, "against": [against], "map": map_id, "score": "log-score", "lags": 2}
        at_once = http.post("/evaluate", json=asked).json()
        assert list(at_once["comparison"]["means"]) == ["forecasts", "calibrated", against]
        assert (at_once["comparison"]["score"], at_once["comparison"]["lags"]) == ("log-score", 2)
        job = http.post("/evaluate", json=asked, headers={"Prefer": "respond-async"})
        assert job.status_code == 202, job.text
        ended = http.get(job.headers["Location"], headers={"Prefer": "wait=600"}).json()
        assert ended["status"] == "succeeded", ended
        assert ended["result"]["report"] == at_once


def test_a_waiting_job_holds_all_its_batches(
    api: httpx.Client, store: Store, rows: dict[str, Any], others: list[str]
) -> None:
    asked = REGRESSION | rows | {"against": others}
    job = api.post("/evaluate", json=asked, headers={"Prefer": "respond-async"}).json()
    assert store.jobs.get(job["id"]).spec["parts_of"] == [1, 1]
    assert [store.redis.pttl(store.keys.batch(batch_id)) for batch_id in others] == [-1, -1]
    api.post(f"/jobs/{job['id']}/cancel")
    assert all(store.redis.pttl(store.keys.batch(batch_id)) > 0 for batch_id in others)


def test_what_cannot_be_compared_is_refused(api: httpx.Client, rows: dict[str, Any], others: list[str]) -> None:
    labelled = api.post("/batches", json={"predictions": [0.1, 0.9], "labels": [0, 1]}).json()["id"]
    body = REGRESSION | {"mean": rows["mean"], "variance": rows["variance"]}
    blind = api.post("/batches", json=body).json()["id"]
    moved = api.post("/batches", json=REGRESSION | rows | {"observed": [0.0] * N}).json()["id"]
    levels = {"quantiles": [[0.0, 1.0]] * N, "levels": [0.2, 0.9], "observed": rows["observed"]}
    skewed = api.post("/batches", json=REGRESSION | levels).json()["id"]
    whole = {"lower": [0.0] * N, "upper": [1.0] * N, "level": 0.5, "observed": rows["observed"]}
    interval = api.post("/batches", json=REGRESSION | whole).json()["id"]
    refused: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"against": [labelled]}, (422, "/against/0")),
        ({"against": [others[0], blind]}, (422, "/against/1")),
        ({"against": [moved]}, (422, "/against/0")),
        ({"against": [interval, skewed]}, (422, "/against/1")),
        ({"against": [others[0]] * 2}, (422, "/against")),
        ({"against": []}, (422, "/against")),
        ({"against": others * 10}, (422, "/against")),
        ({"against": "x"}, (422, "/against")),
        ({"against": ["batch_0"]}, (422, "/against/0")),
        ({"against": others, "score": "brier"}, (422, "/score")),
        ({"against": others, "score": "quantile-score"}, (422, "/score")),
        ({"against": others, "lags": -1}, (422, "/lags")),
        ({"against": others, "lags": N}, (422, "/lags")),
        ({"against": others, "lags": 1, "weights": [1.0] * N}, (422, "/lags")),
        ({"lags": 1}, (422, "/lags")),
        ({"score": "crps"}, (422, "/score")),
    ]
    for change, expected in refused:
        assert problem_of(api.post("/evaluate", json=REGRESSION | rows | change))[::2] == expected, change
    own = api.post("/batches", json=REGRESSION | rows).json()["id"]
    itself = api.post("/evaluate", json=REGRESSION | {"batch": own, "against": [own]})
    assert problem_of(itself)[::2] == (422, "/against")
    page = api.post("/evaluate", json=REGRESSION | {"batch": own, "against": others}, headers={"Accept": "text/html"})
    assert problem_of(page)[::2] == (422, "/against")
    classes = {"predictions": [0.1, 0.9], "labels": [0, 1], "against": others}
    assert problem_of(api.post("/evaluate", json=classes))[::2] == (422, "/against")


def test_batches_that_are_large_together_are_not_loaded(redis: Redis, redis_url: str, rows: dict[str, Any]) -> None:
    with serving_client(Settings(redis_url, max_unpacked_bytes=20_000)) as http:
        ids = [http.post("/batches", json=REGRESSION | rows).json()["id"] for _ in range(7)]
        assert http.post("/evaluate", json=REGRESSION | rows | {"against": ids[:2]}).status_code == 200
        large = http.post("/evaluate", json=REGRESSION | rows | {"against": ids})
        assert problem_of(large)[::2] == (422, "/against")
        assert "20,000 bytes in all" in large.text


def test_the_query_names_batches_and_the_client_has_the_same_answer(service: Stack, rows: dict[str, Any]) -> None:
    csv = "observed,mean,variance\n" + "".join(
        f"{y!r},{m!r},1.0\n" for y, m in zip(rows["observed"], rows["mean"], strict=True)
    )
    with Calibrant(service.url) as client, httpx.Client(base_url=service.url, timeout=600) as http:
        others = [client.upload_distribution(**rows | {"variance": [v] * N}).id for v in (2.0, 4.0)]
        query = {**REGRESSION, "against": ",".join(others), "lags": "1"}
        sent = body_of(http.post("/evaluate", params=query, content=csv.encode(), headers={"Content-Type": "text/csv"}))
        report = client.evaluate_distribution(**rows, against=others, lags=1)
    assert report.comparison is not None
    assert report.comparison.to_dict() == sent["comparison"]


# --- The command line


def _files(folder: Path, rows: dict[str, Any]) -> list[Path]:
    paths = []
    for name, std in (("first", 1.0), ("second", 2.0)):
        lines = [f"{y!r},{m!r},{std}" for y, m in zip(rows["observed"], rows["mean"], strict=True)]
        path = folder / f"{name}.csv"
        path.write_text("\n".join(["observed,mean,std", *lines, ""]))
        paths.append(path)
    return paths


def test_files_are_compared_with_and_without_a_server(service: Stack, rows: dict[str, Any], tmp_path: Path) -> None:
    first, second = _files(tmp_path, rows)
    asked = ("evaluate", first, "--regression", "--against", second, "--measure", "crps", "--lags", "1")
    assert "forecasts - second.csv" in same_output(service.url, *asked)
    document = json.loads(same_output(service.url, *asked, "--json"))
    assert document["comparison"]["ranking"] == ["second.csv", "forecasts"]


def test_the_command_refuses_invalid_files_and_options(rows: dict[str, Any], tmp_path: Path) -> None:
    first, second = _files(tmp_path, rows)
    moved = tmp_path / "moved.csv"
    moved.write_text(second.read_text().replace("observed,mean,std\n", "observed,mean,std\n9,0,1\n"))
    for arguments, code, words in (
        (("--against", moved), 1, "other outcomes"),
        (("--against", second, "--against", second), 2, "different file names"),
        (("--lags", "2"), 2, "needs --against"),
        (("--score", "crps"), 2, "needs --against"),
        (("--against", second, "--score", "brier"), 1, "score"),
    ):
        refused = invoked(None, "evaluate", first, "--regression", *arguments)
        assert refused.exit_code == code, refused.stderr
        assert words in refused.stderr
    plain = invoked(None, "evaluate", first, "--against", second)
    assert plain.exit_code == 2
    assert "needs --regression" in plain.stderr
