"""Coverage of intervals and size of tests for rows in clusters. Writes docs/benchmarks/clusters.md."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.provenance import Pool
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "clusters.md"
RUNS, RESAMPLES, CLUSTERS = 1000, 400, 50
#: Intraclass correlation of the labels, and standard deviations of log-odds between and within clusters.
CORRELATION, BETWEEN, WITHIN = 0.2, 0.8, 0.6
#: Rows that stand for an infinite sample.
MANY = 100_000
INTERVALS = ("brier", "log-loss", "ece", "ks", "calibration-slope", "calibration-intercept", "oe-ratio", "auroc")
TESTS = ("calibration-slope", "calibration-intercept", "oe-ratio", "spiegelhalter")
#: Intercept and slope of the recalibration: calibrated, and too low and too extreme.
CELLS = {"calibrated": (0.0, 1.0), "distorted": (0.4, 0.7)}

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


def truths(recalibration: tuple[float, float]) -> dict[str, float]:
    """Return the value of each measure for many rows that count with both labels, by their probabilities."""
    deviation = float(np.hypot(BETWEEN, WITHIN))
    logits = -0.5 + deviation * np.random.default_rng(0).standard_normal(MANY)
    rate = expit(recalibration[0] + recalibration[1] * logits)
    found = calibrant.evaluate(
        np.concatenate([logits, logits]),
        np.repeat([1, 0], MANY),
        scale="logit",
        weights=np.concatenate([rate, 1.0 - rate]),
        measures=list(INTERVALS),
    )
    return {name: float(found.measures[name].value or 0.0) for name in INTERVALS}


def measured(name: str, *, clustered: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Return the share of batches whose intervals cover the truth, and the share that each test rejects at 5 %."""
    true = truths(CELLS[name])
    covered, rejected = dict.fromkeys(INTERVALS, 0), dict.fromkeys(TESTS, 0)
    for run in range(RUNS):
        rows = drawn(CELLS[name], run)
        found = calibrant.evaluate(
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
            low, high = found[measure].interval or (np.nan, np.nan)
            covered[measure] += bool(low <= true[measure] <= high)
        for test in TESTS:
            rejected[test] += (found[test].p_value or 0.0) <= 0.05
    return {k: v / RUNS for k, v in covered.items()}, {k: v / RUNS for k, v in rejected.items()}


Column = tuple[str, bool]


def coverage_table(found: Mapping[Column, Any]) -> list[str]:
    """Return the coverage of some columns, with the head."""
    return [
        "| | " + " | ".join(f"{name}, {'clusters' if clustered else 'without'}" for name, clustered in found) + " |",
        "|---|" + "---|" * len(found),
        *(f"| `{name}` | " + " | ".join(f"{of[0][name]:.3f}" for of in found.values()) + " |" for name in INTERVALS),
    ]


def size_table(found: Mapping[Column, Any]) -> list[str]:
    """Return the sizes of the tests in the columns of calibrated rows, with the head."""
    shares = {clustered: of[1] for (name, clustered), of in found.items() if name == "calibrated"}
    return [
        "| | " + " | ".join("clusters" if clustered else "without" for clustered in shares) + " |",
        "|---|" + "---|" * len(shares),
        *(f"| `{name}` | " + " | ".join(f"{of[name]:.3f}" for of in shares.values()) + " |" for name in TESTS),
    ]


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the columns, each of which can be computed alone."""
    del data

    def column(name: str, clustered: bool) -> list[str]:
        found = {(name, clustered): measured(name, clustered=clustered)}
        return [*coverage_table(found), "", *(size_table(found) if name == "calibrated" else [])]

    return [
        PageCheck(f"{name}, {clustered}", partial(column, name, clustered))
        for name in CELLS
        for clustered in (True, False)
    ]


def main() -> None:
    """Simulate and write the page."""
    cells = [(name, clustered) for name in CELLS for clustered in (True, False)]
    with Pool(2) as pool:
        runs = [pool.submit(measured, name, clustered=clustered) for name, clustered in cells]
        found = dict(zip(cells, (run.result() for run in runs), strict=True))
    rows = float(np.mean([len(drawn(CELLS["calibrated"], run).labels) for run in range(RUNS)]))
    a, b = CELLS["distorted"]
    lines = [
        "# Rows in clusters: coverage and size",
        "",
        f"Generated by `python -m benchmarks.clusters`: shares of {RUNS:,} simulated batches of {CLUSTERS} clusters",
        f"of 2 to 100 rows, {rows:,.0f} in all on average. Labels are beta-binomial within clusters, with an",
        f"intraclass correlation of {CORRELATION}. Marginally, calibrated rows follow P(Y = 1) = p, and distorted ones",
        f"logit P(Y = 1) = {a} + {b} logit p.",
        "",
        "Coverage of 95 % intervals, with `clusters` and without:",
        "",
        *coverage_table(found),
        "",
        f"The standard error of 95 % is {(0.05 * 0.95 / RUNS) ** 0.5:.3f}. An interval of `ece` or `ks` for calibrated",
        "rows covers 0, and is long: clusters move the gaps of all bins together, and which of them have one sign is",
        "hidden by noise, so the interval allows for all. That of `ks` is long for distorted rows too, as for",
        "independent ones.",
        "",
        "Share of calibrated batches that a test rejects at 5 %:",
        "",
        *size_table(found),
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
