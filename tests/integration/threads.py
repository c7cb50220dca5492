"""Servers of tests that answer in a thread."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from typing import TypeVar

Server = TypeVar("Server", bound=socketserver.BaseServer)


@contextlib.contextmanager
def in_thread(server: Server) -> Iterator[Server]:
    """A server that answers until the end of the block."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
