from __future__ import annotations

import pytest

from pictures.diagram import draw
from pictures.drawn import About
from pictures.errors import NothingToDraw


def test_a_diagram_without_data_is_not_drawn_and_says_why() -> None:
    with pytest.raises(NothingToDraw, match="too few rows"):
        draw("reliability", {"data": None, "definition": {}, "problem": "too few rows"}, About(1, "binary"))
