"""Reports in HTML of the service and of the command have sections about prediction sets, segments and grades."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.commands import succeeded
from tests.integration.responses import body_of, problem_of, text_of

RANDOM = np.random.default_rng(21)
N = 300
PROBS = RANDOM.dirichlet(np.ones(3), N)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])
SITES = ["north", "south"] * (N // 2)
HTML = {"accept": "text/html"}
ROWS: dict[str, Any] = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "groups": SITES}


@pytest.fixture(scope="module")
def maps() -> dict[str, calibrant.SetMap]:
    return {
        "lac": calibrant.fit_sets(PROBS, LABELS, alpha=0.2),
        "group": calibrant.fit_sets(PROBS, LABELS, conditional="group", groups=SITES),
        "random": calibrant.fit_sets(PROBS, LABELS, method="aps", randomised=True),
    }


@pytest.fixture(scope="module")
def stored(service: Stack, maps: dict[str, calibrant.SetMap]) -> dict[str, str]:
    with httpx.Client(base_url=service.url, timeout=600) as http:
        documents = {name: {"document": fitted.to_document()} for name, fitted in maps.items()}
        return {name: body_of(http.post("/maps/import", json=own), 201)["id"] for name, own in documents.items()}


def _section(html: str, name: str) -> str:
    return html.partition(f'id="report-{name}"')[2].partition("</section>")[0]


@pytest.mark.parametrize("name", ["lac", *(pytest.param(name, marks=pytest.mark.slow) for name in ("group", "random"))])
def test_a_report_of_the_service_has_the_coverage_of_the_sets(
    http: httpx.Client, stored: dict[str, str], maps: dict[str, calibrant.SetMap], name: str
) -> None:
    answer = text_of(http.post("/evaluate", json=ROWS | {"sets": stored[name], "seed": 3}, headers=HTML))
    local = calibrant.report(PROBS, LABELS, groups=SITES, sets=maps[name], seed=3)
    assert _section(local.html, "sets")
    assert _section(answer, "sets").count("<tr") == _section(local.html, "sets").count("<tr")
    coverage = f"{local.document['sets']['coverage']:.3f}"
    assert coverage in _section(answer, "sets")


def test_a_job_of_a_report_has_the_coverage_of_the_sets(client: Calibrant, stored: dict[str, str]) -> None:
    batch = client.upload(PROBS, LABELS, groups=SITES)
    html = client.report_html(batch=batch.id, sets=stored["lac"])
    assert _section(html, "sets")


@pytest.mark.slow
def test_a_report_of_rows_with_features_has_their_segments(http: httpx.Client) -> None:
    p = RANDOM.uniform(0.1, 0.6, 600)
    site = RANDOM.choice(list("ab"), 600)
    y = (RANDOM.random(600) < p + 0.3 * (site == "b")).astype(int)
    body: dict[str, Any] = {"predictions": p.tolist(), "labels": y.tolist(), "features": {"site": site.tolist()}}
    answer = http.post("/evaluate", json=body, headers=HTML)
    assert "<bdi>site = b</bdi>" in _section(answer.text, "segments")
    body["clusters"] = [str(i // 2) for i in range(600)]
    clustered = text_of(http.post("/evaluate", json=body, headers=HTML))
    assert "the search assumes independent rows" in _section(clustered, "segments")
    assert clustered.count('id="report-segments"') == 1
    few = {name: column[:40] for name, column in body.items() if name != "features" and name != "clusters"}
    assert http.post("/evaluate", json=few | {"features": {"site": site[:40].tolist()}}, headers=HTML).is_success


def test_sets_are_refused_where_they_have_no_section(http: httpx.Client, stored: dict[str, str]) -> None:
    platt = body_of(http.post("/maps", json={**_binary(), "method": "platt"}), 201)["id"]
    assert problem_of(http.post("/evaluate", json=ROWS | {"sets": stored["lac"]})) == (422, "invalid-field", "/sets")
    for body, status, code, pointer in (
        (ROWS | {"sets": platt}, 422, "prediction-kind-mismatch", "/sets"),
        (_binary() | {"sets": stored["lac"]}, 422, "wrong-shape", "/predictions"),
        ({**ROWS, "groups": None, "sets": stored["group"]}, 422, "invalid-option", "/groups"),
        (ROWS | {"sets": stored["lac"], "classes": [0, 1]}, 422, "invalid-field", "/sets"),
    ):
        assert problem_of(http.post("/evaluate", json=body, headers=HTML)) == (status, code, pointer)


def _binary() -> dict[str, Any]:
    return {"predictions": PROBS[:, 0].tolist(), "labels": (LABELS == 0).astype(int).tolist()}


@pytest.mark.parametrize("on_server", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_command_writes_the_section(
    service: Stack, stored: dict[str, str], maps: dict[str, calibrant.SetMap], tmp_path: Path, on_server: bool
) -> None:
    file, page = tmp_path / "rows.csv", tmp_path / "report.html"
    lines = [f"{y},{s},{','.join(map(repr, row))}" for row, y, s in zip(PROBS.tolist(), LABELS, SITES, strict=True)]
    file.write_text("\n".join(["label,site,prob_0,prob_1,prob_2", *lines]) + "\n", "utf-8")
    maps["group"].save(tmp_path / "sets.json")
    sets = (
        ["--sets", stored["group"], "--server", service.url] if on_server else ["--sets", str(tmp_path / "sets.json")]
    )
    succeeded(None, "report", file, "--group", "site", "--out", page, *sets)
    local = calibrant.report(PROBS, LABELS, groups=SITES, sets=maps["group"])
    assert f"{local.document['sets']['coverage']:.3f}" in _section(page.read_text("utf-8"), "sets")


PDS = np.repeat([0.02, 0.1, 0.3], 100)
GRADED: dict[str, Any] = {
    "predictions": PDS.tolist(),
    "labels": (np.arange(300) % 100 < np.repeat([3, 22, 31], 100)).astype(int).tolist(),
    "groups": np.repeat(list("ABC"), 100).tolist(),
}


@pytest.mark.slow
def test_a_report_of_the_service_tests_the_groups_as_rating_grades(http: httpx.Client, client: Calibrant) -> None:
    local = calibrant.report(PDS, GRADED["labels"], groups=GRADED["groups"], grades=True)
    answer = text_of(http.post("/evaluate", json=GRADED | {"grades": True}, headers=HTML))
    assert _section(answer, "grades") == _section(local.html, "grades") != ""
    assert "&#34;grades&#34;: true" in answer  # reproduces the report
    assert not _section(http.post("/evaluate", json=GRADED, headers=HTML).text, "grades")
    batch = client.upload(PDS, GRADED["labels"], groups=GRADED["groups"])
    assert _section(client.report_html(batch=batch.id, grades=True), "grades") == _section(local.html, "grades")


def test_grades_are_refused_where_they_have_no_section(http: httpx.Client) -> None:
    fitted = body_of(http.post("/maps", json={**_binary(), "method": "platt"}), 201)["id"]
    graded = GRADED | {"grades": True}
    assert problem_of(http.post("/evaluate", json=graded)) == (422, "invalid-field", "/grades")
    for body, code, pointer in (
        (graded | {"map": fitted}, "invalid-field", "/grades"),
        (graded | {"maps": [fitted]}, "invalid-field", "/grades"),
        ({**graded, "groups": None}, "invalid-option", "/groups"),
        (graded | {"clusters": list("ab") * 150}, "invalid-option", "/clusters"),
        (graded | {"weights": [0.5, 1.0] * 150}, "invalid-option", "/weights_kind"),
        (ROWS | {"grades": True}, "wrong-shape", "/predictions"),
        (graded | {"grades": "A"}, "invalid-field", "/grades"),
    ):
        assert problem_of(http.post("/evaluate", json=body, headers=HTML)) == (422, code, pointer)


P_OF_ONE = PROBS[:, 0]
OF_COSTS: dict[str, Any] = _binary() | {"costs": [1, 3]}


@pytest.mark.slow
def test_a_report_of_the_service_has_the_decisions_of_costs(http: httpx.Client, client: Calibrant) -> None:
    local = calibrant.report(P_OF_ONE, OF_COSTS["labels"], costs=(1, 3))
    answer = text_of(http.post("/evaluate", json=OF_COSTS, headers=HTML))
    assert _section(answer, "decisions") == _section(local.html, "decisions") != ""
    assert "&#34;costs&#34;: [1.0, 3.0]" in answer
    batch = client.upload(P_OF_ONE, OF_COSTS["labels"])
    assert _section(client.report_html(batch=batch.id, costs=[1, 3]), "decisions") == _section(local.html, "decisions")
    models = {"one": P_OF_ONE.tolist(), "half": [0.5] * N}
    compared = calibrant.report({name: np.array(p) for name, p in models.items()}, OF_COSTS["labels"], costs=(1, 3))
    html = client.comparison_report_html(models=models, labels=OF_COSTS["labels"], costs=[1, 3])
    assert _section(html, "decisions") == _section(compared.html, "decisions") != ""


@pytest.mark.parametrize("criterion", [{"capacity": 0.2}, {"precision": 0.4}, {"recall": 0.7}])
def test_a_report_of_the_service_has_the_decisions_of_every_criterion(
    client: Calibrant, criterion: dict[str, Any]
) -> None:
    labels = OF_COSTS["labels"]
    local = calibrant.report(P_OF_ONE, labels, **criterion)
    html = client.report_html(predictions=P_OF_ONE, labels=labels, **criterion)
    assert _section(html, "decisions") == _section(local.html, "decisions") != ""
    models = {"one": P_OF_ONE, "square": P_OF_ONE**2}
    html = client.comparison_report_html(models=models, labels=labels, **criterion)
    compared = calibrant.report(models, labels, **criterion)
    assert _section(html, "decisions") == _section(compared.html, "decisions") != ""


def test_costs_are_refused_where_they_have_no_section(http: httpx.Client) -> None:
    fitted = body_of(http.post("/maps", json={**_binary(), "method": "platt"}), 201)["id"]
    models = {"models": {"a": P_OF_ONE.tolist(), "b": [0.5] * N}, "labels": OF_COSTS["labels"], "costs": [1, 3]}
    assert problem_of(http.post("/evaluate", json=OF_COSTS)) == (422, "invalid-field", "/costs")
    assert problem_of(http.post("/compare", json=models)) == (422, "invalid-field", "/costs")
    assert problem_of(http.post("/evaluate", json=_binary() | {"recall": 0.9})) == (422, "invalid-field", "/recall")
    for body, code, pointer in (
        (OF_COSTS | {"map": fitted}, "invalid-field", "/costs"),
        (OF_COSTS | {"maps": [fitted]}, "invalid-field", "/costs"),
        (OF_COSTS | {"capacity": 10}, "invalid-option", "/capacity"),
        (_binary() | {"recall": 0.9, "map": fitted}, "invalid-field", "/recall"),
        (_binary() | {"precision": 1.0}, "invalid-field", "/precision"),
        (_binary() | {"capacity": 1.5}, "invalid-option", "/capacity"),
        (ROWS | {"capacity": 10, "classes": [0, 1]}, "invalid-field", "/capacity"),
        (OF_COSTS | {"costs": [1]}, "invalid-field", "/costs"),
        (OF_COSTS | {"costs": [1, 0]}, "invalid-field", "/costs/1"),
        (OF_COSTS | {"costs": [1e308, 1e308]}, "invalid-option", "/costs"),
        (ROWS | {"costs": [1, 3], "classes": [0, 1]}, "invalid-field", "/costs"),
        (ROWS | {"costs": [1, 3], "reduction": "classwise"}, "unknown-reduction", "/reduction"),
    ):
        assert problem_of(http.post("/evaluate", json=body, headers=HTML)) == (422, code, pointer)
