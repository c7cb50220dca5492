"""The page of the calls, in a real browser."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Page, expect

from service.openapi import operations
from service.stack import Stack
from tests.browser.checks import grave_violations

pytestmark = pytest.mark.slow


def test_the_page_shows_every_call_and_resolves_every_reference(page: Page, service: Stack) -> None:
    document = httpx.get(f"{service.url}/openapi.json", timeout=600).json()
    page.goto("/docs")
    expect(page.locator(".opblock")).to_have_count(len([*operations(document)]))
    for call in ("#operations-evaluate-evaluate", "#operations-monitors-post_monitor_rows"):
        page.locator(f"{call} .opblock-summary-control").click()
        expect(page.locator(f"{call} .request-body, {call} .opblock-section-request-body").first).to_be_visible()
        expect(page.locator(f"{call} .model-example").first).to_be_visible()
    expect(page.locator(".errors-wrapper")).to_have_count(0)
    assert grave_violations(page) == []
