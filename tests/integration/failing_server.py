"""A small real HTTP server that does what a test tells it, one request after the other, and remembers each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from tests.integration.threads import in_thread


class Reply(NamedTuple):
    """An answer; without a status the connection is cut where it should come."""

    status: int | None
    body: bytes = b"{}"
    headers: dict[str, str] = {}  # noqa: RUF012


class Asked(NamedTuple):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Failing(ThreadingHTTPServer):
    """Answers with ``plan``, entry by entry, and with the last one from then on."""

    daemon_threads = True

    def __init__(self, plan: Sequence[Reply]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._plan, self._lock = list(plan), threading.Lock()
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            return self._plan.pop(0) if len(self._plan) > 1 else self._plan[0]


class _Handler(BaseHTTPRequestHandler):
    server: Failing
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        answer = self.server.answer(Asked(self.command, self.path, headers, body))
        if answer.status is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, text in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def failing(*plan: Reply) -> Iterator[Failing]:
    """The server, while a test needs it."""
    with in_thread(Failing(plan)) as server:
        yield server
