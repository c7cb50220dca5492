"""Counts of simulated batches, in portions whose records are kept, so that a run that ended early is resumed."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.records import append, current, read

#: Batches of a portion.
_PORTION = 50
#: The key of the number of batches in the counts of a job.
BATCHES = "batches"


class SimulationJob(NamedTuple):
    """Batches of one cell: ``compute`` returns what is counted over the batches of these numbers."""

    key: str
    runs: int
    compute: Callable[[range], Mapping[str, int]]

    def portions(self) -> list[range]:
        """Return the batches of each portion."""
        return [range(first, min(first + _PORTION, self.runs)) for first in range(0, self.runs, _PORTION)]

    def whole(self) -> Counter[str]:
        """Return the counts of all batches, which are computed at once."""
        return Counter(self.compute(range(self.runs))) + Counter({BATCHES: self.runs})


def counts(jobs: Sequence[SimulationJob], program: str, seconds: float | None = None) -> dict[str, Counter[str]]:
    """Return the counts of each job, with the number of its ``BATCHES``; what no record has is computed.

    The next portion is of the job that has the smallest share of its batches, so that all have similar shares if the
    ``seconds`` end first.
    """
    path, began = current("portions", program), time.monotonic()
    totals = {job.key: Counter[str]() for job in jobs}
    missing = {job.key: job.portions() for job in jobs}
    for key, first, result in read(path):
        batches = range(first, first + result[BATCHES])
        if batches in missing.get(key, ()):
            missing[key].remove(batches)
            totals[key].update(result)
    while seconds is None or time.monotonic() - began < seconds:
        job = min(jobs, key=lambda job: totals[job.key][BATCHES] / job.runs)
        if not missing[job.key]:
            break
        runs, started = missing[job.key].pop(0), time.process_time()
        result = {**job.compute(runs), BATCHES: len(runs)}
        append(path, [job.key, runs.start, result])
        totals[job.key].update(result)
        spent = 1e3 * (time.process_time() - started) / len(runs)
        print(f"{job.key}: {totals[job.key][BATCHES]:,} batches, {spent:.1f} ms each", file=sys.stderr, flush=True)
    return totals


def seconds_asked(description: str | None) -> float | None:
    """Return the time that the command line allows; None if it sets no limit."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, help="begin no further portion after this time; default: no limit")
    seconds: float | None = parser.parse_args().seconds
    return seconds


def fewer(totals: Mapping[str, Counter[str]], runs: int) -> list[str]:
    """Return the lines that name what has fewer batches than planned, none if all are complete."""
    short = [f"{key}: {total[BATCHES]:,}" for key, total in totals.items() if total[BATCHES] < runs]
    return [f"Fewer batches so far: {'; '.join(short)}.", ""] if short else []


def standard_error(share: float, runs: int) -> float:
    """The standard error of a share."""
    return float(np.sqrt(share * (1.0 - share) / max(runs, 1)))


class Goal(NamedTuple):
    """Where a share is to be; one that misses it by more than two standard errors is bold."""

    low: float
    high: float

    def missed(self, share: float, runs: int) -> bool:
        """Whether a share of so many batches is outside by more than two of its standard errors."""
        margin = 2.0 * standard_error(share, runs)
        return not self.low - margin <= share <= self.high + margin

    def text(self, share: float, runs: int) -> str:
        """The text of a cell."""
        return f"**{share:.3f}**" if self.missed(share, runs) else f"{share:.3f}"
