"""What one request may take: time, and a place for heavy work."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from redis import Redis

from service.settings import Settings
from tests.integration.conftest import one_place_taken, own_service, serving
from tests.integration.redis_server import until, until_ready
from tests.integration.responses import code_of
from tests.integration.sockets import answer_of, begun

pytestmark = pytest.mark.slow


@pytest.fixture
def strict(redis: Redis, redis_url: str) -> Iterator[str]:
    """A service with a short deadline."""
    with serving(Settings(redis_url, request_timeout=1.5)) as url:
        yield url


def test_a_body_that_stops_gets_408_and_its_connection_is_closed(strict: str) -> None:
    with begun(f"{strict}/evaluate", 1_000, b'{"predictions": [') as connection:
        answer = answer_of(connection)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"/problems/request-timeout" in answer
    assert httpx.get(f"{strict}/health/live", timeout=600).status_code == 200


def test_heavy_requests_beyond_the_places_get_503_and_light_ones_are_served(redis: Redis, redis_url: str) -> None:
    p = np.random.default_rng(3).random(200_000)
    rows = {"predictions": p.tolist(), "labels": (p > 0.5).astype(int).tolist()}
    light = {"predictions": [0.1, 0.9], "labels": [0, 1]}
    with serving(Settings(redis_url, max_heavy_requests=1, max_waiting_requests=0, store_timeout=600)) as url:
        with one_place_taken(redis, url):
            refused = httpx.post(f"{url}/evaluate", json=rows, timeout=600)
            assert code_of(refused) == (503, "busy")
            assert refused.headers["retry-after"]
            assert httpx.post(f"{url}/evaluate", json=light, timeout=600).status_code == 200
        # The first request's place is free again.
        assert httpx.post(f"{url}/evaluate", json=rows, timeout=600).status_code == 200


def test_pages_of_an_allowed_origin_may_call_and_no_other(redis: Redis, redis_url: str) -> None:
    with serving(Settings(redis_url, cors_origins="https://app.example, https://other.example")) as url:
        for origin, status in (("https://app.example", 200), ("https://evil.example", 403)):
            answer = httpx.get(f"{url}/measures", headers={"Origin": origin}, timeout=600)
            assert answer.status_code == status
            assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)
        preflight_headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
        preflight = httpx.options(f"{url}/evaluate", headers=preflight_headers, timeout=600)
        assert preflight.status_code == 200
        assert "POST" in preflight.headers["access-control-allow-methods"]


@pytest.mark.parametrize(("proxies", "status"), [("", 200), ("127.0.0.1", 403)])
def test_a_forwarded_address_is_believed_of_a_trusted_proxy_alone(
    redis: Redis, redis_url: str, proxies: str, status: int
) -> None:
    forwarded = {"X-Forwarded-For": "203.0.113.7"}
    with serving(Settings(redis_url, trusted_proxies=proxies)) as url:
        # Without keys this machine alone is served, and a proxy says that another asks.
        assert httpx.get(f"{url}/measures", headers=forwarded, timeout=600).status_code == status


@pytest.mark.parametrize("probes", [True, False])
def test_the_port_stays_open_after_sigterm_until_a_readiness_probe_has_failed(folder: Path, probes: bool) -> None:
    # Without a probe the time limit counts.
    with own_service(folder / "unready", {"CALIBRANT_UNREADY_SECONDS": "600" if probes else "0.5"}) as running:
        until_ready(running.url)
        running.api.terminate()
        if probes:
            # Each needs a connection of its own.
            assert httpx.get(f"{running.url}/measures", timeout=600).status_code == 200
            until(lambda: httpx.get(f"{running.url}/health/ready", timeout=600).status_code == 503)
        assert running.api.wait(600) == -signal.SIGTERM


def test_a_request_under_way_is_answered_after_sigterm(folder: Path) -> None:
    body = b'{"predictions": [0.1, 0.9], "labels": [0, 1]}'
    with (
        own_service(folder / "drain") as running,
        begun(f"{running.url}/evaluate", len(body), body[:10]) as connection,
    ):
        # The first part has been read once a later request is answered.
        assert httpx.get(f"{running.url}/health/ready", timeout=600).status_code == 200
        running.api.terminate()
        connection.sendall(body[10:])
        assert answer_of(connection).startswith(b"HTTP/1.1 200 ")
        # uvicorn ends by the signal itself, once everything is answered.
        assert running.api.wait(600) == -signal.SIGTERM
