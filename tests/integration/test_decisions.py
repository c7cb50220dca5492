"""``POST /decisions``, its methods and the command, which answer as the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.commands import invoked, same_output
from tests.integration.responses import body_of, problem_of
from tests.packed import npz
from tests.rows import draw_event

P, Y = draw_event(300, 31)
ROWS = {"predictions": P.tolist(), "labels": Y.tolist()}
#: Values that are no list of allowed length.
_NO_LISTS: list[Any] = [[], 0.5, "all", {}, [0.1] * 1001]
CRITERIA: list[dict[str, Any]] = [{"costs": [1, 4]}, {"capacity": 30}, {"precision": 0.7}, {"recall": 0.8}]


def test_a_curve_is_that_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    local = calibrant.decision_curve(P, Y, thresholds=[0.1, 0.5], interval=0.9).to_dict()
    body = body_of(http.post("/decisions", json=ROWS | {"thresholds": [0.5, 0.1], "interval": 0.9}))
    assert body == local
    packed = npz(predictions=P, labels=Y)
    query = {"thresholds": "[0.1, 0.5]", "interval": "0.9"}
    sent = http.post("/decisions", content=packed, params=query, headers={"content-type": "application/x-npz"})
    assert body_of(sent) == local
    stored = client.upload(P, Y)
    assert client.decision_curve(stored.id, thresholds=[0.1, 0.5], interval=0.9).to_dict() == local
    assert len(body_of(http.post("/decisions", json=ROWS))["thresholds"]) == 99


def test_curves_of_models_are_those_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    models = {"a": P, "b/c": P**2}
    local = calibrant.decision_curve(models, Y, thresholds=[0.1, 0.5]).to_dict()
    body = {"models": {name: p.tolist() for name, p in models.items()}, "labels": Y.tolist(), "thresholds": [0.1, 0.5]}
    assert body_of(http.post("/decisions", json=body)) == local
    assert client.decision_curve(models=models, labels=Y, thresholds=[0.1, 0.5]).to_dict() == local
    assert client.decision_curve(models, Y, thresholds=[0.1, 0.5]).to_dict() == local  # type: ignore[arg-type]
    refused = {
        "/predictions": body | {"predictions": P.tolist()},
        "/models": body | {"models": {"treat all": P.tolist()}},
        "/models/b~1c/0": body | {"models": {"a": P.tolist(), "b/c": [2.0] * 300}},
        "/thresholds": body | {"costs": [1, 2]},
    }
    for pointer, wrong in refused.items():
        status, _, place = problem_of(http.post("/decisions", json=wrong))
        assert (status, place) == (422, pointer)
    del body["thresholds"]
    assert problem_of(http.post("/decisions", json=body | {"costs": [1, 2]})) == (422, "invalid-field", "/models")


@pytest.mark.parametrize("criterion", CRITERIA, ids=lambda criterion: next(iter(criterion)))
def test_a_threshold_is_that_of_the_library(client: Calibrant, criterion: dict[str, Any]) -> None:
    local = calibrant.best_threshold(P, Y, seed=3, **criterion).to_dict()
    assert client.best_threshold(predictions=P, labels=Y, seed=3, **criterion).to_dict() == local


def test_a_class_of_several_is_decided_by_its_name(http: httpx.Client) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    names = np.array(["bird", "cat", "dog"])
    labels = names[probs.argmax(axis=1)].tolist()
    body = {"predictions": probs.tolist(), "labels": labels, "class_names": names.tolist(), "reduction": "class:dog"}
    decision = body_of(http.post("/decisions", json=body | {"capacity": 5}))
    named: dict[str, Any] = {"class_names": names.tolist(), "reduction": "class:dog"}
    assert decision == calibrant.best_threshold(probs, labels, capacity=5, **named).to_dict()


@pytest.mark.parametrize(
    ("change", "code", "pointer"),
    [
        *(({"thresholds": bad}, "invalid-field", "/thresholds") for bad in _NO_LISTS),
        *(({"thresholds": [bad]}, "invalid-field", "/thresholds/0") for bad in (0, 1, -0.1, "0.5", None, True, [0.5])),
        *(({"costs": bad}, "invalid-field", "/costs") for bad in ([1.0], [1.0, 2.0, 3.0], *_NO_LISTS)),
        *(({"costs": [1, bad]}, "invalid-field", "/costs/1") for bad in (0, -1, "5", None, True)),
        ({"costs": [1e308, 1e308]}, "invalid-option", "/costs"),
        ({"costs": [5e-324, 1e308]}, "invalid-option", "/costs"),
        *(({"capacity": bad}, "invalid-field", "/capacity") for bad in (0, -1, "5", True, [5])),
        ({"capacity": 1.5}, "invalid-option", "/capacity"),
        *(({"precision": bad}, "invalid-field", "/precision") for bad in (0, 1, "0.9", True)),
        *(({"recall": bad}, "invalid-field", "/recall") for bad in (0, 1, "0.9", True)),
        ({"precision": 0.9999}, "invalid-option", "/precision"),
        ({"recall": 0.9999}, "invalid-option", "/recall"),
        ({"recall": 0.5, "weights": [0.5, 1.0] * 150}, "invalid-option", "/recall"),
        ({"recall": 0.5, "precision": 0.5}, "invalid-option", "/recall"),
        ({"recall": 0.5, "thresholds": [0.5]}, "invalid-field", "/thresholds"),
        *(({"interval": bad}, "invalid-field", "/interval") for bad in (0, 1, "0.9", None)),
        ({"interval": 1.0 - 1e-16}, "invalid-option", "/interval"),
        ({"thresholds": [1e-320]}, "invalid-option", "/thresholds"),
        *(({"seed": bad}, "invalid-field", "/seed") for bad in (-1, 2**32, "0", 0.5)),
        ({"reduction": "pooled"}, "unknown-reduction", "/reduction"),
        ({"reduction": "canonical"}, "unknown-reduction", "/reduction"),
        ({"predictions": [[0.5, 0.5]] * 300, "costs": [1, 4]}, "unknown-reduction", "/reduction"),
        ({"predictions": [[0.5, 0.5]] * 300}, "unknown-reduction", "/reduction"),
        ({"predictions": [[0.5, 0.25, 0.25]] * 300, "capacity": 9}, "unknown-reduction", "/reduction"),
        ({"labels": [2] * 300}, "invalid-label", "/labels"),
        ({"prediction_kind": "regression"}, "invalid-field", "/prediction_kind"),
        ({"clusters": ["a"] * 300}, "too-few-rows", "/clusters"),
        ({"clusters": ["a", "b"], "costs": [1, 4]}, "length-mismatch", "/clusters"),
        ({"measures": ["ece"]}, "invalid-field", "/measures"),
    ],
)
def test_invalid_fields_are_named(http: httpx.Client, change: dict[str, Any], code: str, pointer: str) -> None:
    status, problem, place = problem_of(http.post("/decisions", json=ROWS | change))
    assert (status, problem) == (422, code)
    assert place.startswith(pointer)


def test_rows_without_labels_or_of_an_unknown_batch_are_refused(http: httpx.Client) -> None:
    problem = problem_of(http.post("/decisions", json={"predictions": ROWS["predictions"], "capacity": 3}))
    assert problem == (422, "invalid-field", "/labels")
    problem = problem_of(http.post("/decisions", json={"batch": "batch_0", "capacity": 3}))
    assert problem == (422, "unknown-batch-reference", "/batch")


# --- The command


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decide") / "scores.csv"
    lines = [f"{y},{p!r},{p**2!r},p{i // 3}" for i, (y, p) in enumerate(zip(Y, P.tolist(), strict=True))]
    path.write_text("\n".join(["y,p,q,patient", *lines, ""]), "utf-8")
    return path


@pytest.mark.parametrize(
    "flags",
    [
        ["--thresholds", "0.1,0.5", "--interval", "0.9"],
        ["--thresholds", "0.1,0.5", "--prediction", "p", "--prediction", "q"],
        ["--costs", "1,4", "--seed", "3"],
        ["--costs", "1,4", "--cluster", "patient"],
        ["--thresholds", "0.1,0.5", "--prediction", "p", "--prediction", "q", "--cluster", "patient"],
        ["--capacity", "30"],
        ["--capacity", "0.1"],
        ["--precision", "0.7"],
        ["--recall", "0.8"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("form", [pytest.param([], marks=pytest.mark.slow), ["--json"]], ids=["text", "json"])
def test_a_server_and_this_process_print_the_same(service: Stack, csv: Path, flags: list[str], form: list[str]) -> None:
    flags = ["--label", "y", *([] if "--prediction" in flags else ["--prediction", "p"]), *flags]
    printed = same_output(service.url, "decide", csv, *flags, *form)
    if form:
        assert json.loads(printed)["n"] == 300


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--costs", "1;5"], "--costs"),
        (["--costs", "1"], "must be two numbers above 0"),
        (["--costs", "1,5", "--recall", "0.9"], "pass exactly one of costs, capacity, precision and recall"),
        (["--recall", "0.9", "--thresholds", "0.1"], "--thresholds"),
        (["--thresholds", "0.1,2"], "must be 1 to 1,000 numbers above 0 and below 1"),
        (["--capacity", "1.5"], "must be a whole number of rows"),
        (["--recall", "0.9999"], "cannot be guaranteed"),
        (["--interval", "1"], "--interval"),
        (["--costs", "1,5", "--prediction", "q"], "--prediction"),
    ],
)
def test_flags_that_cannot_be_met_are_named(csv: Path, flags: list[str], text: str) -> None:
    refused = invoked(None, "decide", csv, "--label", "y", "--prediction", "p", *flags)
    assert refused.exit_code != 0
    assert text in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("command", [("decide",), ("decide", "--costs", "1,4"), ("report", "--costs", "1,4")])
def test_the_commands_for_both_events_of_two_columns_are_printed(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    lines = [f"{y},{1 - p!r},{p!r}" for y, p in zip(Y, P.tolist(), strict=True)]
    path.write_text("\n".join(["y,prob_0,prob_1", *lines, ""]), "utf-8")
    flags = (*command[1:], *(("--out", tmp_path / "report.html") if command[0] == "report" else ()))
    refused = invoked(None, command[0], path, *flags)
    remedies = [line.split() for line in refused.stderr.splitlines() if line.startswith("  calibrant ")]
    assert refused.exit_code == 2
    assert [words[-2:] for words in remedies] == [["--reduction", "confidence"], ["--reduction", "binary"]]
    assert [invoked(None, *words[1:]).exit_code for words in remedies] == [0, 0]


def test_rows_in_clusters_have_the_intervals_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    clusters = [f"p{i // 3}" for i in range(300)]
    curve = calibrant.decision_curve({"a": P, "b": P**2}, Y, thresholds=[0.1, 0.5], clusters=clusters)
    answer = client.decision_curve(models={"a": P, "b": P**2}, labels=Y, thresholds=[0.1, 0.5], clusters=clusters)
    assert answer.to_dict() == curve.to_dict()
    body = {"predictions": P.tolist(), "labels": np.asarray(Y).tolist(), "clusters": clusters}
    best = http.post("/decisions", json=body | {"costs": [1, 4]}).json()
    expected = calibrant.best_threshold(P, Y, costs=(1, 4), clusters=clusters).to_dict()
    assert best["measures"] == json.loads(json.dumps(expected["measures"]))
    refused = http.post("/decisions", json=body | {"recall": 0.5}).json()
    assert refused["errors"][0]["pointer"] == "/clusters"
