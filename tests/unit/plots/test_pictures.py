"""What holds of every picture, whatever it shows."""

from __future__ import annotations

import functools
import io
import re
import threading
from xml.etree import ElementTree

import pytest
from PIL import Image

from calibrant.plots.canvas import Drawn, InvalidPicture, Theme, width
from calibrant.plots.diagram import draw
from tests.unit.plots.specimens import PICTURES, PLAIN, diagram

SVG = "{http://www.w3.org/2000/svg}"
WITH_ABOUT = ("reliability", "corp", "logit-logit", "ks-graphs", "fit-on-test-pl", "several")
THEMES: tuple[Theme, ...] = ("auto", "light", "dark")
#: What an SVG may consist of here; nothing of it runs, and nothing fetches.
ELEMENTS = {"svg", "title", "desc", "style", "defs", "g", "path", "clipPath", "rect", "text", "pattern"}


def tree(drawn: Drawn) -> ElementTree.Element:
    return ElementTree.fromstring(drawn.content)


@functools.cache
def tree_of(name: str, wide: int) -> ElementTree.Element:
    """A picture of this width, which several tests look at."""
    return tree(PICTURES[name](width=wide))


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", PICTURES)
def test_an_svg_is_well_formed_and_fetches_and_runs_nothing(name: str, theme: Theme) -> None:
    drawn = PICTURES[name](theme=theme)
    assert drawn.media_type == "image/svg+xml"
    assert {element.tag.removeprefix(SVG) for element in tree(drawn).iter()} <= ELEMENTS
    text = drawn.content.decode()
    assert "<!DOCTYPE" not in text
    assert not re.search(r"\son\w+=|javascript:|@import|\sid=\"(?!p|h)", text)
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", text))
    assert not re.search(r"https?://(?!www\.w3\.org/(2000/svg|1999/xlink)\")", text)


@pytest.mark.parametrize("name", PICTURES)
def test_an_svg_has_its_figures_in_its_description(name: str) -> None:
    drawn = PICTURES[name]()
    root = tree(drawn)
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root[0] is title
    assert title is not None
    assert title.text
    assert description is not None
    assert description.text == drawn.alt
    assert "1,200 rows" in drawn.alt
    assert "reduction binary" in drawn.alt or "forecasts: " in drawn.alt
    assert len(re.findall(r"\d\.\d|\d %", drawn.alt)) >= 3


@pytest.mark.parametrize("name", WITH_ABOUT)
def test_title_and_alternative_text_hold_name_rows_reduction_error_and_interval(name: str) -> None:
    drawn = PICTURES[name](width=560)
    shown = " ".join(element.text or "" for element in tree(drawn).iter(f"{SVG}text"))
    for part in ("spam-filter:3", "binary", "0.123", "0.100 to 0.150", "1,200"):
        assert part in shown
        assert part in drawn.alt


def test_a_picture_without_its_own_error_shows_that_of_the_diagram() -> None:
    ece = f"{diagram('reliability')['data']['ece_debiased']:.3f}"
    drawn = draw("reliability", diagram("reliability"), PLAIN)
    assert f"debiased ECE {ece}" in drawn.alt
    assert f">debiased ECE {ece}<" in drawn.content.decode()


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_same_data_are_the_same_bytes_and_a_png_has_twice_the_pixels_and_no_date(name: str) -> None:
    for form in ("svg", "png"):
        drawn = PICTURES[name](form=form, width=320)
        assert PICTURES[name](form=form, width=320).content == drawn.content
    with Image.open(io.BytesIO(drawn.content)) as image:
        assert image.width == 640
        assert not {"Creation Time", "Software", "date"} & set(image.info)
    assert drawn.media_type == "image/png"


@pytest.mark.parametrize("name", PICTURES)
def test_words_stay_on_the_sheet_and_are_not_tiny(name: str) -> None:
    for wide in (400, 560):
        root = tree_of(name, wide)
        height = float(root.get("height", ""))
        for word in root.iter(f"{SVG}text"):
            size, x, y = (float(word.get(key, "")) for key in ("font-size", "x", "y"))
            long = width(word.text or "", size, "bold" if word.get("font-weight") else "normal")
            assert size >= 11
            assert 0 < y < height
            if word.get("transform"):
                assert size < x < wide
                continue
            start = x - long * {"start": 0.0, "middle": 0.5, "end": 1.0}[word.get("text-anchor", "start")]
            assert start >= 0
            assert start + long <= wide


@pytest.mark.parametrize("name", PICTURES)
def test_words_do_not_lie_on_one_another(name: str) -> None:
    for wide in (400, 560):
        boxes = []
        for word in tree_of(name, wide).iter(f"{SVG}text"):
            size, x, y = (float(word.get(key, "")) for key in ("font-size", "x", "y"))
            if word.get("transform"):
                continue
            long = width(word.text or "", size)
            start = x - long * {"start": 0.0, "middle": 0.5, "end": 1.0}[word.get("text-anchor", "start")]
            boxes.append((start, y - 0.7 * size, start + long, y, word.text))
        for i, first in enumerate(boxes):
            for other in boxes[:i]:
                apart = first[0] >= other[2] or other[0] >= first[2] or first[1] >= other[3] or other[1] >= first[3]
                assert apart, (first, other)


def test_the_theme_auto_follows_the_reader_and_light_and_dark_do_not() -> None:
    auto, light, dark = (PICTURES["reliability"](theme=theme).content.decode() for theme in THEMES)
    assert "@media (prefers-color-scheme:dark)" in auto
    assert "var(--" not in light + dark
    assert "<style" not in light + dark
    assert 'fill="#ffffff"' in light
    assert 'fill="#14181d"' in dark
    assert not re.search(r'(fill|stroke)="#', auto), "every colour of auto is a custom property"


def test_no_shape_is_styled_where_a_page_may_forbid_it() -> None:
    assert all(" style=" not in picture(theme="light").content.decode() for picture in PICTURES.values())


@pytest.mark.slow
def test_pictures_drawn_at_once_are_those_drawn_in_turn() -> None:
    names = ["reliability", "ks-graphs", "several", "cost-plane"] * 3
    turn = [PICTURES[name](form="png", theme="dark", width=320).content for name in names]
    drawn: list[bytes] = [b""] * len(names)

    def work(i: int) -> None:
        drawn[i] = PICTURES[names[i]](form="png", theme="dark", width=320).content

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == turn


@pytest.mark.parametrize("wrong", [{"width": 10}, {"width": 10**6}, {"form": "gif"}, {"theme": "pink"}])
def test_a_form_a_theme_or_a_width_that_there_is_not_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidPicture):
        PICTURES["reliability"](**wrong)
