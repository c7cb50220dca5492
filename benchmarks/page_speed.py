"""How fast the page is in a real browser: its first paint, and from a file to its report.

Writes docs/benchmarks/page-speed.md.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.timing import machine
from calibrant.client import Calibrant
from service.stack import stack
from tests.browser.chromium import find_chromium, flags
from tests.browser.files import csv_file, rows
from tests.browser.judged import DECODED, layout_shift

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks" / "page-speed.md"
ROUNDS = 9
ROWS = 10_000
_PAINT = """() => new Promise(resolve => {
  const found = list => {
    for (const entry of list.getEntriesByName('first-contentful-paint')) resolve(entry.startTime);
  };
  new PerformanceObserver(found).observe({type: 'paint', buffered: true});
})"""


def first_paint(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds to the first contentful paint of a page that was never visited, and how much of it moved."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        return float(page.evaluate(_PAINT)), layout_shift(page)


def to_report(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds from the button below a file to its report, with every diagram shown; and how much of it moved."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        page.get_by_label("A file of predictions and labels").set_input_files(csv_file(ROWS))
        began = time.perf_counter()
        page.get_by_role("button", name="Show the report").click()
        page.wait_for_url("**/ui/reports/*")
        page.evaluate(DECODED)
        return (time.perf_counter() - began) * 1000.0, layout_shift(page)


def to_map(browser: Browser, url: str) -> tuple[float, float]:
    """Milliseconds from the button of a fit by a job to the map, watched live; and how much of the page moved."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(url)
        _choose(page, "averaged")
        began = time.perf_counter()
        page.get_by_role("button", name="Fit this map").click()
        page.get_by_role("link", name="Show the map").wait_for()
        return (time.perf_counter() - began) * 1000.0, layout_shift(page)


def _choose(page: Page, method: str) -> None:
    page.get_by_label("Method").select_option(method)


def measured(name: str, goal: str, once: Callable[[], tuple[float, float]]) -> str:
    """A row of the table: the median and the slowest of several rounds, the first of all apart."""
    first, *rest = (once() for _ in range(ROUNDS + 1))
    times = [took for took, _ in rest]
    moved = max(shift for _, shift in (first, *rest))
    return f"| {name} | {statistics.median(times):,.0f} | {max(times):,.0f} | {first[0]:,.0f} | {goal} | {moved:.3f} |"


def page_text(lines: list[str], browser: str) -> str:
    """The page of the documentation."""
    return "\n".join(
        [
            "# How fast the page is",
            "",
            f"By `make page-speed`, in headless Chromium {browser} on the machine of the service ({machine()}),",
            f"with a worker beside it: the median and the slowest of {ROUNDS} visits, each by a browser with nothing",
            "in its cache, in milliseconds. The first visit comes right after the start of the service. What moved is",
            "the layout shift, the most of all visits; 0 is a page that stands still.",
            "",
            "| what | median, ms | slowest, ms | first, ms | goal, ms | moved |",
            "|---|---|---|---|---|---|",
            *lines,
            "",
        ]
    )


def main() -> None:
    """Measure, and write the page."""
    with (
        tempfile.TemporaryDirectory(prefix="calibrant-page-") as folder,
        (Path(folder) / "log").open("ab") as log,
        stack(host="127.0.0.1", port=0, data=Path(folder) / "data", log=log) as running,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find_chromium(playwright.chromium), args=flags()) as browser,
    ):
        with Calibrant(running.url) as client:
            client.ready()
            report = f"{running.url}/ui/reports/{client.upload(*rows(ROWS)).id}"
        lines = [
            measured("first paint of `/`", "300", lambda: first_paint(browser, running.url)),
            measured(f"a CSV of {ROWS:,} rows to its report", "2,000", lambda: to_report(browser, running.url)),
            measured(f"first paint of the report of {ROWS:,} rows", "", lambda: first_paint(browser, report)),
            measured(f"`averaged` fitted to {ROWS:,} rows, watched to its end", "", lambda: to_map(browser, report)),
        ]
        PAGE.write_text(page_text(lines, browser.version), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
