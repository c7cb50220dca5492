"""What tests read of responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx


def patched(client: httpx.Client, path: str, changes: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """The response to a JSON merge patch."""
    kind = {"Content-Type": "application/merge-patch+json"}
    return client.patch(path, json=changes, headers={**kind, **(headers or {})})


def body_of(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The JSON object of a response with this status."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx.Response) -> tuple[int, str, str]:
    """Status, code and first pointer of a problem document."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "errors"}
    assert body["status"] == response.status_code
    pointer = body["errors"][0]["pointer"] if body["errors"] else ""
    return response.status_code, body["type"].removeprefix("/problems/"), pointer
