"""Maps in memory are applied while the store is away, and follow it again once it is back."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from backend.held_folder import digest_of
from backend.store.api_keys import ApiKeyStore
from backend.store.clock import stamp
from backend.store.keyspace import DEFAULT_TENANT, Shared
from backend.store.link import Invalidation
from backend.store.server.connection import StoreUnavailable, connect
from backend.store.store import Store
from service.callers import LOCAL
from service.context import Context
from service.process import Process
from service.settings import Settings
from tests.integration.conftest import serving
from tests.integration.lossy_proxy import lossy_proxy
from tests.integration.redis_server import RedisServer, answered, assert_away, ready, redis_server, until
from tests.integration.responses import body_of

ROWS = {"predictions": [0.1, 0.9, 0.4], "labels": [0, 1, 0]}
INFER = {"inputs": [{"name": "predictions", "shape": [1], "datatype": "FP64", "data": [0.25]}]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path / "redis") as server:
        yield server


@contextlib.contextmanager
def api_of(settings: Settings, *, needs_key: bool = False, **headers: str) -> Iterator[httpx.Client]:
    with (
        serving(settings, needs_key=needs_key, outages=True) as url,
        httpx.Client(base_url=url, timeout=600, headers=headers) as api,
    ):
        yield api


@pytest.fixture
def api(server: RedisServer) -> Iterator[httpx.Client]:
    with api_of(Settings(server.url)) as api:
        until(lambda: ready(api))
        yield api


def fit(api: httpx.Client, name: str | None = "spam", method: str = "identity") -> dict[str, Any]:
    body = ROWS | {"method": method} | ({} if name is None else {"name": name})
    answer = body_of(answered(lambda: api.post("/maps", json=body)), 201)
    return dict(answer)


def point(api: httpx.Client, version: int, alias: str = "champion", name: str = "spam") -> None:
    assert answered(lambda: api.put(f"/maps/{name}/aliases/{alias}", json={"version": version})).is_success


def calibrate(api: httpx.Client, ref: str, **headers: str) -> httpx.Response:
    return api.post("/calibrate", json={"map": ref, "predictions": [0.25]}, headers=headers)


def apply(api: httpx.Client, ref: str) -> str:
    """The id of the map that answers for a reference."""
    answer = body_of(answered(lambda: calibrate(api, ref)))
    return str(answer["map"])


def is_away(api: httpx.Client) -> bool:
    return "calibrant-stale" in calibrate(api, "spam@champion").headers


@pytest.mark.slow
def test_a_map_in_memory_answers_under_every_reference_while_the_store_is_away(
    server: RedisServer, api: httpx.Client
) -> None:
    first, other = fit(api), fit(api, "other")
    point(api, 1)
    assert apply(api, "spam@champion") == first["id"]
    server.kill()
    until(lambda: is_away(api))
    for ref in ("spam@champion", "spam", "spam:1", first["id"]):
        answer = calibrate(api, ref)
        assert answer.json() == {"map": first["id"], "version": 1, "predictions": [0.25]}
        assert int(answer.headers["Calibrant-Stale"]) >= 0
    for path in ("spam", "spam@champion", "spam/versions/1", first["id"]):
        inferred = api.post(f"/v2/models/{path}/infer", json=INFER)
        assert inferred.json()["outputs"][0]["data"] == [0.25], inferred.text
        assert "Calibrant-Stale" in inferred.headers
        assert api.get(f"/v2/models/{path}/ready").status_code == 200
    for ref in ("other", other["id"], "spam:2", "spam@challenger", "nothing"):
        assert_away(calibrate(api, ref))
    assert_away(api.post("/calibrate", json={"map": "spam", "batch": "batch_1"}))
    assert api.post("/v2/models/other/infer", json=INFER).status_code == 503
    assert api.get("/v2/models/other/ready").status_code == 503
    # Errors of a request are still those of the request.
    assert api.post("/calibrate", json={"map": "spam", "predictions": [2.0]}).status_code == 422
    assert api.get("/health/ready").json() == {"status": "degraded", "reason": "store-unavailable"}
    assert api.get("/v2/health/ready").status_code == 200
    stale = 'calibrant_http_stale_responses_total{method="POST",route="/calibrate"}'
    assert f"{stale} " in api.get("/metrics").text
    server.start()
    until(lambda: api.get("/health/ready").json() == {"status": "ok"})
    until(lambda: not is_away(api))
    assert apply(api, "other") == other["id"]


def test_a_request_with_many_rows_is_answered_from_memory_too(server: RedisServer, api: httpx.Client) -> None:
    fit(api)
    point(api, 1)
    assert apply(api, "spam")
    server.kill()
    until(lambda: is_away(api))
    answer = api.post("/calibrate", json={"map": "spam", "predictions": [0.25] * 5000})
    assert len(answer.json()["predictions"]) == 5000


@pytest.mark.slow
def test_aliases_versions_and_deletions_during_a_cut_are_followed_once_it_ends(
    server: RedisServer, api: httpx.Client
) -> None:
    first = fit(api)
    point(api, 1)
    gone, unchanged = fit(api, "gone"), fit(api, None)
    for ref in ("spam@champion", "gone", unchanged["id"]):
        assert apply(api, ref)
    server.signal(signal.SIGSTOP)
    until(lambda: is_away(api))
    server.signal(signal.SIGCONT)
    until(lambda: ready(api))
    server.kill()
    until(lambda: is_away(api))
    # Another process changes the registry, of which this one gets no notification.
    server.start()
    with api_of(Settings(server.url)) as other:
        until(lambda: ready(other))
        second = fit(other)
        point(other, 2)
        assert answered(lambda: other.delete("/maps/gone:1")).status_code == 204
        until(lambda: apply(api, "spam@champion") == second["id"])
        until(lambda: ready(api) and not is_away(api))
    server.kill()
    until(lambda: is_away(api))
    # The version that the alias moved to is in memory, although no request was for it.
    assert apply(api, "spam") == apply(api, "spam@champion") == apply(api, "spam:2") == second["id"]
    assert apply(api, "spam:1") == first["id"]
    assert apply(api, unchanged["id"]) == unchanged["id"]
    for ref in ("gone", "gone:1", gone["id"]):
        assert_away(calibrate(api, ref))


def test_a_moved_alias_is_followed_before_the_next_request(server: RedisServer, api: httpx.Client) -> None:
    fit(api)
    point(api, 1)
    apply(api, "spam@champion")
    second = fit(api)["id"]
    point(api, 2)
    # Nothing but the notification makes the process read the new version.
    until(lambda: api.get("/v2/models/spam@champion/versions/2/ready").status_code == 200)
    server.kill()
    until(lambda: is_away(api))
    assert apply(api, "spam@champion") == second


@pytest.mark.slow
def test_a_map_whose_alias_moves_as_the_store_falls_silent_answers_as_last_known(server: RedisServer) -> None:
    with (
        lossy_proxy(server.port) as proxy,
        api_of(Settings(proxy.url)) as api,
        contextlib.closing(connect(server.url)) as redis,
    ):
        until(lambda: ready(api))
        first, second = fit(api), fit(api)
        point(api, 1)
        assert apply(api, "spam@champion") == first["id"]
        assert apply(api, "spam") == second["id"]
        proxy.stop_after(Shared.changes())
        Store.of(redis).aliases.point("spam", "champion", 2, who=None, check=lambda _: None)
        assert proxy.stopped.wait(600)
        headers: set[str] = set()
        while "calibrant-stale" not in headers:
            for ref, held in (("spam@champion", first), ("spam", second)):
                answer = calibrate(api, ref)
                assert (answer.status_code, answer.json().get("map")) == (200, held["id"])
                assert api.post(f"/v2/models/{ref}/infer", json=INFER).status_code == 200
                headers |= set(answer.headers)
        proxy.resume()
        until(lambda: apply(api, "spam@champion") == second["id"])


def test_an_alias_that_moves_between_two_looks_of_a_request_leads_to_its_last_known_map(server: RedisServer) -> None:
    with contextlib.closing(connect(server.url)) as redis, api_of(Settings(server.url)) as api:
        until(lambda: ready(api))
        held_id = fit(api)["id"]
        point(api, 1)
        process, scope = Process(Settings(server.url)), {"state": dict[str, Any]()}
        process.maps.find(Store.of(redis), DEFAULT_TENANT, "spam@champion")
    process.link.resume(0.0)
    assert process.maps.concerns(Invalidation("map", DEFAULT_TENANT, "spam"))
    server.kill()
    assert Context(process, LOCAL, scope).find_map("spam@champion").id == held_id
    assert scope["state"]["stale_seconds"] == 0
    with pytest.raises(StoreUnavailable):
        Context(process, LOCAL, {"state": {}}).find_map("spam@challenger")


@pytest.mark.slow
def test_a_map_of_preload_is_in_memory_before_the_first_request(server: RedisServer, api: httpx.Client) -> None:
    first, second = fit(api), fit(api)
    point(api, 1)
    later = "later@champion"
    with api_of(Settings(server.url, held_maps=2, preload=f"spam@champion, default/{later}")) as other:
        until(lambda: ready(other))
        third = fit(api, "later")
        point(api, 1, name="later")
        until(lambda: other.get(f"/v2/models/{later}/ready").status_code == 200)
        # Maps that requests use do not displace it.
        assert apply(other, fit(api, None)["id"])
        assert apply(other, second["id"])
        server.kill()
        until(lambda: is_away(other))
        assert apply(other, "spam@champion") == first["id"]
        assert apply(other, later) == third["id"]


def test_an_idempotency_key_is_ignored_while_the_store_is_away(server: RedisServer, api: httpx.Client) -> None:
    fit(api)
    point(api, 1)
    until(lambda: "Idempotency-Ignored" not in calibrate(api, "spam", **{"Idempotency-Key": "before"}).headers)
    server.kill()
    until(lambda: is_away(api))
    for key in ("before", "once"):
        answer = calibrate(api, "spam", **{"Idempotency-Key": key})
        assert (answer.status_code, answer.headers["Idempotency-Ignored"]) == (200, "true")
    inferred = api.post("/v2/models/spam/infer", json=INFER, headers={"Idempotency-Key": "once"})
    assert (inferred.status_code, inferred.headers["Idempotency-Ignored"]) == (200, "true")
    assert calibrate(api, "spam", **{"Idempotency-Key": "x" * 256}).status_code == 422
    # Calls that store something are refused, also with a key.
    assert_away(api.post("/batches", json=ROWS, headers={"Idempotency-Key": "once"}))
    server.start()
    until(lambda: ready(api) and not is_away(api))
    for replayed in (None, "true"):
        # On a busy machine the store may seem to be away again for a moment.
        while "Idempotency-Ignored" in (answer := calibrate(api, "spam", **{"Idempotency-Key": "once"})).headers:
            assert answer.status_code == 200
        assert (answer.status_code, answer.headers.get("Idempotency-Replayed")) == (200, replayed)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0, 1])
def test_maps_in_memory_are_applied_for_the_configured_time_alone(server: RedisServer, seconds: int) -> None:
    with api_of(Settings(server.url, serve_stale_seconds=seconds)) as api:
        until(lambda: ready(api))
        fit(api)
        assert apply(api, "spam")
        server.kill()
        until(lambda: calibrate(api, "spam").status_code == 503)
        assert_away(calibrate(api, "spam"))
        assert_away(api.get("/health/ready"))
        server.start()
        until(lambda: calibrate(api, "spam").status_code == 200)


# --- API keys, and the folder


class Keys:
    """Keys of two tenants, which both may write."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        with connect(server.url) as redis:
            store = ApiKeyStore(redis)
            self.own = store.create("own", tenant="a", scope="write")
            self.other = store.create("other", tenant="b", scope="write")

    def headers(self, text: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {text}"}

    def short(self, seconds: int) -> str:
        with connect(self._server.url) as redis:
            return ApiKeyStore(redis).create("short", tenant="a", scope="read", expires_at=stamp(after=seconds)).text

    def revoke(self) -> None:
        with connect(self._server.url) as redis:
            ApiKeyStore(redis).revoke(self.own.record.id)


@pytest.fixture
def keys(server: RedisServer) -> Keys:
    return Keys(server)


def _accepted(api: httpx.Client, keys: Keys) -> dict[str, str]:
    """The headers of a key that was accepted, and expires within seconds: as many as it takes until it is accepted."""
    seconds, statuses, headers = 4, {401}, dict[str, str]()
    while 200 not in statuses:
        headers, ends = keys.headers(keys.short(seconds)), time.time() + seconds
        while 200 not in statuses and time.time() < ends:
            statuses.add(calibrate(api, "spam", **headers).status_code)
        seconds *= 2
    return headers


def is_written(folder: Path, text: str) -> Callable[[], bool]:
    """Whether the folder's state has a text."""
    return lambda: (folder / "state").exists() and text in (folder / "state").read_text()


@pytest.mark.slow
def test_a_key_works_while_the_store_is_away_until_it_expires_or_its_revocation_is_read(
    server: RedisServer, keys: Keys
) -> None:
    with api_of(Settings(server.url, held_maps=4), needs_key=True, **keys.headers(keys.own.text)) as api:
        until(lambda: ready(api))
        fit(api)
        point(api, 1)
        assert apply(api, "spam@champion")
        short = _accepted(api, keys)
        crowd = keys.headers(keys.other.text)
        for name in ("a", "b", "c", "d"):
            body = ROWS | {"method": "identity", "name": name}
            fitted = answered(lambda body=body: api.post("/maps", json=body, headers=crowd)).json()["id"]  # type: ignore[misc]
            assert answered(lambda ref=fitted: calibrate(api, ref, **crowd)).status_code == 200  # type: ignore[misc]
        server.kill()
        until(lambda: is_away(api))
        assert apply(api, "spam@champion")
        until(lambda: calibrate(api, "spam", **short).status_code == 401)
        # Another tenant cannot tell whether there is such a map.
        for ref in ("spam", "nothing"):
            assert_away(calibrate(api, ref, **keys.headers(keys.other.text)))
        assert calibrate(api, "spam", **keys.headers(keys.own.text[:-1])).status_code == 401
        visit = httpx.post(f"{api.base_url}/calibrate", headers={"Cookie": "calibrant=x"}, json={}, timeout=600)
        assert_away(visit)  # sessions are in the store
        assert api.get("/measures").status_code == 200
        assert_away(api.get("/maps"))
        server.start()
        keys.revoke()
        until(lambda: calibrate(api, "spam").status_code == 401)


@pytest.mark.slow
def test_a_process_that_starts_while_the_store_is_away_scores_from_its_folder(
    server: RedisServer, keys: Keys, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "held"
    settings = Settings(server.url, held_folder=str(folder), rate_limit=3)
    own, other = keys.headers(keys.own.text), keys.headers(keys.other.text)
    with api_of(settings, needs_key=True) as api:
        until(lambda: ready(api))
        body = ROWS | {"method": "identity", "name": "spam"}
        mine, theirs = (
            answered(lambda key=key: api.post("/maps", json=body, headers=key)).json()  # type: ignore[misc]
            for key in (own, other)
        )
        for key in (own, other):
            assert answered(lambda key=key: calibrate(api, "spam", **key)).status_code == 200  # type: ignore[misc]
        until(is_written(folder, mine["id"]))
        until(is_written(folder, theirs["id"]))
    server.kill()
    for path in folder.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        for text in (keys.own.text, keys.other.text):
            assert text.split("_", 2)[2] not in path.read_text()
    assert folder.stat().st_mode & 0o777 == 0o700
    with api_of(settings, needs_key=True) as api:
        assert api.get("/health/ready").json()["reason"] == "store-unavailable"
        for ref in ("spam", "spam:1"):
            assert calibrate(api, ref, **own).json()["map"] == mine["id"]
            assert calibrate(api, ref, **other).json()["map"] == theirs["id"]
        assert_away(calibrate(api, theirs["id"], **own))
        while (limited := calibrate(api, "spam", **own)).status_code == 200:  # a minute ended meanwhile
            pass
        assert (limited.status_code, limited.json()["type"]) == (429, "/problems/rate-limited")
        # A key that the earlier process did not know may have been created since.
        assert_away(calibrate(api, "spam", **keys.headers("calk_1_2")))
        assert_away(calibrate(api, "spam"))
        server.start()
        until(lambda: api.get("/health/ready").json() == {"status": "ok"})
        assert answered(lambda: calibrate(api, "spam")).status_code == 401


@pytest.mark.slow
def test_a_process_scores_from_nothing_else_than_a_whole_folder_of_its_store(
    server: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "held"
    settings = Settings(server.url, held_folder=str(folder))
    with api_of(settings) as api:
        until(lambda: ready(api))
        held, damaged = fit(api), fit(api, "damaged")
        assert apply(api, "spam")
        assert apply(api, "damaged")
        until(is_written(folder, held["id"]))
        until(is_written(folder, damaged["id"]))
        # The folder is that of one process.
        with api_of(settings) as second:
            until(lambda: ready(second))
            assert f"{folder} cannot be used" in caplog.text
    server.kill()
    document = next(p for p in folder.iterdir() if damaged["id"] in p.read_text() and p.name != "state")
    document.write_text(document.read_text().replace("damaged", "DAMAGED").replace("identity", "Identity"))
    with api_of(settings) as api:
        assert apply(api, "spam") == held["id"]
        assert_away(calibrate(api, "damaged"))
    with api_of(settings, needs_key=True) as api:  # without API keys, on an address that needs one
        assert_away(calibrate(api, "spam"))
        assert_away(api.get("/health/ready"))
    with api_of(replace(settings, held_folder="")) as api:
        assert_away(calibrate(api, "spam"))
    state = (folder / "state").read_bytes()
    moments = (time.time() - settings.serve_stale_seconds, time.time() + 3600)  # too old, or the clock was set back
    for content in (*(_at(state, moment) for moment in moments), state[:-1], state.replace(b"1", b"2"), b"", b"{}"):
        (folder / "state").write_bytes(content)
        with api_of(settings) as api:
            assert_away(calibrate(api, "spam"))
    assert "damaged" in caplog.text


def _at(state: bytes, moment: float) -> bytes:
    """The whole state of a folder, as of another moment."""
    content = orjson.dumps(orjson.loads(state.partition(b"\n")[2]) | {"as_of": moment})
    return digest_of(content).encode() + b"\n" + content


@pytest.mark.slow
def test_a_folder_of_another_store_is_not_used(server: RedisServer, tmp_path: Path) -> None:
    folder = tmp_path / "held"
    with api_of(Settings(server.url, held_folder=str(folder))) as api:
        until(lambda: ready(api))
        held = fit(api)
        assert apply(api, "spam")
        until(is_written(folder, held["id"]))
    with (
        redis_server(tmp_path / "other", started=False) as other,
        api_of(Settings(other.url, held_folder=str(folder))) as api,
    ):
        assert_away(calibrate(api, "spam"))
