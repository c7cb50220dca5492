"""``POST /recommendations``, its method and the command, which answer as ``calibrant.recommend``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

import calibrant
from calibrant.cli.main import app
from calibrant.client import Calibrant
from service.stack import Stack
from tests.commands import invoked, succeeded
from tests.integration.responses import body_of, problem_of

RANDOM = np.random.default_rng(5)
Z = RANDOM.normal(0.0, 2.0, 600)
P = (1.0 / (1.0 + np.exp(-Z))).round(6)
Y = (RANDOM.random(600) < 1.0 / (1.0 + np.exp(-Z / 2.0))).astype(int)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}


def _plain(document: Any) -> Any:
    return json.loads(json.dumps(document))


@pytest.mark.parametrize(
    "used",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"seed": 3, "weights": [1.0 + i % 3 for i in range(600)], "weights_kind": "frequency"},
        pytest.param({"clusters": [str(i // 4) for i in range(600)]}, marks=pytest.mark.slow),
    ],
)
def test_the_call_and_the_method_recommend_as_the_library(
    http: httpx.Client, client: Calibrant, used: dict[str, Any]
) -> None:
    expected = _plain(calibrant.recommend(P, Y, **used).to_dict())
    assert body_of(http.post("/recommendations", json=ROWS | used)) == expected
    assert _plain(client.recommend(P, Y, **used).to_dict()) == expected


@pytest.mark.slow
def test_stored_rows_and_named_classes_have_the_recommendation_of_the_library(client: Calibrant) -> None:
    batch = client.upload(P, Y).id
    assert client.recommend(batch).method == calibrant.recommend(P, Y).method != "identity"
    probs = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], 90)
    labels = [["a", "b", "c"][row.argmax()] for row in probs]
    named: dict[str, Any] = {"class_names": ["a", "b", "c"], "reduction": "class:b"}
    answer = client.recommend(probs, labels, **named)
    assert _plain(answer.to_dict()) == _plain(calibrant.recommend(probs, labels, **named).to_dict())
    assert answer.reduction == "class:1"


@pytest.mark.parametrize("used", [{}, {"batch": True}, {"clusters": [str(i // 4) for i in range(600)], "seed": 3}])
def test_a_recommendation_as_a_job_is_the_same(http: httpx.Client, client: Calibrant, used: dict[str, Any]) -> None:
    body = ROWS | used
    if used.get("batch"):
        body = {"batch": client.upload(P, Y).id}
    at_once = body_of(http.post("/recommendations", json=body))
    waited = http.post("/recommendations", json=body, headers={"Prefer": "respond-async, wait=600"})
    assert body_of(waited) == at_once
    assert "respond-async" in waited.headers["Preference-Applied"]
    queued = body_of(http.post("/recommendations", json=body, headers={"Prefer": "respond-async"}), 202)
    assert queued["kind"] == "recommend"
    ended = client.wait(queued["id"])
    assert _plain(ended.result) == at_once
    assert (ended.batch is not None) is bool(used.get("batch"))
    with_batch = body_of(
        http.post("/recommendations", json=ROWS | {"keep_batch": True}, headers={"Prefer": "respond-async"}), 202
    )
    assert client.wait(with_batch["id"]).batch is not None


def test_named_classes_have_the_same_recommendation_as_a_job(http: httpx.Client) -> None:
    probs = np.random.default_rng(2).dirichlet([1.0, 1.0, 1.0], 90)
    labels = [["a", "b", "c"][row.argmax()] for row in probs]
    body = {"predictions": probs.tolist(), "labels": labels, "class_names": ["a", "b", "c"], "reduction": "class:b"}
    answer = body_of(http.post("/recommendations", json=body))
    job = body_of(http.post("/recommendations", json=body, headers={"Prefer": "respond-async, wait=600"}))
    assert job == answer


@pytest.mark.slow
def test_the_client_and_the_command_wait_for_a_recommendation_of_many_rows(
    service: Stack, client: Calibrant, tmp_path: Path
) -> None:
    random = np.random.default_rng(4)
    p = random.random(100_000).round(6)
    y = (random.random(100_000) < p).astype(int)
    expected, states = _plain(calibrant.recommend(p, y).to_dict()), list[str]()
    assert _plain(client.recommend(p, y, progress=lambda job: states.append(job.kind)).to_dict()) == expected
    assert set(states) == {"recommend"}
    path = tmp_path / "many.csv"
    np.savetxt(path, np.column_stack([p, y]), "%.6g", ",", header="p,y", comments="")
    printed = succeeded(None, "recommend", path, "--json", "--server", service.url)
    assert json.loads(printed.stdout) == expected


def test_features_of_the_rows_do_not_change_the_recommendation(http: httpx.Client) -> None:
    plain = body_of(http.post("/recommendations", json=ROWS))
    assert body_of(http.post("/recommendations", json=ROWS | {"features": {"z": Z.tolist()}})) == plain


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        ({"predictions": [2.0, *P.tolist()[1:]]}, "out-of-range", "/predictions/0"),
        ({"labels": None}, "invalid-field", "/labels"),
        ({"labels": Y.tolist()[:-1]}, "length-mismatch", "/labels"),
        ({"reduction": "class:7"}, "unknown-reduction", "/reduction"),
        ({"seed": -1}, "invalid-field", "/seed"),
        ({"map": "spam:1"}, "invalid-field", "/map"),
        ({"batch": "batch_none"}, "invalid-field", "/batch"),
        ({"predictions": [], "labels": []}, "empty-batch", "/predictions"),
    ],
)
def test_wrong_requests_are_refused_by_name(
    http: httpx.Client, change: dict[str, Any], code: str, pointer: str
) -> None:
    assert problem_of(http.post("/recommendations", json=ROWS | change)) == (422, code, pointer)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my scores.csv"
    path.write_text("\n".join(["score,y", *(f"{p},{y}" for p, y in zip(P, Y, strict=True)), ",1", ""]), "utf-8")
    return path


@pytest.mark.parametrize("on_server", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_command_recommends_as_the_library_and_prints_the_fit(service: Stack, file: Path, on_server: bool) -> None:
    words = ["recommend", str(file), "--prediction", "score", "--drop-missing"]
    words += ["--server", service.url] if on_server else []
    expected = calibrant.recommend(P, Y)
    printed = succeeded(None, *words, "--json")
    assert json.loads(printed.stdout) == _plain(expected.to_dict())
    shown = CliRunner().invoke(app, words, prog_name="calibrant")
    assert expected.headline in shown.stdout
    line = shown.stderr.splitlines()[-1].partition("to fit it: ")[2]
    fitted = succeeded(None, *shlex.split(line)[1:], "--json")
    assert json.loads(fitted.stdout)["method"] == expected.method


def test_the_command_keeps_predictions_that_no_map_improves(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("p,y\n" + "0.5,0\n0.5,1\n" * 4, "utf-8")
    shown = succeeded(None, "recommend", path)
    assert "to fit it" not in shown.output


def test_the_command_refuses_missing_rows_with_the_flag_that_drops_them(file: Path) -> None:
    refused = invoked(None, "recommend", file, "--prediction", "score")
    assert refused.exit_code == 1
    assert "--drop-missing" in refused.stderr
