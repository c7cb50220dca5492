"""Signed in: the registry, an alias that is promoted, maps compared in a report, and two tenants who meet nowhere."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from backend.store.api_keys import ApiKeyStore
from backend.store.server.connection import connect
from backend.store.server.embedded import embedded_server
from service.settings import Settings
from tests.browser.checks import grave_violations, layout_shift
from tests.browser.files import rows
from tests.browser.watched import Visits
from tests.integration.conftest import serving

pytestmark = pytest.mark.slow


@dataclass
class Keyed:
    """A service with the keys of two tenants; the first has maps and a batch, the second nothing."""

    url: str
    owner: str
    neighbour: str
    batch: str


@pytest.fixture(scope="module")
def keyed(folder: Path) -> Iterator[Keyed]:
    with (folder / "keyed.log").open("ab") as log, contextlib.ExitStack() as opened:
        url, _ = opened.enter_context(embedded_server(folder / "keyed", log=log))
        redis = opened.enter_context(contextlib.closing(connect(url)))
        owner, neighbour = (ApiKeyStore(redis).create(t, tenant=t, scope="write").text for t in ("owner", "next"))
        served = opened.enter_context(serving(Settings(url, sign_in_rate=0)))
        sent = {"Authorization": f"Bearer {owner}"}
        http = opened.enter_context(httpx.Client(base_url=served, timeout=600, headers=sent))
        predictions, labels = (array.tolist() for array in rows(1000))
        for method in ("platt", "isotonic", "beta"):
            fit = {"predictions": predictions[:500], "labels": labels[:500], "method": method, "name": "spam"}
            assert http.post("/maps", json=fit).status_code == 201
        held = {"predictions": predictions[500:], "labels": labels[500:]}
        yield Keyed(served, owner, neighbour, http.post("/batches", json=held).json()["id"])


@pytest.fixture
def address(keyed: Keyed) -> str:
    return keyed.url


def _at(path: str) -> re.Pattern[str]:
    """The address of a path, and not of the way there by the page for signing in."""
    return re.compile(f"//[^/]+{re.escape(path)}$")


def _signed_in(visits: Visits, key: str, to: str = "/ui/maps") -> Page:
    page = visits.open()
    page.goto(to)
    page.get_by_label("API key").fill(key)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    page.wait_for_url(_at(to))
    return page


def _tab_to(page: Page, name: str) -> None:
    """Press Tab until what has the focus reads so."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"no way by the keyboard to {name}")


def test_a_version_is_promoted_after_signing_in_with_the_keyboard_alone(visits: Visits, keyed: Keyed) -> None:
    page = visits.open()
    page.goto("/ui/maps")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(keyed.owner)
    page.keyboard.press("Enter")
    page.wait_for_url(_at("/ui/maps"))
    _tab_to(page, "Skip to the content")
    page.keyboard.press("Enter")
    _tab_to(page, "spam")
    page.keyboard.press("Enter")
    page.wait_for_url(_at("/ui/maps/spam"))
    _tab_to(page, "Promote version 2 to champion")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Created champion, pointing at version 2 of spam.")
    expect(page.locator("#promote-2")).to_be_focused()  # which now says that it is the champion
    expect(page.get_by_role("listitem").filter(has_text="Version 2")).to_contain_text("champion")
    assert grave_violations(page) == []


def test_nothing_of_a_key_is_left_in_the_browser(visits: Visits, keyed: Keyed) -> None:
    page = _signed_in(visits, keyed.owner)
    for path in ("/", "/ui/maps/spam", "/ui/reports"):
        page.goto(path)
        assert keyed.owner not in page.content()
    stored = page.evaluate("[document.cookie, ...Object.keys(localStorage), ...Object.keys(sessionStorage)]")
    assert stored == ["", "htmx-current-path-for-history"]  # the address of the page itself
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert cookie["value"] not in keyed.owner
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("link", name="Sign in with an API key")).to_be_visible()
    assert page.context.cookies() == []


def test_a_late_promotion_reports_that_the_alias_was_moved(visits: Visits, keyed: Keyed) -> None:
    visits.expected.add(412)
    early, late = (_signed_in(visits, keyed.owner, "/ui/maps/spam") for _ in range(2))
    early.get_by_role("button", name="Promote version 3 to champion").click()
    expect(early.get_by_role("alert")).to_contain_text("points at version 3")
    late.get_by_role("button", name="Promote version 1 to champion").click()
    expect(late.get_by_role("alert")).to_contain_text("Someone else has moved the alias since this page was loaded")
    expect(late.get_by_role("listitem").filter(has_text="Version 3")).to_contain_text("champion")
    late.get_by_role("button", name="Promote version 1 to champion").click()
    expect(late.get_by_role("alert")).to_contain_text("now points at version 1 (before: version 3)")


