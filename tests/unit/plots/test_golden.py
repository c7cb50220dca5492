"""Every picture looks as it did when somebody last looked at it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from PIL import Image, ImageFilter

from calibrant.plots.diagram import draw
from tests.unit.plots.likeness import GOLDEN, Pixels, alike, halved, pixels, unlike
from tests.unit.plots.specimens import ABOUT, PICTURES, diagram


def golden(name: str) -> Pixels:
    with Image.open(GOLDEN / f"{name}.png") as image:
        return pixels(image)


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_looks_as_its_golden_image_does(name: str) -> None:
    drawn = pixels(halved(PICTURES[name](form="png", width=400).content))
    assert drawn.shape == golden(name).shape
    assert alike(drawn, golden(name)), f"{unlike(drawn, golden(name))} pixels differ: make pictures-golden, and look"


def test_every_golden_image_is_of_a_picture() -> None:
    assert {path.stem for path in GOLDEN.glob("*.png")} == set(PICTURES)


@pytest.mark.parametrize(("moved", "grown"), [(0.03, 1.0), (-0.03, 1.0), (0.0, 1.3)])
def test_a_bar_that_moved_by_three_hundredths_or_grew_in_the_histogram_is_not_alike(moved: float, grown: float) -> None:
    shown = copy.deepcopy(diagram("reliability"))
    for name in ("observed_frequency", "gap", "low", "high", "roof_start", "roof_end"):
        shown["data"][name][7] += moved
    shown["data"]["histogram"]["share"][10] *= grown
    drawn = pixels(halved(draw("reliability", shown, ABOUT, form="png", width=400).content))
    assert not alike(drawn, golden("reliability"))


@pytest.mark.parametrize("name", ["reliability", "ks-graphs", "several"])
def test_softer_rims_and_half_a_pixel_are_alike(name: str) -> None:
    drawn = halved(PICTURES[name](form="png", width=400).content)
    assert alike(pixels(drawn.filter(ImageFilter.GaussianBlur(0.4))), golden(name))
    aside = (1, 0, 0.5, 0, 1, 0)
    half = drawn.transform(drawn.size, Image.Transform.AFFINE, aside, Image.Resampling.BILINEAR, fillcolor="white")
    assert alike(pixels(half), golden(name))


def test_an_empty_picture_is_like_none() -> None:
    drawn = golden("reliability")
    assert not alike(np.full_like(drawn, 255), drawn)
