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


def test_console_errors_failed_requests_and_other_origins_are_detected(seen: Visits) -> None:
    page = seen.open()
    page.goto("/no-such-page")
    page.goto("/")
    page.evaluate("console.error('something broke')")
    page.evaluate("setTimeout(() => { throw new Error('thrown') })")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.2:1/x.png'}))")
    page.evaluate("new Promise(resolve => setTimeout(resolve))")  # behind what was thrown
    seen.close()
    noted = "\n".join(seen.misdeeds)
    assert "404: GET" in noted
    assert "console: something broke" in noted
    assert "error: " in noted
    assert "Content Security Policy" in noted


def test_a_request_that_leaves_the_service_is_detected(seen: Visits) -> None:
    page = seen.open(bypass_csp=True)
    page.goto("/")
    page.evaluate("fetch('http://127.0.0.2:1/', {mode: 'no-cors'}).catch(() => null)")
    seen.close()
    assert any(line.startswith("request to another origin: http://127.0.0.2:1/") for line in seen.misdeeds)


def test_a_missing_chromium_is_reported_with_the_command_that_installs_it(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(NoChromium, match="apt-get install chromium"):
        find_chromium(browser.browser_type)
    assert VARIABLE in HOW


@pytest.mark.parametrize("style", ["color: #ddd", "opacity: 0.2", "background: #555"])
def test_one_pale_text_among_many_is_detected(seen: Visits, style: str) -> None:
    page = seen.open(color_scheme="light")
    page.goto("/ui/measures")
    assert grave_violations(page, contrast_alone=True) == []
    page.evaluate(
        """style => {
          const cells = [...document.querySelectorAll('td')].filter(cell => cell.innerText.length > 1);
          cells[cells.length >> 2].style.cssText = style;
        }""",
        style,
    )
    (violation,) = grave_violations(page, contrast_alone=True)
    assert violation.startswith("color-contrast at")
    seen.close()


def test_layout_shifts_and_inaccessible_elements_are_detected(seen: Visits) -> None:
    page = seen.open()
    page.goto("/")
    page.evaluate("document.getElementById('main').prepend(document.createElement('input'))")
    page.evaluate("document.querySelector('input').before('a line that pushes all others down')")
    assert layout_shift(page) > 0
    assert any(violation.startswith("label at") for violation in grave_violations(page))
    seen.close()
