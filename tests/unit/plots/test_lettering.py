"""Names are data: what people call their models neither breaks a picture nor means anything to it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from calibrant.plots.canvas import About, cleaned, settable, shortened, width
from calibrant.plots.diagram import draw, draw_several
from tests.unit.plots.specimens import PLAIN, diagrams

NAMES = {
    "markup": '<script>alert("x")</script>&amp;',
    "mathtext": r"$\frac{1}{2}$ and $",
    "style": "#0072b2 var(--picture-ink) url(http://example.org)",
    "controls": "a\x00b\x1bc\nd\te\x7f\ufeff",
    "surrogate": "half \ud800 of a pair",
    "directions": "\u202eevil\u202c \u2066isolated\u2069",
    "hebrew": "מודל סיווג",
    "arabic": "نموذج التصنيف",
    "chinese": "垃圾邮件过滤器",
    "emoji": "🚀👩🏽‍🔬🇪🇪",
    "combining": "z̸͎̗a͖l̵g̴o̷" * 20,
    "long": "a very long name of a model " * 100,
    "unbroken": "x" * 10_000,
    "blank": " \n\t ",
    "percent": "%s %(x)s {0}",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["svg", "png"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_is_drawn_as_it_is(name: str, form: str) -> None:
    about = About(10, name, name, (name, 0.5), (0.1, 0.2))
    for how in ({}, {"after": (diagrams()["reliability"], about)}):
        drawn = draw("reliability", diagrams()["reliability"], about, form=form, **how)  # type: ignore[arg-type]
        assert drawn.content
    assert draw_several("corp", [(diagrams()["corp"], about)] * 2, title=name, form=form).content  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_is_text_in_an_svg_and_nothing_else(name: str) -> None:
    drawn = draw("reliability", diagrams()["reliability"], replace(PLAIN, name=name))
    plain = draw("reliability", diagrams()["reliability"], replace(PLAIN, name="a" if cleaned(name) else None))
    found, expected = (ElementTree.fromstring(d.content) for d in (drawn, plain))
    assert [element.tag for element in found.iter()] == [element.tag for element in expected.iter()]


def test_short_names_are_complete_and_long_ones_keep_both_ends() -> None:
    svg = draw("reliability", diagrams()["reliability"], replace(PLAIN, name="<b>$x$ 垃圾</b>")).content.decode()
    assert ">&lt;b&gt;$x$ 垃圾&lt;/b&gt;<" in svg
    text = shortened("begin " + "x" * 500 + " end", 200, 12)
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "…" in text
    assert width(text, 12) <= 200


def test_characters_that_the_font_lacks_are_marked() -> None:
    assert settable("abc 垃 é") == "abc \N{REPLACEMENT CHARACTER} é"


def test_marks_of_direction_do_not_leave_a_name() -> None:
    assert cleaned("\u202etxt.exe\u202c\u200f") == "txt.exe"
