"""Pictures over HTTP: of rows, of jobs' reports and of maps' own fits."""

from __future__ import annotations

import json
import secrets
import struct
from typing import Any
from xml.etree import ElementTree

import httpx
import numpy as np
import pytest

import calibrant
from service.route_table import RouteTable
from tests.integration.responses import body_of, patched, problem_of

RANDOM = np.random.default_rng(11)
TRUE = RANDOM.random(400)
P, Y = TRUE**1.5, (RANDOM.random(400) < TRUE).astype(int)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist()}
PROBS = RANDOM.dirichlet([0.5] * 3, 90)
THREE: dict[str, Any] = {"predictions": PROBS.tolist(), "labels": [int(RANDOM.choice(3, p=row)) for row in PROBS]}
LONG = {"name": "fit-on-test", "method": "pl", "folds": 2}
HOSTILE = ("<script>alert(1)</script>", "$\\frac{1}{2}$", '"><img src=x onerror=alert(1)>', "a\u202eb\x00/../é")
NUMBERS = {"Accept": "application/json"}


def _svg(response: httpx.Response) -> str:
    """The text of an SVG that is well formed, sealed, and runs and loads nothing."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/svg+xml"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    root = ElementTree.fromstring(response.content)
    for element in root.iter():
        assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "iframe", "image")
        for name, text in element.attrib.items():
            assert not name.lower().startswith("on")
            assert "href" not in name or text.startswith("#")
    return response.text


def _batch(http: httpx.Client, rows: dict[str, Any] = ROWS) -> str:
    return str(http.post("/batches", json=rows).raise_for_status().json()["id"])


def _map(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    record: dict[str, Any] = http.post("/maps", json=ROWS | {"method": "platt"} | fields).raise_for_status().json()
    return record


def test_a_picture_and_its_numbers_say_the_same(http: httpx.Client) -> None:
    drawn = http.post("/diagrams", json=ROWS)
    text = _svg(drawn)
    numbers = http.post("/diagrams", json=ROWS, headers=NUMBERS).json()
    assert "400 rows" in numbers["alt"]
    assert "ECE" in numbers["alt"]
    assert "interval" in numbers["alt"]
    root = ElementTree.fromstring(drawn.content)
    assert numbers["alt"] in "".join(root.itertext())
    assert "alt" not in drawn.headers
    report = http.post("/evaluate", json=ROWS | {"measures": ["ece"], "diagrams": ["reliability"]}).json()
    shown = report["diagrams"]["reliability"]
    assert {name: numbers[name] for name in shown} == shown
    assert numbers["after"] is None
    assert "n = 400" in text


@pytest.mark.parametrize("name", calibrant.DIAGRAMS)
def test_every_diagram_is_drawn_as_svg_and_as_png(http: httpx.Client, name: str) -> None:
    body = ROWS | {"diagram": name, "resamples": 100, "width": 400}
    _svg(http.post("/diagrams", json=body))
    png = http.post("/diagrams", json=body, headers={"Accept": "image/png"})
    assert png.headers["content-type"] == "image/png"
    assert png.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">I", png.content[16:20]) == (800,)
    assert b"400 rows" in png.content  # the words, in a chunk of text


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "image/svg+xml"),
        ("image/*", "image/svg+xml"),
        ("image/svg+xml;q=0.5, image/png", "image/png"),
        ("image/avif,image/webp,image/png,*/*;q=0.8", "image/png"),
        ("application/json", "application/json"),
    ],
)
def test_the_format_is_the_most_preferred_one(http: httpx.Client, accept: str, kind: str) -> None:
    answer = http.post("/diagrams", json=ROWS | {"interval": None}, headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["vary"].startswith("Accept")


def test_rows_may_come_in_any_format_with_the_options_in_the_query(http: httpx.Client) -> None:
    text = "predictions,labels\n" + "".join(f"{p},{y}\n" for p, y in zip(P, Y, strict=True))
    asked = {"diagram": json.dumps({"name": "reliability", "n_bins": 4}), "theme": "dark"}
    for query in (asked, {"diagram": "ks-graphs"}):
        _svg(http.post("/diagrams", content=text, params=query, headers={"Content-Type": "text/csv"}))


def test_before_and_after_a_map_are_one_picture(http: httpx.Client) -> None:
    held_out = RANDOM.random(200)
    rows = {"predictions": (held_out**1.5).tolist(), "labels": (RANDOM.random(200) < held_out).astype(int).tolist()}
    fitted = _map(http)
    numbers = http.post("/diagrams", json=rows | {"map": fitted["id"]}, headers=NUMBERS).json()
    assert numbers["after"]["data"]["ece"] != numbers["data"]["ece"]
    assert "before and after" in numbers["alt"]
    assert "in-sample" not in numbers["alt"]
    own = http.post("/diagrams", json=ROWS | {"map": fitted["id"]}, headers=NUMBERS).json()
    assert "in-sample" in own["alt"]


def test_several_batches_stand_side_by_side(http: httpx.Client) -> None:
    ids = [_batch(http), _batch(http, {"predictions": [0.2, 0.7] * 20, "labels": [0, 1] * 20})]
    _svg(http.post("/diagrams", json={"batches": ids}))
    numbers = http.post("/diagrams", json={"batches": ids}, headers=NUMBERS).json()
    assert [panel["batch"] for panel in numbers["batches"]] == ids
    assert all(batch in numbers["alt"] for batch in ids)
    refused = http.post("/diagrams", json={"batches": ids, "map": "any"})
    assert problem_of(refused) == (422, "invalid-field", "/map")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"width": 1e9}, (422, "invalid-field", "/width")),
        ({"width": 10**9}, (422, "invalid-field", "/width")),
        ({"width": 319}, (422, "invalid-field", "/width")),
        ({"width": "560"}, (422, "invalid-field", "/width")),
        ({"theme": "<script>"}, (422, "invalid-field", "/theme")),
        ({"diagram": "pie"}, (422, "unknown-diagram", "/diagram")),
        ({"diagram": ["reliability"]}, (422, "invalid-field", "/diagram")),
        ({"diagram": {"name": "reliability", "n_bins": 10**9}}, (422, "invalid-option", "/diagram/n_bins")),
        ({"diagram": {"name": "reliability", "colour": "red"}}, (422, "invalid-option", "/diagram")),
        ({"diagram": {"name": "reliability", "as": ""}}, (422, "invalid-option", "/diagram/as")),
        (
            {"diagram": {"name": "fit-on-test", "method": "iop-op", "folds": 50}},
            (422, "invalid-option", "/diagram/folds"),
        ),
        ({"diagrams": ["reliability"]}, (422, "invalid-field", "/diagrams")),
        ({"reduction": "canonical"}, (422, "nothing-to-draw", "")),
        ({"reduction": "class:1"}, (422, "unknown-reduction", "/reduction")),
        ({"interval": 1}, (422, "invalid-field", "/interval")),
        ({"map": "<script>"}, (422, "unknown-map-reference", "/map")),
        ({"predictions": [], "labels": []}, (422, "empty-batch", "/predictions")),
        ({"labels": [0, 1]}, (422, "length-mismatch", "/labels")),
        ({"predictions": None, "labels": None, "batch": "<script>"}, (422, "unknown-batch-reference", "/batch")),
    ],
)
def test_an_impossible_picture_is_refused(
    http: httpx.Client, body: dict[str, Any], problem: tuple[int, str, str]
) -> None:
    sent = {name: content for name, content in (ROWS | body).items() if content is not None}
    answer = http.post("/diagrams", json=sent)
    assert problem_of(answer) == problem
    assert "<script>" not in answer.text


def test_numbers_that_do_not_exist_are_null_with_their_problem(http: httpx.Client) -> None:
    answer = body_of(http.post("/diagrams", json=THREE | {"reduction": "classwise"}, headers=NUMBERS))
    assert (answer["data"], answer["alt"]) == (None, None)
    assert "one event" in answer["problem"]
    assert problem_of(http.post("/diagrams", json=THREE | {"reduction": "classwise"}))[1] == "nothing-to-draw"


@pytest.mark.parametrize("rows", [{"predictions": [0.3], "labels": [1]}, {"predictions": [1.0] * 9, "labels": [0] * 9}])
@pytest.mark.parametrize("name", calibrant.DIAGRAMS)
def test_one_row_and_one_class_are_drawn_or_refused(http: httpx.Client, rows: dict[str, Any], name: str) -> None:
    answer = http.post("/diagrams", json=rows | {"diagram": name, "resamples": 100})
    if answer.status_code == 200:
        _svg(answer)
    else:
        assert problem_of(answer)[:2] == (422, "nothing-to-draw")


def test_a_picture_ignores_groups(http: httpx.Client) -> None:
    plain = http.post("/diagrams", json=ROWS)
    grouped = http.post("/diagrams", json=ROWS | {"groups": [HOSTILE[0], HOSTILE[1]] * 200})
    assert _svg(grouped) == _svg(plain)


@pytest.mark.slow
def test_a_long_fit_is_a_job_whose_picture_is_at_its_place(http: httpx.Client) -> None:
    body = {"batch": _batch(http), "diagram": LONG, "resamples": 100}
    queued = http.post("/diagrams", json=body)
    assert queued.status_code == 202
    place = queued.headers["location"]
    drawn = http.get(f"{place}/diagram.svg", headers={"Prefer": "wait=600"}, params={"theme": "light"})
    assert "n = 400" in _svg(drawn)
    assert drawn.headers["preference-applied"] == "wait=600"
    again = http.get(
        f"{place}/diagram.svg", headers={"If-None-Match": drawn.headers["etag"]}, params={"theme": "light"}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert http.get(f"{place}/diagram.png", params={"key": "fit-on-test"}).headers["content-type"] == "image/png"
    assert problem_of(http.get(f"{place}/diagram.svg", params={"key": "corp"}))[:2] == (404, "not-found")
    assert problem_of(http.get(f"{place}/diagram.svg", params={"width": "1e9"})) == (422, "invalid-field", "?width")
    assert "n = 400" in _svg(http.post("/diagrams", json=body, headers={"Prefer": "wait=600"}))


@pytest.mark.parametrize("key", HOSTILE)
def test_a_diagram_may_be_called_anything(http: httpx.Client, key: str) -> None:
    body = ROWS | {"measures": ["ks"], "diagrams": ["corp", {"name": "ks-graphs", "as": key}], "resamples": 100}
    queued = http.post("/evaluate", json=body, headers={"Prefer": "respond-async"})
    asked = {"params": {"key": key}, "headers": {"Prefer": "wait=600"}}
    _svg(http.get(f"{queued.headers['location']}/diagram.svg", **asked))  # type: ignore[arg-type]
    assert http.get(f"{queued.headers['location']}/diagram.svg").status_code == 200  # the first


def test_a_job_without_a_report_has_no_picture(http: httpx.Client, api: httpx.Client) -> None:
    fit = http.post("/maps", json=ROWS | {"method": "platt"}, headers={"Prefer": "respond-async"})
    place = fit.headers["location"]
    assert problem_of(http.get(f"{place}/diagram.svg", headers={"Prefer": "wait=600"}))[:2] == (404, "not-found")
    # Of this service nobody does the jobs.
    waiting = api.post("/diagrams", json=ROWS | {"diagram": LONG})
    place = waiting.headers["location"]
    early = api.get(f"{place}/diagram.svg")
    assert problem_of(early)[:2] == (409, "job-not-final")
    assert int(early.headers["retry-after"]) >= 1
    api.post(f"{place}/cancel").raise_for_status()
    assert problem_of(api.get(f"{place}/diagram.png"))[1] == "job-cancelled"
    assert problem_of(api.get("/jobs/job_none/diagram.svg"))[:2] == (404, "unknown-job")


def test_a_maps_picture_is_of_its_own_fit_and_says_so(http: httpx.Client) -> None:
    name = f"m-{secrets.token_hex(4)}"
    fitted = _map(http, name=name)
    drawn = http.get(f"/maps/{name}/diagram.svg")
    text = _svg(drawn)
    assert name in text
    assert "In-sample" in text
    assert "n = 400" in text
    assert all(f"ECE {fitted['in_sample'][side]['ece']:.3f}" in text for side in ("before", "after"))
    tag = {"If-None-Match": drawn.headers["etag"]}
    assert http.get(f"/maps/{fitted['id']}/diagram.svg", headers=tag).status_code == 304
    assert http.get(f"/maps/{name}/diagram.svg", headers=tag, params={"theme": "dark"}).status_code == 200
    assert problem_of(http.get(f"/maps/{name}/diagram.svg", headers={"If-Match": tag["If-None-Match"]}))[0] == 412
    patched(http, f"/maps/{name}", {"description": HOSTILE[0]}).raise_for_status()
    assert http.get(f"/maps/{name}/diagram.svg", headers=tag).status_code == 304
    _map(http, name=name)
    assert "version 2" in _svg(http.get(f"/maps/{name}/diagram.svg", headers=tag))
    png = http.get(f"/maps/{name}:1/diagram.png", params={"width": "400"})
    assert struct.unpack(">I", png.content[16:20]) == (800,)
    assert http.head(f"/maps/{name}/diagram.svg").headers["content-type"] == "image/svg+xml"
    for option in ("theme", "shape"):
        refused = http.get(f"/maps/{name}/diagram.svg", params={option: "x"})
        assert problem_of(refused) == (422, "invalid-field", f"?{option}")


def test_a_map_of_the_whole_vector_is_shown_by_its_confidence(http: httpx.Client) -> None:
    fitted = http.post("/maps", json=THREE | {"method": "temperature"}).raise_for_status().json()
    assert fitted["reduction"] == "canonical"
    assert "confidence" in _svg(http.get(f"/maps/{fitted['id']}/diagram.svg"))


def test_a_map_from_elsewhere_has_no_picture(http: httpx.Client) -> None:
    document = http.get(f"/maps/{_map(http)['id']}/document").json()
    imported = http.post("/maps/import", json={"document": document}).raise_for_status().json()
    assert problem_of(http.get(f"/maps/{imported['id']}/diagram.svg"))[:2] == (404, "no-bins")
    assert problem_of(http.get("/maps/nobody/diagram.png"))[:2] == (404, "unknown-map")


def test_a_picture_that_is_sent_again_is_as_sealed_as_the_first(http: httpx.Client) -> None:
    sent = {"Idempotency-Key": secrets.token_hex(8)}
    first, again = (http.post("/diagrams", json=ROWS, headers=sent) for _ in range(2))
    assert again.headers["idempotency-replayed"] == "true"
    assert _svg(again) == _svg(first)


def test_a_key_that_only_reads_may_draw() -> None:
    table = RouteTable([])
    table.load_all()
    assert table.needed_scope("POST", "/diagrams") == "maps:read"
    assert table.needed_scope("GET", "/maps/m/diagram.svg") == "maps:read"
