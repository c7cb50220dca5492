"""``python -m benchmarks.gallery``: draws every picture and writes docs/reference/gallery.md."""

from __future__ import annotations

from html import escape
from pathlib import Path

from benchmarks.gallery.entries import ENTRIES, FORECASTS, OWN, PAPERS, GalleryEntry

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "pictures" / "gallery"

_HEAD = """# Gallery

Every picture, drawn by `make gallery`: first the [diagrams](diagrams.md) that the service draws (`POST /diagrams`),
then the pictures of the papers, drawn from their definitions on data of our own. Each is an SVG that follows the
reader's light or dark theme and has a description of its figures as alternative text.
"""


_FORECASTS = """Diagrams of 1,000 simulated forecasts: normal distributions whose standard deviations are a third too
small.
"""


def page() -> str:
    """The page of all pictures."""
    parts = [_HEAD, "## Pictures of the service\n", *map(_section, OWN)]
    parts += ["## Forecasts of a number\n", _FORECASTS, *map(_section, FORECASTS)]
    parts += ["## Pictures of the papers\n", *map(_section, PAPERS)]
    return "\n".join(parts)


def write() -> None:
    """Draw every picture, and write the page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for entry in ENTRIES:
        (FOLDER / f"{entry.name}.svg").write_bytes(entry.draw("svg", "auto", entry.width).content)
    (DOCS / "reference" / "gallery.md").write_text(page(), encoding="utf-8")


def _section(entry: GalleryEntry) -> str:
    alt = escape(entry.draw("svg", "auto", entry.width).alt, quote=True)
    picture = f'<img src="../pictures/gallery/{entry.name}.svg" width="{entry.width}" alt="{alt}">'
    return f"### {entry.title}\n\n{entry.text}\n\n{picture}\n"


if __name__ == "__main__":
    write()
