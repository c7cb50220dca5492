"""The pages of docs/reference that are generated from the code."""

from __future__ import annotations

from pathlib import Path

from benchmarks.pages.by_reference import by_reference_page
from benchmarks.pages.calls import calls_page
from benchmarks.pages.code_lines import lines_page
from benchmarks.pages.columns import columns_page
from benchmarks.pages.commands import commands_page
from benchmarks.pages.diagrams import diagrams_page
from benchmarks.pages.distribution_measures import distribution_measures_page
from benchmarks.pages.distribution_methods import distribution_methods_page
from benchmarks.pages.fields import fields_page
from benchmarks.pages.formats import formats_page
from benchmarks.pages.map_document import map_document_page
from benchmarks.pages.measures import catalogue_page
from benchmarks.pages.memory import memory_page
from benchmarks.pages.methods import methods_page
from benchmarks.pages.metrics import metrics_page
from benchmarks.pages.problems import problems_page
from benchmarks.pages.set_methods import set_methods_page
from benchmarks.pages.settings import settings_page

DOCS = Path(__file__).parents[2] / "docs" / "reference"
PAGES = {
    "measures": catalogue_page,
    "distribution-measures": distribution_measures_page,
    "diagrams": diagrams_page,
    "methods": methods_page,
    "map-document": map_document_page,
    "distribution-methods": distribution_methods_page,
    "set-methods": set_methods_page,
    "by-reference": by_reference_page,
    "settings": settings_page,
    "formats": formats_page,
    "memory": memory_page,
    "commands": commands_page,
    "columns": columns_page,
    "problems": problems_page,
    "http-calls": calls_page,
    "http-fields": fields_page,
    "metrics": metrics_page,
    "code-lines": lines_page,
}


def write_pages() -> None:
    for name, page in PAGES.items():
        (DOCS / f"{name}.md").write_text(page(), encoding="utf-8")
