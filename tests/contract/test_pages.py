"""The pages that are made from the code are those of the code."""

from __future__ import annotations

import pytest

from benchmarks.pages import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_current(name: str) -> None:
    assert (DOCS / f"{name}.md").read_text("utf-8") == PAGES[name](), "run make reference"
