"""The token of a client, which replaces its key."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from calibrant.client import AsyncCalibrant, Calibrant


def _seen(requests: list[httpx.Request]) -> httpx.MockTransport:
    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"limits": {}, "used": {}})

    return httpx.MockTransport(respond)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "ü", "a\x00"])
def test_a_client_refuses_a_token_that_is_no_header_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match="the token must consist of visible ASCII characters"):
        Calibrant(token=text)
    with (
        Calibrant(token=lambda: text, transport=_seen([])) as client,
        pytest.raises(ValueError, match="the token must consist of visible ASCII characters"),
    ):
        client.limits()


def test_a_client_takes_a_key_or_a_token_and_a_token_precedes_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALIBRANT_API_KEY", "calk_of_the_environment")
    with pytest.raises(ValueError, match="pass api_key or token, not both"):
        Calibrant(api_key="calk_a_b", token="a.b.c")
    for token in ("a.b.c", lambda: "a.b.c"):
        requests: list[httpx.Request] = []
        with Calibrant(token=token, transport=_seen(requests)) as client:
            client.limits()
            assert "a.b.c" not in repr(client)
        assert [request.headers["Authorization"] for request in requests] == ["Bearer a.b.c"]


def test_a_function_that_returns_no_text_is_refused() -> None:
    with (
        Calibrant(token=lambda: None, transport=_seen([])) as client,  # type: ignore[arg-type, return-value]
        pytest.raises(TypeError, match="token must return a text; it returned NoneType"),
    ):
        client.limits()


async def test_an_asynchronous_client_awaits_its_token() -> None:
    async def source() -> str:
        await asyncio.sleep(0)
        return "a.b.c"

    requests: list[httpx.Request] = []
    for token in (source, lambda: "a.b.c", "a.b.c"):
        async with AsyncCalibrant(token=token, transport=_seen(requests)) as client:
            await client.limits()
    assert [request.headers["Authorization"] for request in requests] == ["Bearer a.b.c"] * 3
