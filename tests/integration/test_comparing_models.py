"""Comparisons of models over HTTP: in every format, of stored batches, by a job, and hostile requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.body_formats import ARROW, CSV, NPZ, PARQUET, WRITE_ARRAYS
from tests.commands import same_output, succeeded
from tests.integration.responses import body_of, problem_of
from tests.known import known
from tests.unit.reports.reading import Page

RANDOM = np.random.default_rng(9)
N = 400
TRUE = RANDOM.random(N)
Y = (RANDOM.random(N) < TRUE).astype(int)
MODELS = {"forest": TRUE, "a/b~c": TRUE**2}
LISTS = {name: p.tolist() for name, p in MODELS.items()}
GROUPS = np.where(np.arange(N) % 2, "north", "south")


def _compare(http: httpx.Client, body: Any, **options: Any) -> httpx.Response:
    return http.post("/compare", json=body, **options)


def _same(report: dict[str, Any], expected: calibrant.ComparisonReport) -> None:
    """The answer has the numbers of a notebook, to the last digit."""
    whole = json.loads(json.dumps(expected.to_dict()))
    for name in ("contestants", "measures", "rank_by", "correction", "level"):
        assert report["comparison"][name] == whole["comparison"][name], name


def test_the_answer_is_that_of_a_notebook(http: httpx.Client) -> None:
    body = {"models": LISTS, "labels": Y.tolist(), "groups": GROUPS.tolist(), "resamples": 200}
    answer = body_of(_compare(http, body))
    expected = calibrant.compare(MODELS, Y, groups=GROUPS, resamples=200)
    _same(answer, expected)
    whole = json.loads(json.dumps(expected.to_dict()))
    assert answer["comparison"]["groups"] == whole["comparison"]["groups"]
    assert answer["comparison"]["measures"]["log-loss"]["ranks"]["forest"] == [1, 1]


@pytest.mark.parametrize("kind", [NPZ, ARROW, PARQUET, CSV])
def test_every_format_has_an_array_for_each_model(http: httpx.Client, kind: str) -> None:
    columns = {"models/forest": TRUE, "models/a~1b~0c": TRUE**2, "labels": Y}
    answer = http.post(
        "/compare",
        content=WRITE_ARRAYS[kind](columns),
        headers={"Content-Type": kind},
        params={"measures": "brier,auroc", "rank_by": "brier"},
    )
    assert answer.status_code == 200, answer.text
    _same(answer.json(), calibrant.compare(MODELS, Y, measures=["brier", "auroc"], rank_by="brier"))


def test_a_large_json_body_is_read_in_pieces(http: httpx.Client) -> None:
    p = np.random.default_rng(1).random(40_000)
    y = (np.random.default_rng(2).random(40_000) < p).astype(int)
    body = {"models": {"one": p.tolist(), "two": (p**2).tolist()}, "labels": y.tolist(), "measures": ["brier"]}
    answer = body_of(_compare(http, body | {"rank_by": "brier"}))
    assert answer["comparison"]["measures"]["brier"]["ranking"] == ["one", "two"]


def test_stored_batches_are_compared(http: httpx.Client, client: Calibrant) -> None:
    ids = {name: client.upload(p, Y, groups=GROUPS).id for name, p in MODELS.items()}
    report = client.compare(batches=ids, measures=["brier", "ece"])
    expected = calibrant.compare(MODELS, Y, measures=["brier", "ece"], groups=GROUPS)
    assert report.comparison is not None
    assert report.comparison.rank_by == "log-loss"
    for key, compared in expected.measures.items():
        assert [pair.p_value for pair in report.comparison.measures[key].pairs] == [
            pair.p_value for pair in compared.pairs
        ]
    other = client.upload(TRUE, 1 - Y).id
    refused = _compare(http, {"batches": {"forest": ids["forest"], "other": other}})
    assert problem_of(refused) == (422, "invalid-label", "/batches/other")
    shorter = client.upload(TRUE[:50], Y[:50]).id
    length = problem_of(_compare(http, {"batches": {"a": ids["forest"], "b": shorter}}))
    assert length == (422, "length-mismatch", "/batches/b")


def test_a_long_comparison_is_a_job_with_the_same_numbers(http: httpx.Client, client: Calibrant) -> None:
    body = {"models": LISTS, "labels": Y.tolist(), "measures": ["brier", "ece-pl"], "resamples": 100}
    queued = body_of(_compare(http, body), 202)
    stored = [batch.id for batch in client.batches()]
    job = client.wait(queued["id"])
    assert job.status == "succeeded", job.problem
    report = (job.result or {})["report"]
    assert (job.batch, job.batches) == (None, None), "the rows are deleted with the end of the job"
    left = {batch.id for batch in client.batches()}
    assert len(set(stored) - left) == 2
    expected = calibrant.compare(MODELS, Y, measures=["brier"], resamples=100)
    assert report["comparison"]["measures"]["brier"]["pairs"][0]["p_value"] == expected["brier"].pairs[0].p_value
    assert [contestant["name"] for contestant in report["comparison"]["contestants"]] == list(MODELS)
    waited = client.compare(models=MODELS, labels=Y, measures=["brier", "ece-pl"], resamples=100)
    assert known(waited.comparison).measures["ece-pl"].pairs[0].difference is not None


def test_the_client_takes_models_as_the_library_does(client: Calibrant) -> None:
    expected = calibrant.compare(MODELS, Y).measures["auroc"].pairs[0].p_value
    named = {name: pd.Series(p) for name, p in MODELS.items()}
    answers = [
        client.compare(models=named, labels=pd.Series(Y)),
        client.compare(pd.DataFrame(MODELS), Y),
        client.compare(models=MODELS, labels=np.where(Y == 1, "yes", "no"), pos_label="yes"),
    ]
    for report in answers:
        assert known(report.comparison).measures["auroc"].pairs[0].p_value == expected


def test_maps_are_compared_with_the_same_call(http: httpx.Client, client: Calibrant) -> None:
    record = client.fit("platt", TRUE**2, Y)
    report = client.compare(maps=[record.id], predictions=TRUE**2, labels=Y, measures=["brier"], rank_by="brier")
    assert report.comparison is not None
    assert (report.comparison.rank_by, report.comparison.correction) == ("brier", "max-t")
    assert [contestant.map for contestant in report.comparison.contestants] == [None, record.id]
    by_position = client.compare(TRUE**2, Y, [record.id], measures=["brier"])
    assert by_position.comparison is not None
    body = {"maps": [record.id], "predictions": (TRUE**2).tolist(), "labels": Y.tolist(), "measures": ["brier"]}
    old = http.post("/evaluate", json=body).json()
    new = _compare(http, body).json()
    assert new["comparison"]["measures"] == old["comparison"]["measures"]


GOOD: dict[str, Any] = {"models": {"a": [0.2, 0.8, 0.4], "b": [0.1, 0.9, 0.6]}, "labels": [0, 1, 1]}
HOSTILE: dict[str, tuple[dict[str, Any], int, str]] = {
    "no models": ({"models": None}, 422, ""),
    "nothing": ({"models": {}}, 422, ""),
    "one model": ({"models": {"a": [0.2, 0.8, 0.4]}}, 422, "/models"),
    "a list": ({"models": [[0.2, 0.8, 0.4]]}, 422, "/models"),
    "a number": ({"models": {"a": 1, "b": [0.1, 0.9, 0.6]}}, 422, "/models/a"),
    "null": ({"models": {"a": None, "b": [0.1, 0.9, 0.6]}}, 422, "/models/a"),
    "nested": ({"models": {"a": {"b": [1]}, "c": [0.1, 0.9, 0.6]}}, 422, "/models/a"),
    "strings": ({"models": {"a": ["x", "y", "z"], "b": [0.1, 0.9, 0.6]}}, 422, "/models/a/0"),
    "out of range": ({"models": {"a": [0.2, 1.8, 0.4], "b": [0.1, 0.9, 0.6]}}, 422, "/models/a/1"),
    "fewer rows": ({"models": {"a": [0.2], "b": [0.1, 0.9, 0.6]}}, 422, "/labels"),
    "other shapes": ({"models": {"a": [[0.2, 0.8]] * 3, "b": [0.1, 0.9, 0.6]}}, 422, "/models/b"),
    "an empty name": ({"models": {"": [0.2, 0.8, 0.4], "b": [0.1, 0.9, 0.6]}}, 422, "/models"),
    "a long name": ({"models": {"x" * 257: [0.2, 0.8, 0.4], "b": [0.1, 0.9, 0.6]}}, 422, "/models"),
    "too many": ({"models": {str(k): [0.2, 0.8, 0.4] for k in range(21)}}, 422, "/models"),
    "no labels": ({"labels": None}, 422, "/labels"),
    "predictions too": ({"predictions": [0.2, 0.8, 0.4]}, 422, "/predictions"),
    "a batch too": ({"batch": "batch_1"}, 422, "/batch"),
    "batches too": ({"batches": {"a": "batch_1", "b": "batch_2"}}, 422, ""),
    "maps too": ({"maps": ["spam"]}, 422, ""),
    "ranked by ece": ({"rank_by": "ece"}, 422, "/rank_by"),
    "unknown correction": ({"correction": "none"}, 422, "/correction"),
    "diagrams": ({"diagrams": ["corp"]}, 422, "/diagrams"),
    "unknown measure": ({"measures": ["nope"]}, 422, "/measures/0"),
    "unknown reduction": ({"reduction": "nope"}, 422, "/reduction"),
    "a bad level": ({"interval": 2}, 422, "/interval"),
}


@pytest.mark.parametrize("accept", ["application/json", "text/html, application/problem+json"])
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_request_is_refused_with_its_place(http: httpx.Client, case: str, accept: str) -> None:
    change, status, pointer = HOSTILE[case]
    body = {name: content for name, content in (GOOD | change).items() if content is not None or name == "models"}
    answer = _compare(http, body, headers={"Accept": accept})
    assert (answer.status_code, problem_of(answer)[2]) == (status, pointer), answer.text
    assert "0.8" not in answer.text


def test_a_name_that_occurs_twice_is_refused(http: httpx.Client) -> None:
    text = '{"models": {"a": [0.2, 0.8], "a": [0.1, 0.9], "b": [0.3, 0.7]}, "labels": [0, 1]}'
    answer = http.post("/compare", content=text, headers={"Content-Type": "application/json"})
    assert problem_of(answer)[:2] == (422, "invalid-field")


@pytest.mark.parametrize("path", ["/evaluate", "/batches", "/diagrams", "/maps", "/calibrate"])
def test_models_are_refused_by_other_calls(http: httpx.Client, path: str) -> None:
    body = GOOD | {"predictions": [0.2, 0.8, 0.4]}
    extra: dict[str, Any] = {"/diagrams": {"diagram": "corp"}, "/maps": {"method": "platt"}, "/calibrate": {"map": "x"}}
    answer = http.post(path, json=body | extra.get(path, {}))
    assert problem_of(answer) == (422, "invalid-field", "/models")


def test_unknown_batches_are_named(http: httpx.Client) -> None:
    answer = _compare(http, {"batches": {"a": "batch_none", "b": "batch_nope"}})
    assert problem_of(answer) == (422, "unknown-batch-reference", "/batches/a")


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--group", "site"],
        ["--measure", "ece-pl", "--resamples", "100"],
        ["--cluster", "site", "--cluster-variance", "cr1"],
    ],
    ids=str,
)
def test_the_command_prints_the_same_with_and_without_a_server(
    service: Stack, tmp_path: Path, flags: list[str]
) -> None:
    path = tmp_path / "scores.csv"
    pd.DataFrame({"y": Y, "a": TRUE.round(5), "b": (TRUE**2).round(5), "site": GROUPS}).to_csv(path, index=False)
    arguments = ["compare", str(path), "--prediction", "a", "--prediction", "b", "--label", "y", "--json", *flags]
    assert same_output(service.url, *arguments)


# --- Reports

PAGE = {"Accept": "text/html", "Prefer": "wait=600"}


def _page(response: httpx.Response) -> Page:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "Accept" in response.headers["Vary"]
    return Page(response.text)


def test_a_comparison_is_one_html_file_with_the_diagrams_of_the_models(http: httpx.Client, client: Calibrant) -> None:
    hostile = {"<script>alert(1)</script>": LISTS["forest"], '"><img src=x>': LISTS["a/b~c"]}
    page = _page(_compare(http, {"models": hostile, "labels": Y.tolist(), "groups": GROUPS.tolist()}, headers=PAGE))
    assert not page.all("script")
    assert len(page.all("img")) == 2
    assert page.all("h1")[0].text.startswith("<script>alert(1)</script> is best by log loss")
    assert "Comparison by group" in [heading.text for heading in page.all("h2")]
    options = json.loads(page.all("pre")[0].text)
    assert "models" not in options
    again = _compare(http, {**options, "models": LISTS, "labels": Y.tolist()})
    _same(again.json(), calibrant.compare(MODELS, Y))
    text = client.comparison_report_html(models=MODELS, labels=Y)
    assert Page(text).all("h1")[0].text.startswith("forest is best by log loss")


def test_the_report_of_stored_batches_names_them(http: httpx.Client, client: Calibrant) -> None:
    ids = {name: client.upload(p, Y, weights=TRUE + 0.5).id for name, p in MODELS.items()}
    page = _page(_compare(http, {"batches": ids, "measures": ["brier"], "rank_by": "brier"}, headers=PAGE))
    options = json.loads(page.all("pre")[0].text)
    assert options["batches"] == ids
    assert _page(_compare(http, options, headers=PAGE)).all("h1")[0].text == page.all("h1")[0].text
    assert "importance" in [fact.text for fact in page.all("bdi")]
    scope: dict[str, Any] = {"predictions": MODELS, "labels": Y, "weights": TRUE + 0.5}
    exec(page.all("pre")[-1].text, scope)
    assert scope["report"].rank_by == "brier"
    assert list(scope["report"].measures) == ["brier"]


def test_the_report_of_a_long_comparison_is_a_job(http: httpx.Client, client: Calibrant) -> None:
    body = {"models": LISTS, "labels": Y.tolist(), "measures": ["brier", "ece-pl"], "resamples": 100}
    queued = body_of(_compare(http, body, headers={"Accept": "text/html"}), 202)
    job = client.wait(queued["id"])
    assert job.status == "succeeded", job.problem
    page = _page(http.get(f"/jobs/{job.id}", headers=PAGE))
    assert len(page.all("img")) == 2
    assert page.all("h1")[0].text.startswith("forest is best")
    assert "batches" not in json.loads(page.all("pre")[0].text)


@pytest.mark.slow
def test_a_report_of_maps_is_that_of_an_evaluation(http: httpx.Client, client: Calibrant) -> None:
    record = client.fit("platt", TRUE**2, Y)
    body = {"maps": [record.id], "predictions": (TRUE**2).tolist(), "labels": Y.tolist()}
    page = _page(_compare(http, body, headers=PAGE))
    assert "Comparison of maps" in [heading.text for heading in page.all("h2")]


def test_the_command_writes_the_same_report_with_a_server(service: Stack, tmp_path: Path) -> None:
    path, output = tmp_path / "scores.csv", tmp_path / "report.html"
    pd.DataFrame({"y": Y, "a": TRUE.round(5), "b": (TRUE**2).round(5), "site": GROUPS}).to_csv(path, index=False)
    arguments = ["report", str(path), "--prediction", "a", "--prediction", "b", "--group", "site", "--out", str(output)]
    tables, pictures = [], []
    for server in (None, service.url):
        succeeded(server, *arguments)
        page = Page(output.read_text("utf-8"))
        tables.append([cell.text for cell in page.all("td")])
        pictures.append([picture.attributes["alt"] for picture in page.all("img")])
    assert tables[0] == tables[1]
    assert pictures[0] == pictures[1]
    assert len(pictures[0]) == 2
