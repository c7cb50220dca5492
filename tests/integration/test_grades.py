"""Tests of rating grades over HTTP, by the client, and by the command with and without a server."""

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
from tests.body_formats import ARROW, CSV, NPZ, PARQUET, WRITE_ARRAYS
from tests.commands import error_of, invoked, same_output
from tests.integration.responses import body_of, problem_of

NAMES, SIZES, PDS, DEFAULTS = ["A", "B", "C"], [100, 400, 300], [0.001, 0.002, 0.01], [0, 3, 9]
OPTIONS: dict[str, Any] = {"correlation": 0.12, "confidence": 0.75}
#: Defaults and other obligors of each grade.
ROWS: dict[str, Any] = {
    "predictions": PDS * 2,
    "groups": NAMES * 2,
    "labels": [1] * 3 + [0] * 3,
    "weights": [*DEFAULTS, *(n - d for n, d in zip(SIZES, DEFAULTS, strict=True))],
}
COUNTED = ROWS | {"weights_kind": "frequency"}


def _expected() -> dict[str, Any]:
    tests = calibrant.grade_tests(PDS, NAMES, DEFAULTS, n=SIZES, **OPTIONS).to_dict()
    return json.loads(json.dumps(tests))  # type: ignore[no-any-return]


def test_the_response_has_the_numbers_of_the_library(http: httpx.Client, client: Calibrant) -> None:
    assert body_of(http.post("/grades", json=COUNTED | OPTIONS)) == _expected()
    assert client.grade_tests(**COUNTED, **OPTIONS).to_dict() == _expected()
    stored = client.upload(**COUNTED)
    assert client.grade_tests(stored.id, **OPTIONS).to_dict() == _expected()


#: A table of grades, with the names that the response has.
TABLE = [
    {"grade": name, "n": n, "defaults": defaults, "pd": pd}
    for name, n, defaults, pd in zip(NAMES, SIZES, DEFAULTS, PDS, strict=True)
]


def test_a_table_of_grades_has_the_same_response(http: httpx.Client, client: Calibrant) -> None:
    assert body_of(http.post("/grades", json={"table": TABLE} | OPTIONS)) == _expected()
    assert client.grade_tests(table=TABLE, **OPTIONS).to_dict() == _expected()


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"n": 0}, "/table/1/n"),
        ({"n": 2.5}, "/table/1/n"),
        ({"n": "400"}, "/table/1/n"),
        ({"n": 10**30}, "/table/1/n"),
        ({"defaults": 401}, "/table/1/defaults"),
        ({"defaults": -1}, "/table/1/defaults"),
        ({"defaults": True}, "/table/1/defaults"),
        ({"pd": 1.5}, "/table/1/pd"),
        ({"pd": None}, "/table/1/pd"),
        ({"grade": ""}, "/table/1/grade"),
        ({"grade": "A" * 257}, "/table/1/grade"),
        ({"grade": 7}, "/table/1/grade"),
        ({"rate": 0.1}, "/table/1/rate"),
    ],
)
def test_a_bad_row_of_a_table_is_named(http: httpx.Client, change: dict[str, Any], pointer: str) -> None:
    table = [TABLE[0], TABLE[1] | change, TABLE[2]]
    assert problem_of(http.post("/grades", json={"table": table})) == (422, "invalid-field", pointer)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"table": TABLE, **COUNTED}, "/table"),
        ({"table": TABLE, "batch": "batch_1"}, "/table"),
        ({"table": []}, "/table"),
        ({"table": TABLE * 400}, "/table"),
        ({"table": {"grade": "A"}}, "/table"),
        ({"table": [{**TABLE[0], "pd": 0.01}, {**TABLE[1], "pd": 0.01}], "confidence": 0.7}, "/confidence"),
    ],
)
def test_a_table_that_is_no_table_is_refused(http: httpx.Client, body: dict[str, Any], pointer: str) -> None:
    status, _, place = problem_of(http.post("/grades", json=body))
    assert (status, place) == (422, pointer)


@pytest.mark.parametrize("kind", [ARROW, CSV, NPZ, PARQUET])
def test_every_body_format_has_the_same_response(http: httpx.Client, kind: str) -> None:
    arrays = {name: np.array(column) for name, column in ROWS.items()}
    options: dict[str, Any] = {"weights_kind": "frequency", **OPTIONS}
    response = http.post("/grades", content=WRITE_ARRAYS[kind](arrays), headers={"Content-Type": kind}, params=options)
    assert body_of(response) == _expected()


