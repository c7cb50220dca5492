"""Diagrams and HTML reports of predictive distributions over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client.rows import Form
from calibrant.plots.canvas import Caption
from calibrant.plots.diagram import draw
from service.stack import Stack
from tests.integration.clients import Kind, connected
from tests.integration.responses import problem_of, text_of
from tests.integration.test_distributions import KINDS, REGRESSION, _json, _rows
from tests.packed import npz

SVG, PNG, HTML = "image/svg+xml", "image/png", "text/html"
AS_DATA = {"Accept": "application/json"}


def _library_diagrams(kind: str, rows: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """The diagrams in the report of the library."""
    report = calibrant.report_distribution(**rows, **extra)
    assert report.document["kind"] == kind
    diagrams: dict[str, Any] = report.document["diagrams"]
    return diagrams


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_diagram_is_that_of_the_library(api: httpx.Client, kind: str) -> None:
    times = {"times": [str(2000 + i) for i in range(90)], "weights": (np.arange(90) % 3).tolist()}
    rows = _rows(kind)
    expected = _library_diagrams(kind, rows, **times)
    assert set(expected) == set(calibrant.DISTRIBUTION_DIAGRAMS)
    for name, shown in expected.items():
        body = _json(rows) | times | {"diagram": name}
        numbers = api.post("/diagrams", json=body, headers=AS_DATA).json()
        assert numbers["data"] == shown["data"], name
        assert numbers["problem"] == shown["problem"]
        drawn = api.post("/diagrams", json=body, headers={"Accept": SVG})
        if shown["data"] is None:
            assert problem_of(drawn)[:2] == (422, "nothing-to-draw")
            continue
        picture = draw(name, shown, Caption(60, kind))
        assert drawn.content == picture.content, name
        assert numbers["alt"] == picture.alt
        assert api.post("/diagrams", json=body, headers={"Accept": PNG}).content[:4] == b"\x89PNG"


def test_a_map_is_drawn_over_the_forecasts_before_it(api: httpx.Client) -> None:
    rows = _json(_rows("normal"))
    map_id = api.post("/maps", json=rows | {"method": "variance-scaling"}).json()["id"]
    body = rows | {"map": map_id, "diagram": {"name": "coverage", "level": 0.9}}
    picture = api.post("/diagrams", json=body, headers=AS_DATA).json()
    assert picture["definition"]["level"] == picture["after"]["definition"]["level"] == 0.9
    assert max(picture["after"]["data"]["coverage"]) > max(picture["data"]["coverage"])
    drawn = api.post("/diagrams", json=rows | {"map": map_id}, headers={"Accept": SVG})
    assert b"in-sample" in drawn.content


def test_a_picture_comes_from_a_batch_an_archive_or_a_job(service: Stack) -> None:
    rows, query = _rows("quantiles"), REGRESSION | {"diagram": "pit"}
    with httpx.Client(base_url=service.url, timeout=600) as http:
        direct = http.post("/diagrams", json=_json(rows) | {"diagram": "pit"}, headers={"Accept": SVG})
        batch = http.post("/batches", json=_json(rows)).json()["id"]
        of_batch = http.post("/diagrams", json=query | {"batch": batch}, headers={"Accept": SVG})
        headers = {"Content-Type": "application/x-npz", "Accept": SVG}
        of_archive = http.post("/diagrams", params=query, content=npz(**rows), headers=headers)
        queued = http.post("/diagrams", json=_json(rows) | {"diagram": "pit"}, headers={"Prefer": "respond-async"})
        assert queued.status_code == 202, queued.text
        http.get(queued.headers["Location"], headers={"Prefer": "wait=600"})
        of_job = http.get(queued.headers["Location"] + "/diagram.svg")
        assert direct.content == of_batch.content == of_archive.content == of_job.content


@pytest.mark.parametrize(
    ("change", "status", "code", "pointer"),
    [
        ({"diagram": "reliability"}, 422, "unknown-diagram", "/diagram"),
        ({"diagram": {"name": "pit", "bins": 3}}, 422, "invalid-option", "/diagram"),
        ({"diagram": {"name": "mean-variance", "n_bins": 10**9}}, 422, "invalid-option", "/diagram/n_bins"),
        ({"diagram": 3}, 422, "invalid-field", "/diagram"),
        ({"width": 10**9}, 422, "invalid-field", "/width"),
        ({"reduction": "binary"}, 422, "invalid-field", "/reduction"),
        ({"times": ["2024-01-01"]}, 422, "length-mismatch", "/times"),
        ({"observed": None}, 422, "invalid-field", "/observed"),
        ({"map": "nothing"}, 422, "unknown-map-reference", "/map"),
    ],
)
def test_invalid_pictures_are_refused(
    api: httpx.Client, change: dict[str, Any], status: int, code: str, pointer: str
) -> None:
    body = {name: column for name, column in (_json(_rows("normal")) | change).items() if column is not None}
    assert problem_of(api.post("/diagrams", json=body, headers={"Accept": SVG})) == (status, code, pointer)


@pytest.mark.parametrize(
    "times", [["s3cret"] * 90, ["1"] * 90, ["nan", *map(str, range(89))], ["1e999", *map(str, range(89))]]
)
def test_times_that_cannot_be_drawn_are_never_echoed(api: httpx.Client, times: list[str]) -> None:
    body = _json(_rows("normal")) | {"times": times, "diagram": "fan"}
    answer = api.post("/diagrams", json=body, headers=AS_DATA)
    assert answer.status_code == 200, answer.text
    assert answer.json()["data"] is None
    assert "s3cret" not in answer.text
    drawn = text_of(api.post("/diagrams", json=body, headers={"Accept": SVG}), 422)
    assert "s3cret" not in drawn


# --- Reports


@pytest.mark.parametrize(
    "kind", ["normal", *(pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS if kind != "normal")]
)
def test_a_report_has_the_verdict_and_the_recommendation_of_the_library(api: httpx.Client, kind: str) -> None:
    rows = _rows(kind, 300)
    extra: dict[str, Any] = {"groups": ["a", "b"] * 150, "clusters": [str(i // 3) for i in range(300)]}
    page = api.post("/evaluate", json=_json(rows) | extra, headers={"Accept": HTML})
    assert page.status_code == 200, page.text
    assert page.headers["Content-Type"].startswith(HTML)
    assert "sandbox" in page.headers["Content-Security-Policy"]
    library = calibrant.report_distribution(**rows, **extra).html
    for start, end in (('<section class="verdict', "</section>"), ("<h2", "</h2>")):
        assert library.partition(start)[2].partition(end)[0] in page.text
    assert page.text.count("<figure") == library.count("<figure") > 2


@pytest.mark.slow
def test_a_report_by_a_job_is_the_same_page(service: Stack) -> None:
    rows = _json(_rows("quantiles", 200)) | {"weights": [1.0, 2.0] * 100}
    with httpx.Client(base_url=service.url, timeout=600) as http:
        direct = http.post("/evaluate", json=rows, headers={"Accept": HTML})
        headers = {"Accept": HTML, "Prefer": "respond-async"}
        queued = http.post("/evaluate", json=rows, headers=headers)
        assert queued.status_code == 202, queued.text
        http.get(queued.headers["Location"], headers={"Prefer": "wait=600"})
        page = http.get(queued.headers["Location"], headers={"Accept": HTML})
        assert page.text.count("<figure") == direct.text.count("<figure")
        assert page.text.partition("<h2")[2].partition("Fit")[0] == direct.text.partition("<h2")[2].partition("Fit")[0]
        map_id = http.post("/maps", json=rows | {"method": "location-scale"}).json()["id"]
        after = text_of(http.post("/evaluate", json=rows | {"map": map_id}, headers={"Accept": HTML}))
        assert "in-sample" in after


@pytest.mark.parametrize("field", ["measures", "diagrams", "interval"])
def test_a_report_chooses_its_own_measures_and_diagrams(api: httpx.Client, field: str) -> None:
    choice: Any = 0.9 if field == "interval" else ["pit"]
    sent = api.post("/evaluate", json=_json(_rows("normal")) | {field: choice}, headers={"Accept": HTML})
    assert problem_of(sent) == (422, "invalid-field", f"/{field}")


def test_names_of_groups_are_text_in_a_report(api: httpx.Client) -> None:
    body = _json(_rows("normal")) | {"groups": ["<script>alert(1)</script>", "b"] * 45}
    page = text_of(api.post("/evaluate", json=body, headers={"Accept": HTML}))
    assert "<script>alert" not in page


def test_diagrams_of_an_evaluation_are_data(api: httpx.Client) -> None:
    wanted = ["pit", {"name": "coverage", "level": 0.9, "as": "own"}]
    rows = _json(_rows("normal"))
    report = api.post("/evaluate", json=rows | {"diagrams": wanted}).json()
    assert list(report["diagrams"]) == ["pit", "own"]
    assert "diagrams" not in api.post("/evaluate", json=rows).json()
    assert problem_of(api.post("/evaluate", json=rows | {"diagrams": ["corp"]})) == (
        422,
        "unknown-diagram",
        "/diagrams/0",
    )


@pytest.mark.slow
@pytest.mark.parametrize("client_kind", ["sync", "async"])
def test_a_client_draws_and_reports(service: Stack, client_kind: Kind) -> None:
    rows = _rows("samples")
    with connected(client_kind, service.url) as client:
        assert [entry.name for entry in client.distribution_diagrams()] == list(calibrant.DISTRIBUTION_DIAGRAMS)
        forms: dict[Form, bytes] = {"svg": b"<svg", "png": b"\x89PNG"}
        for form, start in forms.items():
            fan = client.distribution_diagram("fan", **rows, times=np.arange(90), form=form)
            assert fan.startswith(start)
        page = client.distribution_report_html(**rows, groups=["a", "b"] * 45)
        assert page.startswith("<!doctype html>")
        batch = client.upload_distribution(**rows, times=np.arange(90), ttl=600)
        assert client.distribution_diagram("fan", batch=batch.id) == client.distribution_diagram(
            "fan", **rows, times=np.arange(90)
        )
        report = client.evaluate_distribution(**rows, diagrams=["pit"])
        assert report.diagrams is not None
        assert report.diagrams["pit"].data is not None
