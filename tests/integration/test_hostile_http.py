"""Requests that no client sends: each is answered or cut off, nothing of it comes back, and the service goes on."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from service.stack import Stack


def _sent(url: str, data: bytes) -> bytes:
    """All that a server answers to these bytes, until it closes or falls silent."""
    parts = urlsplit(url)
    with contextlib.closing(socket.create_connection((str(parts.hostname), parts.port or 80), timeout=5)) as connection:
        connection.sendall(data.replace(b"HOST", parts.netloc.encode()))
        connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(TimeoutError, ConnectionResetError):
            while part := connection.recv(65536):
                received += part
    return received


POST = b"POST /evaluate HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 10_000,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: HOST\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(20_000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: HOST\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}{}{}",
        POST + b"Content-Length: -5\r\n\r\n{}",
        POST + b"Content-Length: 99999999999999999999\r\n\r\n{}",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 100\r\n\r\n{",
    ],
)
def test_what_is_not_http_is_refused_or_cut_off(service: Stack, http: httpx.Client, data: bytes) -> None:
    answer = _sent(service.url, data)
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:200]
    assert not answer.startswith(b"HTTP/1.1 200") or data.startswith(b"GET / ")
    assert http.get("/health/live").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/maps/x%0d%0aSet-Cookie:%20a=b",
        "/maps/x%0aX-Injected:%201/document",
        "/jobs/%0d%0aX-Injected:%201/events",
        "/batches/..%2f..%2fetc%2fpasswd",
        "/maps/%2e%2e/%2e%2e/metrics",
        "/maps/%00",
        "/maps/" + "%f0%9f%92%a9" * 50,
        "/problems/..%2f..%2fpyproject.toml",
        "/assets/..%2f..%2fsettings.py",
        "/assets/%2e%2e/%2e%2e/app.py",
        "/assets//etc/passwd",
    ],
)
def test_tricks_in_paths_find_nothing_and_write_no_header(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code in (404, 422)
    assert "set-cookie" not in answer.headers
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Request-Id", b"a\tb"),
        ("X-Request-Id", b"\xff" * 10),
        ("X-Request-Id", b"a" * 5_000),
        ("Accept", b"\xff/*;q=nan"),
        ("Prefer", b"wait=" + b"9" * 400),
        ("Prefer", b'wait="' + b"\\" * 900),
        ("If-None-Match", b'"' * 999),
        ("Idempotency-Key", b"\xe9"),
        ("Last-Event-ID", b"../../x"),
        ("Content-Encoding", b"gzip, gzip, br"),
        ("traceparent", b"00-" + b"f" * 900),
        ("Authorization", b"Bearer \xff\xfe"),
    ],
)
def test_tricks_in_headers_are_passed_over_or_refused(http: httpx.Client, name: str, value: bytes) -> None:
    body = {"predictions": [0.1, 0.9], "labels": [0, 1]}
    sent = {name.encode(): value}
    for answer in (http.get("/measures", headers=sent), http.post("/evaluate", json=body, headers=sent)):
        assert answer.status_code < 500
        assert value.decode("latin-1")[:40] not in answer.text
        assert answer.headers["x-request-id"].isascii()
        assert len(answer.headers["x-request-id"]) <= 128