@pytest.mark.parametrize(
    ("changes", "status", "code", "pointer"),
    [
        ({"groups": None}, 422, "invalid-option", "/groups"),
        ({"labels": None}, 422, "invalid-field", "/labels"),
        ({"predictions": None}, 422, "invalid-field", "/predictions"),
        ({"weights_kind": None}, 422, "invalid-option", "/weights_kind"),
        ({"weights": [0.5] * 6}, 422, "invalid-weight", "/weights/0"),
        ({"predictions": [[0.1, 0.9]] * 6}, 422, "wrong-shape", "/predictions"),
        ({"predictions": [2.0] * 6}, 422, "out-of-range", "/predictions/0"),
        ({"predictions": [0.01] * 6}, 422, "invalid-option", "/confidence"),
        ({"labels": [2] * 6}, 422, "invalid-label", "/labels/0"),
        ({"groups": list("ABCDEF"), "weights": None, "weights_kind": None}, 422, "invalid-option", "/groups"),
        ({"clusters": ["a"] * 6}, 422, "invalid-option", "/clusters"),
        ({"groups": ["A"]}, 422, "length-mismatch", "/groups"),
        ({"correlation": 0}, 422, "invalid-field", "/correlation"),
        ({"correlation": 1}, 422, "invalid-field", "/correlation"),
        ({"correlation": "0.1"}, 422, "invalid-field", "/correlation"),
        ({"correlation": [0.1]}, 422, "invalid-field", "/correlation"),
        ({"confidence": 1.0}, 422, "invalid-field", "/confidence"),
        ({"confidence": True}, 422, "invalid-field", "/confidence"),
        ({"confidence": {}}, 422, "invalid-field", "/confidence"),
        ({"unknown": 1}, 422, "invalid-field", "/unknown"),
        ({"batch": "batch_none"}, 422, "invalid-field", "/batch"),
        ({"prediction_kind": "regression"}, 422, "invalid-field", "/prediction_kind"),
    ],
)
def test_bad_requests_are_refused_at_their_field(
    http: httpx.Client, changes: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    body = {name: content for name, content in (COUNTED | OPTIONS | changes).items() if content is not None}
    assert problem_of(http.post("/grades", json=body)) == (status, code, pointer)


def test_batches_of_forecasts_and_unknown_ones_are_refused(http: httpx.Client, client: Calibrant) -> None:
    stored = client.upload_distribution([0.5], mean=[0.0], variance=[1.0])
    assert problem_of(http.post("/grades", json={"batch": stored.id}))[1] == "prediction-kind-mismatch"
    assert problem_of(http.post("/grades", json={"batch": "batch_none"}))[1] == "unknown-batch-reference"


def test_a_thousand_grades_are_answered_and_more_are_refused(http: httpx.Client) -> None:
    random = np.random.default_rng(0)
    pds = np.sort(random.random(1001)).tolist()
    body: dict[str, Any] = {"predictions": pds, "labels": [0, 1] * 500 + [0], "groups": [f"g{i}" for i in range(1001)]}
    body |= {"weights": [10] * 1001}
    counted = {"weights_kind": "frequency"}
    assert problem_of(http.post("/grades", json=body | counted))[1:] == ("invalid-option", "/groups")
    fewer = {name: column[:-1] for name, column in body.items()}
    assert len(body_of(http.post("/grades", json=fewer | counted | {"correlation": 0.12}))["grades"]) == 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grades") / "grades.csv"
    lines = [f"{NAMES[i]},{SIZES[i]},{PDS[i]},{DEFAULTS[i]}" for i in range(3)]
    path.write_text("\n".join(["grade,obligors,pd,defaults", *lines, ""]), "utf-8")
    return path


@pytest.fixture(scope="module")
def obligors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grades") / "obligors.csv"
    lines = [f"{NAMES[i]},{PDS[i]},{int(k < DEFAULTS[i])}" for i in range(3) for k in range(SIZES[i])]
    path.write_text("\n".join(["grade,pd,default", *lines, ""]), "utf-8")
    return path


@pytest.mark.slow
def test_the_command_has_the_same_numbers_here_and_on_a_server(service: Stack, table: Path, obligors: Path) -> None:
    options = ["--prediction", "pd", "--group", "grade", "--correlation", "0.12", "--confidence", "0.75"]
    of_table: list[str | Path] = [table, "--label", "defaults", "--count", "obligors", *options]
    of_rows: list[str | Path] = [obligors, "--label", "default", *options]
    for arguments in (of_table, of_rows):
        assert json.loads(same_output(service.url, "grades", *arguments, "--json")) == _expected()
    text = same_output(service.url, "grades", *of_table)
    assert text.splitlines()[0] == "Tests of 3 grades"
    assert "(all)" in text
    assert "Hosmer-Lemeshow" in text


@pytest.mark.parametrize("server", [False, True])
@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--label", "defaults", "--count", "obligors"], "--group"),
        (["--group", "grade", "--count", "obligors"], "--label"),
        (["--group", "grade", "--label", "defaults", "--count", "obligors", "--weight", "obligors"], "--weight"),
        (["--group", "grade", "--label", "obligors", "--count", "defaults"], "row 1"),
        (["--group", "grade", "--label", "pd", "--count", "obligors"], "row 1"),
        (["--group", "grade", "--label", "defaults", "--count", "none"], "no column 'none'"),
        (["--group", "grade", "--label", "none", "--count", "obligors"], "no column 'none'"),
        (["--group", "grade", "--label", "defaults", "--count", "obligors", "--correlation", "1"], "correlation"),
        (["--group", "grade", "--label", "defaults", "--count", "obligors", "--confidence", "nan"], "confidence"),
    ],
)
def test_the_command_names_what_is_wrong(
    service: Stack, table: Path, server: bool, flags: list[str], problem: str
) -> None:
    url = service.url if server else None
    assert problem in error_of(
        invoked(url, "grades", table, *([] if "pd" in flags else ["--prediction", "pd"]), *flags)
    )


