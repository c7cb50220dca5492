"""The registry over HTTP: versions, aliases, tags, lists, deletion, export and import; alone and all at once."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import httpx
import numpy as np
import pytest
from redis import Redis

import calibrant
from calibrant.client import Calibrant, ProblemResponse
from calibrant.client.answers import MapRecord
from calibrant.core.batch import read_batch
from calibrant.core.digest import digest
from service.formats.catalogue import WRITERS
from service.stack import Stack
from tests.integration.redis_server import until
from tests.integration.responses import body_of, patched, problem_of, result_of
from tests.known import known

RANDOM = np.random.default_rng(3)
TRUE = RANDOM.random(400)
P, Y = TRUE**1.5, (RANDOM.random(400) < TRUE).astype(int)
ROWS: dict[str, Any] = {"predictions": P.tolist(), "labels": Y.tolist(), "method": "platt"}
PROBS = RANDOM.dirichlet([0.5] * 3, 300)
LABELS = np.array([RANDOM.choice(3, p=row) for row in PROBS])


@pytest.fixture
def name() -> str:
    """A name that no other test uses: the service is one for the session."""
    return f"m-{secrets.token_hex(4)}"


def _post(http: httpx.Client, name: str | None = None, **fields: Any) -> dict[str, Any]:
    return body_of(http.post("/maps", json=ROWS | fields | ({} if name is None else {"name": name})), 201)


def _ids(http: httpx.Client, **query: Any) -> list[str]:
    return [listed["id"] for page in _pages(http, **query) for listed in page["items"]]


def _pages(http: httpx.Client, **query: Any) -> Iterator[dict[str, Any]]:
    response = http.get("/maps", params=query)
    while True:
        assert response.status_code == 200, response.text
        yield response.json()
        link = re.fullmatch(r'<(.+)>; rel="next"', response.headers.get("link", ""))
        assert (link is None) == (response.json()["next"] is None)
        if link is None:
            return
        response = http.get(link[1])


def _at_once(work: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    """Do all of it at the same moment, each in a thread of its own."""
    start = Barrier(len(work))

    def run(call: Callable[[], httpx.Response]) -> httpx.Response:
        start.wait(timeout=600)
        return call()

    with ThreadPoolExecutor(len(work)) as threads:
        return list(threads.map(run, work))


# What is kept of a fit


def test_a_record_has_the_size_of_its_data_and_its_gain_in_sample(http: httpx.Client, name: str) -> None:
    weights = RANDOM.integers(0, 3, len(P))
    record = _post(http, name, weights=weights.tolist(), tags={"stage": "shadow"}, description="of the night run")
    report = calibrant.evaluate(
        P, Y, weights=weights, map=calibrant.load(record["document"]), measures=["brier", "ece"]
    )
    assert record["n"] == len(P)
    assert record["digest"] == digest(read_batch(P, Y))
    assert record["label_rate"] == pytest.approx(np.average(Y, weights=weights))
    assert record["in_sample"]["before"]["ece"] == pytest.approx(report.measures["ece"].value)
    assert record["in_sample"]["after"]["brier"] == pytest.approx(known(report.after)["brier"].value)
    assert (record["tags"], record["description"]) == ({"stage": "shadow"}, "of the night run")
    assert (record["imported"], record["created_by"], record["updated_at"]) == (False, None, None)
    assert record == http.get(f"/maps/{record['id']}").json()


def test_the_bins_of_a_map_draw_its_diagram_after_its_batch_was_deleted(http: httpx.Client, client: Calibrant) -> None:
    batch = client.upload(P, Y)
    record = client.fit("isotonic", batch.id)
    http.delete(f"/batches/{batch.id}")
    bins = known(client.map(record.id).bins)
    asked = {"name": "reliability", "n_bins": 100, "binning": "equal-mass"}
    drawn = calibrant.evaluate(P, Y, diagrams=[asked]).diagrams["reliability"]["data"]
    assert (bins.of, len(bins.before.count), sum(bins.after.count)) == ("binary", 100, len(P))
    for field in ("count", "share", "mean_prediction", "observed_frequency"):
        np.testing.assert_allclose(getattr(bins.before, field), drawn[field], atol=1e-12)


def test_a_job_keeps_the_same_record_as_a_fit_at_once(http: httpx.Client, client: Calibrant, name: str) -> None:
    about: dict[str, Any] = {"tags": {"by": "job"}, "description": "long"}
    fit = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "reduction": "class:1", "name": name} | about
    queued = http.post("/maps", json=fit | {"method": "pl", "options": {"candidates": [1, 2], "folds": 3}})
    by_job = client.map(str(result_of(client, queued)["map"])).to_dict()
    at_once = http.post("/maps", json=fit | {"method": "platt"}).json()
    assert set(by_job) == set(at_once)
    assert by_job["label_counts"] == at_once["label_counts"] == np.bincount(LABELS).tolist()
    for field in ("n", "digest", "label_rate", "tags", "description", "reduction", "scale", "n_classes", "seed"):
        assert by_job[field] == at_once[field], field
    assert by_job["bins"]["before"] == at_once["bins"]["before"]
    assert by_job["in_sample"]["before"] == at_once["in_sample"]["before"]
    assert set(by_job["document"]["diagnostics"]["held_out_losses"]) == {"1", "2"}


def test_binary_bodies_carry_tags_in_the_query(http: httpx.Client, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", predictions=P, labels=Y)
    response = http.post(
        "/maps",
        content=(tmp_path / "rows.npz").read_bytes(),
        headers={"Content-Type": "application/x-npz"},
        params={"method": "platt", "tags": '{"team": "risk"}', "description": "by npz"},
    )
    assert response.status_code == 201
    assert (response.json()["tags"], response.json()["description"]) == ({"team": "risk"}, "by npz")


# Versions and references


def test_eight_concurrent_fits_get_the_versions_one_to_eight(http: httpx.Client, name: str) -> None:
    answers = _at_once([lambda: http.post("/maps", json=ROWS | {"name": name})] * 8)
    assert sorted(response.json()["version"] for response in answers) == list(range(1, 9))
    for response in answers:
        assert http.get(f"/maps/{name}:{response.json()['version']}").json() == response.json()


def test_a_deleted_version_number_is_never_given_again(http: httpx.Client, name: str) -> None:
    first, second, third = (_post(http, name) for _ in range(3))
    assert http.delete(f"/maps/{name}:3").status_code == 204
    assert http.get(f"/maps/{name}").json()["version"] == 2
    assert http.delete(f"/maps/{first['id']}").status_code == 204
    for gone in (first["id"], third["id"], f"{name}:1", f"{name}:3"):
        assert problem_of(http.get(f"/maps/{gone}"))[:2] == (404, "unknown-map")
        assert problem_of(http.delete(f"/maps/{gone}"))[:2] == (404, "unknown-map")
    assert http.delete(f"/maps/{second['id']}").status_code == 204
    assert problem_of(http.get(f"/maps/{name}"))[:2] == (404, "unknown-map")
    assert _ids(http, name=name) == []
    assert _post(http, name)["version"] == 4


def test_an_alias_is_a_reference_wherever_a_map_is_named(http: httpx.Client, client: Calibrant, name: str) -> None:
    ids = [_post(http, name)["id"], _post(http, name, method="isotonic")["id"]]
    for version in (1, 2, 1):
        assert client.alias(name, "champion", version).map == ids[version - 1]
        ref = f"{name}@champion"
        assert client.map(ref).id == ids[version - 1]
        np.testing.assert_array_equal(client.calibrate(ref, P), client.calibrate(f"{name}:{version}", P))
        body = {"predictions": P.tolist(), "labels": Y.tolist(), "measures": ["ks"], "map": ref}
        assert http.post("/evaluate", json=body).json()["map"] == ids[version - 1]
        assert client.export_map(ref) == client.export_map(f"{name}:{version}")


# Aliases


@pytest.mark.parametrize("accept", [*WRITERS])
def test_an_answer_names_the_map_that_an_alias_led_to(
    http: httpx.Client, client: Calibrant, name: str, accept: str
) -> None:
    first, second = _post(http, name), _post(http, name)
    client.alias(name, "champion", 1)
    unnamed = _post(http)
    for ref, record in ((name, second), (f"{name}@champion", first), (second["id"], second), (unnamed["id"], unnamed)):
        body = {"map": ref, "predictions": [0.2, 0.8]}
        answer = http.post("/calibrate", json=body, headers={"Accept": accept}).raise_for_status()
        version = None if record["version"] is None else str(record["version"])
        assert answer.headers["calibrant-map"] == record["id"]
        assert answer.headers.get("calibrant-map-version") == version
        if accept == "application/json":
            assert (answer.json()["map"], answer.json()["version"]) == (record["id"], record["version"])
        applied = client.calibrate(ref, [0.2, 0.8], return_map=True)
        assert applied[1:] == (record["id"], record["version"])
    client.alias(name, "champion", 2)
    moved = http.post("/calibrate", json={"map": f"{name}@champion", "predictions": [0.2]}).json()
    assert (moved["map"], moved["version"]) == (second["id"], 2)


def test_an_alias_shows_its_version_and_is_moved(http: httpx.Client, client: Calibrant, name: str) -> None:
    for _ in range(2):
        _post(http, name)
    assert client.aliases(name) == []
    first = client.alias(name, "champion", 1)
    again = client.alias(name, "champion", 1)
    assert first == again
    moved = client.alias(name, "champion", 2)
    assert (first.revision, moved.revision, moved.version) == (1, 2, 2)
    other = client.alias(name, "challenger", 1)
    assert client.aliases(name) == [other, moved]
    assert http.get(f"/maps/{name}/aliases/champion").json() == moved.to_dict()
    client.delete_alias(name, "champion")
    assert client.aliases(name) == [other]
    assert problem_of(http.get(f"/maps/{name}/aliases/champion"))[:2] == (404, "unknown-alias")
    assert problem_of(http.delete(f"/maps/{name}/aliases/champion"))[:2] == (404, "unknown-alias")
    assert problem_of(http.get(f"/maps/{name}@champion"))[:2] == (404, "unknown-map")


def test_an_alias_is_moved_only_from_the_state_that_the_caller_knows(http: httpx.Client, name: str) -> None:
    for _ in range(3):
        _post(http, name)
    url = f"/maps/{name}/aliases/champion"
    assert problem_of(http.put(url, json={"version": 1}, headers={"If-Match": "*"}))[:2] == (412, "precondition-failed")
    new = http.put(url, json={"version": 1}, headers={"If-None-Match": "*"})
    assert new.status_code == 200
    again = http.put(url, json={"version": 2}, headers={"If-None-Match": "*"})
    assert problem_of(again)[:2] == (412, "precondition-failed")
    read = http.get(url)
    assert read.headers["etag"] == new.headers["etag"]
    moved = http.put(url, json={"version": 2}, headers={"If-Match": f'"x", {read.headers["etag"]}'})
    assert moved.json()["version"] == 2
    stale = {"If-Match": read.headers["etag"]}
    assert problem_of(http.put(url, json={"version": 3}, headers=stale))[:2] == (412, "precondition-failed")
    assert problem_of(http.delete(url, headers=stale))[:2] == (412, "precondition-failed")
    weak = {"If-Match": f"W/{moved.headers['etag']}"}
    assert problem_of(http.delete(url, headers=weak))[:2] == (412, "precondition-failed")
    assert http.get(url, headers={"If-None-Match": f"W/{moved.headers['etag']}"}).status_code == 304
    assert http.delete(url, headers={"If-Match": moved.headers["etag"]}).status_code == 204
    assert problem_of(http.put(url, json={"version": 1}, headers={"If-Match": "champion"}))[:2] == (400, "bad-request")


def test_one_of_eight_concurrent_conditional_moves_of_an_alias_succeeds(http: httpx.Client, name: str) -> None:
    for _ in range(9):
        _post(http, name)
    url = f"/maps/{name}/aliases/champion"
    known = {"If-Match": http.put(url, json={"version": 9}).headers["etag"]}

    def move(version: int) -> Callable[[], httpx.Response]:
        return lambda: http.put(url, json={"version": version}, headers=known)

    moved = _at_once([move(version) for version in range(1, 9)])
    assert sorted(response.status_code for response in moved) == [200] + [412] * 7
    winner = next(response for response in moved if response.status_code == 200)
    assert http.get(url).json() == winner.json()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"version": 2}, (422, "unknown-map-reference")),
        ({"version": 0}, (422, "invalid-field")),
        ({"version": "1"}, (422, "invalid-field")),
        ({"version": 1.5}, (422, "invalid-field")),
        ({"version": True}, (422, "invalid-field")),
        ({"version": 10**30}, (422, "invalid-field")),
        ({}, (422, "invalid-field")),
        ({"version": 1, "x": 1}, (422, "invalid-field")),
        ({"version": 1, "predictions": [0.1]}, (422, "invalid-field")),
        ([], (422, "invalid-field")),
    ],
)
def test_an_alias_points_at_a_version_that_exists(
    http: httpx.Client, name: str, body: Any, expected: tuple[int, str]
) -> None:
    _post(http, name)
    assert problem_of(http.put(f"/maps/{name}/aliases/champion", json=body))[:2] == expected
    assert http.get(f"/maps/{name}/aliases").json() == {"items": [], "next": None}


def test_a_version_that_does_not_exist_is_named_as_the_wrong_field(http: httpx.Client, name: str) -> None:
    _post(http, name)
    response = http.put(f"/maps/{name}/aliases/champion", json={"version": 2})
    assert problem_of(response) == (422, "unknown-map-reference", "/version")


def test_a_version_at_which_an_alias_points_cannot_be_deleted(http: httpx.Client, name: str) -> None:
    record = _post(http, name)
    for alias in ("champion", "b"):
        http.put(f"/maps/{name}/aliases/{alias}", json={"version": 1})
    refused = http.delete(f"/maps/{record['id']}")
    assert problem_of(refused)[:2] == (409, "map-in-use")
    assert "b, champion" in refused.json()["detail"]
    for alias in ("champion", "b"):
        http.delete(f"/maps/{name}/aliases/{alias}")
    assert http.delete(f"/maps/{name}:1").status_code == 204


@pytest.mark.slow
def test_an_alias_and_a_deletion_at_once_never_leave_an_alias_on_nothing(http: httpx.Client, name: str) -> None:
    for version in range(1, 25):
        _post(http, name)
        url = f"/maps/{name}/aliases/champion"

        def put(url: str = url, version: int = version) -> httpx.Response:
            return http.put(url, json={"version": version})

        def delete(version: int = version) -> httpx.Response:
            return http.delete(f"/maps/{name}:{version}")

        pointed, deleted = _at_once([put, delete])
        # Without another version, nothing has the name any more.
        assert (pointed.status_code, deleted.status_code) in ((200, 409), (422, 204), (404, 204))
        there = http.get(f"/maps/{name}@champion")
        if pointed.status_code == 200:
            assert there.json()["version"] == version
        elif there.status_code == 200:  # it points where an earlier round left it
            assert there.json()["version"] < version


@pytest.mark.slow
def test_a_reader_of_an_alias_never_misses_while_it_is_moved_and_the_old_version_deleted(
    service: Stack, http: httpx.Client, name: str
) -> None:
    _post(http, name)
    http.put(f"/maps/{name}/aliases/champion", json={"version": 1})
    done = Barrier(2)

    def promote() -> None:
        with httpx.Client(base_url=service.url, timeout=600) as mine:
            for version in range(2, 20):
                _post(mine, name)
                assert mine.put(f"/maps/{name}/aliases/champion", json={"version": version}).status_code == 200
                assert mine.delete(f"/maps/{name}:{version - 1}").status_code == 204
        done.wait(timeout=600)

    with ThreadPoolExecutor(1) as threads:
        promoted = threads.submit(promote)
        seen = []
        while done.n_waiting == 0 and not promoted.done():
            seen.append(body_of(http.get(f"/maps/{name}@champion"))["version"])
        done.wait(timeout=600)
        promoted.result(timeout=600)
    assert seen == sorted(seen)


# Deletion


@pytest.mark.parametrize("suffix", ["", "@champion"])
def test_a_deletion_names_one_version_exactly(http: httpx.Client, name: str, suffix: str) -> None:
    _post(http, name)
    http.put(f"/maps/{name}/aliases/champion", json={"version": 1})
    assert problem_of(http.delete(f"/maps/{name}{suffix}")) == (422, "invalid-field", "?map")
    assert http.get(f"/maps/{name}").status_code == 200


def test_a_deletion_heeds_the_state_that_the_caller_knows(http: httpx.Client) -> None:
    url = f"/maps/{_post(http)['id']}"
    known = http.get(url).headers["etag"]
    patched(http, url, {"description": "new"})
    assert problem_of(http.delete(url, headers={"If-Match": known}))[:2] == (412, "precondition-failed")
    assert http.delete(url, headers={"If-Match": http.get(url).headers["etag"]}).status_code == 204


# Tags and description


def test_tags_and_description_are_merged_and_nothing_else_changes(http: httpx.Client, name: str) -> None:
    before = _post(http, name, tags={"a": "1", "b": "2"}, description="old")
    url = f"/maps/{name}"
    tagged = patched(http, url, {"tags": {"b": None, "c": "3", "nothing": None}}).json()
    assert (tagged["tags"], tagged["description"]) == ({"a": "1", "c": "3"}, "old")
    assert tagged["updated_at"] is not None
    record = patched(http, url, {"description": None}).json()
    assert (record["tags"], record["description"]) == ({"a": "1", "c": "3"}, None)
    cleared = patched(http, url, {"tags": None})
    assert cleared.json()["tags"] == {}
    changing = {"tags", "description", "updated_at"}
    assert {k: v for k, v in cleared.json().items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
    same = patched(http, url, {})
    assert same.json() == cleared.json() == http.get(url).json()
    assert same.headers["etag"] == cleared.headers["etag"] == http.get(url).headers["etag"]


@pytest.mark.parametrize("path", ["/maps/any", "/monitors/any"])
@pytest.mark.parametrize(
    "kind", ["application/json", "text/plain", "application/json-patch+json", "application/x-npz", ""]
)
def test_a_patch_that_is_no_merge_patch_is_refused(http: httpx.Client, path: str, kind: str) -> None:
    refused = http.patch(path, content=b"{}", headers={"Content-Type": kind} if kind else {})
    assert problem_of(refused) == (415, "unsupported-media-type", "Content-Type:")
    assert refused.headers["accept-patch"] == "application/merge-patch+json"


MANY = {f"t{i}": "" for i in range(32)}


@pytest.mark.parametrize(
    "body",
    [
        {"tags": {"x" * 65: ""}},
        {"tags": {"": ""}},
        {"tags": {"a=b": ""}},
        {"tags": {"a\n": ""}},
        {"tags": {"\u00e9": ""}},
        {"tags": {"a": "x" * 257}},
        {"tags": {"a": 1}},
        {"tags": ["a"]},
        {"tags": "a"},
        {"description": "x" * 2001},
        {"description": 1},
        {"name": "other"},
        {"document": {}},
        {"version": 1},
        {"tags": {"one-more": ""}},
    ],
)
def test_tags_and_descriptions_are_short_and_few(http: httpx.Client, body: Any) -> None:
    record = _post(http, tags=MANY)
    refused = problem_of(patched(http, f"/maps/{record['id']}", body))
    assert refused[:2] == (422, "invalid-field")
    assert refused[2].startswith("/" + next(iter(body)))
    assert http.get(f"/maps/{record['id']}").json() == record
    if "tags" in body and body["tags"] != {"one-more": ""}:
        assert problem_of(http.post("/maps", json=ROWS | body))[:2] == (422, "invalid-field")


def test_changes_made_at_once_are_all_kept(http: httpx.Client) -> None:
    url = f"/maps/{_post(http)['id']}"

    def tag(i: int) -> Callable[[], httpx.Response]:
        return lambda: patched(http, url, {"tags": {f"t{i}": str(i)}})

    assert {response.status_code for response in _at_once([tag(i) for i in range(8)])} == {200}
    assert http.get(url).json()["tags"] == {f"t{i}": str(i) for i in range(8)}


def test_a_change_heeds_the_state_that_the_caller_knows(http: httpx.Client) -> None:
    url = f"/maps/{_post(http)['id']}"
    known = {"If-Match": http.get(url).headers["etag"]}
    assert patched(http, url, {"description": "a"}, known).status_code == 200
    assert problem_of(patched(http, url, {"description": "b"}, known))[:2] == (
        412,
        "precondition-failed",
    )
    assert http.get(url).json()["description"] == "a"


# Entity tags


def test_a_map_that_the_caller_has_is_not_sent_again(http: httpx.Client, name: str) -> None:
    fitted = http.post("/maps", json=ROWS | {"name": name})
    for url in (f"/maps/{name}", f"/maps/{name}:1", f"/maps/{fitted.json()['id']}", f"/maps/{name}/document"):
        read = http.get(url)
        assert re.fullmatch(r'"[0-9a-f]{32}(-zstd)?"', read.headers["etag"])
        if not url.endswith("document"):
            assert read.headers["etag"] == fitted.headers["etag"]
        for sent in (read.headers["etag"], f"W/{read.headers['etag']}", f'"x" , {read.headers["etag"]}', "*"):
            again = http.get(url, headers={"If-None-Match": sent})
            assert (again.status_code, again.content) == (304, b"")
            assert sent == "*" or again.headers["etag"] == read.headers["etag"]
        assert http.get(url, headers={"If-None-Match": '"x"'}).status_code == 200
        assert problem_of(http.get(url, headers={"If-None-Match": "x"}))[:2] == (400, "bad-request")
    document = http.get(f"/maps/{name}/document").headers["etag"]
    patched(http, f"/maps/{name}", {"description": "new"})
    assert http.get(f"/maps/{name}", headers={"If-None-Match": fitted.headers["etag"]}).status_code == 200
    assert http.get(f"/maps/{name}/document", headers={"If-None-Match": document}).status_code == 304


# Lists


def test_a_list_is_newest_first_and_its_pages_make_the_whole(http: httpx.Client, name: str) -> None:
    ids = [_post(http, name)["id"] for _ in range(7)]
    for limit in (1, 2, 3, 7, 100):
        pages = list(_pages(http, name=name, limit=limit))
        assert [listed["id"] for page in pages for listed in page["items"]] == ids[::-1]
        assert all(len(page["items"]) == limit for page in pages[:-1])
    everything = _ids(http, limit=100)
    assert len(set(everything)) == len(everything)
    assert [i for i in everything if i in ids] == ids[::-1]


def test_a_listed_map_is_its_record_without_what_is_long_and_with_its_aliases(http: httpx.Client, name: str) -> None:
    record = _post(http, name, tags={"a": "1"})
    for alias in ("champion", "best"):
        http.put(f"/maps/{name}/aliases/{alias}", json={"version": 1})
    listed = http.get("/maps", params={"name": name}).json()["items"][0]
    assert listed.pop("aliases") == ["best", "champion"]
    assert listed == {k: v for k, v in record.items() if k not in ("document", "bins", "label_counts")}
    described = patched(http, f"/maps/{name}", {"description": "new"}).json()
    assert http.get("/maps", params={"name": name}).json()["items"][0]["description"] == described["description"]


def test_a_list_applies_all_of_its_filters(http: httpx.Client, client: Calibrant, name: str) -> None:
    other = f"{name}-other"
    mine = secrets.token_hex(4)
    two = [_post(http, name, tags={mine: "x", "t": "1"})["id"], _post(http, name, tags={mine: "y"})["id"]]
    vector = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "method": "temperature"}
    three = _post(http, other, **vector, tags={mine: "x"}, scale="probability")["id"]
    logits = _post(http, None, predictions=[-2.0, 1.0, -1.0, 3.0], labels=[0, 1, 1, 0], scale="logit", tags={mine: "x"})
    client.alias(name, "champion", 2)
    client.alias(other, "champion", 1)
    tables: list[tuple[dict[str, Any], list[str]]] = [
        ({"name": name}, two),
        ({"name": name, "tag": "t"}, two[:1]),
        ({"tag": mine}, [*two, three, logits["id"]]),
        ({"tag": f"{mine}=x"}, [two[0], three, logits["id"]]),
        ({"tag": [f"{mine}=x", "t=1"]}, two[:1]),
        ({"tag": [f"{mine}=x", f"{mine}=y"]}, []),
        ({"tag": f"{mine}="}, []),
        ({"tag": mine, "method": "temperature"}, [three]),
        ({"tag": mine, "reduction": "canonical"}, [three]),
        ({"tag": mine, "n_classes": 3}, [three]),
        ({"tag": mine, "scale": "logit"}, [logits["id"]]),
        ({"tag": mine, "alias": "champion"}, [two[1], three]),
        ({"name": name, "alias": "champion"}, two[1:]),
        ({"name": name, "alias": "challenger"}, []),
        ({"name": name, "created_by": "nobody"}, []),
        ({"method": "no such"}, []),
    ]
    for query, expected in tables:
        assert _ids(http, **query) == expected[::-1], query
        assert _ids(http, **query, limit=1) == expected[::-1], query
    assert [listed.id for listed in client.maps(tags=[mine], alias="champion")] == [three, two[1]]
    patched(http, f"/maps/{two[1]}", {"tags": {mine: "z"}})
    assert _ids(http, tag=f"{mine}=y") == []
    assert _ids(http, tag=f"{mine}=z") == two[1:]
    client.delete_map(logits["id"])
    assert _ids(http, tag=f"{mine}=x") == [three, two[0]]
    client.alias(name, "champion", 1)
    assert _ids(http, name=name, alias="champion") == two[:1]
    client.delete_alias(name, "champion")
    assert _ids(http, name=name, alias="champion") == []


def test_maps_that_come_and_go_between_pages_disturb_no_other(http: httpx.Client, name: str) -> None:
    ids = [_post(http, name)["id"] for _ in range(8)]
    pages = _pages(http, name=name, limit=2)
    seen = [listed["id"] for listed in next(pages)["items"]]
    assert seen == [ids[7], ids[6]]
    new = _post(http, name)["id"]
    http.delete(f"/maps/{ids[6]}")  # the one at which the page ended
    http.delete(f"/maps/{ids[4]}")  # one to come
    rest = [listed["id"] for page in pages for listed in page["items"]]
    assert rest == [ids[5], *ids[3::-1]]
    assert _ids(http, name=name)[0] == new


@pytest.mark.slow
def test_a_list_read_while_others_write_has_each_map_once(service: Stack, http: httpx.Client, name: str) -> None:
    staying = [_post(http, name)["id"] for _ in range(12)]

    def churn() -> None:
        with httpx.Client(base_url=service.url, timeout=600) as mine:
            for _ in range(30):
                mine.delete(f"/maps/{_post(mine, name)['id']}")

    with ThreadPoolExecutor(2) as threads:
        churns = [threads.submit(churn) for _ in range(2)]
        rounds = 0
        while rounds < 3 or not all(writer.done() for writer in churns):
            ids = _ids(http, name=name, limit=2)
            assert len(set(ids)) == len(ids)
            assert [i for i in ids if i in staying] == staying[::-1]
            rounds += 1
        for writer in churns:
            writer.result()
    assert _ids(http, name=name) == staying[::-1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"cursor": "x"}, (422, "invalid-cursor", "?cursor")),
        ({"cursor": ""}, (422, "invalid-cursor", "?cursor")),
        ({"cursor": "A" * 401}, (422, "invalid-field", "?cursor")),
        ({"limit": "0"}, (422, "invalid-field", "?limit")),
        ({"limit": "101"}, (422, "invalid-field", "?limit")),
        ({"limit": "x"}, (422, "invalid-field", "?limit")),
        ({"n_classes": "1"}, (422, "invalid-field", "?n_classes")),
        ({"scale": "percent"}, (422, "invalid-field", "?scale")),
        ({"name": ""}, (422, "invalid-field", "?name")),
        ({"bogus": "1"}, (422, "invalid-field", "?bogus")),
        ({"tag": ["a"] * 9}, (422, "invalid-field", "?tag")),
    ],
)
def test_a_wrong_query_is_refused(http: httpx.Client, query: dict[str, Any], expected: tuple[int, str, str]) -> None:
    assert problem_of(http.get("/maps", params=query)) == expected


# Export and import


def _exported(http: httpx.Client, method: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    record = _post(http, method=method, **fields)
    response = http.get(f"/maps/{record['id']}/document")
    assert response.headers["content-disposition"] == f'attachment; filename="{record["id"]}.json"'
    document: dict[str, Any] = response.json()
    assert document == record["document"]
    return record["id"], document


@pytest.mark.parametrize("method", ["platt", "isotonic", "beta", "kde", "spline", "venn-abers", "bbq", "histogram"])
def test_an_imported_map_applies_bit_for_bit(http: httpx.Client, client: Calibrant, method: str, name: str) -> None:
    original, document = _exported(http, method)
    imported = client.import_map(document, name=name, tags={"from": "elsewhere"}, description="moved")
    assert (imported.imported, imported.method, imported.version, imported.n, imported.seed) == (
        True,
        method,
        1,
        None,
        None,
    )
    assert (imported.digest, imported.in_sample, imported.bins) == (document["training_digest"], None, None)
    assert (imported.tags, imported.description) == ({"from": "elsewhere"}, "moved")
    assert imported.document == document
    np.testing.assert_array_equal(client.calibrate(imported.id, P), client.calibrate(original, P))
    assert client.export_map(name) == document
    assert http.get(f"/maps/{name}/document").headers["content-disposition"] == f'attachment; filename="{name}-v1.json"'
    assert _ids(http, name=name) == [imported.id]


def test_an_imported_map_of_the_vector_applies_bit_for_bit(http: httpx.Client, client: Calibrant) -> None:
    rows = {"predictions": PROBS.tolist(), "labels": LABELS.tolist()}
    for method, reduction in (("dirichlet-l2", None), ("temperature", None), ("isotonic", "classwise")):
        original, document = _exported(http, method, **rows, reduction=reduction)
        imported = client.import_map(document)
        np.testing.assert_array_equal(client.calibrate(imported.id, PROBS), client.calibrate(original, PROBS))


GOOD: dict[str, Any] = {
    "format": 1, "method": "platt", "family": "platt", "reduction": "binary", "scale": "probability",
    "n_classes": None, "parameters": {"slope": 1.0, "intercept": 0.0},
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"format": 2}, "/document/format"),
        ({"format": "1"}, "/document/format"),
        ({"family": "pickle"}, "/document/family"),
        ({"family": ["platt"]}, "/document/family"),
        ({"family": "temperature"}, "/document/family"),
        ({"method": ""}, "/document/method"),
        ({"method": None}, "/document/method"),
        ({"method": "x" * 65}, "/document/method"),
        ({"scale": "percent"}, "/document/scale"),
        ({"scale": []}, "/document/scale"),
        ({"n_classes": 1}, "/document/n_classes"),
        ({"n_classes": 1e9}, "/document/n_classes"),
        ({"n_classes": 10**9, "reduction": "canonical", "family": "temperature", "parameters": {"temperature": 1}},
         "/document/n_classes"),
        ({"reduction": "all"}, "/document/reduction"),
        ({"reduction": None}, "/document/reduction"),
        ({"parameters": None}, "/document/parameters"),
        ({"parameters": []}, "/document/parameters"),
        ({"parameters": {}}, "/document/parameters/slope"),
        ({"parameters": {"slope": "1", "intercept": 0}}, "/document/parameters/slope"),
        ({"parameters": {"slope": True, "intercept": 0}}, "/document/parameters/slope"),
        ({"parameters": {"slope": 1, "intercept": [0]}}, "/document/parameters/intercept"),
        ({"diagnostics": 3}, "/document/diagnostics"),
        ({"family": "isotonic", "parameters": {"thresholds": [0.1] * 3, "heights": [0.1] * 3}},
         "/document/parameters/thresholds"),
        ({"family": "isotonic", "parameters": {"thresholds": [i / 1e5 for i in range(100_000)], "heights": [0.1]}},
         "/document/parameters/heights"),
        ({"family": "vector", "reduction": "canonical", "n_classes": 2, "scale": "logit",
          "parameters": {"weights": [1e308, 1e308], "intercepts": [0, 0]}}, "/document/parameters"),
    ],
)  # fmt: skip
def test_a_damaged_document_is_refused_where_it_is_damaged(
    http: httpx.Client, changes: dict[str, Any], pointer: str
) -> None:
    assert http.post("/maps/import", json={"document": GOOD}).status_code == 201
    refused = http.post("/maps/import", json={"document": GOOD | changes})
    assert problem_of(refused) == (422, "invalid-document", pointer)


def test_an_import_is_json_and_its_numbers_are_finite(http: httpx.Client) -> None:
    nan = json.dumps({"document": GOOD | {"parameters": {"slope": float("nan"), "intercept": 0}}}).encode()
    sent = {"Content-Type": "application/json"}
    assert problem_of(http.post("/maps/import", content=nan, headers=sent))[:2] == (400, "malformed-json")
    deep = b'{"document": ' + b'{"a":' * 100_000
    assert problem_of(http.post("/maps/import", content=deep, headers=sent))[:2] == (413, "too-large")
    wrong: list[dict[str, Any]] = [{}, {"document": []}, {"document": "x"}, {"document": GOOD, "x": 1}]
    for body in [*wrong, {"document": GOOD, "labels": [1]}]:
        assert problem_of(http.post("/maps/import", json=body))[:2] == (422, "invalid-field")
    npz = {"Content-Type": "application/x-npz"}
    assert problem_of(http.post("/maps/import", content=b"PK", headers=npz))[:2] == (415, "unsupported-media-type")


@pytest.mark.slow
def test_a_document_changed_anywhere_is_refused_or_still_gives_probabilities(
    http: httpx.Client, client: Calibrant
) -> None:
    random = np.random.default_rng(11)
    documents = [_exported(http, method)[1] for method in ("platt", "isotonic", "venn-abers", "histogram")]
    hostile: list[Any] = [None, True, -1, 0, 1e308, "x", [], {}, [[1]], 10**9, [0.5] * 1000]
    taken = 0
    for _ in range(150):
        document = json.loads(json.dumps(documents[random.integers(len(documents))]))
        within = document if random.random() < 0.4 else document["parameters"]
        place = list(within)[random.integers(len(within))]
        if random.random() < 0.2:
            del within[place]
        elif isinstance(within[place], list) and random.random() < 0.5:
            within[place][random.integers(len(within[place]))] = hostile[random.integers(len(hostile))]
        else:
            within[place] = hostile[random.integers(len(hostile))]
        response = http.post("/maps/import", json={"document": document})
        if response.status_code == 201:
            taken += 1
            calibrated = client.calibrate(response.json()["id"], P)
            assert np.all((calibrated >= 0.0) & (calibrated <= 1.0))
        else:
            assert problem_of(response)[:2] == (422, "invalid-document")
            assert problem_of(response)[2].startswith("/document")
    assert 0 < taken < 150


# Names


TRICKS = [
    "..", "%2e%2e", "%2F", "a%2Fb", "..%2F..%2Fetc%2Fpasswd", "%00", "a%00", "a%0A", "%E2%80%AEa", "%C3%A9", "%FF",
    "a%20b", "a:b:c", "a@b@c", "a:1@b", "@", ":", "@a", ":1", "a@", "a:", "a:0", "a:01", "a:-1", "a:%2B1",
    "map_", "map_%2F",
    "map_a:1", "map_a@b", "*", "a*", "a%3F", "%7B%7D", "x" * 65, "x" * 5000, "a%0D%0ASet-Cookie:%20x=1",
]  # fmt: skip


@pytest.mark.parametrize(
    "trick", [pytest.param(trick, marks=[pytest.mark.slow] if i % 3 else []) for i, trick in enumerate(TRICKS)]
)
def test_hostile_names_of_maps_match_nothing(http: httpx.Client, trick: str) -> None:
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"/maps/{trick}", None),
        ("GET", f"/maps/{trick}/document", None),
        ("PATCH", f"/maps/{trick}", {"tags": {"a": "b"}}),
        ("DELETE", f"/maps/{trick}", None),
        ("GET", f"/maps/{trick}/aliases", None),
        ("GET", f"/maps/{trick}/aliases/champion", None),
        ("PUT", f"/maps/{trick}/aliases/champion", {"version": 1}),
        ("DELETE", f"/maps/{trick}/aliases/champion", None),
    ]
    for method, path, body in calls:
        response = patched(http, path, body) if method == "PATCH" else http.request(method, path, json=body)
        if response.request.url.path == "/":  # the client resolved the dots itself
            continue
        assert response.status_code in (404, 405), (method, path)
        assert "set-cookie" not in response.headers
        problem_of(response)
    for body in ({"map": trick, "predictions": [0.1]}, {"map": httpx.URL(f"http://x/{trick}").path[1:] or "x"}):
        refused = problem_of(http.post("/calibrate", json={"predictions": [0.1]} | body))
        assert refused[:2] in ((422, "unknown-map-reference"), (422, "invalid-field"))


@pytest.mark.parametrize("trick", [t for t in TRICKS if not t.endswith(("..", "%2e%2e")) and "%2F" not in t])
def test_hostile_aliases_are_refused(http: httpx.Client, name: str, trick: str) -> None:
    _post(http, name)
    put = http.put(f"/maps/{name}/aliases/{trick}", json={"version": 1})
    assert problem_of(put) == (422, "invalid-field", "/alias")
    for method in ("GET", "DELETE"):
        assert problem_of(http.request(method, f"/maps/{name}/aliases/{trick}"))[:2] == (404, "unknown-alias")
    assert http.get(f"/maps/{name}/aliases").json() == {"items": [], "next": None}


def test_the_client_raises_the_problem_of_the_server(client: Calibrant, name: str) -> None:
    record = client.fit("platt", client.upload(P, Y).id, name=name, tags={"a": "1"}, description="x")
    assert isinstance(record, MapRecord)
    assert client.describe(name, tags={"a": None, "b": "2"}, description="y").tags == {"b": "2"}
    client.alias(name, "champion", 1, new=True)
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: client.alias(name, "champion", 1, new=True), "precondition-failed"),
        (lambda: client.delete_map(record.id), "map-in-use"),
        (lambda: client.delete_map(name), "invalid-field"),
        (lambda: client.export_map("nowhere"), "unknown-map"),
        (lambda: client.import_map({}), "invalid-document"),
        (lambda: client.delete_alias(name, "other"), "unknown-alias"),
        (lambda: list(client.maps(scale="percent")), "invalid-field"),
    ]
    for call, code in refusals:
        with pytest.raises(ProblemResponse) as caught:
            call()
        assert caught.value.problem.type == f"/problems/{code}"


def test_versions_of_a_name_have_one_output_shape(http: httpx.Client, client: Calibrant) -> None:
    rows = {"predictions": PROBS.tolist(), "labels": LABELS.tolist(), "name": "shaped"}
    http.post("/maps", json=rows | {"method": "temperature"}).raise_for_status()
    for method in ("platt", "averaged"):  # at once, and before it becomes a job
        refused = http.post("/maps", json=rows | {"method": method, "reduction": "confidence"})
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/output-shape-changed")
    document = client.export_map(http.post("/maps", json=rows | {"method": "platt", "name": None}).json()["id"])
    with pytest.raises(ProblemResponse, match="shape"):
        client.import_map(document, name="shaped")
    assert client.import_map(document, name="shaped", allow_shape_change=True).version == 2
    # The newest version decides.
    assert http.post("/maps", json=rows | {"method": "temperature"}).status_code == 409
    allowed = http.post("/maps", json=rows | {"method": "temperature", "allow_shape_change": True})
    assert allowed.raise_for_status().json()["version"] == 3
    assert http.post("/maps", json=rows | {"allow_shape_change": "yes"}).status_code == 422


def test_a_version_that_an_emptied_store_gives_again_leads_to_the_new_map(api: httpx.Client, redis: Redis) -> None:
    def calibrated() -> dict[str, Any]:
        return body_of(api.post("/calibrate", json={"map": "again:1", "predictions": [0.3]}))

    former = _post(api, "again")
    assert calibrated()["map"] == former["id"]
    redis.flushall()
    later = _post(api, "again", method="beta")
    assert later["version"] == 1
    until(lambda: calibrated()["map"] == later["id"])
