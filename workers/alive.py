"""Is a worker of this host alive: the health check of a worker's container. Exits with 0 if so, else with 1."""

from __future__ import annotations

import os
import socket
import sys

from rq import Worker

from storage.connection import UNAVAILABLE, connect


def alive(redis_url: str, host: str) -> bool:
    """Whether a worker that runs on ``host`` is registered; one that stops beating is forgotten by Redis."""
    try:
        return any(worker.hostname == host for worker in Worker.all(connection=connect(redis_url)))
    except UNAVAILABLE:
        return False


if __name__ == "__main__":
    sys.exit(0 if alive(os.environ["CALIBRANT_REDIS_URL"], socket.gethostname()) else 1)
