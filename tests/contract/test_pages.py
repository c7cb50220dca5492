"""The pages that are made from the code are those of the code."""

from __future__ import annotations

import pytest

from benchmarks.pages import DOCS, PAGES
from benchmarks.pages.words import words


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text("utf-8") == PAGES[name](), "run make reference"


def test_the_pages_written_by_hand_stay_short() -> None:
    assert sum(words().values()) <= 25_000, "python -m benchmarks.pages.words"
