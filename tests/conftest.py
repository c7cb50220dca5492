"""Golden numbers and peaks of memory, for every kind of test."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from calibrant.core.reductions import Event
from tests import drawn
from tests.traced import PeakOf, tracing

GOLDEN = Path(__file__).parent / "golden"

# An HTTP client reads a file of all certificates when it is created, in 20 ms, but a folder of them when it needs one.
# Tests send requests to this machine alone.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(GOLDEN)
settings.load_profile(drawn.SAME)  # --hypothesis-profile replaces it


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Reference answers on one binary batch of 1,000 rows; the file names their source."""
    document: dict[str, Any] = json.loads((GOLDEN / "binary_n1000.json").read_text("utf-8"))
    return document


@pytest.fixture(scope="session")
def golden_event(golden: dict[str, Any]) -> Event:
    return Event(np.array(golden["p"]), np.array(golden["y"], dtype=np.int8))


@pytest.fixture(scope="session")
def peak_of() -> Iterator[PeakOf]:
    """``peak_of(function, *args)``: bytes that a function of a module took at most."""
    with tracing() as measured:
        yield measured
