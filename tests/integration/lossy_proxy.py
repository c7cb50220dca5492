"""A proxy in front of Redis that loses the reply to a transaction or falls silent, as networks and servers do."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Iterator

from tests.integration.threads import in_thread


class LossyProxy(socketserver.ThreadingTCPServer):
    """Forwards connections to a port; ``lose`` closes the next one that sends a transaction, after Redis ran it.

    After ``stop_after`` nothing is forwarded any more once a text was, until ``resume``; then ``stopped`` is set.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.port = port
        self.lost = 0
        self.loses = threading.Event()
        self.stopped = threading.Event()
        self.passes = threading.Event()
        self.passes.set()
        self.last_text: bytes | None = None

    @property
    def url(self) -> str:
        """The URL of Redis through the proxy."""
        return f"redis://127.0.0.1:{self.server_address[1]}"

    def lose(self) -> None:
        """Lose the reply to the next transaction."""
        self.loses.set()

    def stop_after(self, text: str) -> None:
        """Fall silent after a text from Redis."""
        self.last_text = text.encode()

    def resume(self) -> None:
        """Forward everything again."""
        self.last_text = None
        self.passes.set()


class _Connection(socketserver.BaseRequestHandler):
    server: LossyProxy

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            sent_transaction = False
            while True:
                for ready in select.select([self.request, upstream], [], [])[0]:
                    content = ready.recv(1 << 16)
                    self.server.passes.wait()
                    if not content:
                        return
                    if ready is self.request:
                        sent_transaction = b"EXEC" in content
                        upstream.sendall(content)
                    elif sent_transaction and self.server.loses.is_set():
                        self.server.loses.clear()
                        self.server.lost += 1
                        return
                    else:
                        is_last = self.server.last_text is not None and self.server.last_text in content
                        if is_last:
                            self.server.passes.clear()
                        self.request.sendall(content)
                        if is_last:
                            self.server.stopped.set()


@contextlib.contextmanager
def lossy_proxy(port: int) -> Iterator[LossyProxy]:
    """Run a proxy to a port."""
    with in_thread(LossyProxy(port)) as proxy:
        try:
            yield proxy
        finally:
            proxy.resume()
