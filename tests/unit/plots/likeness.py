"""Whether two pictures look the same: as they are, but for the rims that each version of FreeType and Agg draws."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

GOLDEN = Path(__file__).parents[2] / "golden" / "pictures"
#: Radius of the blur under which pictures are compared, in pixels; colour values by which a pixel may leave what its
#: neighbours show; and pixels that may do so. Half a pixel to the side leaves 0 astray, a bar moved by 1 % over 100.
_BLUR, _LEEWAY, _PIXELS = 1.0, 24, 25

Pixels = npt.NDArray[np.int16]


def halved(png: bytes) -> Image.Image:
    """A PNG at one pixel for one of the picture's, which has two."""
    with Image.open(io.BytesIO(png)) as image:
        return image.convert("RGB").reduce(2)


def pixels(image: Image.Image) -> Pixels:
    """Colour values ``(height, width, 3)``, softened."""
    return np.asarray(image.convert("RGB").filter(ImageFilter.GaussianBlur(_BLUR)), dtype=np.int16)


def unlike(first: Pixels, other: Pixels) -> int:
    """Pixels of either picture that have no like among the nine at that place of the other."""
    return max(_astray(first, other), _astray(other, first))


def alike(first: Pixels, other: Pixels) -> bool:
    """Whether two pictures differ by no more than rims of letters and lines do."""
    return first.shape == other.shape and unlike(first, other) <= _PIXELS


def _astray(first: Pixels, other: Pixels) -> int:
    padded = np.pad(other, ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width, _ = other.shape
    near = np.stack([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)])
    astray = (first < near.min(axis=0) - _LEEWAY) | (first > near.max(axis=0) + _LEEWAY)
    return int(np.count_nonzero(astray.any(axis=2)))
