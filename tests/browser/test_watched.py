"""What the tests' own eyes see: a misdeed of a page does not go unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from service.stack import Stack
from tests.browser.checks import grave_violations, layout_shift
from tests.browser.chromium import HOW, VARIABLE, NoChromium, find_chromium
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow


@pytest.fixture
def seen(browser: Browser, service: Stack) -> Visits:
    return Visits(browser, service.url)


def test_an_error_a_refusal_and_another_origin_are_noted(seen: Visits) -> None:
    page = seen.open()
    page.goto("/no-such-page")
    page.goto("/")
    page.evaluate("console.error('something broke')")
    page.evaluate("setTimeout(() => { throw new Error('thrown') })")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.2:1/x.png'}))")
    page.evaluate("new Promise(resolve => setTimeout(resolve))")  # behind what was thrown
    seen.close()
    told = "\n".join(seen.found)
    assert "404: GET" in told
    assert "console: something broke" in told
    assert "error: " in told
    assert "Content Security Policy" in told


def test_a_request_that_leaves_the_service_is_noted(seen: Visits) -> None:
    page = seen.open(bypass_csp=True)
    page.goto("/")
    page.evaluate("fetch('http://127.0.0.2:1/', {mode: 'no-cors'}).catch(() => null)")
    seen.close()
    assert any(told.startswith("request to another origin: http://127.0.0.2:1/") for told in seen.found)


def test_a_chromium_that_is_not_there_is_told_with_the_way_to_get_one(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(NoChromium, match="apt-get install chromium"):
        find_chromium(browser.browser_type)
    assert VARIABLE in HOW


def test_what_jumps_and_what_shuts_someone_out_is_seen(seen: Visits) -> None:
    page = seen.open()
    page.goto("/")
    page.evaluate("document.getElementById('main').prepend(document.createElement('input'))")
    page.evaluate("document.querySelector('input').before('a line that pushes all others down')")
    assert layout_shift(page) > 0
    assert any(told.startswith("label at") for told in grave_violations(page))
    seen.close()
