"""On a phone: no page is wider than it, no table is cut off, and a file is calibrated and comes back."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from calibrant.client import Calibrant
from service.stack import Stack
from tests.browser.checks import grave_violations
from tests.browser.files import csv_file, payload, rows
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow

PHONE = {"width": 390, "height": 844}
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
    "report": "/ui/reports/{batch}",
    "before and after": "/ui/reports/{batch}?map={map}",
    "report of forecasts": "/ui/reports/{forecasts}?map={forecast_map}",
    "map of forecasts": "/ui/maps/{forecast_map}",
    "in the order of time": "/ui/in-order",
    "methods of forecasts": "/ui/methods?prediction_kind=regression",
    "measures of forecasts": "/ui/measures?prediction_kind=regression",
    "reports": "/ui/reports?maps={map}&maps={classes}",
    "comparison": "/ui/reports/{held_out}?maps=a-rather-long-name-of-a-map:1&maps=a-rather-long-name-of-a-map:2",
    "problems": "/problems",
}
#: The cells of tables that are outside the page, cut off by a frame, or outside their own table.
_CUT = """() => [...document.querySelectorAll('table')].flatMap(table =>
  [...table.querySelectorAll('tbody th, tbody td')].filter(cell => {
    const box = cell.getBoundingClientRect();
    if (!box.width || !box.height) return false;
    const frame = cell.closest('.scroll, .wide') || document.documentElement;
    const end = Math.min(frame.getBoundingClientRect().right, document.documentElement.clientWidth);
    return box.right > end + 1 || box.left < -1 || cell.scrollWidth > cell.clientWidth + 1;
  }).map(cell => cell.textContent.trim().slice(0, 60)))"""


@pytest.fixture(scope="module")
def stored(service: Stack) -> Mapping[str, str]:
    """A batch with groups, maps with an alias, and a map of ten classes."""
    with Calibrant(service.url) as client:
        p, y = rows(400)
        batch = client.upload(p, y, groups=["a-site-with-a-rather-long-name", "b"] * 200).id
        made = client.fit("averaged", batch, name="narrow-name-of-a-map", timeout=600)
        for method in ("platt", "isotonic"):
            client.fit(method, client.upload(*rows(400, seed=1)).id, name="a-rather-long-name-of-a-map", timeout=600)
        held_out = client.upload(*rows(400, seed=2)).id
        client.alias("narrow-name-of-a-map", "champion", 1)
        vectors = [[0.91 if k == i % 10 else 0.01 for k in range(10)] for i in range(200)]
        labels = [(i % 10 + (i % 7 == 0)) % 10 for i in range(200)]
        classes = client.fit("platt", client.upload(vectors, labels).id, reduction="classwise", timeout=600)
        given: dict[str, Any] = {"observed": p, "mean": p**2, "variance": p**2 + 0.1}
        forecasts = client.upload_distribution(**given, groups=["a-site-with-a-rather-long-name", "b"] * 200).id
        scaled = client.fit_distribution("variance-scaling", batch=forecasts).id
        found = {"batch": batch, "map": made.id, "held_out": held_out, "classes": classes.id}
        return found | {"forecasts": forecasts, "forecast_map": scaled}


@pytest.fixture
def phone(visits: Visits) -> Page:
    return visits.open(viewport=PHONE)


@pytest.mark.parametrize("name", PATHS)
def test_no_page_is_wider_than_a_phone_and_no_table_is_cut_off(
    phone: Page, stored: Mapping[str, str], name: str
) -> None:
    phone.goto(PATHS[name].format(**stored))
    phone.wait_for_load_state("networkidle")
    phone.evaluate("() => document.querySelectorAll('details').forEach(details => { details.open = true; })")
    for scheme in ("light", "dark"):
        phone.emulate_media(color_scheme=scheme)
        assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        assert phone.evaluate(_CUT) == []
    # Of what a scheme changes, rules see the colours alone.
    assert grave_violations(phone, ["color-contrast"]) == []
    phone.emulate_media(color_scheme="light")
    assert grave_violations(phone) == []


@pytest.mark.parametrize("name", ["before and after", "comparison", "report of forecasts"])
def test_the_tables_of_a_printed_report_have_all_columns(visits: Visits, stored: Mapping[str, str], name: str) -> None:
    page = visits.open(viewport={"width": 718, "height": 1047})  # A4 in CSS pixels, within margins of 1 cm
    page.goto(PATHS[name].format(**stored))
    page.wait_for_load_state("networkidle")
    page.emulate_media(media="print")
    assert page.locator("table").count() > 0
    assert page.evaluate(_CUT) == []


def _calibrated(page: Page, path: str, into: Path) -> list[list[str]]:
    page.goto(path)
    page.get_by_label("A file of predictions").set_input_files(csv_file(50))
    with page.expect_download() as download:
        page.get_by_role("button", name="Calibrate the file").click()
    assert download.value.suggested_filename == "predictions-narrow-name-of-a-map-v1.csv"
    download.value.save_as(into)
    return list(csv.reader(into.read_text("utf-8").splitlines()))


@pytest.mark.parametrize("scripts", [True, False])
def test_a_file_is_calibrated_and_comes_back(
    visits: Visits, stored: Mapping[str, str], tmp_path: Path, scripts: bool
) -> None:
    page = visits.open(java_script_enabled=scripts, accept_downloads=True)
    header, *found = _calibrated(page, f"/ui/maps/{stored['map']}", tmp_path / "calibrated.csv")
    assert header == ["p", "y", "calibrated"]
    assert len(found) == 50
    assert all(0.0 <= float(row[2]) <= 1.0 for row in found)


def test_a_file_with_a_decimal_comma_is_reported_and_calibrated_by_the_keyboard(
    visits: Visits, stored: Mapping[str, str]
) -> None:
    visits.expected.add(422)
    page = visits.open(accept_downloads=True)
    page.goto(f"/ui/maps/{stored['map']}")
    file = payload("commas.csv", b"p;y\n0,25;0\n0,75;1\n")
    page.get_by_label("A file of predictions").set_input_files(file)
    page.get_by_role("button", name="Calibrate the file").press("Enter")
    expect(page.locator("#decimal-hint")).to_contain_text("decimal commas")
    expect(page.get_by_label("Decimal mark")).to_be_focused()
    assert grave_violations(page) == []
    page.get_by_label("Decimal mark").select_option(",")
    page.get_by_label("A file of predictions").set_input_files(file)
    with page.expect_download() as download:
        page.get_by_role("button", name="Calibrate the file").press("Enter")
    assert download.value.suggested_filename == "commas-narrow-name-of-a-map-v1.csv"


def test_a_map_is_explained_in_words_and_leads_to_its_method(page: Page, stored: Mapping[str, str]) -> None:
    page.goto(f"/ui/maps/{stored['map']}")
    expect(page.get_by_role("heading", name="What this map does")).to_be_visible()
    table = page.get_by_role("region", name="Candidates of the fit")
    expect(table.get_by_text("best", exact=True)).to_have_count(1)
    expect(table.get_by_role("row").nth(1)).to_contain_text("best")
    assert "{" not in page.get_by_role("main").inner_text()
    page.get_by_role("link", name="About the method").click()
    page.wait_for_url("**/ui/methods#averaged")
    expect(page.locator("#averaged")).to_be_in_viewport()
    assert grave_violations(page) == []
