"""What holds of every page: it shuts nobody out, in light and in dark, and nothing of it jumps."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.browser.judged import grave_violations, layout_shift
from tests.browser.watched import Visits

PATHS = ("/", "/problems", "/problems/too-large")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PATHS)
def test_a_page_shuts_nobody_out_and_stands_still(visits: Visits, path: str, scheme: Literal["light", "dark"]) -> None:
    page = visits.open(color_scheme=scheme)
    page.goto(path)
    assert layout_shift(page) == 0
    assert grave_violations(page) == []
    assert page.title()
