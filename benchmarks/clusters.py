"""Coverage of intervals and size of tests for rows in clusters. Writes docs/benchmarks/clusters.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.portions import BATCHES, SimulationJob, counts, fewer, seconds_asked, standard_error
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "clusters.md"
RUNS, RESAMPLES, CLUSTERS = 2_000, 400, 50
#: Intraclass correlation of the labels, and standard deviations of log-odds between and within clusters.
CORRELATION, BETWEEN, WITHIN = 0.2, 0.8, 0.6
#: Rows that stand for an infinite sample.
MANY = 100_000
INTERVALS = ("brier", "log-loss", "ece", "ks", "calibration-slope", "calibration-intercept", "oe-ratio", "auroc")
TESTS = ("calibration-slope", "calibration-intercept", "oe-ratio", "spiegelhalter")
#: Intercept and slope of the recalibration: calibrated, and too low and too extreme.
CELLS = {"calibrated": (0.0, 1.0), "distorted": (0.4, 0.7)}

#: Kinds of rows, with clusters and without, which are the columns.
COLUMNS = tuple((name, clustered) for name in CELLS for clustered in (True, False))

Array = npt.NDArray[Any]


class ClusteredRows(NamedTuple):
    """Simulated rows: logits of predictions, labels, and clusters."""

    logits: Array
    labels: Array
    clusters: Array


def drawn(recalibration: tuple[float, float], run: int) -> ClusteredRows:
    """Return 50 clusters of 2 to 100 rows, whose labels are beta-binomial with the rates of the recalibration.

    The rates of a cluster are the same quantile of the beta distribution with the rate of each row as its mean.
    """
    random = np.random.default_rng([run, 50])
    sizes = np.clip(np.exp(2.6 + 0.8 * random.standard_normal(CLUSTERS)), 2, 100).astype(int)
    cluster = np.repeat(np.arange(CLUSTERS), sizes)
    logits = -0.5 + BETWEEN * random.standard_normal(CLUSTERS)[cluster] + WITHIN * random.standard_normal(len(cluster))
    rate = expit(recalibration[0] + recalibration[1] * logits)
    spread = (1.0 - CORRELATION) / CORRELATION
    own = betaincinv(rate * spread, (1.0 - rate) * spread, random.random(CLUSTERS)[cluster])
    return ClusteredRows(logits, (random.random(len(cluster)) < own).astype(int), cluster)


@lru_cache(maxsize=2)
def truths(recalibration: tuple[float, float]) -> dict[str, float]:
    """Return the value of each measure for many rows that count with both labels, by their probabilities."""
    deviation = float(np.hypot(BETWEEN, WITHIN))
    logits = -0.5 + deviation * np.random.default_rng(0).standard_normal(MANY)
    rate = expit(recalibration[0] + recalibration[1] * logits)
    report = calibrant.evaluate(
        np.concatenate([logits, logits]),
        np.repeat([1, 0], MANY),
        scale="logit",
        weights=np.concatenate([rate, 1.0 - rate]),
        measures=list(INTERVALS),
    )
    return {name: float(report.measures[name].value or 0.0) for name in INTERVALS}


def measured(name: str, clustered: bool, runs: range) -> Counter[str]:
    """Count the intervals that cover the truth, and the tests that reject at 5 %."""
    true, results = truths(CELLS[name]), Counter[str]()
    for run in runs:
        rows = drawn(CELLS[name], run)
        report = calibrant.evaluate(
            rows.logits,
            rows.labels,
            scale="logit",
            clusters=rows.clusters if clustered else None,
            measures=list(dict.fromkeys((*INTERVALS, *TESTS))),
            interval=0.95,
            resamples=RESAMPLES,
            seed=run,
        )
        for measure in INTERVALS:
            low, high = report[measure].interval or (np.nan, np.nan)
            results[f"{measure} covers"] += bool(low <= true[measure] <= high)
        for test in TESTS:
            results[f"{test} rejects"] += (report[test].p_value or 0.0) <= 0.05
    return results


Column = tuple[str, bool]


def job_of(column: Column) -> SimulationJob:
    """Return the batches of a column."""
    name, clustered = column
    return SimulationJob(f"{name}, {'clusters' if clustered else 'without'}", RUNS, partial(measured, name, clustered))


def table(totals: Mapping[str, Counter[str]], names: tuple[str, ...], what: str) -> list[str]:
    """Return the shares of what was counted, with the heads of the columns."""
    return [
        "| | " + " | ".join(totals) + " |",
        "|---|" + "---|" * len(totals),
        *(
            f"| `{name}` | " + " | ".join(f"{of[f'{name} {what}'] / of[BATCHES]:.3f}" for of in totals.values()) + " |"
            for name in names
        ),
    ]


def tables(totals: Mapping[Column, Counter[str]]) -> tuple[list[str], list[str]]:
    """Return the table of coverage, and that of sizes for the columns of calibrated rows."""
    heads = {column: job_of(column).key for column in totals}
    sizes = {heads[column].split(", ")[1]: total for column, total in totals.items() if column[0] == "calibrated"}
    of_intervals = table({heads[column]: total for column, total in totals.items()}, INTERVALS, "covers")
    return of_intervals, table(sizes, TESTS, "rejects") if sizes else []


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the columns, each of which can be computed alone."""
    del data

    def lines(column: Column) -> list[str]:
        of_intervals, sizes = tables({column: job_of(column).whole()})
        return [*of_intervals, "", *sizes]

    return [PageCheck(job_of(column).key, partial(lines, column)) for column in COLUMNS]


def main() -> None:
    """Simulate and write the page."""
    totals = counts([job_of(column) for column in COLUMNS], __file__, seconds_asked(__doc__))
    of_intervals, sizes = tables({column: totals[job_of(column).key] for column in COLUMNS})
    rows = float(np.mean([len(drawn(CELLS["calibrated"], run).labels) for run in range(RUNS)]))
    a, b = CELLS["distorted"]
    lines = [
        "# Rows in clusters: coverage and size",
        "",
        f"Generated by `make clusters`: shares of {RUNS:,} simulated batches of {CLUSTERS} clusters",
        f"of 2 to 100 rows, {rows:,.0f} in all on average. Labels are beta-binomial within clusters, with an",
        f"intraclass correlation of {CORRELATION}. Marginally, calibrated rows follow P(Y = 1) = p, and distorted ones",
        f"logit P(Y = 1) = {a} + {b} logit p.",
        "",
        "Coverage of 95 % intervals, with `clusters` and without:",
        "",
        *of_intervals,
        "",
        *fewer(totals, RUNS),
        f"The standard error of 95 % is {standard_error(0.95, RUNS):.3f}. An interval of `ece` or `ks` for calibrated",
        "rows covers 0, and is long: clusters move the gaps of all bins together, and which of them have one sign is",
        "hidden by noise, so the interval allows for all. That of `ks` is long for distorted rows too, as for",
        "independent ones.",
        "",
        "Share of calibrated batches that a test rejects at 5 %:",
        "",
        *sizes,
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
