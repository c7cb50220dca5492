"""What several contracts are about."""

from __future__ import annotations

from typing import Any

import pytest

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="package")
def openapi() -> dict[str, Any]:
    """The OpenAPI document of the service."""
    return create_app(Settings(redis_url="unix:///nowhere")).openapi()
