"""A real browser on a real service: one of each for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from service.stack import Stack, stack
from tests.browser.chromium import find_chromium, flags
from tests.browser.watched import Visits
from tests.integration.conftest import patient
from tests.integration.redis_server import until_ready
from tests.store_folder import store_folder


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with store_folder() as path:
        yield path


@pytest.fixture(scope="session")
def service(folder: Path) -> Iterator[Stack]:
    """The whole service without keys, as `calibrant serve` starts it."""
    with (
        (folder / "service.log").open("ab") as log,
        stack(host="127.0.0.1", port=0, data=folder / "service", log=log, inherited=patient()) as running,
    ):
        until_ready(running.url)
        yield running


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium without a window. It ends with the folder: while it runs, no other event loop can run in this thread."""
    expect.set_options(timeout=120_000)
    with sync_playwright() as playwright:
        path = find_chromium(playwright.chromium)
        with playwright.chromium.launch(executable_path=path, args=flags()) as browser:
            yield browser


@pytest.fixture
def visits(browser: Browser, service: Stack) -> Iterator[Visits]:
    """Pages of the service; what one of them did that it may not do fails the test at its end."""
    visits = Visits(browser, service.url)
    yield visits
    visits.close()
    assert visits.found == []


@pytest.fixture
def page(visits: Visits) -> Page:
    """A page of a new visitor."""
    return visits.open()
