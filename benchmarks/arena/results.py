"""Results of stage 2: read from JSON lines, kept in the repository as one compressed CSV per contender."""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path
from typing import Any

from benchmarks.provenance import digest_of
from benchmarks.records import UnusableRecords, load, save
from benchmarks.records import read as stored_records

FOLDER = Path(__file__).parent / "results"
#: Digits of each column; scores that agree to so many digits are ties.
_DIGITS = {"log_loss": 7, "refinement": 7, "brier": 7, "ece": 4, "accuracy": 4, "excess_error": 4, "seconds": 3}
_COLUMNS = ("experiment", *_DIGITS, "gained", "lost", "clipped", "problem")
_OF_EXPERIMENT = ("experiment", "dataset", "n_classes", "n_cal", "n_test")
_OF_CONTENDER = ("contender", "package", "version")
#: What made the results, with the digest of each file.
_ORIGINS = "origins.json"
Record = dict[str, Any]


def collect(lines: Path, folder: Path = FOLDER) -> None:
    """Write the CSV files from the JSON lines of stage 2; of two results the later one counts."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.csv*"):
        old.unlink()
    experiments: dict[str, Record] = {}
    contenders: list[Record] = []
    for path in sorted(lines.glob("*.jsonl")):
        records = {record["experiment"]: record for record in stored_records(path)}
        if not records:
            continue
        experiments |= records
        contenders.append({"file": path.stem, **next(iter(records.values()))})
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for _, record in sorted(records.items()):
            writer.writerow({**record, **{name: f"{record[name]:.{n}g}" for name, n in _DIGITS.items()}})
        with gzip.GzipFile(folder / f"{path.stem}.csv.gz", "wb", mtime=0) as file:
            file.write(text.getvalue().encode())
    _write(folder / "experiments.csv", _OF_EXPERIMENT, [experiments[name] for name in sorted(experiments)])
    _write(folder / "contenders.csv", ("file", *_OF_CONTENDER), contenders)
    save(folder / _ORIGINS, {path.name: digest_of(path.read_bytes()) for path in sorted(folder.glob("*.csv*"))})


def _write(path: Path, columns: tuple[str, ...], records: list[Record]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)


def read(folder: Path = FOLDER) -> tuple[dict[str, Record], list[Record], dict[str, dict[str, Record]]]:
    """Experiments by name, contenders, and for each contender's file its records by experiment, numbers as floats.

    Raises ``UnusableRecords`` if other code made the results, or if a file is not the one that was collected.
    """
    for name, digest in load(folder / _ORIGINS, "make arena").items():
        if not (folder / name).exists() or digest_of((folder / name).read_bytes()) != digest:
            raise UnusableRecords(f"{name}: missing or altered since it was collected; run make arena")
    with (folder / "experiments.csv").open() as file:
        experiments = {
            row["experiment"]: {**row, **{name: int(row[name]) for name in ("n_classes", "n_cal", "n_test")}}
            for row in csv.DictReader(file)
        }
    with (folder / "contenders.csv").open() as file:
        contenders = list(csv.DictReader(file))
    records = {}
    for contender in contenders:
        with gzip.open(folder / f"{contender['file']}.csv.gz", "rt") as file:
            records[contender["file"]] = {
                row["experiment"]: {
                    name: value if name in ("experiment", "problem") else float(value) for name, value in row.items()
                }
                for row in csv.DictReader(file)
            }
    return experiments, contenders, records


if __name__ == "__main__":
    collect(*map(Path, sys.argv[1:]))
