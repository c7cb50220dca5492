"""A proxy in front of Redis that loses the reply to a transaction, as a network or a killed server does."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import threading
from collections.abc import Iterator


class LossyProxy(socketserver.ThreadingTCPServer):
    """Forwards connections to a port; ``lose`` closes the next one that sends a transaction, after Redis ran it."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.port = port
        self.lost = 0
        self.loses = threading.Event()

    @property
    def url(self) -> str:
        """The URL of Redis through the proxy."""
        return f"redis://127.0.0.1:{self.server_address[1]}"

    def lose(self) -> None:
        """Lose the reply to the next transaction."""
        self.loses.set()


class _Connection(socketserver.BaseRequestHandler):
    server: LossyProxy

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            sent_transaction = False
            while True:
                for ready in select.select([self.request, upstream], [], [])[0]:
                    content = ready.recv(1 << 16)
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
                        self.request.sendall(content)


@contextlib.contextmanager
def lossy_proxy(port: int) -> Iterator[LossyProxy]:
    """Run a proxy to a port."""
    with LossyProxy(port) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
