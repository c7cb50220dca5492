"""A worker of monitors."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from tests.integration.test_workers import supervisor


@pytest.fixture
def worker(redis: Redis, redis_url: str, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with supervisor(redis_url, tmp_path / "worker.log") as process:
        yield process
