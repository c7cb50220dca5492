"""The coverage of prediction sets over HTTP, by the client, and by the command with and without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant import PredictionSets
from calibrant.client import Calibrant
from calibrant.core.errors import CalibrationError
from service.stack import Stack
from tests.body_formats import ARROW, CSV, JSON, NPZ, PARQUET, WRITE_ARRAYS
from tests.commands import error_of, invoked, same_output
from tests.integration.responses import body_of, problem_of

NAMES = ["ant", "bee", "cat"]
RANDOM = np.random.default_rng(8)
LABELS = RANDOM.integers(0, 3, 60)
MEMBERS = RANDOM.random((60, 3)) < 0.5
MEMBERS[np.arange(60), LABELS] |= RANDOM.random(60) < 0.8
GROUPS = RANDOM.choice(["x", "y"], 60)
LISTS = [[k for k in range(3) if row[k]] for row in MEMBERS]
ARRAYS = {"predictions": MEMBERS.astype(float), "labels": LABELS, "groups": GROUPS}
BODY: dict[str, Any] = {
    "predictions": MEMBERS.astype(int).tolist(),
    "labels": LABELS.tolist(),
    "groups": GROUPS.tolist(),
    "alpha": 0.2,
}


def _expected(**options: Any) -> dict[str, Any]:
    report = calibrant.evaluate_sets(MEMBERS, LABELS, groups=GROUPS, **{"alpha": 0.2, **options}).to_dict()
    return json.loads(json.dumps(report))  # type: ignore[no-any-return]


def test_the_response_has_the_numbers_of_the_library(http: httpx.Client) -> None:
    assert body_of(http.post("/coverage", json=BODY)) == _expected()
    listed = {**BODY, "sets": LISTS}
    del listed["predictions"]
    assert body_of(http.post("/coverage", json=listed)) == _expected()
    named = {
        **listed,
        "sets": [[NAMES[k] for k in row] for row in LISTS],
        "labels": [NAMES[k] for k in LABELS],
        "class_names": NAMES,
        "interval": 0.9,
    }
    assert body_of(http.post("/coverage", json=named)) == _expected(class_names=NAMES, interval=0.9)


@pytest.mark.parametrize("kind", [ARROW, CSV, JSON, NPZ, PARQUET])
def test_every_body_format_has_the_same_response(http: httpx.Client, kind: str) -> None:
    query: dict[str, Any] = {} if kind == JSON else {"alpha": 0.2, "class_names": json.dumps(NAMES)}
    content = WRITE_ARRAYS[kind](ARRAYS)
    if kind == JSON:
        content = json.dumps({**json.loads(content), "alpha": 0.2, "class_names": NAMES}).encode()
    response = http.post("/coverage", content=content, headers={"Content-Type": kind}, params=query)
    assert body_of(response) == _expected(class_names=NAMES)


def test_the_client_takes_sets_of_every_type(client: Calibrant) -> None:
    named = [[NAMES[k] for k in row] for row in LISTS]
    texts = [NAMES[k] for k in LABELS]
    sets = PredictionSets(MEMBERS, tuple(NAMES), 0.2)
    assert client.evaluate_sets(sets, texts, groups=GROUPS).to_dict() == _expected(class_names=NAMES)
    own: dict[str, Any] = {"groups": GROUPS, "alpha": 0.2}
    assert client.evaluate_sets(named, texts, class_names=NAMES, **own).to_dict() == _expected(class_names=NAMES)
    for plain in (MEMBERS, MEMBERS.astype(int), MEMBERS.tolist(), LISTS):
        assert client.evaluate_sets(plain, LABELS, **own).to_dict() == _expected()
    weights = RANDOM.integers(1, 4, 60)
    counted = client.evaluate_sets(MEMBERS, LABELS, weights=weights, weights_kind="frequency", **own).to_dict()
    assert counted == _expected(weights=weights, weights_kind="frequency")
    with pytest.raises(CalibrationError, match="alpha"):
        client.evaluate_sets(sets, texts, alpha=0.1)
    with pytest.raises(CalibrationError, match="100,000 classes"):
        client.evaluate_sets([[2**30]], [0])


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointer"),
    [
        ({"predictions": None}, 422, "invalid-field", "/sets"),
        ({"labels": None}, 422, "invalid-field", "/labels"),
        ({"sets": LISTS}, 422, "invalid-field", "/sets"),
        ({"predictions": [[1, 2, 0]] * 60}, 422, "invalid-option", "/predictions/0"),
        ({"predictions": [[0.5, 0.5, 0]] * 60}, 422, "invalid-option", "/predictions/0"),
        ({"predictions": [[True, False, True]] * 60}, 422, "not-a-number", "/predictions/0/0"),
        ({"predictions": [1] * 60}, 422, "wrong-shape", "/predictions"),
        ({"predictions": [[1]] * 60}, 422, "wrong-shape", "/predictions"),
        ({"predictions": []}, 422, "wrong-shape", "/predictions"),
        ({"predictions": [[1, 0], [1]]}, 422, "wrong-shape", "/predictions/1"),
        ({"predictions": None, "sets": []}, 422, "empty-batch", "/sets"),
        ({"predictions": None, "sets": [[0]] * 10_001}, 422, "invalid-field", "/sets"),
        ({"predictions": None, "sets": [[0, 0]] * 60}, 422, "invalid-option", "/sets/0"),
        ({"predictions": None, "sets": [[0, 1], [1, 0]] * 30}, 422, "invalid-option", "/sets"),
        ({"predictions": None, "sets": [[-1]] * 60}, 422, "invalid-label", "/sets/0"),
        ({"predictions": None, "sets": [[10**30]] * 60}, 422, "invalid-field", "/sets/0/0"),
        ({"predictions": None, "sets": [[0.5]] * 60}, 422, "invalid-field", "/sets/0/0"),
        ({"predictions": None, "sets": [[None]] * 60}, 422, "invalid-field", "/sets/0/0"),
        ({"predictions": None, "sets": [[[0]]] * 60}, 422, "invalid-field", "/sets/0/0"),
        ({"predictions": None, "sets": ["ab"] * 60}, 422, "invalid-field", "/sets/0"),
        ({"predictions": None, "sets": {"0": [1]}}, 422, "invalid-field", "/sets"),
        ({"predictions": None, "sets": [["ant"]] * 60}, 422, "invalid-option", "/class_names"),
        ({"predictions": None, "sets": [["no"]] * 60, "class_names": NAMES}, 422, "invalid-label", "/sets/0"),
        ({"labels": [3] * 60}, 422, "invalid-label", "/labels/0"),
        ({"labels": [0] * 59}, 422, "length-mismatch", "/labels"),
        ({"labels": ["ant"] * 60}, 422, "invalid-label", "/labels"),
        ({"groups": ["x"]}, 422, "length-mismatch", "/groups"),
        ({"groups": [1] * 60}, 422, "not-a-number", "/groups/0"),
        ({"weights": [-1] * 60}, 422, "invalid-weight", "/weights/0"),
        ({"weights": [0.5] * 60, "weights_kind": "frequency"}, 422, "invalid-weight", "/weights/0"),
        ({"weights_kind": "counts"}, 422, "invalid-field", "/weights_kind"),
        ({"clusters": ["a"] * 60}, 422, "invalid-option", "/clusters"),
        ({"features": {"age": [1.0] * 60}}, 422, "invalid-option", "/features"),
        ({"class_names": ["ant", "bee"]}, 422, "invalid-option", "/class_names"),
        ({"alpha": 0}, 422, "invalid-field", "/alpha"),
        ({"alpha": 1}, 422, "invalid-field", "/alpha"),
        ({"alpha": "0.1"}, 422, "invalid-field", "/alpha"),
        ({"interval": 1.0}, 422, "invalid-field", "/interval"),
        ({"batch": "batch_none"}, 422, "invalid-field", "/batch"),
        ({"scale": "logit"}, 422, "invalid-field", "/scale"),
        ({"models": {"a": [0.5]}}, 422, "invalid-field", "/models"),
        ({"prediction_kind": "regression"}, 422, "invalid-field", "/prediction_kind"),
    ],
)
def test_bad_requests_are_refused_at_their_field(
    http: httpx.Client, changes: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    body = {name: content for name, content in (BODY | changes).items() if content is not None}
    assert problem_of(http.post("/coverage", json=body)) == (status, code, pointer)


def test_names_that_are_no_classes_are_not_echoed(http: httpx.Client) -> None:
    body = {"sets": [["secret"]], "labels": ["ant"], "class_names": NAMES}
    response = http.post("/coverage", json=body)
    assert problem_of(response)[1:] == ("invalid-label", "/sets/0")
    assert "secret" not in response.text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("coverage") / "sets.csv"
    cells = [
        [NAMES[label], *row.astype(int).tolist(), group]
        for label, row, group in zip(LABELS, MEMBERS, GROUPS, strict=True)
    ]
    lines = [",".join(map(str, row)) for row in cells]
    path.write_text("\n".join(["y,ant,bee,cat,g", *lines, ""]), "utf-8")
    return path


FLAGS = ["--prediction", "ant", "--prediction", "bee", "--prediction", "cat", "--label", "y", "--group", "g"]


def test_the_command_has_the_same_numbers_here_and_on_a_server(service: Stack, table: Path) -> None:
    printed = same_output(service.url, "coverage", table, *FLAGS, "--alpha", "0.2", "--json")
    assert json.loads(printed) == _expected(class_names=NAMES)
    text = same_output(service.url, "coverage", table, *FLAGS)
    assert text.startswith("Coverage of prediction sets: 60 rows")
    assert "class bee" in text


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ([*FLAGS, "--alpha", "1"], "alpha"),
        ([*FLAGS, "--interval", "nan"], "interval"),
        ([*FLAGS[:4], "--label", "g"], "class"),
        (["--prediction", "none", "--prediction", "ant", "--label", "y"], "no column 'none'"),
    ],
)
def test_the_command_names_what_is_wrong(
    service: Stack, table: Path, server: bool, flags: list[str], problem: str
) -> None:
    assert problem in error_of(invoked(service.url if server else None, "coverage", table, *flags))