def test_without_scripts_an_alias_is_promoted_too(visits: Visits, keyed: Keyed) -> None:
    page = visits.open(java_script_enabled=False)
    page.goto("/ui/maps/spam")
    page.get_by_label("API key").fill(keyed.owner)
    page.get_by_role("main").get_by_role("button", name="Sign in").click()
    button = page.get_by_role("button", name=re.compile("Promote version . to champion")).first
    version = (button.text_content() or "").split()[2]
    button.click()
    expect(page.get_by_role("listitem").filter(has_text=f"Version {version}")).to_contain_text("champion")


@pytest.mark.parametrize("scripts", [True, False])
def test_versions_are_compared_on_a_stored_batch_with_the_keyboard_alone(
    visits: Visits, keyed: Keyed, scripts: bool
) -> None:
    page = visits.open(java_script_enabled=scripts)
    page.goto("/ui/maps/spam")
    expect(page.get_by_label("API key")).to_be_focused()  # by itself, shortly after the page is there
    page.keyboard.type(keyed.owner)
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Compare the versions on one batch").press("Enter")
    page.wait_for_url("**/ui/reports?maps=*")
    page.get_by_role("rowheader").get_by_role("link").press("Enter")
    page.wait_for_url(f"**/ui/reports/{keyed.batch}?maps=*")
    table = page.get_by_role("region", name="Comparison of maps, as a table")
    expect(table.get_by_role("row")).to_have_count(5)
    box = page.get_by_role("checkbox", name=re.compile("^spam:2"))
    box.press("Space")
    expect(box).not_to_be_checked()
    page.get_by_role("button", name="Compare").press("Enter")
    page.wait_for_url(f"**/ui/reports/{keyed.batch}?maps=spam%3A3&maps=spam%3A1")
    expect(page.get_by_text(re.compile("^Compare maps on held-out rows"))).to_be_visible()
    expect(table.get_by_role("row")).to_have_count(4)
    expect(table).to_contain_text(re.compile(r"0\.\d+ to 0\.\d+"))
    page.get_by_text("All other pairs").press("Enter")
    others = page.get_by_role("region", name="Differences of all other pairs, as a table")
    expect(others.get_by_role("row")).to_have_count(5)  # one of three pairs for each of four measures
    page.get_by_role("link", name="spam:1", exact=True).press("Enter")
    page.wait_for_url(f"**/ui/reports/{keyed.batch}?map=spam%3A1")
    expect(page.get_by_text("After the map").first).to_be_visible()


def test_two_tenants_see_nothing_of_each_other(visits: Visits, keyed: Keyed) -> None:
    visits.expected.add(404)
    owner, neighbour = _signed_in(visits, keyed.owner), _signed_in(visits, keyed.neighbour)
    expect(owner.get_by_role("row").filter(has_text="spam")).to_have_count(3)
    expect(neighbour.get_by_text("No maps yet")).to_be_visible()
    neighbour.goto("/ui/reports")
    expect(neighbour.get_by_text("There is no stored batch with labels")).to_be_visible()
    neighbour.goto("/ui/maps/spam")
    expect(neighbour.get_by_role("heading", level=1)).to_have_text("Unknown map")


def test_every_page_is_accessible_and_its_layout_does_not_shift(visits: Visits, keyed: Keyed) -> None:
    page = visits.open()
    page.goto("/ui/sign-in")
    assert grave_violations(page) == []
    page = _signed_in(visits, keyed.owner)
    processor = page.context.new_cdp_session(page)
    comparison = f"/ui/reports/{keyed.batch}?maps=spam:1&maps=spam:2"
    for path in ("/ui/maps", "/ui/maps/spam", "/ui/maps/spam:1", "/ui/reports", comparison):
        # A slow processor: the page would be shown in parts if it did not ask to be shown whole.
        processor.send("Emulation.setCPUThrottlingRate", {"rate": 10})
        page.goto(path)
        page.wait_for_load_state("networkidle")
        assert layout_shift(page) == 0, path
        processor.send("Emulation.setCPUThrottlingRate", {"rate": 1})
        assert grave_violations(page) == [], path
        page.emulate_media(color_scheme="dark")
        assert grave_violations(page, contrast_alone=True) == [], path
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 360, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        page.set_viewport_size({"width": 1280, "height": 720})
