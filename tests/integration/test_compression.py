"""Compressed responses: which, by which coding, and with which headers."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import zstandard

from service.compression import LEAST_BYTES, choose_coding
from tests.integration.responses import patched

ROWS: dict[str, Any] = {"predictions": [0.1, 0.4, 0.6, 0.9] * 500, "labels": [0, 0, 1, 1] * 500}
PLAIN: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "zstd": lambda packed: zstandard.ZstdDecompressor().decompressobj().decompress(packed),
}


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", None),
        ("identity", None),
        ("br, deflate", None),
        ("gzip", "gzip"),
        ("GZIP", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=1, zstd;q=0.9", "gzip"),
        ("gzip;q=0.5, zstd;q=0.5", "zstd"),
        ("gzip;q=0", None),
        ("gzip;q=0.0, zstd;q=0.000", None),
        ("*", "zstd"),
        ("*;q=0", None),
        ("zstd;q=0, *", "gzip"),
        ("gzip;q=0, zstd;q=0, *", None),
        ("gzip;q=0.5, identity;q=0.8", None),
        ("gzip;q=0.8, identity;q=0.5", "gzip"),
        ("identity;q=0", None),
        ("gzip;q=2", None),
        ("gzip;q=x", None),
        ("gzip;q=nan", None),
        (",;,=,;q", None),
        ("gzip, " * 2000, "gzip"),
    ],
)
def test_the_coding_of_the_highest_quality_is_chosen(header: str, coding: str | None) -> None:
    assert choose_coding(header) == coding


def _raw(http: httpx.Client, method: str, path: str, accept: str, **options: Any) -> tuple[httpx.Response, bytes]:
    headers = {**options.pop("headers", {}), "Accept-Encoding": accept}
    with http.stream(method, path, headers=headers, **options) as response:
        return response, b"".join(response.iter_raw())


def _map(http: httpx.Client) -> str:
    record = http.post("/maps", json=ROWS | {"method": "isotonic"}).raise_for_status().json()
    return f"/maps/{record['id']}"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("path", ["/openapi.json", "/measures", "/assets/report.css", "/docs"])
def test_a_compressed_body_is_the_plain_one(http: httpx.Client, path: str, coding: str) -> None:
    plain, expected = _raw(http, "GET", path, "identity")
    packed, body = _raw(http, "GET", path, coding)
    if len(expected) < LEAST_BYTES:
        assert "content-encoding" not in packed.headers
        return
    assert (plain.headers.get("content-encoding"), packed.headers["content-encoding"]) == (None, coding)
    assert PLAIN[coding](body) == expected
    assert len(body) < len(expected)
    assert packed.headers["content-length"] == str(len(body))
    for response in (plain, packed):
        assert "accept-encoding" in response.headers["vary"].lower()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_streamed_response_is_compressed_in_pieces(http: httpx.Client, coding: str) -> None:
    rows = {"map": _map(http).rpartition("/")[2], "predictions": ROWS["predictions"] * 100}
    _, expected = _raw(http, "POST", "/calibrate", "identity", json=rows)
    packed, body = _raw(http, "POST", "/calibrate", coding, json=rows)
    assert PLAIN[coding](body) == expected
    assert {part.strip() for part in packed.headers["vary"].split(",")} == {"Accept", "Accept-Encoding"}
    assert packed.headers["calibrant-map"] == rows["map"]


def test_small_and_binary_responses_are_not_compressed(http: httpx.Client) -> None:
    map_id = _map(http).rpartition("/")[2]
    small, body = _raw(http, "POST", "/calibrate", "gzip, zstd", json={"map": map_id, "predictions": [0.2]})
    assert "content-encoding" not in small.headers
    assert body.startswith(b"{")
    for kind in ("application/x-npz", "application/vnd.apache.arrow.stream"):
        rows = {"map": map_id, "predictions": ROWS["predictions"]}
        binary, _ = _raw(http, "POST", "/calibrate", "gzip, zstd", json=rows, headers={"Accept": kind})
        assert "content-encoding" not in binary.headers
    png, _ = _raw(http, "GET", f"/maps/{map_id}/diagram.png", "gzip, zstd")
    assert "content-encoding" not in png.headers


def test_events_are_sent_at_once(http: httpx.Client) -> None:
    queued = http.post("/maps", json=ROWS | {"method": "isotonic"}, headers={"Prefer": "respond-async"})
    stream, body = _raw(http, "GET", f"/jobs/{queued.json()['id']}/events", "gzip, zstd")
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in stream.headers
    assert b"event: status" in body


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_each_coding_has_its_own_entity_tag(http: httpx.Client, coding: str) -> None:
    path = _map(http)
    plain, _ = _raw(http, "GET", path, "identity")
    packed, _ = _raw(http, "GET", path, coding)
    tag, own = plain.headers["etag"], packed.headers["etag"]
    assert own == f'{tag[:-1]}-{coding}"'
    for sent in (own, f'"x", {own}', f"W/{own}", "*"):
        unchanged, body = _raw(http, "GET", path, coding, headers={"If-None-Match": sent})
        assert (unchanged.status_code, body) == (304, b"")
        assert unchanged.headers["etag"] == (tag if sent == "*" else own)
        assert "accept-encoding" in unchanged.headers["vary"].lower()
    other, _ = _raw(http, "GET", path, "identity", headers={"If-None-Match": own})
    assert other.status_code == 200


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_the_tag_of_any_coding_allows_a_change(http: httpx.Client, coding: str) -> None:
    path = _map(http)
    response, _ = _raw(http, "GET", path, coding)
    tag = response.headers["etag"]
    assert patched(http, path, {"description": "new"}, {"If-Match": tag}).status_code == 200
    assert patched(http, path, {"description": "newer"}, {"If-Match": tag}).status_code == 412


def test_a_response_to_head_has_no_body_and_names_what_it_depends_on(http: httpx.Client) -> None:
    response, body = _raw(http, "HEAD", "/openapi.json", "gzip")
    assert body == b""
    assert "accept-encoding" in response.headers["vary"].lower()


def test_a_replayed_response_is_compressed_for_its_caller(http: httpx.Client) -> None:
    headers = {"Idempotency-Key": "compressed-once"}
    body = ROWS | {"method": "isotonic"}
    first, once = _raw(http, "POST", "/maps", "identity", json=body, headers=headers)
    again, two = _raw(http, "POST", "/maps", "gzip", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert gzip.decompress(two) == once
