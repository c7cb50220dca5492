"""What the clients do about servers and networks that fail, on a real server that fails as planned."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import time
import traceback
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from calibrant.client import AsyncCalibrant, Calibrant, ProblemResponse
from calibrant.client.packing import pack, unpack
from tests.integration.clients import Kind, connected
from tests.integration.failing_server import Reply, failing

SECRET = "ck_do-not-tell-anybody"
KINDS = pytest.mark.parametrize("kind", ["sync", "async"])
CUT = Reply(None)
PROBLEM = b'{"type": "/problems/queue-full", "title": "Full", "status": 503, "detail": "d"}'
FULL = Reply(503, PROBLEM, {"Retry-After": "0"})
ALIAS = b'{"name": "a", "alias": "b", "version": 1, "map": "map_1", "revision": 1, "updated_at": "t", "later": 1}'
CHANGES: list[tuple[str, Callable[[Calibrant], object], bytes]] = [
    ("POST", lambda client: client.append("b", [0.5]), b""),
    ("PUT", lambda client: client.alias("a", "b", 1), ALIAS),
    ("PATCH", lambda client: client.describe("a", tags={"x": None}), b""),
    ("DELETE", lambda client: client.delete_map("a:1"), b""),
]


@KINDS
@pytest.mark.parametrize(("method", "call", "answer"), CHANGES, ids=[change[0] for change in CHANGES])
def test_a_change_is_sent_again_under_its_key_until_it_is_answered(
    kind: Kind, method: str, call: Callable[[Calibrant], object], answer: bytes
) -> None:
    with failing(CUT, FULL, FULL, Reply(200, answer)) as server, connected(kind, server.url) as client:
        with contextlib.suppress(ProblemResponse):  # the answers of some are no documents
            call(client)
        assert [asked.method for asked in server.asked] == [method] * 4
        assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1
        assert len({asked.body for asked in server.asked}) == 1


@KINDS
def test_a_read_is_sent_again_and_has_no_key(kind: Kind) -> None:
    listed = Reply(200, b'{"items": [], "next": null}')
    with failing(FULL, CUT, listed) as server, connected(kind, server.url) as client:
        assert list(client.jobs()) == []
        assert len(server.asked) == 3
        assert not any("idempotency-key" in asked.headers for asked in server.asked)


@KINDS
def test_calibration_stores_nothing_and_is_sent_again_without_a_key(kind: Kind) -> None:
    predictions = np.array([0.25, 0.5], np.float32)
    calibrated = Reply(200, pack({"predictions": np.array([0.5, 1.0])}))
    with failing(CUT, FULL, calibrated) as server, connected(kind, server.url) as client:
        assert client.calibrate("a", predictions).tolist() == [0.5, 1.0]
        assert not any("idempotency-key" in asked.headers for asked in server.asked)
        sent = np.load(io.BytesIO(server.asked[-1].body), allow_pickle=False)
        assert (sent.dtype, sent.tolist()) == (np.float32, predictions.tolist())


@KINDS
def test_tries_and_time_are_bounded(kind: Kind) -> None:
    with failing(FULL) as server, connected(kind, server.url, tries=2) as client:
        with pytest.raises(ProblemResponse, match="503 Full: d"):
            client.ready()
        assert len(server.asked) == 2
    with failing(CUT) as server, connected(kind, server.url, tries=2) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            client.ready()
        assert len(server.asked) == 2
    later = FULL._replace(headers={"Retry-After": "300"})
    with failing(later) as server, connected(kind, server.url, timeout=60.0) as client:
        began = time.monotonic()
        with pytest.raises(ProblemResponse):
            client.ready()
        assert len(server.asked) == 1
        assert time.monotonic() - began < 60
    with connected(kind, server.url, tries=2) as client, pytest.raises(httpx.ConnectError) as away:
        client.ready()
    assert away.value.__notes__ == [f"no answer from the server {server.url}; check its URL, and that it is running"]


@KINDS
@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"url": 8000}, ValueError, "the URL of the server must begin with http"),
        ({"timeout": None}, ValueError, "timeout must be a finite number of seconds above 0"),
        ({"timeout": "60"}, ValueError, "timeout must be a finite number of seconds above 0"),
        ({"timeout": float("inf")}, ValueError, "timeout must be a finite number of seconds above 0"),
        ({"tries": 1.5}, ValueError, "tries must be an integer of at least 1"),
        ({"verify": False}, TypeError, "verify must be an ssl.SSLContext; for a certificate authority"),
        ({"verify": "ca.pem"}, TypeError, "verify must be an ssl.SSLContext; for a certificate authority"),
    ],
)
def test_options_of_a_client_are_checked_at_once(
    kind: Kind, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        (Calibrant if kind == "sync" else AsyncCalibrant)(**options)


@KINDS
def test_the_key_is_sent_and_never_shown(kind: Kind, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    elsewhere = Reply(307, b"", {"Location": "http://127.0.0.1:1/health/ready"})
    with failing(elsewhere, Reply(401, b"no")) as server, connected(kind, server.url, api_key=SECRET) as client:
        said = [repr(client)]
        for _ in range(2):
            with pytest.raises(ProblemResponse) as refusal:
                client.ready()
            said += ["".join(traceback.format_exception(refusal.value)), repr(refusal.value), repr(vars(refusal.value))]
        assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {SECRET}"] * 2
        assert server.asked[0].headers["user-agent"].startswith("calibrant-client/")
    with connected(kind, server.url, api_key=SECRET, tries=1) as client, pytest.raises(httpx.TransportError) as broken:
        client.ready()
    said += ["".join(traceback.format_exception(broken.value)), repr(broken.value.request.headers), caplog.text]
    for client_kind in (Calibrant, AsyncCalibrant):
        with pytest.raises(ValueError, match="visible ASCII") as unsendable:
            client_kind(server.url, api_key=SECRET + "\n")
        said.append("".join(traceback.format_exception(unsendable.value, limit=0)))
    assert not any(SECRET in text for text in said)


@KINDS
def test_server_and_key_default_to_the_environment(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    with failing(Reply(200, b'{"status": "ok"}')) as server:
        monkeypatch.setenv("CALIBRANT_SERVER", server.url)
        monkeypatch.setenv("CALIBRANT_API_KEY", SECRET)
        for options in ({}, {"api_key": "another"}, {"api_key": ""}):
            client_url: str = None  # type: ignore[assignment]
            with connected(kind, client_url, **options) as client:
                client.ready()
        assert [asked.headers.get("authorization") for asked in server.asked] == [
            f"Bearer {SECRET}",
            "Bearer another",
            None,
        ]
    with pytest.raises(ValueError, match="http:// or https://"), connected(kind, "ftp://127.0.0.1"):
        pass


@KINDS
def test_arrays_and_their_options_travel_as_npz_and_a_query(kind: Kind) -> None:
    with failing(Reply(422, b"")) as server, connected(kind, server.url) as client:
        measures: list[str | dict[str, Any]] = ["ece", {"name": "ece", "n_bins": np.int64(5), "as": "five"}]
        with pytest.raises(ProblemResponse):
            client.evaluate(
                predictions=np.array([0.5, 1], np.float32), labels=[True, False], measures=measures, interval=0.9
            )
        [asked] = server.asked
        arrays = unpack(asked.body)
        assert {name: array.dtype.str for name, array in arrays.items()} == {"predictions": "<f4", "labels": "|u1"}
        assert dict(httpx.URL(asked.path).params) == {
            "measures": '["ece",{"name":"ece","n_bins":5,"as":"five"}]',
            "interval": "0.9",
        }


@KINDS
def test_a_name_stays_within_its_part_of_the_path(kind: Kind) -> None:
    with failing(Reply(404, b"")) as server, connected(kind, server.url) as client:
        with pytest.raises(ProblemResponse):
            client.map("../jobs/x?y#z")
        assert server.asked[0].path == "/maps/..%2Fjobs%2Fx%3Fy%23z"


@KINDS
def test_a_response_of_another_server_is_reported_as_such(kind: Kind) -> None:
    with failing(Reply(200, b"<html>hello")) as server, connected(kind, server.url) as client:
        calls: list[Callable[[], object]] = [client.ready, client.measures]
        calls += [lambda: client.calibrate("x", [0.5]), lambda: client.export_map("x")]
        for call in calls:
            with pytest.raises(ProblemResponse, match="200 Unexpected response"):
                call()
        with pytest.raises(ProblemResponse, match="Unexpected response"):
            client.report_html("batch_1")


def test_a_cancelled_task_leaves_at_once_while_it_waits_to_try_again() -> None:
    async def left() -> float:
        with failing(FULL._replace(headers={"Retry-After": "300"})) as server:
            async with AsyncCalibrant(server.url) as client:
                waiting = asyncio.create_task(client.ready())
                while not server.asked:
                    await asyncio.sleep(0)
                began = time.monotonic()
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                return time.monotonic() - began

    assert asyncio.run(left()) < 60
