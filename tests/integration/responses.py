"""What tests read of responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from calibrant.client import Calibrant
from tests.known import known


def patched(client: httpx.Client, path: str, changes: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
    """The response to a JSON merge patch."""
    kind = {"Content-Type": "application/merge-patch+json"}
    return client.patch(path, json=changes, headers={**kind, **(headers or {})})


def body_of(response: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The JSON object of a response with this status."""
    assert response.status_code == status, response.text
    body: dict[str, Any] = response.json()
    return body


def result_of(client: Calibrant, response: httpx.Response) -> dict[str, Any]:
    """The result of the job that a request became."""
    return known(client.wait(body_of(response, 202)["id"], timeout=600).result)


def text_of(response: httpx.Response, status: int = 200) -> str:
    """The text of a response with this status, such as a page."""
    assert response.status_code == status, response.text
    return response.text


def code_of(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem document."""
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("/problems/")


def problem_of(response: httpx.Response) -> tuple[int, str, str]:
    """Status, code and first place of a problem document: a pointer, ``?parameter`` or ``header:``."""
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "errors"}
    assert body["status"] == response.status_code
    places = [place_of(error) for error in body["errors"]]
    if places and not body["detail"].startswith("/"):
        named = places[0].strip("?:") or ("the query" if places[0] == "?" else "the body")
        assert body["detail"].startswith(f"{named}: ") or "/" in body["detail"].partition(": ")[0]
    return response.status_code, body["type"].removeprefix("/problems/"), places[0] if places else ""


def place_of(error: Mapping[str, Any]) -> str:
    """The only place of an error of a problem document: a pointer, ``?parameter`` or ``header:``."""
    (kind,) = error.keys() - {"detail"}
    place: str = error[kind]
    return {"pointer": place, "parameter": f"?{place}", "header": f"{place}:"}[kind]
