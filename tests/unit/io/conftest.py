"""Limits wide enough for every body of the tables."""

from __future__ import annotations

import pytest

from calibrant.io.limits import Limits


@pytest.fixture(scope="session")
def limits() -> Limits:
    return Limits(max_unpacked_bytes=1_000_000, max_rows=1000, max_classes=20)
