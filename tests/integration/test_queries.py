"""The options in a query: each once, numbers as plain digits, JSON without equal keys."""

from __future__ import annotations

import httpx
import pytest

from backend.store.store import Store
from tests.integration.monitors.monitored import monitored
from tests.integration.responses import body_of, problem_of

CSV = {"content-type": "text/csv"}
ROWS = b"predictions,labels\n0.1,0\n0.9,1\n0.4,0\n0.6,1\n"


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("interval=0.9_5", "?interval"),
        ("resamples=1_00", "?resamples"),
        ("seed=1_0", "?seed"),
        ("seed=1.0", "?seed"),
        ("seed=%2B1", "?seed"),
        ("interval=%200.9", "?interval"),
        ("interval=inf", "?interval"),
        ("seed=1&seed=2", "?seed"),
        ("measures=ece&measures=ks", "?measures"),
        ('measures=[{"name":"ece","name":"ks"}]', "?measures"),
        ('measures=[{"name":"ece","n_bins":5,"n_b\\u0069ns":6}]', "?measures"),
    ],
)
def test_an_option_that_is_doubled_or_no_plain_number_is_refused(api: httpx.Client, query: str, pointer: str) -> None:
    answer = api.post(f"/evaluate?{query}", content=ROWS, headers=CSV)
    assert problem_of(answer) == (422, "invalid-field", pointer)


@pytest.mark.parametrize(
    ("path", "pointer"),
    [
        ("/jobs?limit=1&limit=2", "?limit"),
        ("/jobs?limit=1_0", "?limit"),
        ("/jobs?limit=5.0", "?limit"),
        ("/jobs?limit=%2B5", "?limit"),
        ("/jobs?limit=%205", "?limit"),
        ("/jobs?limit=%D9%A5", "?limit"),
        ("/batches?limit=1&limit=1", "?limit"),
        ("/batches?created_after=1577836800", "?created_after"),
        ("/maps?limit=1&limit=2", "?limit"),
        ("/maps?limit=1_0", "?limit"),
        ("/monitors?limit=1&limit=2", "?limit"),
        ("/monitors/m?groups=1&groups=2", "?groups"),
        ("/monitors/m/series?points=1_0", "?points"),
    ],
)
def test_a_query_of_a_list_is_as_strict(store: Store, api: httpx.Client, path: str, pointer: str) -> None:
    monitored(store)
    assert problem_of(api.get(path)) == (422, "invalid-field", pointer)


def test_a_doubled_field_of_a_call_for_rows_is_refused(store: Store, api: httpx.Client) -> None:
    monitored(store)
    answer = api.post("/monitors/m/events?by=id&by=source", content=b"{}", headers={"content-type": "application/json"})
    assert problem_of(answer) == (422, "invalid-field", "?by")


def test_numbers_in_plain_digits_are_accepted(api: httpx.Client) -> None:
    for query in ("interval=0.9&seed=0", "interval=9e-1", "interval=.9"):
        assert api.post(f"/evaluate?{query}", content=ROWS, headers=CSV).status_code == 200
    assert api.get("/jobs?limit=5").status_code == 200


def test_names_with_underscores_and_several_tags_are_taken(api: httpx.Client) -> None:
    assert api.get("/maps?name=a_1&tag=a:b&tag=c:d").status_code == 200


@pytest.mark.parametrize("digits", ["\u0660.\u0665", "\uff10.\uff15", "0.5_0", "\u0967"])
def test_digits_of_other_scripts_are_no_numbers(api: httpx.Client, digits: str) -> None:
    answer = api.post("/evaluate", content=ROWS + f"{digits},1\n".encode(), headers=CSV)
    assert problem_of(answer) == (422, "not-a-number", "/predictions/4")


def test_names_in_other_scripts_are_names(api: httpx.Client) -> None:
    body = "predictions,labels,groups\n" + "0.1,0,été\n0.9,1,日本\n" * 5
    assert api.post("/batches", content=body.encode(), headers=CSV).status_code == 201


@pytest.mark.parametrize("scale", [1e308, 1e-308, 5e-324])
def test_importance_weights_of_any_scale_are_those_of_one(api: httpx.Client, scale: float) -> None:
    rows = {"predictions": [0.1, 0.3, 0.6, 0.8] * 10, "labels": [0, 0, 1, 1] * 9 + [1, 0, 0, 1]}

    def values(weights: list[float]) -> list[float]:
        asked = rows | {"weights": weights, "weights_kind": "importance"}
        batch = body_of(api.post("/batches", json=asked), 201)
        inline = api.post("/evaluate", json=asked | {"measures": ["ece", "brier", "ks"]}).json()["measures"]
        of_batch = {"batch": batch["id"], "measures": ["ece", "brier", "ks"]}
        stored = api.post("/evaluate", json=of_batch).json()["measures"]
        assert inline == stored
        return [measure["value"] for measure in inline.values()]

    assert values([scale] * 40) == values([1.0] * 40)


@pytest.mark.parametrize("name", ["groups", "labels", "observed"])
def test_an_array_in_the_query_of_a_table_belongs_in_its_body(api: httpx.Client, name: str) -> None:
    answer = api.post(f"/evaluate?{name}=x", content=ROWS, headers=CSV)
    assert problem_of(answer) == (422, "invalid-field", f"?{name}")
    assert answer.json()["errors"][0]["detail"] == "is an array: send it in the body, not in the query"


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("maps?limit=101", "limit: must be less than or equal to 100"),
        ("jobs?status=slow", "status: must be 'queued', 'running', 'succeeded', 'failed' or 'cancelled'"),
    ],
)
def test_details_of_invalid_fields_are_sentences_about_the_field(api: httpx.Client, query: str, detail: str) -> None:
    answer = body_of(api.get(f"/{query}"), 422)

    assert answer["detail"] == detail


def test_details_of_names_and_lists_have_no_words_of_the_validator(api: httpx.Client) -> None:
    rows = {"predictions": [0.1, 0.9], "labels": [0, 1]}
    named = api.post("/maps", json=rows | {"method": "platt", "name": "map_1"}).json()
    many = api.post("/evaluate", json=rows | {"maps": ["spam"] * 21}).json()

    assert named["detail"] == "/name: must not begin with map_"
    assert many["detail"] == "/maps: must have at most 20 items, not 21"
