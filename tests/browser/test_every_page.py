"""What holds of every page: it shuts nobody out, in light or in dark, nothing of it jumps, and a phone shows all of it.

Printed reports have all columns of their tables. Pages behind a key are looked at in test_registry.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.browser.checks import CUT, grave_violations, layout_shift
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow

PHONE: ViewportSize = {"width": 390, "height": 844}
A4: ViewportSize = {"width": 718, "height": 1047}  # in CSS pixels, within margins of 1 cm
PATHS = {
    "front": "/",
    "maps": "/ui/maps",
    "versions": "/ui/maps/narrow-name-of-a-map",
    "map": "/ui/maps/{map}",
    "map of classes": "/ui/maps/{classes}",
    "methods": "/ui/methods",
    "measures": "/ui/measures",
    "diagrams": "/ui/diagrams",
    "jobs": "/ui/jobs",
    "job": "/ui/jobs/{job}",
    "report": "/ui/reports/{batch}",
    "before and after": "/ui/reports/{batch}?map={map}",
    "comparison of models": "/ui/reports/{batch}?models={other}",
    "report of forecasts": "/ui/reports/{forecasts}",
    "forecasts before and after": "/ui/reports/{forecasts}?map={forecast_map}",
    "map of forecasts": "/ui/maps/{forecast_map}",
    "in the order of time": "/ui/in-order",
    "methods of forecasts": "/ui/methods?prediction_kind=regression",
    "measures of forecasts": "/ui/measures?prediction_kind=regression",
    "reports": "/ui/reports?maps={map}&maps={classes}",
    "comparison": "/ui/reports/{held_out}?maps=a-rather-long-name-of-a-map:1&maps=a-rather-long-name-of-a-map:2",
    "problems": "/problems",
    "problem": "/problems/too-large",
    "refusal": "/ui/jobs/job_0",
}
PRINTED = ("before and after", "comparison", "forecasts before and after")


def _open(page: Page, path: str) -> None:
    """Open a page. On a busy machine a job makes a report, and its page leads there."""
    page.goto(path)
    if path.startswith("/ui/reports/") and "/ui/jobs/" in page.url:
        page.get_by_role("link", name="Show the report").click()
        page.wait_for_url("**/ui/reports/**")


@pytest.mark.parametrize("name", PATHS)
def test_a_page_is_accessible_in_light_and_dark_stands_still_and_fits_a_phone(
    visits: Visits, stored: Mapping[str, str], name: str
) -> None:
    visits.expected |= {404} if name == "refusal" else set()
    page = visits.open(color_scheme="light")
    _open(page, PATHS[name].format(**stored))
    assert layout_shift(page) == 0
    assert grave_violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert grave_violations(page, contrast_alone=True) == []
    assert page.title()
    assert page.get_by_role("heading", level=1).count() == 1
    page.wait_for_load_state("networkidle")
    if name in PRINTED:
        page.set_viewport_size(A4)
        page.emulate_media(media="print")
        assert page.locator("table").count() > 0
        assert page.evaluate(CUT) == []
    page.set_viewport_size(PHONE)
    page.evaluate("() => document.querySelectorAll('details').forEach(details => { details.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, media="screen")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert page.evaluate(CUT) == []
    assert grave_violations(page, contrast_alone=True) == []
    page.emulate_media(color_scheme="light")
    assert grave_violations(page) == []