def test_weights_of_the_command_are_numbers_of_obligors(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("grade,pd,default,n\nA,0.01,1,16\nA,0.01,0,984\n", "utf-8")
    flags: list[str | Path] = [path, "--prediction", "pd", "--group", "grade", "--label", "default", "--weight", "n"]
    assert "weights_kind" in error_of(invoked(None, "grades", *flags)).replace("--weights-kind", "weights_kind")
    printed = json.loads(invoked(None, "grades", *flags, "--weights-kind", "frequency", "--json").stdout)
    assert printed["total"]["jeffreys_p"] == pytest.approx(0.03577, abs=5e-6)


def test_ratios_by_field_and_a_given_base_rate_work_on_every_surface(http: httpx.Client, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    p, sites = random.uniform(0.01, 0.1, 2000), random.choice(["mail", "web"], 2000)
    y = (random.random(2000) < p).astype(int)
    measures: list[Any] = ["pcoc", {"name": "normalised-entropy", "base_rate": 0.06}]
    local = calibrant.evaluate(p, y, groups=sites, measures=measures)
    assert local.groups is not None
    body = {"predictions": p.tolist(), "labels": y.tolist(), "groups": sites.tolist(), "measures": measures}
    remote = body_of(http.post("/evaluate", json=body))
    path = tmp_path / "clicks.csv"
    lines = [f"{y[i]},{float(p[i])!r},{sites[i]}" for i in range(2000)]
    path.write_text("\n".join(["y,p,site", *lines, ""]), "utf-8")
    flags = ["--group", "site", "--measure", "pcoc", "--measure", json.dumps(measures[1]), "--json"]
    printed = json.loads(invoked(None, "evaluate", path, *flags).stdout)
    for name, group in local.groups.items():
        for key in ("pcoc", "normalised-entropy"):
            estimate = group.measures[key].value
            assert remote["groups"][name]["measures"][key]["value"] == estimate
            assert printed["groups"][name]["measures"][key]["value"] == pytest.approx(estimate, rel=1e-12)
        chosen = sites == name
        alone = calibrant.evaluate(p[chosen], y[chosen], measures=measures)
        assert alone["normalised-entropy"].value == pytest.approx(group.measures["normalised-entropy"].value, rel=1e-12)
