"""Sending what changes something: once, however often the connection breaks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

import httpx

#: How often a request is sent, and the seconds between two times where the server does not say.
TRIES, PAUSE = 4, 0.25
#: The most that a server's Retry-After is followed.
_LONGEST_PAUSE = 5.0


def post(
    http: httpx.Client,
    path: str,
    content: bytes | None,
    headers: Mapping[str, str],
    *,
    query: Mapping[str, str] | None = None,
    key: str | None = None,
) -> httpx.Response:
    """Post under an idempotency key, ``key`` or a fresh one; again where no answer came, or none could be given yet."""
    named = {**headers, "Idempotency-Key": uuid.uuid4().hex if key is None else key}
    for left in reversed(range(TRIES)):
        try:
            response = http.post(path, params=query, content=content, headers=named)
        except httpx.TransportError:
            if left == 0:
                raise
            time.sleep(PAUSE)
        else:
            if left == 0 or not _is_early(response):
                return response
            time.sleep(pause_of(response))
    raise AssertionError  # the last time returned or raised


def pause_of(response: httpx.Response) -> float:
    """Seconds that a server wants to be left alone."""
    told = response.headers.get("Retry-After", "")
    return min(float(told), _LONGEST_PAUSE) if told.isdigit() else PAUSE


def _is_early(response: httpx.Response) -> bool:
    return response.status_code in (409, 503) and "Retry-After" in response.headers
