"""How long counting, merging and betting take. Writes docs/benchmarks/tally-speed.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.timing import machine, medians
from calibrant.monitoring.evidence import evidence, log_factors, shifts
from calibrant.monitoring.tally import FOLDS, Tally, from_bytes, merged, tally_of

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "tally-speed.md"
BUCKETS, GROUPS = 10_000, 20
ROWS, CHUNKS = 1_000_000, (5_000, 100_000, 1_000_000)


def counting(random: np.random.Generator) -> dict[str, Callable[[], object]]:
    """Counting rows a chunk at a time, as they come."""
    p = random.random(ROWS)
    y = (random.random(ROWS) < p).astype(np.int8)
    groups, folds = random.integers(0, GROUPS, ROWS), random.integers(0, FOLDS, ROWS)

    def count(chunk: int, parted: bool) -> None:
        for start in range(0, ROWS, chunk):
            rows = slice(start, start + chunk)
            tally_of(p[rows], y[rows], *((groups[rows], folds[rows]) if parted else ()))

    return {
        f"in chunks of {chunk:,}{title}": partial(count, chunk, parted)
        for chunk in CHUNKS
        for parted, title in ((False, ""), (True, f", {GROUPS} groups and {FOLDS} folds"))
    }


def bucket(random: np.random.Generator) -> Tally:
    """A bucket of 2,000 entries or so."""
    p = random.random(2_100)
    return tally_of(p, (random.random(len(p)) < p).astype(np.int8), None, random.integers(0, FOLDS, len(p)))


def main() -> None:
    """Time and write the page."""
    random = np.random.default_rng(41)
    several = [bucket(random) for _ in range(100)]
    tallies = [several[i % len(several)] for i in range(BUCKETS)]
    written = [tally.to_bytes() for tally in tallies]
    factors = random.normal(0.0, 0.1, (2_000, len(shifts())))
    seconds = medians(counting(random), rounds=5, clock=time.process_time)
    others = medians(
        {
            f"merge {BUCKETS:,} tallies": lambda: merged(tallies),
            f"read {BUCKETS:,} from bytes and merge them": lambda: merged(map(from_bytes, written)),
            f"the bets on {len(several)} buckets": lambda: [log_factors(tally) for tally in several],
            "the evidence of 2,000 buckets": lambda: evidence(factors),
        },
        rounds=5,
        clock=time.process_time,
    )
    entries = float(np.mean([len(tally.keys) for tally in several]))
    lines = [
        "# Speed of tallies",
        "",
        f"Made by `make tally-speed`; medians of the processor's time, one thread. {machine()}.",
        "",
        f"| counting {ROWS:,} rows | ns a row |",
        "|---|---|",
        *(f"| {name} | {1e9 * taken / ROWS:.0f} |" for name, taken in seconds.items()),
        "",
        f"Buckets of {entries:,.0f} entries on average, {len(written[0]):,} bytes:",
        "",
        "| | ms |",
        "|---|---|",
        *(f"| {name} | {1e3 * taken:.2f} |" for name, taken in others.items()),
        "",
    ]
    PAGE.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
