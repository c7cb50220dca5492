"""``python -m benchmarks.revisiting``: writes docs/benchmarks/revisiting.md and its pictures, some 5 minutes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.records import publish
from benchmarks.revisiting.measures import Figures, figures
from benchmarks.revisiting.models import Train, families, predictions, smoothed
from benchmarks.revisiting.page import Results, page, pictures

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Train every classifier, measure it and write the page."""
    import torch

    torch.set_num_threads(1)
    found = Results(
        {family: {name: _measured(train) for name, train in each.items()} for family, each in families().items()},
        {smoothing: _measured(train) for smoothing, train in smoothed().items()},
    )
    drawn = pictures(found)
    for name, picture in drawn.items():
        (DOCS / "pictures" / f"revisiting-{name}.svg").write_bytes(picture.content)
    publish(DOCS / "benchmarks" / "revisiting.md", page(found, drawn))


def _measured(train: Train) -> list[Figures]:
    return [figures(each) for each in predictions(train)]


if __name__ == "__main__":
    main()
