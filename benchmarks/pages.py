"""The pages of docs/ that are made from the code."""

from __future__ import annotations

from pathlib import Path

from benchmarks.monitors.gathered import monitoring_page
from calibrant.diagrams.page import diagrams_page
from calibrant.measures.page import catalogue_page
from calibrant.methods.page import methods_page
from cli.commands_page import commands_page
from cli.settings_page import settings_page
from schemas.problem_table.page import problems_page
from service.calls_page import calls_page

DOCS = Path(__file__).parents[1] / "docs"
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


if __name__ == "__main__":
    write_pages()
