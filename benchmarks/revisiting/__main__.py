"""``python -m benchmarks.revisiting``: writes docs/benchmarks/revisiting.md and its pictures, some 5 minutes.

The predictions of each classifier are kept in ``.calibrant`` when it has been trained, so that a later run of the same
code resumes an interrupted one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.provenance import here
from benchmarks.records import KEPT, publish
from benchmarks.revisiting.measures import SeverityFigures, decisions, figures
from benchmarks.revisiting.models import SeverityLogits, Train, families, predictions, smoothed
from benchmarks.revisiting.page import SeverityResults, page, pictures

DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    """Train every classifier, measure it and write the page."""
    import torch

    torch.set_num_threads(1)
    folder = KEPT / "records" / f"revisiting-{here().digest}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    logits_by_family = {
        family: {name: _predicted(folder / f"{family} {name}.npz", train) for name, train in own.items()}
        for family, own in {**families(), "label smoothing": smoothed()}.items()
    }
    measured = {
        family: {name: _measured(logits) for name, logits in own.items()} for family, own in logits_by_family.items()
    }
    smoothing = measured.pop("label smoothing")
    results = SeverityResults(measured, smoothing, decisions(logits_by_family))
    drawn = pictures(results)
    for name, picture in drawn.items():
        (DOCS / "pictures" / f"revisiting-{name}.svg").write_bytes(picture.content)
    publish(DOCS / "benchmarks" / "revisiting.md", page(results, drawn))


def _predicted(path: Path, train: Train) -> list[SeverityLogits]:
    """The predictions of every severity, from the file if it exists."""
    if not path.exists():
        splits = predictions(train)
        part = path.with_suffix(".part.npz")
        arrays: dict[str, Any] = {
            name: np.stack([getattr(split, name) for split in splits]) for name in SeverityLogits._fields
        }
        np.savez(part, **arrays)
        part.rename(path)
        print(path.stem, flush=True)
    with np.load(path) as stored:
        return [
            SeverityLogits(*splits) for splits in zip(*(stored[name] for name in SeverityLogits._fields), strict=True)
        ]


def _measured(by_severity: list[SeverityLogits]) -> list[SeverityFigures]:
    return [figures(logits) for logits in by_severity]


if __name__ == "__main__":
    main()
