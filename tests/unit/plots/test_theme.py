from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from calibrant.plots.canvas import DARK, LIGHT, ROLES, SERIES, Palette, Role

#: Machado, Oliveira & Fernandes (2009), at full severity, in linear RGB.
DEFICIENCIES = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
PALETTES = {"light": LIGHT, "dark": DARK}


def linear(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
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
    for one, other in combinations(seen.values(), 2):
        assert np.linalg.norm(np.cbrt(one) - np.cbrt(other)) > 0.15
