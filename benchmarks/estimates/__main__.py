"""Run the benchmarks: ``python -m benchmarks.estimates DATA``. Writes the results and docs/benchmarks/estimates.md."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.checks import PagePart, Rendering, StoredRecord
from benchmarks.estimates import drift, employment, shift
from benchmarks.estimates.page import page
from benchmarks.records import load, publish, save

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "estimates.md"


def kept(name: str, results: Any) -> Any:
    save(RESULTS / f"{name}.json", results)
    return results


def main(data: Path) -> None:
    cbpe = _loaded(RESULTS / "cbpe.json")
    kept("employment", employment.employment(data, cbpe))
    kept("without_shift", employment.without_shift())
    kept("drift", {"false_alarms": drift.false_alarms(), "delays": drift.delays()})
    by_file = {path.stem: shift.errors(path) for path in sorted(data.glob("*.npz")) if path.stem[:3] != "flu"}
    kept("label_shift", {name: of_file for name, of_file in by_file.items() if of_file is not None})
    write_page()


def checks(data: Path | None = None) -> list[PagePart]:
    """Return what can be computed alone: streams without shift, and with their files the employment and label shift."""
    stored = {
        path.stem: load(path, "make estimates DATA=folder", older=True) for path in sorted(RESULTS.glob("*.json"))
    }
    parts: list[PagePart] = [
        Rendering("the page of the stored results", partial(page, stored)),
        StoredRecord("streams without shift", stored["without_shift"], employment.without_shift),
    ]
    if data:
        files = {name: data / f"{name}.npz" for name in stored["label_shift"]}
        parts += [
            StoredRecord(name, stored["label_shift"][name], partial(shift.errors, path)) for name, path in files.items()
        ]
        parts.append(
            StoredRecord("employment", stored["employment"], partial(employment.employment, data, stored["cbpe"]))
        )
    return parts


def write_page() -> None:
    """Write the page from the committed results."""
    publish(PAGE, page({path.stem: _loaded(path) for path in sorted(RESULTS.glob("*.json"))}))


def _loaded(path: Path) -> dict[str, Any]:
    return load(path, "make estimates DATA=folder")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
