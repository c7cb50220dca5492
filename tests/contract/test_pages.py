"""The pages that are made from a catalogue are those of the catalogue."""

from __future__ import annotations

from pathlib import Path

from calibrant.diagrams.page import diagrams_page
from calibrant.measures.page import catalogue_page
from calibrant.methods.page import methods_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_measures_is_current() -> None:
    assert (DOCS / "measures.md").read_text("utf-8") == catalogue_page(), "run make docs"


def test_the_page_of_diagrams_is_current() -> None:
    assert (DOCS / "diagrams.md").read_text("utf-8") == diagrams_page(), "run make docs"


def test_the_page_of_methods_is_current() -> None:
    assert (DOCS / "methods.md").read_text("utf-8") == methods_page(), "run make docs"
