"""Reports as HTML: one sealed file, at once and of a job."""

from __future__ import annotations

import secrets
from html.parser import HTMLParser
from typing import Any

import httpx
import numpy as np
import pytest

from tests.integration.responses import problem_of
from tests.rows import draw_distorted
from tests.unit.reports.reading import Page

P, Y = draw_distorted(500, 12, 1.6)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
HOSTILE = ("<script>alert(1)</script>", "$\\frac{1}{2}$", '"><img src=x onerror=alert(1)>')
PAGE = {"Accept": "text/html"}
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"


class _Sealed(HTMLParser):
    """Refuses what runs or loads anything."""

    def __init__(self) -> None:
        super().__init__()
        self.images = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "object", "embed", "form", "link", "base")
        for name, text in attrs:
            assert not name.startswith("on"), name
            if tag == "img" and name == "src":
                assert (text or "").startswith("data:image/")
                self.images += 1


def _report(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["vary"].startswith("Accept")
    seen = _Sealed()
    seen.feed(response.text)
    assert seen.images >= 1
    return response.text


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json, text/html", "application/json"),
        ("application/json;q=0.5, text/html;q=0.6", "text/html; charset=utf-8"),
        ("text/html;q=0.5, application/json;q=0.6", "application/json"),
        (BROWSER, "text/html; charset=utf-8"),
    ],
)
def test_an_evaluation_is_json_unless_html_is_preferred(http: httpx.Client, accept: str, kind: str) -> None:
    answer = http.post("/evaluate", json=ROWS, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["vary"].startswith("Accept")


@pytest.mark.slow
def test_a_report_has_its_own_measures_and_diagrams_where_none_are_named(http: httpx.Client) -> None:
    whole = _report(http.post("/evaluate", json=ROWS, headers=PAGE))
    own = _report(http.post("/evaluate", json=ROWS | {"measures": ["brier", "ece"]}, headers=PAGE))
    assert whole.lower().count("<img") == own.lower().count("<img") == 5
    assert "Kolmogorov" in whole
    assert "Kolmogorov" not in own
    assert "n = 500" in whole or "500 rows" in whole
    bare = http.post("/evaluate", json=ROWS | {"measures": ["ece"], "diagrams": []}, headers=PAGE)
    assert "<img" not in bare.text


def test_a_comparison_or_plain_job_has_no_html(http: httpx.Client) -> None:
    several = http.post("/evaluate", json={"batches": ["batch_a", "batch_b"]}, headers=PAGE)
    assert problem_of(several) == (422, "invalid-field", "/batches")
    assert problem_of(http.post("/evaluate", json=ROWS, headers={"Accept": "image/png"}))[:2] == (406, "not-acceptable")
    assert problem_of(http.post("/evaluate", json={"predictions": [], "labels": []}, headers=PAGE))[1] == "empty-batch"
    assert problem_of(http.post("/evaluate", json=ROWS | {"measures": ["pie"]}, headers=PAGE))[1] == "unknown-measure"


@pytest.mark.parametrize(
    "rows",
    [
        {"predictions": [0.3], "labels": [1]},
        {"predictions": [0.2, 0.9, 0.9], "labels": [1, 1, 1]},
        {"predictions": [[0.2, 0.7, 0.1], [0.6, 0.2, 0.2]] * 8, "labels": [1, 2] * 8, "reduction": "canonical"},
        {"predictions": [[0.2, 0.7, 0.1], [0.6, 0.2, 0.2]] * 8, "labels": [1, 2] * 8, "reduction": "classwise"},
        {"predictions": [[0.2, 0.7, 0.1], [0.6, 0.2, 0.2]] * 8, "labels": [1, 2] * 8, "classes": [1, 2]},
    ],
)
def test_every_batch_has_a_report(http: httpx.Client, rows: dict[str, Any]) -> None:
    answer = http.post("/evaluate", json=rows, headers=PAGE | {"Prefer": "wait=600"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")


@pytest.mark.slow
def test_a_report_covers_one_map_and_several_maps(http: httpx.Client) -> None:
    fitted = [http.post("/maps", json=ROWS | {"method": method}).json()["id"] for method in ("platt", "beta")]
    with_groups = ROWS | {"groups": ["north", "south"] * 250}
    waiting = PAGE | {"Prefer": "wait=600"}
    page = _report(http.post("/evaluate", json=with_groups | {"map": fitted[0]}, headers=waiting))
    several = _report(http.post("/evaluate", json=with_groups | {"maps": fitted}, headers=waiting))
    assert fitted[0] in page
    for name in fitted:
        assert name in several
    assert "north" in page
    assert "north" in several


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 5])
def test_a_report_of_four_thousand_rows_in_a_few_groups_is_answered_at_once(http: httpx.Client, groups: int) -> None:
    body = {
        "predictions": np.tile(P, 8).tolist(),
        "labels": np.tile(Y, 8).tolist(),
        "groups": [f"group {i % groups}" for i in range(4_000)],
    }
    answer = http.post("/evaluate", json=body, headers=PAGE | {"Prefer": "wait=0"})
    assert f"group {groups - 1}" in _report(answer)


def test_a_constant_half_is_not_reported_as_certain(http: httpx.Client) -> None:
    body = {"predictions": [0.5] * 200, "labels": [0, 1] * 100}
    text = _report(http.post("/evaluate", json=body, headers=PAGE))
    assert "errors below 7.2 points cannot be excluded" in text
    assert "A decision that tolerates a mean error of 7.2 points can use" in text


def test_names_are_words_in_a_report_and_nothing_else(http: httpx.Client) -> None:
    groups = [HOSTILE[i % 3] for i in range(500)]
    measures = ["ece", {"name": "ece", "n_bins": 5, "as": HOSTILE[0]}]
    answer = http.post("/evaluate", json=ROWS | {"groups": groups, "measures": measures}, headers=PAGE)
    text = _report(answer if answer.status_code == 200 else http.get(
        answer.headers["location"], headers=PAGE | {"Prefer": "wait=600"}
    ))  # fmt: skip
    assert "&lt;script&gt;alert(1)" in text
    assert "$\\frac{1}{2}$" in text


def test_a_long_report_is_a_job_that_is_the_report_when_it_has_ended(http: httpx.Client) -> None:
    body = ROWS | {"groups": ["north", "south"] * 250}
    queued = http.post("/evaluate", json=body, headers=PAGE | {"Prefer": "respond-async"})
    assert (queued.status_code, queued.headers["content-type"]) == (202, "application/json")
    assert queued.headers["vary"].startswith("Accept")
    text = _report(http.get(queued.headers["location"], headers=PAGE | {"Prefer": "wait=600"}))
    assert "north" in text
    job = http.get(queued.headers["location"]).json()
    assert set(job["result"]["report"]["groups"]) == {"north", "south"}
    assert set(job["result"]["report"]["group_diagrams"]) == {"north", "south"}
    assert job["result"]["report"]["recommendation"]["recommended"]
    assert job["progress"]["done"] == job["progress"]["total"]
    again = http.post("/evaluate", json=body, headers=PAGE | {"Prefer": "respond-async, wait=600"})
    assert "north" in _report(again)


@pytest.mark.slow
def test_a_job_and_the_service_itself_make_the_same_report(http: httpx.Client) -> None:
    batch = http.post("/batches", json=ROWS).json()["id"]
    at_once = http.post("/evaluate", json={"batch": batch}, headers=PAGE)
    by_job = http.post("/evaluate", json={"batch": batch}, headers=PAGE | {"Prefer": "respond-async, wait=600"})

    def numbers(text: str) -> str:
        return text.partition("<img")[0]

    assert numbers(_report(at_once)) == numbers(_report(by_job))


def test_a_page_shows_the_state_and_the_end_of_a_job(http: httpx.Client, api: httpx.Client) -> None:
    waiting = api.post("/evaluate", json=ROWS, headers=PAGE | {"Prefer": "respond-async"})
    page = api.get(waiting.headers["location"], headers=PAGE)
    assert "The evaluation is queued" in page.text
    assert 'http-equiv="refresh"' in page.text
    assert page.headers["retry-after"]
    api.post(waiting.headers["location"] + "/cancel").raise_for_status()
    page = api.get(waiting.headers["location"], headers=PAGE)
    assert "The evaluation was cancelled" in page.text
    assert "refresh" not in page.text
    fit = http.post("/maps", json=ROWS | {"method": "platt"}, headers={"Prefer": "respond-async"})
    page = http.get(fit.headers["location"], headers=PAGE | {"Prefer": "wait=600"})
    assert "The fit has succeeded" in page.text
    assert "/maps/map_" in page.text
    assert problem_of(http.get(fit.headers["location"], headers={"Accept": "image/png"}))[0] == 406


def test_a_report_that_is_sent_again_is_as_sealed_as_the_first(http: httpx.Client) -> None:
    sent = PAGE | {"Idempotency-Key": secrets.token_hex(8)}
    first, again = (http.post("/evaluate", json=ROWS, headers=sent) for _ in range(2))
    assert again.headers["idempotency-replayed"] == "true"
    assert _report(again) == _report(first)


@pytest.mark.slow
def test_a_report_says_that_its_rows_are_logits_and_what_their_weights_count(http: httpx.Client) -> None:
    rows = {"predictions": [-2.0, -0.5, 0.5, 3.0] * 20, "labels": [0, 1, 0, 1] * 20, "weights": [0.5, 2.0] * 40}
    reading = {"scale": "logit", "weights_kind": "importance"}
    batch = http.post("/batches", json=rows | reading).json()["id"]
    for asked, is_stored in ((rows | reading, False), ({"batch": batch}, True)):
        page = Page(_report(http.post("/evaluate", json=asked, headers={"Accept": "text/html"})))
        assert "the predictions are logits" in [fact.text for fact in page.all("bdi")]
        options, _, python = (block.text for block in page.all("pre")[-3:])
        # A batch has its scale; another one is refused.
        assert ('"scale": "logit"' in options) == (not is_stored)
        scope: dict[str, Any] = {name: rows[name] for name in rows}
        exec(python, scope)
        answer = http.post("/evaluate", json=asked | {"measures": ["ece"]}).json()
        assert scope["report"].measures["ece"].value == answer["measures"]["ece"]["value"]
