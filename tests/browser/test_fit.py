"""From a report to a map: a fit, watched while it runs, and its end."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from calibrant.client import Calibrant
from service.stack import Stack
from tests.browser.checks import DECODED, grave_violations, layout_shift
from tests.browser.files import csv_file, rows
from tests.browser.watched import Visits
from tests.process_tree import paused

pytestmark = pytest.mark.slow

JOB = re.compile(r"/ui/jobs/job_[0-9a-f]+$")
#: Notes every share of the bar that is shown.
_NOTING = """() => {
  window.shares = [];
  const note = () => {
    const bar = document.querySelector('#job progress');
    if (bar && bar.position >= 0 && window.shares.at(-1) !== bar.position) window.shares.push(bar.position);
  };
  const job = document.getElementById('job');
  new MutationObserver(note).observe(job, {childList: true, subtree: true, attributes: true});
  note();
}"""


@pytest.fixture(scope="module")
def batch(service: Stack) -> str:
    """A stored batch of two classes."""
    with Calibrant(service.url) as client:
        return client.upload(*rows(3000)).id


@pytest.fixture(scope="module")
def slow_batch(service: Stack) -> str:
    """A stored batch on which an ``iop-op`` fit takes seconds, so that its progress is reported several times."""
    random = np.random.default_rng(0)
    with Calibrant(service.url) as client:
        return client.upload(random.dirichlet(np.ones(10), 4000), random.integers(0, 10, 4000)).id


def _fit(page: Page, batch: str, method: str, name: str = "") -> None:
    page.goto(f"/ui/reports/{batch}")
    page.get_by_label("Method").select_option(method)
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("button", name="Fit this map").click()


def test_the_bar_of_a_fit_reaches_its_end_and_leads_to_the_map(page: Page, slow_batch: str) -> None:
    _fit(page, slow_batch, "iop-op", "watched")
    page.wait_for_url(JOB)
    page.evaluate(_NOTING)
    expect(page.get_by_role("heading", name="watched")).to_be_visible()
    shares = page.evaluate("window.shares")
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert len(shares) > 2  # it was seen to move
    expect(page.get_by_role("progressbar")).to_have_text("Done")
    picture = page.get_by_role("img", name=re.compile("before and after the map"))
    expect(picture).to_be_visible()
    page.evaluate(DECODED)
    with page.expect_download() as document:
        page.get_by_role("link", name="Download the document").click()
    assert document.value.suggested_filename == "watched-v1.json"
    assert layout_shift(page) == 0
    assert grave_violations(page) == []


def test_a_quick_fit_leads_to_its_map_at_once(page: Page, batch: str) -> None:
    _fit(page, batch, "platt", "quick")
    page.wait_for_url(re.compile(r"/ui/maps/map_[0-9a-f]+$"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("quick")


def test_a_map_with_an_invalid_name_gets_a_readable_error(page: Page, visits: Visits, batch: str) -> None:
    visits.expected.add(422)
    page.goto(f"/ui/reports/{batch}")
    page.get_by_role("textbox", name="Name").fill("map_mine")
    page.get_by_role("button", name="Fit this map").click()
    expect(page.locator("#message")).to_contain_text("must not begin with map_")
    expect(page.get_by_role("textbox", name="Name")).to_have_value("map_mine")


def test_a_job_is_cancelled_from_its_page_and_stands_in_the_list(page: Page, service: Stack, slow_batch: str) -> None:
    with paused(service.worker.pid):  # so that the job does not end before the page is there
        _fit(page, slow_batch, "iop-op", "never")
        page.wait_for_url(JOB)
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("#job .chip")).to_have_text("cancelled")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Jobs").click()
    first = page.get_by_role("row").nth(1)
    expect(first).to_contain_text("cancelled")
    expect(first.get_by_role("link")).to_have_text("Fit by iop-op")
    assert grave_violations(page) == []


def test_without_scripts_a_fit_is_watched_by_looking_again(visits: Visits, batch: str) -> None:
    page = visits.open(java_script_enabled=False)
    _fit(page, batch, "pl")
    page.wait_for_url(JOB)
    status = page.locator("#job .chip")
    while status.inner_text() != "succeeded":  # which waits for a page that is loading
        page.get_by_role("link", name="Refresh").click()
    expect(page.get_by_role("link", name="Refresh")).to_have_count(0)
    expect(page.get_by_role("link", name="Show the map")).to_be_visible()


def test_a_report_is_kept_as_one_file_and_as_data(page: Page) -> None:
    page.goto("/")
    page.get_by_label("A file of predictions and labels").set_input_files(csv_file())
    page.get_by_role("button", name="Show the report").click()
    for kind, begins in (("HTML", b"<!doctype html>"), ("JSON", b'{"n":400')):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"({kind})").click()
        with download.value.path().open("rb") as file:
            assert file.read(20).lower().startswith(begins)
