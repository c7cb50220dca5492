"""Is a supervisor of this host alive: the health check of a worker's container. Exits with 0 if so, else with 1."""

from __future__ import annotations

import os
import socket
import sys

from storage.connection import UNAVAILABLE, connect
from storage.supervisors import read_supervisors


def alive(redis_url: str, host: str) -> bool:
    """Whether a supervisor that runs on ``host`` told of itself in the last seconds."""
    try:
        return any(record.host == host for record in read_supervisors(connect(redis_url)))
    except UNAVAILABLE:
        return False


if __name__ == "__main__":
    sys.exit(0 if alive(os.environ["CALIBRANT_REDIS_URL"], socket.gethostname()) else 1)
