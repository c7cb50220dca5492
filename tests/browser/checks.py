"""Checks of a page: whom it shuts out (axe-core), and what of it jumps while it loads."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_GRAVE = ("serious", "critical")
_THERE = "() => typeof axe !== 'undefined'"
_RUN = "rules => axe.run(document, {resultTypes: ['violations'], ...(rules && {runOnly: rules})})"
#: The sum of all shifts of the layout since the page began, those behind a person's own touch left out.
_SHIFTS = """() => new Promise(resolve => {
  let sum = 0;
  const add = list => { for (const e of list.getEntries()) if (!e.hadRecentInput) sum += e.value; };
  const observer = new PerformanceObserver(add);
  observer.observe({type: 'layout-shift', buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => {
    for (const e of observer.takeRecords()) if (!e.hadRecentInput) sum += e.value;
    resolve(sum);
  }));
})"""

#: Waits until every picture of a page can be seen; a page's policy forbids to look for it by text that is evaluated.
DECODED = "() => Promise.all([...document.images].map(image => image.decode()))"


def grave_violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """The serious and critical violations of a page, each with where it is and why; of all ``rules`` or some."""
    if not page.evaluate(_THERE):
        page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate(_RUN, rules)
    return [
        f"{violation['id']} at {' '.join(map(str, node['target']))}: {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in _GRAVE
        for node in violation["nodes"]
    ]


def layout_shift(page: Page) -> float:
    """How much of a page moved by itself since it began to load; 0 is a page that stands still."""
    shift: float = page.evaluate(_SHIFTS)
    return shift
