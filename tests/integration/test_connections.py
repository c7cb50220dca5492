"""What a connection may send before its request is read: bounded in bytes, in number and in time."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest

from benchmarks.http.load import peak_bytes, reset_peak
from service import connections
from service.settings import Settings
from service.stack import Stack
from tests.integration.conftest import serving
from tests.integration.sockets import answer_of, connection_to, received_until

MIB = 1024 * 1024
GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
LAST = b"Connection: close\r\n"
ROWS = b'{"predictions": [0.1, 0.9], "labels": [0, 1]}'
CHUNK = b"%x\r\n%s\r\n" % (len(ROWS), ROWS)
#: What Java's HttpClient sends with its first request to an http:// address.
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAA\r\n"


def _sent(url: str, head: bytes) -> bytes:
    """The answer to these bytes, of which the server may take no more than it likes."""
    with connection_to(url) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(head)
        return answer_of(connection)


def _status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + b"a:b\r\n" * (8 * MIB // 5), 431),
        (GET + b"X: " + b"a" * 8 * MIB, 431),
        (GET + b"X:" + b" " * 8 * MIB, 431),
        (GET + b"a" * 8 * MIB, 431),
        (b"\r\n" * 4 * MIB, 431),
        (b"GET /" + b"a" * 8 * MIB, 414),
        (b"GET /?" + b"a=b&" * 2 * MIB, 414),
        (CHUNKED + b"\r\n5;name=" + b"a" * 8 * MIB, 431),
        (CHUNKED + b"\r\n" + (b"1;" + b"a" * 1000 + b"\r\n \r\n") * 8000, 431),
        (CHUNKED + b"\r\n" + CHUNK + b"0\r\n" + b"a:b\r\n" * (8 * MIB // 5), 431),
        (CHUNKED + b"\r\n" + CHUNK + b"0\r\nX: " + b"a" * 8 * MIB, 431),
    ],
    ids=(
        "headers header spaces name empty-lines path query extension extensions trailers trailer".split()  # noqa: SIM905
    ),
)
def test_a_head_without_end_is_refused_and_the_connection_closed(service: Stack, head: bytes, status: int) -> None:
    answer = _sent(service.url, head)
    assert _status(answer) == status
    assert b"connection: close" in answer
    assert b"/problems/" + {414: b"url-too-long", 431: b"headers-too-large"}[status] in answer
    assert httpx.get(f"{service.url}/health/live", timeout=600).status_code == 200


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + LAST + b"X: " + b"a" * (64 * 1024 - 60) + b"\r\n\r\n", 200),
        (GET + LAST + b"X: " + b"a" * 64 * 1024 + b"\r\n\r\n", 431),
        (GET + LAST + b"a: b\r\n" * 98 + b"\r\n", 200),
        (GET + LAST + b"a: b\r\n" * 99 + b"\r\n", 431),
        (b"GET /" + b"a" * (16 * 1024 - 1) + b" HTTP/1.1\r\nHost: localhost\r\n" + LAST + b"\r\n", 404),
        (b"GET /" + b"a" * 16 * 1024 + b" HTTP/1.1\r\nHost: localhost\r\n" + LAST + b"\r\n", 414),
        (CHUNKED + LAST + b"\r\n" + CHUNK[:2] + b";name=value" + CHUNK[2:] + b"0\r\nX: y\r\n\r\n", 200),
        (CHUNKED + LAST + b"\r\n" + CHUNK + b"0\r\n" + b"a: b\r\n" * 100 + b"\r\n", 200),
        (CHUNKED + LAST + b"\r\n" + CHUNK + b"0\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
        (CHUNKED + LAST + b"\r\n" + CHUNK + b"0\r\nX: " + b"a" * 64 * 1024 + b"\r\n\r\n", 431),
        (CHUNKED + LAST + b"\r\n" + b"".join(b"1\r\n%c\r\n" % c for c in ROWS + b" " * 20_000) + b"0\r\n\r\n", 200),
    ],
    ids=[
        "header",
        "larger-header",
        "headers",
        "more-headers",
        "url",
        "longer-url",
        "extension",
        "trailers",
        "more-trailers",
        "larger-trailer",
        "chunks",
    ],
)
def test_the_bounds_of_a_head_are_64_kib_100_headers_and_16_kib_of_url(
    service: Stack, head: bytes, status: int
) -> None:
    assert _status(_sent(service.url, head)) == status


@pytest.mark.parametrize(
    "framing", [b"Transfer-Encoding: gzip\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n"]
)
def test_a_body_of_no_known_length_behind_an_upgrade_is_refused(service: Stack, framing: bytes) -> None:
    assert _status(_sent(service.url, POST + H2C + framing + b"\r\n{}")) == 400


def test_a_refused_head_under_v2_is_answered_as_an_error_of_that_protocol(service: Stack) -> None:
    assert _sent(service.url, b"GET /v2/" + b"a" * MIB).endswith(b'{"error":"the URL may have at most 16384 bytes"}')


@pytest.mark.slow
def test_memory_stays_flat_while_headers_without_end_are_sent(service: Stack) -> None:
    _sent(service.url, GET + b"a:b\r\n" * 1000)  # what a first refusal loads is not counted
    reset_peak(service.api.pid)
    before = peak_bytes(service.api.pid)
    for _ in range(4):
        assert _status(_sent(service.url, GET + b"a:b\r\n" * 8 * MIB)) == 431
    assert peak_bytes(service.api.pid) - before < 16 * MIB


def test_others_have_their_turn_while_chunks_of_one_byte_are_parsed(service: Stack) -> None:
    chunks = b"1\r\n \r\n" * 500_000 + b"0\r\n\r\n"
    with connection_to(service.url) as connection, httpx.Client(timeout=600) as client:
        connection.sendall(CHUNKED.replace(b"/evaluate", b"/nowhere") + b"\r\n")
        # Nobody waits for the rest of the body, so all of it is parsed at once.
        assert _status(received_until(connection)) == 404
        sender = threading.Thread(target=connection.sendall, args=(chunks + GET + b"\r\n",))
        sender.start()
        answered = 0
        while not select.select([connection], [], [], 0)[0]:
            answered += client.get(f"{service.url}/health/live").status_code == 200
        sender.join()
        assert _status(connection.recv(65536)) == 200
    assert answered > 2


def test_a_trailer_changes_no_header_of_the_request(service: Stack) -> None:
    trailer = b"Content-Type: text/csv\r\nAuthorization: Bearer of-a-stranger\r\n"
    answer = _sent(service.url, CHUNKED + LAST + b"\r\n" + CHUNK + b"0\r\n" + trailer + b"\r\n")
    assert _status(answer) == 200
    assert b'"measures"' in answer


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: %d\r\n\r\n" % len(ROWS) + ROWS, b"Transfer-Encoding: chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n"],
    ids=["length", "chunked"],
)
@pytest.mark.parametrize("split", [0, 3, 40])
def test_an_upgrade_that_is_offered_beside_a_body_is_not_taken_up(service: Stack, body: bytes, split: int) -> None:
    request = POST + H2C + body
    with connection_to(service.url) as connection:
        cut = len(request) - split
        connection.sendall(request[:cut])
        connection.sendall(request[cut:] + GET + LAST + b"\r\n")
        answer = answer_of(connection)
    assert answer.count(b"HTTP/1.1 200 OK") == 2, answer
    assert b'"measures"' in answer


def test_a_request_without_a_body_that_offers_an_upgrade_is_answered_too(service: Stack) -> None:
    answer = _sent(service.url, GET + H2C + b"\r\n" + GET + LAST + b"\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2, answer


def test_a_tunnel_is_refused_and_nothing_behind_it_is_read(service: Stack) -> None:
    answer = _sent(service.url, b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + GET + b"\r\n")
    assert _status(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1


def test_some_requests_may_wait_for_the_answer_to_the_one_before(service: Stack) -> None:
    answer = _sent(service.url, (GET + b"\r\n") * 20 + GET + LAST + b"\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 21


def test_a_head_behind_a_large_body_is_read_and_bounded_like_the_first(service: Stack) -> None:
    body = ROWS + b" " * 400_000
    first = POST + b"Content-Length: %d\r\n\r\n" % len(body) + body
    answers = _sent(service.url, first + first + GET + LAST + b"\r\n")
    assert [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]] == [200, 200, 200]
    answers = _sent(service.url, first + GET + b"a:b\r\n" * 200 + b"\r\n")  # ends the connection
    assert [int(part[:3]) for part in answers.split(b"HTTP/1.1 ")[1:]] == [200]


def test_a_flood_of_requests_on_one_connection_is_cut_off_behind_those_that_wait(service: Stack) -> None:
    answer = _sent(service.url, (GET + b"\r\n") * 10_000)
    assert 1 <= answer.count(b"HTTP/1.1 200 OK") <= 40
    assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200 OK")


@pytest.mark.slow
def test_a_refused_second_request_does_not_affect_the_first_response(service: Stack) -> None:
    first = POST + b"Content-Length: %d\r\n\r\n" % len(ROWS) + ROWS
    answer = _sent(service.url, first + GET + b"a:b\r\n" * 1000)
    assert _status(answer) == 200
    assert b'"measures"' in answer


def test_headers_that_begin_before_the_response_to_an_earlier_request_have_a_deadline(hasty: str) -> None:
    first = POST + b"Content-Length: %d\r\n\r\n" % len(ROWS) + ROWS
    with connection_to(hasty) as connection:
        connection.sendall(first + GET + b"a:b\r\n")
        answers = answer_of(connection)
    assert _status(answers) == 200
    assert b"HTTP/1.1 408 " in answers


@pytest.fixture
def hasty(redis_url: str) -> Iterator[str]:
    """A service that waits little more than a second for the end of the headers."""
    with serving(Settings(redis_url, header_timeout=1.2)) as url:
        yield url


def test_a_head_that_stops_gets_408_and_a_silent_connection_is_closed(hasty: str) -> None:
    with connection_to(hasty) as silent, connection_to(hasty) as half:
        half.sendall(GET)
        answer = answer_of(half)
        assert _status(answer) == 408
        assert b"\r\nretry-after: 1\r\n" in answer
        assert answer_of(silent) == b""


def test_an_idle_connection_is_kept_for_a_request_and_closed_after_its_time(redis_url: str) -> None:
    assert Settings(redis_url).idle_timeout > 60  # as long as proxies keep theirs
    with (
        serving(Settings(redis_url, idle_timeout=0.5)) as url,
        connection_to(url) as idle,
    ):
        idle.sendall(GET + b"\r\n")
        received = answer_of(idle)  # until the service closes it
        assert _status(received) == 200
        assert b"connection: close" not in received.lower()


def test_a_head_that_comes_byte_by_byte_is_not_waited_for(hasty: str) -> None:
    with connection_to(hasty) as connection:
        connection.sendall(GET + b"X: ")
        while not select.select([connection], [], [], 0.05)[0]:
            connection.sendall(b"a")
        assert _status(answer_of(connection)) == 408


def test_a_second_head_has_as_long_as_the_first(hasty: str) -> None:
    with connection_to(hasty) as connection:
        connection.sendall(GET + b"\r\n")
        assert _status(received_until(connection)) == 200
        connection.sendall(GET)
        assert _status(answer_of(connection)) == 408


def test_a_body_may_take_longer_than_a_head(hasty: str) -> None:
    with connection_to(hasty) as connection:
        connection.sendall(POST + LAST + b"Content-Length: %d\r\n\r\n" % len(ROWS) + ROWS[:5])
        assert not select.select([connection], [], [], 1.8)[0]
        connection.sendall(ROWS[5:])
        assert _status(answer_of(connection)) == 200


def test_an_address_holds_a_bounded_number_of_connections(redis_url: str) -> None:
    with serving(Settings(redis_url, max_connections_per_address=3)) as url, contextlib.ExitStack() as stack:
        held = [stack.enter_context(connection_to(url)) for _ in range(3)]
        with connection_to(url) as refused:
            answer = answer_of(refused)
        assert _status(answer) == 503
        assert b"/problems/too-many-connections" in answer
        assert b"\r\nretry-after: 2\r\n" in answer
        held[0].sendall(GET + LAST + b"\r\n")
        assert _status(answer_of(held[0])) == 200
        with connection_to(url) as admitted:
            admitted.sendall(GET + LAST + b"\r\n")
            assert _status(answer_of(admitted)) == 200


@pytest.mark.parametrize(("most", "proxies"), [(0, ""), (1, "127.0.0.0/8")])
def test_a_trusted_proxy_holds_as_many_as_it_likes_and_so_does_everybody_without_a_bound(
    redis_url: str, most: int, proxies: str
) -> None:
    settings = Settings(redis_url, max_connections_per_address=most, trusted_proxies=proxies)
    with serving(settings) as url, contextlib.ExitStack() as stack:
        for connection in [stack.enter_context(connection_to(url)) for _ in range(5)]:
            connection.sendall(GET + LAST + b"\r\n")
            assert _status(answer_of(connection)) == 200


def _admitted(url: str) -> socket.socket:
    """A connection that the service admits, and of which the kernel buffers little."""
    parts = urlsplit(url)
    while True:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        connection.settimeout(600)
        connection.connect((str(parts.hostname), parts.port or 80))
        connection.sendall(GET + b"\r\n")
        if received_until(connection).startswith(b"HTTP/1.1 200"):
            return connection
        connection.close()


@pytest.mark.slow
def test_a_client_that_does_not_read_its_answer_is_cut_off(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_READING_SECONDS", 0.2)
    random = np.random.default_rng(1)
    p = random.random(1_000_000)
    rows = {"predictions": p[:1000].tolist(), "labels": (random.random(1000) < p[:1000]).astype(int).tolist()}
    with serving(Settings(redis_url, max_connections_per_address=1)) as url:
        record = httpx.post(f"{url}/maps", json=rows | {"method": "beta"}, timeout=600).raise_for_status().json()
        body = httpx.Request("POST", url, json={"map": record["id"], "predictions": p.tolist()}).content
        head = b"POST /calibrate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with contextlib.closing(_admitted(url)) as connection:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
            _admitted(url).close()  # the place of this connection is free, although its answer has not been read
            assert not answer_of(connection).endswith(b"\r\n0\r\n\r\n")
