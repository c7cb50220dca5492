"""What every test and every example in a docstring starts and ends with."""

import gc
import sys
from collections.abc import Iterator

import pytest

pytest_plugins = ["tests.processes"]

# Collected tests and imported modules live until the end: searching them for garbage takes a tenth of a collection.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave the collected tests and modules out of garbage collections, which would search them again and again.

    The others come after 10,000 new objects, not after 700: a test that builds a service or reads a document has many
    thousands, nearly all of which stay until its end.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_unconfigure() -> None:
    """Let modules with native code release what they hold; duckdb reports it as leaked otherwise."""
    gc.unfreeze()


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """No test leaves a figure open: pyplot warns at the 21st, and which test draws it depends on the order."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
