"""``python -m benchmarks.splines FOLDER``: resumes a previous run; writes docs/benchmarks/splines.md.

The folder has ``.npz`` files of predictions of CIFAR-10 or CIFAR-100, whose names contain ``cifar10``, and pickled
logits ``.p`` of github.com/markus93/NN_calibration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.records import append, current, publish, read
from benchmarks.splines.experiment import HALVES, Record, networks, run
from benchmarks.splines.page import page

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks" / "splines.md"


def main() -> None:
    """Run the halves without a record, one after the other, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--halves", type=int, default=HALVES, help="halves of each file")
    arguments = parser.parse_args()
    record_file = current("splines/records", __file__)
    records: dict[tuple[str, int], Record] = {(name, seed): record for name, seed, record in read(record_file)}
    # Pickled logits have a test set of their own. All files have a half before one has two.
    wanted = [
        (path, seed)
        for seed in range(arguments.halves)
        for path in networks(arguments.folder)
        if seed == 0 or path.suffix != ".p"
    ]
    for path, seed in wanted:
        if (path.stem, seed) not in records:
            records[path.stem, seed] = run(path, seed)
            append(record_file, [path.stem, seed, records[path.stem, seed]])
    publish(PAGE, page({(path.stem, seed): records[path.stem, seed] for path, seed in wanted}))


if __name__ == "__main__":
    main()
