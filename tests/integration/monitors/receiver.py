"""A receiver of webhooks: a real server on this machine, which keeps what comes and answers as a test says."""

from __future__ import annotations

import contextlib
import queue
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.integration.threads import in_thread


@dataclass(frozen=True)
class Got:
    """A request as it came; the names of its headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """Answer with a status, and ``headers`` whose names are written with underscores."""

    def give(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, text in headers.items():
            handler.send_header(name.replace("_", "-"), text)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return give


@dataclass
class Receiver:
    """What has come, and the answers to what comes next; 204 once they are used up."""

    port: int = 0
    answers: queue.SimpleQueue[Answer] = field(default_factory=queue.SimpleQueue)
    got: queue.Queue[Got] = field(default_factory=queue.Queue)
    over: threading.Event = field(default_factory=threading.Event)

    def will(self, *answers: Answer) -> None:
        for answer in answers:
            self.answers.put(answer)

    def next(self, seconds: float = 600.0) -> Got:
        return self.got.get(timeout=seconds)


@contextlib.contextmanager
def receiving(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver until the end of the block, on 127.0.0.1; by TLS with a ``context``."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): text for name, text in self.headers.items()}
            receiver.got.put(Got(self.path, headers, body))
            try:
                answer = receiver.answers.get_nowait()
            except queue.Empty:
                answer = status(204)
            with contextlib.suppress(OSError):  # whoever sent it has gone
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Nothing: those who break off are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    receiver.port = server.server_address[1]
    with in_thread(server):
        try:
            yield receiver
        finally:
            receiver.over.set()
