"""An S3 server on loopback, and a proxy in front of it that fails as object stores do."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from moto.server import ThreadedMotoServer

from tests.integration.threads import in_thread

#: What happens to a request: an answer of a store that limits its rate, one that ends early, or one in tiny pieces.
Fault = Literal["throttle", "truncate", "slow"]
BUCKET = "bucket"
#: The environment of a client of the server; without the addresses of a cloud, it asks no other host for credentials.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length", "date", "server"}


class Proxy(ThreadingHTTPServer):
    """Forwards requests; ``faults`` are those of the next requests with GET, in this order.

    ``gate`` is called with each request before it is forwarded, and may wait.
    """

    daemon_threads = True

    def __init__(self, behind: str, page: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.page = urlsplit(behind).netloc, page
        self.faults: deque[Fault] = deque()
        self.requests: list[str] = []
        self.gate: Callable[[str], None] = lambda _: None
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_arguments: Any) -> None:
        """Keep the output of the tests clean."""

    def _serve(self) -> None:
        proxy: Any = self.server
        body = self._body()
        with proxy.lock:
            proxy.requests.append(f"{self.command} {self.path}")
            fault = proxy.faults.popleft() if proxy.faults and self.command == "GET" else None
        proxy.gate(f"{self.command} {self.path}")
        if fault == "throttle":
            self._answer(503, [], b"<Error><Code>SlowDown</Code><Message>Please reduce your rate</Message></Error>")
            return
        with contextlib.closing(http.client.HTTPConnection(proxy.behind, timeout=600)) as upstream:
            headers = {name: text for name, text in self.headers.items() if name.lower() not in _HOP}
            path = self.path.replace("max-keys=1000", f"max-keys={proxy.page}")
            upstream.request(self.command, path, body, headers | {"Host": self.headers["Host"]})
            answer = upstream.getresponse()
            content, size = answer.read(), answer.getheader("Content-Length")
            self._answer(answer.status, answer.getheaders(), content, fault, size)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - names of the base class

    def _answer(
        self,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        fault: Fault | None = None,
        size: str | None = None,
    ) -> None:
        self.send_response(status)
        for name, text in headers:
            if name.lower() not in _HOP:
                self.send_header(name, text)
        length = size if self.command == "HEAD" and size is not None else str(len(content))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "truncate":
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif fault == "slow":
            for start in range(0, len(content), 64):
                self.wfile.write(content[start : start + 64])
                self.wfile.flush()
        else:
            self.wfile.write(content)


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """An S3 server; the environment has the credentials meanwhile."""
    before = dict(os.environ)
    os.environ.update(CREDENTIALS)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        _request(f"{host}:{port}", "PUT", f"/{BUCKET}")
        yield f"http://{host}:{port}"
    finally:
        server.stop()
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def proxied(behind: str, page: int = 1000) -> Iterator[Proxy]:
    """A proxy of a server, whose lists have pages of some keys."""
    with in_thread(Proxy(behind, page)) as proxy:
        yield proxy


def put(url: str, key: str, content: bytes) -> None:
    """Store an object."""
    _request(urlsplit(url).netloc, "PUT", f"/{BUCKET}/{key}", content)


def _request(address: str, method: str, path: str, body: bytes = b"") -> None:
    with contextlib.closing(http.client.HTTPConnection(address, timeout=600)) as connection:
        signed = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        connection.request(method, path, body, {"Authorization": signed, "Content-Length": str(len(body))})
        assert connection.getresponse().read() is not None
