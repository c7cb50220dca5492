"""A drift followed on the page of a monitor, from the first row to the acknowledged alarm."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from service.stack import Stack
from tests.browser.checks import DECODED, grave_violations, layout_shift
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow

_NAMES = count()
Send = Callable[[int, float], None]
#: Remembers the page, so that a reload is noticed.
_MARK = "() => { document.documentElement.dataset.marked = 'yes'; }"
_MARKED = "() => document.documentElement.dataset.marked"


@pytest.fixture
def name(service: Stack) -> str:
    """A new monitor without rows."""
    name = f"followed-{next(_NAMES)}"
    fields = {"name": name, "bucket": 60, "description": "A model whose predictions become too low."}
    httpx.post(f"{service.url}/monitors", json=fields, timeout=600).raise_for_status()
    return name


@pytest.fixture
def send(service: Stack, name: str) -> Send:
    """Sends labelled rows whose events are more frequent than predicted by ``shift``."""
    random = np.random.default_rng(5)

    def send(n: int, shift: float) -> None:
        p = random.uniform(0.1, 0.6, n)
        y = random.random(n) < p + shift
        groups = np.where(random.random(n) < 0.5, "north", "a site with a rather long name")
        rows = [
            {"prediction": a, "label": int(b), "group": group}
            for a, b, group in zip(p.tolist(), y.tolist(), groups.tolist(), strict=True)
        ]
        httpx.post(f"{service.url}/monitors/{name}/rows", json={"rows": rows}, timeout=600).raise_for_status()

    return send


def counts(page: Page) -> str:
    """The counts on the page as text."""
    return page.locator(".counts").inner_text()


def test_a_drift_is_followed_from_the_first_row_to_the_acknowledged_alarm(page: Page, name: str, send: Send) -> None:
    page.goto("/ui/monitors")
    page.get_by_role("link", name=name).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.get_by_text("The window has no labelled rows yet.")).to_be_visible()
    page.evaluate(_MARK)
    send(500, 0.0)
    picture = page.get_by_alt_text(re.compile("Reliability diagram of the 500 labelled rows"))
    expect(picture).to_be_visible()
    expect(page.locator(".rules .card").get_by_text("ok", exact=True)).to_be_visible()
    send(500, 0.3)
    button = page.get_by_role("button", name="Acknowledge the alarm of evidence")
    expect(button).to_be_visible()
    expect(page.get_by_role("status").get_by_text("An alarm is raised.")).to_be_visible()
    expect(page.locator("#events")).to_be_visible()
    expect(page.get_by_alt_text(re.compile("Evidence against calibration, .*alarms raised: 1"))).to_be_visible()
    assert "1,000" in counts(page)
    assert page.evaluate(_MARKED) == "yes"
    assert grave_violations(page) == []
    button.focus()
    button.press("Enter")
    expect(page.get_by_text("Acknowledged the alarm of evidence.")).to_be_visible()
    expect(button).to_have_count(0)
    expect(page.get_by_text("monitor.alarm.acknowledged: evidence")).to_be_visible()
    assert page.evaluate(_MARKED) == "yes"
    page.get_by_role("link", name="Monitors").first.click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name))
    expect(row).not_to_contain_text("alarm")


def test_a_drift_is_followed_without_scripts(visits: Visits, name: str, send: Send, service: Stack) -> None:
    page = visits.open(java_script_enabled=False)
    send(1000, 0.3)
    button = page.get_by_role("button", name="Acknowledge the alarm of evidence")
    with httpx.stream("GET", f"{service.url}/ui/monitors/{name}/events", timeout=600) as events:
        assert any('id="acknowledge-evidence"' in line for line in events.iter_lines())
    page.goto(f"/ui/monitors/{name}")
    button.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(button).to_have_count(0)
    expect(page.get_by_text("monitor.alarm.acknowledged: evidence")).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)


def test_a_button_keeps_the_focus_through_an_update(page: Page, name: str, send: Send) -> None:
    send(1000, 0.3)
    page.goto(f"/ui/monitors/{name}")
    button = page.get_by_role("button", name="Acknowledge the alarm of evidence")
    expect(button).to_be_visible()
    button.focus()
    send(1, 0.0)
    expect(page.locator(".counts")).to_contain_text("1,001")
    expect(button).to_be_focused()


@pytest.mark.parametrize("width", [1100, 390])
def test_the_pages_of_monitors_are_accessible(visits: Visits, name: str, send: Send, width: int) -> None:
    send(300, 0.0)
    page = visits.open(viewport={"width": width, "height": 844}, color_scheme="light")
    page.goto(f"/ui/monitors/{name}")
    expect(page.locator(".counts")).to_contain_text("300")  # an update of the page would move it
    for path in ("/ui/monitors", f"/ui/monitors/{name}"):
        page.goto(path)
        page.evaluate(DECODED)
        assert layout_shift(page) == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert grave_violations(page) == []
        page.emulate_media(color_scheme="dark")
        assert grave_violations(page, contrast_alone=True) == []
        page.emulate_media(color_scheme="light")


def test_the_commands_are_copied(visits: Visits, name: str, service: Stack) -> None:
    page = visits.open(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"/ui/monitors/{name}")
    page.get_by_role("button", name="Copy With curl").press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert f"curl -s {service.url}/monitors/{name}/predictions --json" in copied
