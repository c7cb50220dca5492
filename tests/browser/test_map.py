"""The page of a map: a file is calibrated and comes back, and the map is explained."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.checks import grave_violations
from tests.browser.files import csv_file, payload
from tests.browser.watched import Visits

pytestmark = pytest.mark.slow


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
    header, *rows = _calibrated(page, f"/ui/maps/{stored['map']}", tmp_path / "calibrated.csv")
    assert header == ["p", "y", "calibrated"]
    assert len(rows) == 50
    assert all(0.0 <= float(row[2]) <= 1.0 for row in rows)


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
