"""Golden numbers, for every kind of test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.reductions import Event

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Reference answers on one binary batch of 1,000 rows; the file names their source."""
    document: dict[str, Any] = json.loads((GOLDEN / "binary_n1000.json").read_text("utf-8"))
    return document


@pytest.fixture(scope="session")
def golden_event(golden: dict[str, Any]) -> Event:
    return Event(np.array(golden["p"]), np.array(golden["y"], dtype=np.int8))
