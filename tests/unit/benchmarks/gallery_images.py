"""``python -m tests.unit.benchmarks.gallery_images``: draws the golden images of the gallery again. Look at them."""

from __future__ import annotations

from benchmarks.gallery.entries import PAPERS, GalleryEntry
from tests.unit.plots.likeness import GOLDEN, halved

FOLDER = GOLDEN.with_name("gallery")
#: Of the five shapes over the known truth one is enough: they differ by their rows alone, and take seconds.
SHOWN = {entry.name: entry for entry in PAPERS if not entry.name.startswith("truth-") or entry.name == "truth-stairs"}


def drawn(entry: GalleryEntry) -> bytes:
    """The picture as a PNG."""
    return entry.draw("png", "light", entry.width).content


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, entry in SHOWN.items():
        halved(drawn(entry)).save(FOLDER / f"{name}.png", optimize=True)
