"""The pictures beside the catalogue over HTTP: measures by size, and the cost plane of two models."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

import calibrant
from tests.integration.responses import problem_of, text_of

RANDOM = np.random.default_rng(12)
TRUE = RANDOM.random(300)
P, Y = TRUE**1.5, (RANDOM.random(300) < TRUE).astype(int)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
OTHER = ROWS | {"predictions": TRUE.tolist()}
BY_SIZE = {"name": "by-size", "measures": ["ece", "ks"], "start": 50, "start_repetitions": 9}
NUMBERS = {"Accept": "application/json"}
PNG = {"Accept": "image/png"}


def _svg(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in response.headers["content-security-policy"]
    return "".join(ElementTree.fromstring(response.content).itertext())


def _batch(http: httpx.Client, rows: dict[str, Any]) -> str:
    return str(http.post("/batches", json=rows).raise_for_status().json()["id"])


def test_measures_by_size_are_those_of_the_library(http: httpx.Client) -> None:
    numbers = http.post("/diagrams", json=ROWS | {"diagram": BY_SIZE, "seed": 3}, headers=NUMBERS).json()
    by_size = calibrant.measure_by_size(P, Y, measures=["ece", "ks"], start=50, start_repetitions=9, seed=3)
    assert numbers["data"]["sizes"] == list(by_size.sizes)
    assert numbers["data"]["repetitions"] == list(by_size.repetitions)
    for key, curve in by_size.curves.items():
        spread = numbers["data"]["curves"][key]
        assert spread["mean"] == list(curve.mean)
        assert spread["standard_deviation"] == list(curve.standard_deviation)
        assert spread["full"]["value"] == curve.full.value
    assert (numbers["definition"]["name"], numbers["definition"]["start"]) == ("by-size", 50)
    assert (numbers["problem"], numbers["after"]) == (None, None)
    assert "300 rows" in numbers["alt"]
    drawn = http.post("/diagrams", json=ROWS | {"diagram": BY_SIZE, "seed": 3})
    assert numbers["alt"] in _svg(drawn)
    other = http.post("/diagrams", json=ROWS | {"diagram": BY_SIZE, "seed": 4}, headers=NUMBERS).json()
    assert other["data"] != numbers["data"]


@pytest.mark.slow
def test_measures_by_size_take_rows_in_any_form(http: httpx.Client) -> None:
    batch = _batch(http, ROWS)
    png = http.post("/diagrams", json={"batch": batch, "diagram": BY_SIZE, "width": 400}, headers=PNG)
    assert png.content.startswith(b"\x89PNG\r\n\x1a\n")
    text = "predictions,labels\n" + "".join(f"{p},{y}\n" for p, y in zip(P, Y, strict=True))
    csv = http.post(
        "/diagrams", content=text, params={"diagram": "by-size", "seed": 1}, headers={"Content-Type": "text/csv"}
    )
    assert "KS" in _svg(csv) or "ks" in _svg(csv)
    grouped = ROWS | {"groups": ["a", "b", "c"] * 100, "diagram": BY_SIZE}
    expected = _svg(http.post("/diagrams", json=ROWS | {"diagram": BY_SIZE}))
    assert _svg(http.post("/diagrams", json=grouped)) == expected
    named = ROWS | {"labels": [["ham", "spam"][y] for y in Y], "class_names": ["ham", "spam"], "diagram": BY_SIZE}
    assert _svg(http.post("/diagrams", json=named | {"prediction_kind": "classification"})) == expected


def test_a_cost_plane_is_that_of_the_library(http: httpx.Client) -> None:
    ids = [_batch(http, ROWS), _batch(http, OTHER)]
    asked = {"name": "cost-plane", "abstention": [0, 0.25], "cost_ratios": [2, 10.5, 20]}
    numbers = http.post("/diagrams", json={"batches": ids, "diagram": asked}, headers=NUMBERS).json()
    plane = calibrant.cost_plane(P, TRUE, Y, abstention=[0, 0.25], cost_ratios=[2, 10.5, 20])
    assert numbers["data"]["relative"] == plane.relative.tolist()
    assert numbers["data"]["cost_ratios"] == [2.0, 10.5, 20.0]
    assert numbers["definition"]["batches"] == ids
    assert all(batch in numbers["alt"] for batch in ids)
    words = _svg(http.post("/diagrams", json={"batches": ids, "diagram": asked}))
    assert numbers["alt"] in words
    whole = http.post("/diagrams", json={"batches": ids, "diagram": "cost-plane"}, headers=NUMBERS).json()
    assert np.shape(whole["data"]["relative"]) == (20, 7)
    png = http.post("/diagrams", json={"batches": ids, "diagram": "cost-plane"}, headers=PNG)
    assert png.headers["content-type"] == "image/png"


def test_a_fit_on_test_diagram_takes_the_options_of_the_fit(http: httpx.Client) -> None:
    asked = {"name": "fit-on-test", "method": "histogram", "options": {"n_bins": 4}}
    body = ROWS | {"diagram": asked}
    picture = http.post("/diagrams", json=body, headers={"Accept": "application/json"}).json()
    assert picture["definition"]["options"]["n_bins"] == 4
    asked["options"] = {"n_bins": 0}
    refused = http.post("/diagrams", json=body).json()
    assert refused["errors"][0]["pointer"] == "/diagram/options/n_bins"


def test_improvements_of_a_map_are_measured_by_size(http: httpx.Client) -> None:
    map_id = http.post("/maps", json=ROWS | {"method": "platt"}).json()["id"]
    asked = {"name": "by-size", "measures": ["brier", "ece"], "start": 50, "start_repetitions": 4}
    body = ROWS | {"map": map_id, "diagram": asked}
    picture = http.post("/diagrams", json=body, headers={"Accept": "application/json"}).json()
    assert picture["definition"]["improvement"]
    assert picture["definition"]["in_sample"] is True
    assert "Improvement by a map" in picture["alt"]
    assert "In-sample: the map was fitted to these rows." in picture["alt"]
    others = {"predictions": [1.0 - p for p in ROWS["predictions"]]}
    held_out = http.post("/diagrams", json=body | others, headers={"Accept": "application/json"}).json()
    assert held_out["definition"]["in_sample"] is False
    assert "In-sample" not in held_out["alt"]
    squared = http.post("/diagrams", json=body | others | {"diagram": asked | {"squared": True}}).text
    assert "Improvement of squared measures by a map" in squared
    assert "in-sample" not in squared
    full = picture["data"]["curves"]["brier"]["full"]
    assert full["value"] == pytest.approx(full["parts"]["before"] - full["parts"]["after"])
    assert b"Improvement by a map" in http.post("/diagrams", json=body).content
    refused = http.post("/diagrams", json=ROWS | {"diagram": asked | {"repetitions": "twice"}})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/diagram/repetitions")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["by-size", "cost-plane"])
def test_a_job_draws_the_same_picture_as_a_request(http: httpx.Client, name: str) -> None:
    ids = [_batch(http, ROWS), _batch(http, OTHER)]
    body: dict[str, Any] = {"batch": ids[0], "diagram": BY_SIZE}
    if name == "cost-plane":
        body = {"batches": ids, "diagram": name}
    at_once = http.post("/diagrams", json=body | {"theme": "light"})
    queued = http.post("/diagrams", json=body, headers={"Prefer": "respond-async"})
    assert queued.status_code == 202
    place = queued.headers["location"]
    wait = {"Prefer": "wait=600"}
    drawn = http.get(f"{place}/diagram.svg", headers=wait, params={"theme": "light"})
    assert _svg(drawn) == _svg(at_once)
    assert http.get(f"{place}/diagram.png", params={"key": name}).headers["content-type"] == "image/png"
    assert problem_of(http.get(f"{place}/diagram.svg", params={"key": "corp"}))[:2] == (404, "not-found")
    page = text_of(http.get(place, headers={"Accept": "text/html"}))
    assert f"{place.rpartition('/')[2]}/diagram.svg" in page
    job = text_of(http.get(f"/ui{place}"))
    assert "Show the report" not in job
    assert http.get(f"/ui/reports/{ids[0]}", params={"job": place.rpartition("/")[2]}).status_code == 404


def test_a_picture_of_much_work_is_a_job(api: httpx.Client) -> None:
    # Of this service nobody does the jobs: what it answers it has not worked for.
    many = BY_SIZE | {"start_repetitions": 100_000}
    assert api.post("/diagrams", json=ROWS | {"diagram": many}).status_code == 202
    long = BY_SIZE | {"measures": [{"name": "ece-pl", "folds": 2}]}
    assert api.post("/diagrams", json=ROWS | {"diagram": long}).status_code == 202


@pytest.mark.parametrize(
    ("diagram", "problem"),
    [
        (
            {
                "measures": [
                    "ece",
                    "ks",
                    "brier",
                    "log-loss",
                    "auroc",
                    "mce",
                    "spiegelhalter",
                    "calibration-slope",
                    "tce",
                ]
            },
            (422, "invalid-field", "/diagram/measures"),
        ),
        (
            {"measures": ["ece", "ks", "brier"], "reductions": ["binary", "class:1", "confidence"]},
            (422, "invalid-option", "/diagram/measures"),
        ),
        ({"measures": []}, (422, "invalid-field", "/diagram/measures")),
        ({"measures": "ece"}, (422, "invalid-field", "/diagram/measures")),
        ({"measures": None}, (422, "invalid-field", "/diagram/measures")),
        ({"measures": ["ks", "pie"]}, (422, "unknown-measure", "/diagram/measures/1")),
        ({"measures": ["ks", "ks"]}, (422, "invalid-option", "/diagram/measures/1")),
        ({"measures": [{"name": "ece", "n_bins": 10**9}]}, (422, "invalid-option", "/diagram/measures/0/n_bins")),
        ({"reductions": ["binary", "nope"]}, (422, "unknown-reduction", "/diagram/reductions/1")),
        ({"reductions": ["binary", "binary"]}, (422, "invalid-option", "/diagram/reductions/1")),
        ({"start": 300}, (422, "invalid-option", "/diagram/start")),
        ({"start": 10**30}, (422, "invalid-field", "/diagram/start")),
        ({"start": 0}, (422, "invalid-field", "/diagram/start")),
        ({"start": 10.5}, (422, "invalid-field", "/diagram/start")),
        ({"start": True}, (422, "invalid-field", "/diagram/start")),
        ({"start_repetitions": 10**9}, (422, "invalid-field", "/diagram/start_repetitions")),
        ({"colour": "<script>"}, (422, "invalid-field", "/diagram/colour")),
        ({"as": "mine"}, (422, "invalid-field", "/diagram/as")),
    ],
)
def test_measures_by_size_that_cannot_be_are_refused(
    http: httpx.Client, diagram: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    answer = http.post("/diagrams", json=ROWS | {"diagram": BY_SIZE | diagram})
    assert problem_of(answer) == problem
    assert "<script>" not in answer.text


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"map": "none"}, (422, "unknown-map-reference", "/map")),
        ({"classes": [0, 1]}, (422, "invalid-field", "/classes")),
        ({"resamples": 100}, (422, "invalid-field", "/resamples")),
        ({"batches": ["one", "other"]}, (422, "invalid-field", "/batches")),
        ({"reduction": "class:1"}, (422, "unknown-reduction", "/reduction")),
        ({"reduction": "canonical"}, (422, "nothing-to-draw", "")),
        ({"predictions": [0.1, 0.9], "labels": [0, 1]}, (422, "invalid-option", "/diagram/start")),
        ({"predictions": [], "labels": []}, (422, "empty-batch", "/predictions")),
        ({"predictions": None, "labels": None}, (422, "invalid-field", "/predictions")),
        ({"predictions": None, "labels": None, "batch": "none"}, (422, "unknown-batch-reference", "/batch")),
    ],
)
def test_options_that_measures_by_size_do_not_have_are_refused(
    http: httpx.Client, body: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    sent = ROWS | {"diagram": BY_SIZE} | body
    answer = http.post("/diagrams", json={name: content for name, content in sent.items() if content is not None})
    assert problem_of(answer) == problem


def test_measures_without_a_value_are_null_with_their_problem(http: httpx.Client) -> None:
    body = ROWS | {"diagram": BY_SIZE, "reduction": "canonical"}
    numbers = http.post("/diagrams", json=body, headers=NUMBERS).json()
    assert numbers["alt"] is None
    assert "no measure has a value" in numbers["problem"]
    assert numbers["data"]["curves"]["ece"]["full"]["problem"] is not None


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ({"predictions": [0.2, 0.7], "labels": [0, 1]}, (422, "length-mismatch", "/batches/1")),
        (ROWS | {"labels": (1 - Y).tolist()}, (422, "invalid-label", "/batches/1")),
        (ROWS | {"labels": Y[::-1].tolist(), "predictions": P[::-1].tolist()}, (422, "invalid-label", "/batches/1")),
        (ROWS | {"weights": [1.0, 2.0, 3.0] * 100}, (422, "invalid-weight", "/batches/1")),
        (ROWS | {"predictions": np.stack([1 - P, P], axis=1).tolist()}, (422, "wrong-shape", "/batches/1")),
        ({"predictions": P.tolist()}, (422, "invalid-field", "/labels")),
    ],
)
def test_models_of_other_rows_have_no_cost_plane(
    http: httpx.Client, rows: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    asked = {"batches": [_batch(http, ROWS), _batch(http, rows)], "diagram": "cost-plane"}
    for headers in ({}, {"Prefer": "respond-async"}):
        assert problem_of(http.post("/diagrams", json=asked, headers=headers)) == problem


@pytest.mark.parametrize(
    ("diagram", "problem"),
    [
        ({"abstention": [0.1, 1.5]}, (422, "invalid-field", "/diagram/abstention/1")),
        ({"abstention": ["0.1"]}, (422, "invalid-field", "/diagram/abstention/0")),
        ({"abstention": [[0.1]]}, (422, "invalid-field", "/diagram/abstention/0")),
        ({"abstention": [True]}, (422, "invalid-field", "/diagram/abstention/0")),
        ({"abstention": []}, (422, "invalid-field", "/diagram/abstention")),
        ({"abstention": ["x"] * 100_000}, (422, "invalid-field", "/diagram/abstention")),
        ({"abstention": [0.1] * 101}, (422, "invalid-field", "/diagram/abstention")),
        ({"cost_ratios": [0]}, (422, "invalid-field", "/diagram/cost_ratios/0")),
        ({"cost_ratios": [1e300]}, (422, "invalid-field", "/diagram/cost_ratios/0")),
        ({"measures": ["ks"]}, (422, "invalid-field", "/diagram/measures")),
    ],
)
def test_a_cost_plane_of_no_shares_or_prices_is_refused(
    http: httpx.Client, diagram: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    body = {"batches": ["one", "other"], "diagram": {"name": "cost-plane"} | diagram}
    assert problem_of(http.post("/diagrams", json=body)) == problem


def test_a_cost_plane_is_of_two_stored_batches_and_of_one_event(http: httpx.Client) -> None:
    first, other, third = (_batch(http, rows) for rows in (ROWS, OTHER, ROWS))
    plane: dict[str, Any] = {"diagram": "cost-plane"}

    def refused(body: dict[str, Any]) -> tuple[int, str, str]:
        return problem_of(http.post("/diagrams", json=plane | body))

    assert refused({"batches": [first, first]}) == (422, "invalid-field", "/batches")
    assert refused({"batches": [first, other, third]}) == (422, "invalid-field", "/batches")
    assert refused({"batches": [first]}) == (422, "invalid-field", "/batches")
    assert refused({"batch": first}) == (422, "invalid-field", "/batch")
    assert refused(ROWS) == (422, "invalid-field", "/batches")
    assert refused(ROWS | {"batches": [first, other]}) == (422, "invalid-field", "/batches")
    assert refused({"batches": [first, "none"]})[:2] == (422, "unknown-batch-reference")
    for reduction in ("canonical", "classwise", "pooled"):
        assert refused({"batches": [first, other], "reduction": reduction}) == (422, "unknown-reduction", "/reduction")
    assert refused({"batches": [first, other], "interval": 0.9}) == (422, "invalid-field", "/interval")
    assert refused({"batches": [first, other], "map": "any"}) == (422, "invalid-field", "/map")


def test_evaluations_refuse_measures_by_size_and_pictures(http: httpx.Client) -> None:
    answer = http.post("/evaluate", json=ROWS | {"diagrams": ["by-size"]})
    assert problem_of(answer) == (422, "unknown-diagram", "/diagrams/0")
    answer = http.post("/evaluate", json=ROWS | {"picture": BY_SIZE})
    assert problem_of(answer) == (422, "invalid-field", "/picture")
    assert "by-size" in http.post("/diagrams", json=ROWS | {"diagram": "pie"}).text
