"""Limits wide enough for every payload of the tables."""

from __future__ import annotations

import pytest

from service.formats.limits import Limits


@pytest.fixture(scope="session")
def limits() -> Limits:
    return Limits(max_unpacked_bytes=1_000_000, max_rows=1000, max_classes=20, max_json_depth=8)
