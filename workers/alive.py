"""Health check of a worker container: exits with 0 if a supervisor of this host is healthy, else with 1."""

from __future__ import annotations

import os
import socket
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from backend.store.jobs.leases import read_supervisors
from backend.store.server.connection import UNAVAILABLE, connect


def alive(redis_url: str, host: str) -> bool:
    """Whether a supervisor on ``host``, whose workers can start, has announced itself in the last seconds."""
    try:
        return any(record.host == host for record in read_supervisors(connect(redis_url)))
    except UNAVAILABLE:
        return False


def given_url(variables: Mapping[str, str]) -> str:
    """The URL of the store, from the worker's environment or its file of settings."""
    file, url = variables.get("CALIBRANT_REDIS_URL_FILE"), variables.get("CALIBRANT_REDIS_URL")
    if file is None and url is None:
        settings = tomllib.loads(Path(variables["CALIBRANT_CONFIG"]).read_text("utf-8"))
        file, url = settings.get("redis_url_file"), settings.get("redis_url")
    return str(url) if file is None else Path(file).read_text("utf-8").strip()


if __name__ == "__main__":
    sys.exit(0 if alive(given_url(os.environ), socket.gethostname()) else 1)
