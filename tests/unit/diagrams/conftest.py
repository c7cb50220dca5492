from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant.core.reductions import Event

GOLDEN = Path(__file__).parents[2] / "golden" / "diagrams.json"


@pytest.fixture(scope="session")
def drawn() -> dict[str, Any]:
    """What published code draws of the golden batch; the file names its source."""
    document: dict[str, Any] = json.loads(GOLDEN.read_text("utf-8"))
    return document


@pytest.fixture(scope="session")
def event() -> Event:
    """Predictions that are too low, with ties."""
    random = np.random.default_rng(5)
    c = random.random(2000)
    return Event(np.clip(np.round(c**1.4, 3), 0.001, 0.999), (random.random(2000) < c).astype(np.int8))
