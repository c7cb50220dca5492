"""BodyLimits wide enough for every payload of the tables."""

from __future__ import annotations

import pytest

from service.formats.format import BodyLimits


@pytest.fixture(scope="session")
def limits() -> BodyLimits:
    return BodyLimits(max_unpacked_bytes=1_000_000, max_rows=1000, max_classes=20, max_json_depth=8)
