"""Draw the golden images again; look at the differences before you commit them."""

from __future__ import annotations

import sys

from PIL import Image

from tests.unit.plots.likeness import GOLDEN, alike, halved, pixels
from tests.unit.plots.specimens import PICTURES


def main() -> None:
    """Write each picture whose looks have changed, or that is new."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, picture in PICTURES.items():
        path = GOLDEN / f"{name}.png"
        drawn = halved(picture(form="png", width=400).content)
        if path.exists():
            with Image.open(path) as before:
                if alike(pixels(before), pixels(drawn)):
                    continue
        drawn.save(path, optimize=True)
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
