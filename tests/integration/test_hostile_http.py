"""Requests that no client sends: each is answered or cut off, nothing of it comes back, and the service goes on."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from service.stack import Stack


def _sent(url: str, request: bytes, *, ends: bool = True) -> bytes:
    """All that a server answers to these bytes, until it closes; ``ends``: no more bytes follow."""
    parts = urlsplit(url)
    address = str(parts.hostname), parts.port or 80
    with contextlib.closing(socket.create_connection(address, timeout=600)) as connection:
        connection.sendall(request.replace(b"HOST", parts.netloc.encode()))
        if ends:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                received += part
    return received


POST = b"POST /evaluate HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
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
def test_bytes_that_are_not_http_are_refused_or_cut_off(service: Stack, http: httpx.Client, sent: bytes) -> None:
    answer = _sent(service.url, sent)
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:200]
    assert not answer.startswith(b"HTTP/1.1 200") or sent.startswith(b"GET / ")
    assert http.get("/health/live").status_code == 200


ROWS = b'{"predictions":[0.1,0.9],"labels":[0,1]}'
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(ROWS), ROWS)


def _request(*fields: bytes, first: bytes = b"POST /evaluate HTTP/1.1", host: bytes = b"Host: HOST") -> bytes:
    return b"\r\n".join((first, *filter(None, (host, *fields)), b"Connection: close\r\n\r\n"))


TYPE, LENGTH = b"Content-Type: application/json", b"Content-Length: %d" % len(ROWS)
#: A head, the body after it, and the status; each differs from a good request in one thing.
HEADS: dict[str, tuple[bytes, bytes, int]] = {
    "a good request": (_request(TYPE, LENGTH), ROWS, 200),
    "a good request in chunks": (_request(TYPE, b"Transfer-Encoding: Chunked"), CHUNKS, 200),
    "no Host": (_request(TYPE, LENGTH, host=b""), ROWS, 400),
    "two Hosts": (_request(TYPE, LENGTH, b"Host: evil.example"), ROWS, 400),
    "the same Host twice": (_request(TYPE, LENGTH, b"hosT: HOST"), ROWS, 400),
    "a Host with a path": (_request(TYPE, LENGTH, host=b"Host: localhost/x"), ROWS, 400),
    "a Host with a user": (_request(TYPE, LENGTH, host=b"Host: a@localhost"), ROWS, 400),
    "a Host with two values": (_request(TYPE, LENGTH, host=b"Host: localhost, evil.example"), ROWS, 400),
    "two Origins": (_request(TYPE, LENGTH, b"Origin: http://HOST", b"Origin: http://evil.example"), ROWS, 400),
    "two Content-Types": (_request(TYPE, LENGTH, b"Content-Type: text/csv"), ROWS, 400),
    "two Content-Lengths": (_request(TYPE, LENGTH, b"Content-Length: 2"), ROWS, 400),
    "the same Content-Length twice": (_request(TYPE, LENGTH, LENGTH), ROWS, 400),
    "a list of Content-Lengths": (_request(TYPE, LENGTH + b", %d" % len(ROWS)), ROWS, 400),
    "a Content-Length with a sign": (_request(TYPE, b"Content-Length: +%d" % len(ROWS)), ROWS, 400),
    "two Authorizations": (_request(TYPE, LENGTH, b"Authorization: Bearer a", b"Authorization: Bearer b"), ROWS, 400),
    "two Idempotency-Keys": (_request(TYPE, LENGTH, b"Idempotency-Key: a", b"idempotency-key: b"), ROWS, 400),
    "two Cookies": (_request(TYPE, LENGTH, b"Cookie: a=b", b"Cookie: a=c"), ROWS, 400),
    "gzip, then chunks": (_request(TYPE, b"Transfer-Encoding: gzip, chunked"), CHUNKS, 501),
    "gzip, then chunks, in two fields": (
        _request(TYPE, b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"), CHUNKS, 501,
    ),
    "an unknown coding, then chunks": (_request(TYPE, b"Transfer-Encoding: x\t,chunked"), CHUNKS, 501),
    "chunks, then gzip": (_request(TYPE, b"Transfer-Encoding: chunked, gzip"), CHUNKS, 400),
    "chunks twice": (_request(TYPE, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), CHUNKS, 400),
    "gzip without chunks": (_request(TYPE, b"Transfer-Encoding: gzip"), ROWS, 400),
    "an empty coding": (_request(TYPE, b"Transfer-Encoding: "), CHUNKS, 400),
    "a coding and a length": (_request(TYPE, LENGTH, b"Transfer-Encoding: chunked"), CHUNKS, 400),
    "a coding in HTTP/1.0": (
        _request(TYPE, b"Transfer-Encoding: chunked", first=b"POST /evaluate HTTP/1.0"), CHUNKS, 400,
    ),
    "another version": (_request(TYPE, LENGTH, first=b"POST /evaluate HTTP/2.0"), ROWS, 400),
    "a target of another host": (_request(TYPE, LENGTH, first=b"POST http://evil.test/evaluate HTTP/1.1"), ROWS, 403),
    "a target of this host": (_request(TYPE, LENGTH, first=b"POST http://HOST/evaluate HTTP/1.1"), ROWS, 200),
    "a target of this host, with the Host of another": (
        _request(TYPE, LENGTH, first=b"POST http://HOST/evaluate HTTP/1.1", host=b"Host: evil.example"), ROWS, 200,
    ),
    "a target with a user": (_request(TYPE, LENGTH, first=b"POST http://a@HOST/evaluate HTTP/1.1"), ROWS, 400),
    "a target of another scheme": (_request(TYPE, LENGTH, first=b"POST ftp://HOST/evaluate HTTP/1.1"), ROWS, 400),
    "a target with a fragment": (_request(TYPE, LENGTH, first=b"POST /evaluate#/docs HTTP/1.1"), ROWS, 400),
}  # fmt: skip


@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_programs_may_read_differently_is_refused(service: Stack, case: str) -> None:
    head, body, status = HEADS[case]
    answer = _sent(service.url, head + body, ends=False)
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:300]
    assert answer.count(b"HTTP/1.1 ") == 1
    if status in (400, 501):
        assert b"connection: close" in answer
        assert b"evil" not in answer


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
def test_hostile_paths_match_nothing_and_write_no_header(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code in (404, 422)
    assert "set-cookie" not in answer.headers
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize(
    ("name", "text"),
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
def test_hostile_headers_are_ignored_or_refused(http: httpx.Client, name: str, text: bytes) -> None:
    body = {"predictions": [0.1, 0.9], "labels": [0, 1]}
    sent = {name.encode(): text}
    for answer in (http.get("/measures", headers=sent), http.post("/evaluate", json=body, headers=sent)):
        assert answer.status_code < 500
        assert text.decode("latin-1")[:40] not in answer.text
        assert answer.headers["x-request-id"].isascii()
        assert len(answer.headers["x-request-id"]) <= 128
