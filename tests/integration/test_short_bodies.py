"""Usual requests to calibrate, which are answered at once, get the response that any other request gets."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import numpy as np
import pytest

STORED = sorted((Path(__file__).parents[1] / "contract" / "stored").glob("map-v1-*.json"))
SCORES = [0.02, 0.11, 0.19, 0.28, 0.4, 0.52, 0.63, 0.75, 0.86, 0.97]
EDGES = [0, 1, 1e-300, 1e-16, 0.5, 1 - 1e-16]
#: A preference that changes nothing, and that only the readers of all requests understand.
OTHERWISE = {"Accept": "application/json;q=0.9"}


#: Headers of one request, and how long a busy machine has kept the process from hearing of its store.
OF_ONE_REQUEST = ("date", "x-request-id", "calibrant-stale")


def answer(api: httpx.Client, body: bytes, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    response = api.post("/calibrate", content=body, headers={"Content-Type": "application/json", **headers})
    kept_headers = {name: text for name, text in response.headers.items() if name not in OF_ONE_REQUEST}
    return response.status_code, response.content, kept_headers


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if i % 6 else []) for i, path in enumerate(STORED)],
    ids=lambda path: path.stem,
)
def test_a_map_gives_a_short_body_the_response_of_any_other(path: Path, api: httpx.Client) -> None:
    document = json.loads(path.read_bytes())["record"]["document"]
    map_id = api.post("/maps/import", json={"document": document, "name": "m"}).raise_for_status().json()["id"]
    random = np.random.default_rng(5).random(256).tolist()
    for predictions in (SCORES, EDGES, [0.3], random, [*random, 0.5]):
        for name in (map_id, "m", "m:1") if predictions is SCORES else ("m",):
            body = json.dumps({"map": name, "predictions": predictions}).encode()
            usual = answer(api, body, **OTHERWISE)  # then the map is in memory
            assert answer(api, body) == usual
            assert answer(api, body, Accept="application/json") == usual
            assert answer(api, body, **{"Content-Type": "application/json; charset=UTF-8"}) == usual


BODIES = {
    "booleans": b'{"map": "m", "predictions": [true, 0.5]}',
    "below 0 by rounding": b'{"map": "m", "predictions": [-1e-5, 0.5]}',
    "below 0": b'{"map": "m", "predictions": [-0.1, 0.5]}',
    "minus 0": b'{"map": "m", "predictions": [-0.0, 0.5]}',
    "above 1": b'{"map": "m", "predictions": [0.5, 2]}',
    "percentages": b'{"map": "m", "predictions": [50, 20]}',
    "not finite": b'{"map": "m", "predictions": [NaN, 0.5]}',
    "infinite": b'{"map": "m", "predictions": [1e999, 0.5]}',
    "no rows": b'{"map": "m", "predictions": []}',
    "rows of one": b'{"map": "m", "predictions": [[0.2], [0.3]]}',
    "one number": b'{"map": "m", "predictions": 0.3}',
    "strings": b'{"map": "m", "predictions": ["0.3", 0.5]}',
    "a key twice": b'{"map": "m", "predictions": [0.1], "predictions": [0.2]}',
    "the map twice": b'{"map": "m", "map": "m", "predictions": [0.1]}',
    "an escaped key": b'{"m\\u0061p": "m", "predictions": [0.1]}',
    "an escaped quote": b'{"map": "\\"", "predictions": [0.1]}',
    "another field": b'{"map": "m", "predictions": [0.1], "bounds": false}',
    "an unknown field": b'{"map": "m", "predictions": [0.1], "limit": 1}',
    "a scale": b'{"map": "m", "predictions": [0.1], "scale": "logit"}',
    "no predictions": b'{"map": "m"}',
    "no map": b'{"predictions": [0.1]}',
    "an unknown map": b'{"map": "n", "predictions": [0.1]}',
    "null as the map": b'{"map": null, "predictions": [0.1], "x": "y"}',
    "a list": b'[{"map": "m", "predictions": [0.1]}]',
    "nothing": b"",
    "not JSON": b'{"map": "m", "predictions": [0.1]',
    "two documents": b'{"map": "m", "predictions": [0.1]} {}',
    "not UTF-8": b'{"map": "\xff", "predictions": [0.1]}',
    "a mark of byte order": b'\xef\xbb\xbf{"map": "m", "predictions": [0.1]}',
    "spaces": b' {\n"map" :\t"m" , "predictions" : [ 0.1 , 1 ] } ',
    "long": b'{"map": "m", "predictions": [0.1]}' + b" " * 9000,
}


@pytest.mark.parametrize("what", BODIES)
def test_a_body_with_something_unusual_gets_the_same_response_or_problem(what: str, api: httpx.Client) -> None:
    rows = {"predictions": [0.1, 0.4, 0.6, 0.9], "labels": [0, 1, 0, 1]}
    api.post("/maps", json={"method": "identity", "name": "m", **rows}).raise_for_status()
    assert answer(api, b'{"map": "m", "predictions": [0.1]}', **OTHERWISE)[0] == 200
    assert answer(api, BODIES[what]) == answer(api, BODIES[what], **OTHERWISE)
