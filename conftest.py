"""What every test and every example in a docstring starts and ends with."""

import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.processes"]


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """No test leaves a figure open: pyplot warns at the 21st, and which test draws it depends on the order."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
