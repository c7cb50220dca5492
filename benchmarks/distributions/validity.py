"""The size of tests and the coverage of intervals of predictive distributions, by simulation.

``make distribution-validity`` writes results/validity.json and docs/benchmarks/distributions.md.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

import calibrant
from benchmarks.checks import PagePart, StoredRecord
from benchmarks.distributions.page import FOLDER, write
from benchmarks.records import load, save

RUNS, SIZES = 4_000, (300, 1_000, 10_000)
LEVELS = np.array([0.01, 0.025, *np.arange(1, 20) / 20.0, 0.975, 0.99])
TESTS = ("quantile-calibration-error", "pit-ks", "pit-kuiper", "pit-anderson-darling", "skce")
SCORES = {
    "normal": ("crps", "log-score", "dawid-sebastiani", "rmse", "mae", "coverage", "interval-score", "variance-ratio"),
    "quantiles": ("quantile-score", "weighted-interval-score", "coverage", "interval-score", "mae"),
    "samples": ("crps", "mae", "rmse"),
}
#: The most rows of the kernel test, which is quadratic in them, and its runs.
_KERNEL_ROWS, _KERNEL_RUNS = 1_000, 2_000

Array = npt.NDArray[np.float64]


def drawn(n: int, kind: str, random: np.random.Generator) -> tuple[Array, dict[str, Any]]:
    """Outcomes, and forecasts that are the distributions they are drawn from."""
    mean, std = random.normal(size=n), np.exp(0.3 * random.normal(size=n))
    y = mean + std * random.normal(size=n)
    if kind == "normal":
        return y, {"mean": mean, "std": std}
    if kind == "quantiles":
        return y, {"quantiles": mean[:, None] + std[:, None] * norm.ppf(LEVELS), "levels": LEVELS}
    return y, {"samples": mean[:, None] + std[:, None] * random.normal(size=(n, 20))}


def truth_of(kind: str) -> dict[str, float]:
    """The mean of each score over many rows."""
    y, forecasts = drawn(1_000_000, kind, np.random.default_rng(99))
    report = calibrant.evaluate_distribution(y, **forecasts, measures=list(SCORES[kind]))
    return {name: report[name].value or 0.0 for name in SCORES[kind]}


def simulated(kind: str, n: int) -> dict[str, dict[str, float]]:
    """The shares of p-values below 0.05, and of intervals that contain the truth."""
    truth, names = truth_of(kind), SCORES[kind]
    rejected, covered = dict.fromkeys(TESTS, 0), dict.fromkeys(names, 0)
    kernel = kind == "normal" and n <= _KERNEL_ROWS
    random = np.random.default_rng(n)
    for run in range(RUNS):
        y, forecasts = drawn(n, kind, random)
        used = [name for name in TESTS if name != "skce" or (kernel and run < _KERNEL_RUNS)]
        report = calibrant.evaluate_distribution(y, **forecasts, measures=[*used, *names], interval=0.95)
        for name in used:
            rejected[name] += (report[name].p_value or 0.0) < 0.05
        for name in names:
            low, high = report[name].interval or (np.inf, -np.inf)
            covered[name] += low <= truth[name] <= high
    counted = {name: _KERNEL_RUNS if name == "skce" else RUNS for name in TESTS}
    if not kernel:
        del rejected["skce"]
    return {
        "tests": {name: count / counted[name] for name, count in rejected.items()},
        "intervals": {name: count / RUNS for name, count in covered.items()},
    }


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the stored settings, each of which can be computed alone; agreement and time need other libraries."""
    del data
    stored = load(FOLDER / "validity.json", "make distribution-validity", older=True)

    def of(kind: str, n: int) -> dict[str, Any]:
        return {part: stored[part][f"{kind}, n = {n:,}"] for part in ("tests", "intervals")}

    return [
        StoredRecord(f"{kind}, {n}", of(kind, n), partial(simulated, kind, n)) for kind, n in product(SCORES, SIZES)
    ]


def main() -> None:
    """Simulate, and write the page."""
    tests: dict[str, dict[str, float]] = {}
    intervals: dict[str, dict[str, float]] = {}
    for kind, n in product(SCORES, SIZES):
        shares = simulated(kind, n)
        tests[f"{kind}, n = {n:,}"], intervals[f"{kind}, n = {n:,}"] = shares["tests"], shares["intervals"]
        print(kind, n, shares, flush=True)
    results = {"runs": RUNS, "kernel_runs": _KERNEL_RUNS, "tests": tests, "intervals": intervals}
    save(FOLDER / "validity.json", results)
    write()


if __name__ == "__main__":
    main()
