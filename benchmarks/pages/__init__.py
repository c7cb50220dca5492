"""The pages of docs/ that are made from the code."""

from __future__ import annotations

from pathlib import Path

from benchmarks.monitors.gathered import monitoring_page
from benchmarks.pages.calls import calls_page
from benchmarks.pages.commands import commands_page
from benchmarks.pages.diagrams import diagrams_page
from benchmarks.pages.measures import catalogue_page
from benchmarks.pages.methods import methods_page
from benchmarks.pages.problems import problems_page
from benchmarks.pages.settings import settings_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "measures": catalogue_page,
    "diagrams": diagrams_page,
    "methods": methods_page,
    "settings": settings_page,
    "commands": commands_page,
    "problems": problems_page,
    "calls": calls_page,
    "monitoring": monitoring_page,
}


def write_pages() -> None:
    for name, page in PAGES.items():
        (DOCS / f"{name}.md").write_text(page(), encoding="utf-8")
