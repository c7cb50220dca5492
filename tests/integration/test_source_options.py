"""Options of requests by reference are checked before a job is queued, like those of the same rows in a body."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from redis import Redis

from service.settings import Settings
from tests.integration.conftest import serving_client
from tests.integration.responses import body_of, problem_of

N = 60
RANDOM = np.random.default_rng(0)
P, Q, VECTORS = RANDOM.random(N).round(3), RANDOM.random(N).round(3), RANDOM.dirichlet(np.ones(3), N)
Y, CLASSES = (RANDOM.random(N) < P).astype(int), RANDOM.integers(0, 3, N)
LISTED = {"predictions": ["a", "b", "c"], "labels": "y"}


class RequestPair(NamedTuple):
    """The same request with rows in a body, and with columns of a source."""

    path: str
    rows: dict[str, Any]
    columns: dict[str, Any]


EVENT = {"predictions": P.tolist(), "labels": Y.tolist()}
VECTOR = {"predictions": VECTORS.tolist(), "labels": CLASSES.tolist()}
MODELS = {"models": {"first": P.tolist(), "second": Q.tolist()}, "labels": Y.tolist()}
NAMED = {"predictions": "p", "labels": "y"}
CALLS = {
    **{f"{path[1:]} of an event": RequestPair(path, EVENT, NAMED) for path in ("/evaluate", "/diagrams", "/maps")},
    **{f"{path[1:]} of vectors": RequestPair(path, VECTOR, LISTED) for path in ("/evaluate", "/diagrams", "/maps")},
    "compare of models": RequestPair("/compare", MODELS, {"models": {"first": "p", "second": "q"}, "labels": "y"}),
    "compare of maps": RequestPair("/compare", EVENT | {"maps": ["event"]}, NAMED),
}
#: Options that no rows of the call fit; those of vectors need the number of columns.
OF_ALL: list[dict[str, Any]] = [
    *({"reduction": reduction} for reduction in ("nonsense", "", "class:x", "top:0", "ranked")),
    *({"class_names": names} for names in (["a", "a"], ["a", "b", "b"], ["a"], ["", "b"])),
    *({"scale": scale} for scale in ("nonsense", 3)),
    {"weights_kind": "nonsense"},
    {"seed": -1},
]
OF_MEASURES: list[dict[str, Any]] = [
    *({"measures": measures} for measures in (["nonsense"], [{"name": "ece", "n_bins": 0}], ["ece", "ece"], "ece")),
    *({"interval": 1.0}, {"resamples": 1}, {"cluster_variance": "nonsense"}, {"of": "nonsense"}, {"costs": [1, 5]}),
    {"correction": "nonsense"},
]
OF_VECTORS: list[dict[str, Any]] = [
    *({"reduction": reduction} for reduction in ("class:3", "top:4", "within-top:4", "binary")),
    *({"class_names": names} for names in (["a", "b"], ["a", "b", "c", "d"])),
]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "evaluate of an event": [
        *(*OF_ALL, *OF_MEASURES),
        *({"diagrams": diagrams} for diagrams in (["nonsense"], [{"name": "reliability", "n_bins": 0}])),
        *({"map": "nonsense"}, {"sets": "nonsense"}, {"grades": True}, {"maps": ["event", "event"]}),
    ],
    "evaluate of vectors": [
        *(*OF_ALL, *OF_VECTORS),
        *({"classes": classes} for classes in ([0], [0, 0], [0, 3], [-1, 0], [])),
        *({"map": "event"}, {"maps": ["event"]}),
    ],
    "diagrams of an event": [
        *OF_ALL,
        *({"diagram": diagram} for diagram in ("nonsense", {"name": "reliability", "n_bins": 0}, 3, {"name": "fan"})),
        *({"map": "nonsense"}, {"interval": 0}, {"resamples": 1}, {"width": 3}, {"theme": "nonsense"}),
    ],
    "diagrams of vectors": [*OF_ALL, *OF_VECTORS, {"classes": [0, 0]}, {"classes": [0, 3]}, {"map": "event"}],
    "maps of an event": [
        *(*OF_ALL, {"reduction": "pooled"}, {"method": "nonsense"}, {"name": ""}, {"tags": [1]}),
        *({"options": options} for options in ({"nonsense": 1}, {"folds": 0}, {"folds": "x"})),
    ],
    "maps of vectors": [*OF_ALL, *OF_VECTORS, {"name": "event", "method": "temperature"}],
    "compare of models": [*OF_ALL, *OF_MEASURES, {"rank_by": "nonsense"}],
    "compare of maps": [*OF_ALL, {"scale": "logit"}, {"maps": ["nonsense"]}, {"reduction": "canonical"}],
}


@pytest.fixture
def http(redis: Redis, redis_url: str, tmp_path: Path) -> Iterator[httpx.Client]:
    """A service without workers, so that jobs stay queued, with maps of an event and of three classes."""
    del redis  # which is empty
    sources = json.dumps({"files": {"root": f"file://{tmp_path}", "write": True}})
    with serving_client(Settings(redis_url, sources=sources)) as client:
        body_of(client.post("/maps", json=EVENT | {"method": "platt", "name": "event"}), 201)
        named = {"method": "platt", "reduction": "classwise", "class_names": ["a", "b", "c"], "name": "vectors"}
        body_of(client.post("/maps", json=VECTOR | named), 201)
        yield client


def _source(columns: dict[str, Any]) -> dict[str, Any]:
    return {"source": {"source": "files", "path": "*.parquet", "columns": columns}}


def _in_source(problem: tuple[int, str, str]) -> tuple[int, str, str]:
    status, code, place = problem
    return status, code, {"/predictions": "/source/columns/predictions"}.get(place, place)


@pytest.mark.parametrize("call", OPTIONS)
def test_a_request_by_reference_is_queued_with_an_option_that_is_refused_with_rows(
    http: httpx.Client, call: str
) -> None:
    path, rows, columns = CALLS[call]
    by_reference = _source(columns) | {name: rows[name] for name in ("maps",) if name in rows}
    refused, answered = {}, {}
    for options in OPTIONS[call]:
        refused[json.dumps(options)] = _in_source(problem_of(http.post(path, json=rows | options)))
        response = http.post(path, json=by_reference | options)
        answered[json.dumps(options)] = "queued" if response.status_code == 202 else problem_of(response)
    assert answered == refused


@pytest.mark.parametrize(
    ("options", "columns", "place"),
    [
        ({"map": "event"}, ["a", "b", "c"], "/source/columns/predictions"),
        ({"map": "vectors"}, ["a", "b"], "/source/columns/predictions"),
        ({"map": "vectors"}, ["p_c", "p_b", "p_a"], "/source/columns/predictions"),
        ({"map": "event", "scale": "logit"}, "p", "/scale"),
    ],
)
def test_batch_scoring_is_queued_with_columns_that_the_map_does_not_fit(
    http: httpx.Client, options: dict[str, Any], columns: str | list[str], place: str
) -> None:
    target = {"target": {"source": "files", "path": "scored"}}
    response = http.post("/datasets", json=_source({"predictions": columns}) | target | options)
    assert (response.status_code, problem_of(response)[2]) == (422, place)


def test_options_that_some_rows_of_one_column_fit_are_refused(http: httpx.Client) -> None:
    """A column has numbers or lists of any length."""
    for path, options in (
        ("/evaluate", {"reduction": "class:7"}),
        ("/evaluate", {"classes": [0, 9]}),
        ("/evaluate", {"class_names": ["a", "b", "c"], "reduction": "class:c"}),
        ("/evaluate", {"map": "vectors"}),
        ("/maps", {"method": "vector"}),
        ("/maps", {"reduction": "class:1", "scale": "percent"}),
        ("/maps", {"name": "vectors"}),
    ):
        body_of(http.post(path, json=_source(NAMED) | options), 202)


def test_columns_that_do_not_belong_together_are_queued(http: httpx.Client) -> None:
    """Columns of other classes than those of the first model, or in another order than their names tell."""
    place = "/source/columns/predictions"
    for path in ("/evaluate", "/diagrams", "/maps"):
        ordered = _source({"predictions": ["p1", "p0"], "labels": "y"})
        assert problem_of(http.post(path, json=ordered)) == (422, "invalid-option", place)
    first = ["a0", "a1", "a2"]
    for second, status in ((["b0", "b1", "b2"], 202), (["b0", "b1"], 422), (["b2", "b1", "b0"], 422)):
        columns = {"models": {"first": first, "second": second}, "labels": "y"}
        response = http.post("/compare", json=_source(columns))
        assert response.status_code == status
        assert status == 202 or problem_of(response)[2] == "/source/columns/models/second"


def test_a_fit_that_needs_features_is_queued(http: httpx.Client) -> None:
    problem = problem_of(http.post("/maps", json=_source(NAMED) | {"method": "segments"}))
    assert problem == (422, "invalid-option", "/method")
