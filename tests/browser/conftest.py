"""A real browser on a real service: one of each for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from calibrant.client import Calibrant
from service.stack import Stack
from tests.browser.chromium import find_chromium, flags
from tests.browser.files import rows
from tests.browser.watched import Visits
from tests.integration.conftest import own_service
from tests.integration.redis_server import until_ready
from tests.store_folder import store_folder


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    with store_folder() as path:
        yield path


@pytest.fixture(scope="session")
def service(folder: Path) -> Iterator[Stack]:
    """The whole service without keys, as `calibrant serve` starts it."""
    with own_service(folder / "service") as running:
        until_ready(running.url)
        yield running


@pytest.fixture(scope="session")
def stored(service: Stack) -> Mapping[str, str]:
    """Batches, one of them with groups, maps with an alias, a map of ten classes, and forecasts with a map."""
    groups = ["a-site-with-a-rather-long-name", "b"] * 200
    with Calibrant(service.url) as client:
        p, y = rows(400)
        batch = client.upload(p, y, groups=groups).id
        other = client.upload(p**2, y).id
        averaged = client.fit("averaged", batch, name="narrow-name-of-a-map", timeout=600).id
        for method in ("platt", "isotonic"):
            client.fit(method, client.upload(*rows(400, seed=1)).id, name="a-rather-long-name-of-a-map", timeout=600)
        held_out = client.upload(*rows(400, seed=2)).id
        client.alias("narrow-name-of-a-map", "champion", 1)
        vectors = [[0.91 if k == i % 10 else 0.01 for k in range(10)] for i in range(200)]
        labels = [(i % 10 + (i % 7 == 0)) % 10 for i in range(200)]
        classes = client.fit("platt", client.upload(vectors, labels).id, reduction="classwise", timeout=600).id
        forecasts = client.upload_distribution(observed=p, mean=p**2, variance=p**2 + 0.1, groups=groups).id
        scaled = client.fit_distribution("variance-scaling", batch=forecasts).id
    batches = {"batch": batch, "other": other, "held_out": held_out, "forecasts": forecasts}
    maps = {"map": averaged, "classes": classes, "forecast_map": scaled}
    return batches | maps | {"job": averaged.replace("map_", "job_", 1)}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium without a window. It ends with the folder: while it runs, no other event loop can run in this thread."""
    expect.set_options(timeout=600_000)
    with sync_playwright() as playwright:
        path = find_chromium(playwright.chromium)
        with playwright.chromium.launch(executable_path=path, args=flags()) as browser:
            yield browser


@pytest.fixture
def address(service: Stack) -> str:
    """Where the visited pages are."""
    return service.url


@pytest.fixture
def visits(browser: Browser, address: str) -> Iterator[Visits]:
    """Pages of the service; what one of them did that it may not do fails the test at its end."""
    visits = Visits(browser, address)
    yield visits
    visits.close()
    assert visits.misdeeds == []


@pytest.fixture
def page(visits: Visits) -> Page:
    """A page of a new visitor."""
    return visits.open()
