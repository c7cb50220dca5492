"""Several models of an uploaded file on the page: their comparison, its downloads, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import numpy as np
import pytest

import calibrant
from calibrant.client import Calibrant
from service.stack import Stack
from tests.integration.visiting import Visitor, message_beside

RANDOM = np.random.default_rng(21)
TRUE = RANDOM.random(300).round(4)
Y = (RANDOM.random(300) < TRUE).astype(int)
SQUARE = (TRUE**2).round(6)
FIRST, SECOND = "<b>forest</b>", "boosting"


@pytest.fixture
def url(service: Stack) -> str:
    return service.url


def _csv(first: str = FIRST, *, missing: int = 0) -> bytes:
    cells = [
        f"{y},{'' if i < missing else p},{q},{i % 2}" for i, (y, p, q) in enumerate(zip(Y, TRUE, SQUARE, strict=True))
    ]
    return "\n".join([f"y,{first},{SECOND},site", *cells, ""]).encode()


def _compared(visitor: Visitor, client: Calibrant, response: httpx.Response) -> str:
    """The path of the comparison, if need be after the job that creates it."""
    assert response.status_code == 303, response.text
    path = response.headers["location"]
    page = visitor.get(path)
    if page.status_code == 303:
        client.wait(page.headers["location"].rpartition("/")[2])
    return str(path)


def test_chosen_columns_of_a_file_become_a_comparison(visitor: Visitor, client: Calibrant) -> None:
    sent = visitor.upload(_csv(), prediction_columns=[FIRST, SECOND], columns_are="models", groups="site")
    path = _compared(visitor, client, sent)
    text = visitor.get(path).text
    assert "Verdict on the models" in text
    assert "&lt;b&gt;forest&lt;/b&gt; is best by log loss" in text
    assert "<b>forest" not in text
    assert "Comparison by group" in text
    assert 'id="fit"' not in text
    report = visitor.get(path.replace("?", "/report.json?")).json()
    expected = calibrant.compare({FIRST: TRUE, SECOND: SQUARE}, Y, groups=(np.arange(300) % 2).astype(str))
    compared = json.loads(json.dumps(expected.to_dict()["comparison"]))
    assert report["comparison"]["measures"] == compared["measures"]
    assert list(report["model_diagrams"]) == [FIRST, SECOND]
    download = visitor.get(path.replace("?", "/report.html?"))
    assert "attachment" in download.headers["Content-Disposition"]
    assert "&#34;$CALIBRANT_URL/compare&#34;" in download.text


def test_each_model_keeps_a_report_of_its_own(visitor: Visitor, client: Calibrant) -> None:
    path = visitor.upload(_csv(), "scores.csv", predictions=f"{FIRST}, {SECOND}", columns_are="models").headers[
        "location"
    ]
    parts = urlsplit(path)
    ids = [parts.path.rpartition("/")[2], *parse_qs(parts.query)["models"]]
    own = [client.batch(batch_id) for batch_id in ids]
    assert [batch.n for batch in own] == [300, 300]
    listing = visitor.get("/ui/reports").text
    assert "scores.csv: &lt;b&gt;forest&lt;/b&gt;" in listing
    assert "scores.csv: boosting" in listing


def test_several_columns_are_never_models_without_the_choice(visitor: Visitor) -> None:
    refused = visitor.upload(_csv(), prediction_columns=[FIRST, SECOND])
    assert message_beside(refused, "columns_are")
    assert "are read as the probabilities of 2 classes" in refused.text.replace("&#39;", "'")
    assert "calibrant compare" not in refused.text
    assert '<option value="models">' in refused.text


@pytest.mark.parametrize(
    ("columns", "hint"),
    [
        ([], "predictions"),
        ([SECOND], "predictions"),
        ([FIRST, "no such column"], "predictions"),
        ([FIRST, FIRST], "predictions"),
        ([f"m{i}" for i in range(200)], "predictions"),
    ],
)
def test_columns_that_are_no_models_are_refused_and_nothing_is_stored(
    visitor: Visitor, client: Calibrant, columns: list[str], hint: str
) -> None:
    before = {batch.id for batch in client.batches()}
    refused = visitor.upload(_csv(), prediction_columns=columns, columns_are="models")
    assert message_beside(refused, hint)
    assert '<option value="models" selected>' in refused.text
    assert {batch.id for batch in client.batches()} <= before


def test_rows_with_missing_values_are_left_out_if_the_form_says_so(visitor: Visitor, client: Calibrant) -> None:
    refused = visitor.upload(_csv("forest", missing=7), predictions="forest", groups="site")
    assert message_beside(refused, "drop_missing")
    uploaded = visitor.upload(_csv("forest", missing=7), predictions="forest", drop_missing="yes")
    batch = uploaded.headers["location"].rpartition("/")[2]
    assert client.batch(batch).n == 293
    chosen: dict[str, Any] = {"predictions": "forest, boosting", "columns_are": "models", "drop_missing": "yes"}
    models = visitor.upload(_csv("forest", missing=7), **chosen)
    ids = parse_qs(urlsplit(models.headers["location"]).query)["models"]
    assert client.batch(ids[0]).n == 293


@pytest.mark.parametrize("field", ["columns_are", "drop_missing"])
def test_an_unknown_choice_is_refused(visitor: Visitor, field: str) -> None:
    wrong: dict[str, Any] = {field: "<script>"}
    assert visitor.upload(_csv(), predictions=FIRST, **wrong).status_code == 422


def test_a_comparison_of_stored_batches_refuses_what_does_not_fit(visitor: Visitor, client: Calibrant) -> None:
    true, two = client.upload(TRUE, Y).id, client.upload(SQUARE, Y).id
    assert visitor.get(f"/ui/reports/{true}?models={two}").status_code in (200, 303)
    other = client.upload(TRUE, 1 - Y).id
    statuses = {
        f"models={true}": 422,
        f"models={two}&models={two}": 422,
        f"models={two}&maps=spam:1": 422,
        f"models={two}&map=spam:1": 422,
        f"models={other}": 422,
        "models=batch_none": 404,
        "&".join(["models=<script>"] * 30): 422,
        "&".join(f"models=batch_{i}" for i in range(30)): 422,
    }
    for query, status in statuses.items():
        page = visitor.get(f"/ui/reports/{true}?{query}")
        assert page.status_code == status, query
        assert "<script>" not in page.text.replace("<script src", "")


def test_the_job_of_a_comparison_leads_back_to_its_page(
    visitor: Visitor, client: Calibrant, http: httpx.Client
) -> None:
    ids = {f"m{i}": client.upload(TRUE ** (1 + i), Y).id for i in range(2)}
    body = {"batches": ids, "measures": ["brier", "ece-pl"], "resamples": 100}
    job = client.wait(http.post("/compare", json=body).json()["id"])
    page = visitor.get(f"/ui/jobs/{job.id}").text
    path = f"/ui/reports/{ids['m0']}?job={job.id}&amp;models={ids['m1']}"
    assert f'href="{path}"' in page
    assert "Verdict on the models" in visitor.get(path.replace("&amp;", "&")).text
    alone = visitor.get(f"/ui/reports/{ids['m0']}?job={job.id}", headers={"Accept": "application/problem+json"})
    assert alone.status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True])
def test_the_page_shows_the_decisions_of_costs(visitor: Visitor, client: Calibrant, several: bool) -> None:
    true, two = client.upload(TRUE, Y).id, client.upload(SQUARE, Y).id
    query = f"?models={two}&" if several else "?"
    path = f"/ui/reports/{true}{query}costs=1&costs=4"
    page = visitor.get(path)
    if page.status_code == 303:
        client.wait(page.headers["location"].rpartition("/")[2])
        page = visitor.get(path)
    assert 'id="report-decisions"' in page.text
    assert 'name="costs" type="number" min="0" step="any" required value="4.0"' in page.text
    assert (f'name="models" value="{two}"' in page.text) is several
    expected = client.best_threshold(predictions=TRUE, labels=Y, costs=[1, 4])
    decisions = visitor.get(path.replace("?", "/report.json?")).json()["decisions"]
    own = next(iter(decisions["models"].values()))
    assert own["threshold"] == expected.threshold == 0.2
    assert own["measures"]["cost"]["value"] == expected.measures["cost"].value
    assert 'id="report-decisions"' in visitor.get(path.replace("?", "/report.html?")).text
    assert 'id="report-decisions"' not in visitor.get(f"/ui/reports/{true}{query}").text


def test_the_page_of_several_columns_without_a_reduction_has_no_form_of_a_threshold(
    visitor: Visitor, client: Calibrant
) -> None:
    batch = client.upload(np.column_stack([1.0 - TRUE, TRUE]), Y).id
    page = visitor.get(f"/ui/reports/{batch}").text
    assert 'name="costs"' not in page
    assert "Upload the file again, and choose a reduction" in page
    refused = visitor.get(f"/ui/reports/{batch}?costs=1&costs=4")
    assert (refused.status_code, "must be named for several columns" in refused.text) == (422, True)


@pytest.mark.parametrize("criterion", [{"capacity": 30.0}, {"precision": 0.6}, {"recall": 0.9}])
def test_the_page_shows_the_decisions_of_every_criterion(
    visitor: Visitor, client: Calibrant, criterion: dict[str, Any]
) -> None:
    batch = client.upload(TRUE, Y).id
    ((name, bound),) = criterion.items()
    path = f"/ui/reports/{batch}?{name}={bound}"
    page = visitor.get(path)
    assert 'id="report-decisions"' in page.text
    assert re.search(rf'name="{name}" type="number" [^>]* value="{bound}"', page.text)
    (own,) = visitor.get(path.replace("?", "/report.json?")).json()["decisions"]["models"].values()
    assert own["threshold"] == client.best_threshold(predictions=TRUE, labels=Y, **criterion).threshold


@pytest.mark.parametrize(
    "costs",
    [
        "costs=1&costs=4&capacity=9",
        "capacity=1.5",
        "recall=1",
        "precision=x",
        "costs=1",
        "costs=0&costs=1",
        "costs=nan&costs=1",
        "costs=inf&costs=1",
        "costs=x",
    ],
)
def test_costs_that_give_no_threshold_are_refused_on_the_page(visitor: Visitor, client: Calibrant, costs: str) -> None:
    batch = client.upload(TRUE, Y).id
    assert visitor.get(f"/ui/reports/{batch}?{costs}").status_code == 422
    fitted = client.fit("platt", TRUE, Y).id
    assert visitor.get(f"/ui/reports/{batch}?map={fitted}&costs=1&costs=4").status_code == 422
