"""Colours and letters of diagrams."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from calibrant.plots.canvas import (
    DARK,
    LIGHT,
    ROLES,
    SERIES,
    Caption,
    Palette,
    Role,
    cleaned,
    settable,
    shortened,
    width,
)
from calibrant.plots.diagram import draw, draw_several
from tests.unit.plots.specimens import PLAIN, diagram

#: Machado, Oliveira & Fernandes (2009), at full severity, in linear RGB.
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
PALETTES = {"light": LIGHT, "dark": DARK}


def linear(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(first: str, other: str) -> float:
    low, high = sorted((luminance(first), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_no_two_roles_have_one_colour(palette: Palette) -> None:
    assert len({palette[role] for role in ROLES}) == len(ROLES)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_words_and_lines_have_the_contrast_that_wcag_asks_for(palette: Palette) -> None:
    words: tuple[Role, ...] = ("ink", "quiet", *SERIES)
    assert all(contrast(palette[role], palette["paper"]) >= 4.5 for role in words)
    assert contrast(palette["rule"], palette["paper"]) >= 3.0
    assert all(contrast(palette["ink"], palette[tint]) >= 4.5 for tint in ("first-tint", "second-tint", "band"))


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_colours_of_series_are_distinguishable_with_colour_blindness(palette: Palette, deficiency: str) -> None:
    seen = {role: np.array(DEFICIENCIES[deficiency]) @ linear(palette[role]) for role in ("first", "second")}
    for first, other in combinations(seen.values(), 2):
        assert np.linalg.norm(np.cbrt(first) - np.cbrt(other)) > 0.15


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
    about = Caption(10, name, name, (name, 0.5), (0.1, 0.2))
    for options in ({}, {"after": (diagram("reliability"), about)}):
        drawn = draw("reliability", diagram("reliability"), about, form=form, **options)  # type: ignore[arg-type]
        assert drawn.content
    assert draw_several("corp", [(diagram("corp"), about)] * 2, title=name, form=form).content  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_is_text_in_an_svg_and_nothing_else(name: str) -> None:
    drawn = draw("reliability", diagram("reliability"), replace(PLAIN, name=name))
    plain = draw("reliability", diagram("reliability"), replace(PLAIN, name="a" if cleaned(name) else None))
    written, expected = (ElementTree.fromstring(d.content) for d in (drawn, plain))
    assert [element.tag for element in written.iter()] == [element.tag for element in expected.iter()]


def test_short_names_are_complete_and_long_ones_keep_both_ends() -> None:
    svg = draw("reliability", diagram("reliability"), replace(PLAIN, name="<b>$x$ 垃圾</b>")).content.decode()
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
