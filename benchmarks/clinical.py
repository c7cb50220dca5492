"""Coverage of intervals and size of tests of the clinical measures. Writes docs/benchmarks/clinical.md."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

import calibrant
from benchmarks.provenance import Pool
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "clinical.md"
#: Batches of each cell: of the measures that are fast, and of the distances from curves, whose intervals take longer.
RUNS, CURVE_RUNS = 2_000, 400
RESAMPLES = 400
PROCESSES = 1
ROWS = (200, 1_000, 10_000)
PREVALENCES = (0.02, 0.2, 0.5)
#: The coverage that is the goal, with so many expected events and other rows; and the least one with fewer.
COVERED, EXPECTED, FEW_COVERED = (0.92, 0.97), 20, 0.93
#: The share of calibrated batches that a test may reject, and the least distance from a curve that is measured.
SIZE, LEAST_DISTANCE = (0.035, 0.065), 0.03
#: Rows that stand for an infinite sample, and nodes of the integral over log-odds.
MANY, NODES = 100_000, 20_001
PARAMETERS = ("calibration-slope", "calibration-intercept", "logistic-intercept", "oe-ratio", "pcoc")
CURVES = ("ici", "e50", "e90")
TESTS = (
    "calibration-slope",
    "calibration-intercept",
    "logistic-intercept",
    "unreliability",
    "oe-ratio",
    "spiegelhalter",
    "hosmer-lemeshow",
)
#: Intercept and slope of the recalibration: calibrated, and too low and too extreme.
CALIBRATED, DISTORTED = (0.0, 1.0), (0.4, 0.7)

Array = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """A simulated population: batches of n rows with this rate of events, and the intercept and slope of the truth."""

    n: int
    prevalence: float
    recalibration: tuple[float, float]


def centre(cell: Cell) -> float:
    """The mean of the predicted log-odds, of standard deviation 1, at which events have the prevalence."""
    a, b = cell.recalibration
    z, weight = _nodes()
    return float(brentq(lambda m: float(weight @ expit(a + b * (m + z))) - cell.prevalence, -15.0, 15.0))


def _nodes() -> tuple[Array, Array]:
    z = np.linspace(-8.0, 8.0, NODES)
    weight = np.exp(-z * z / 2.0)
    return z, weight / weight.sum()


def truths(cell: Cell) -> dict[str, float]:
    """Return the true value of each measure with an interval; distances below ``LEAST_DISTANCE`` are left out."""
    (a, b), (z, weight) = cell.recalibration, _nodes()
    predicted = centre(cell) + z
    p, c = expit(predicted), expit(a + b * predicted)
    large = brentq(lambda shift: float(weight @ (expit(predicted + shift) - c)), -10.0, 10.0)
    observed = float(weight @ c) / float(weight @ p)
    parameters = {"calibration-slope": b, "calibration-intercept": float(large), "logistic-intercept": a}
    parameters |= {"oe-ratio": observed, "pcoc": 1.0 / observed}
    if cell.recalibration == CALIBRATED:  # every distance is 0 in the limit
        return parameters
    rows = np.random.default_rng(0).standard_normal(MANY) + centre(cell)
    both = np.concatenate([rows, rows])
    # Each row counts with both labels, by their probabilities.
    w = np.concatenate([expit(a + b * rows), expit(-a - b * rows)])
    curves = [{"name": name, "curve": "loess" if cell.n <= 2_000 else "rcs"} for name in CURVES]
    limits = calibrant.evaluate(
        both, np.repeat([1, 0], MANY), scale="logit", weights=w, weights_kind="importance", measures=curves
    )
    distances = {name: float(limits.measures[name].value or 0.0) for name in CURVES}
    return parameters | {name: value for name, value in distances.items() if value >= LEAST_DISTANCE}


def measured(cell: Cell, run: int, names: tuple[str, ...], *, intervals: bool) -> dict[str, Any]:
    """Return the results of one simulated batch."""
    random = np.random.default_rng([run, cell.n, round(100 * cell.prevalence)])
    logits = centre(cell) + random.standard_normal(cell.n)
    a, b = cell.recalibration
    labels = (random.random(cell.n) < expit(a + b * logits)).astype(int)
    options: dict[str, Any] = {"interval": 0.95, "resamples": RESAMPLES} if intervals else {}
    found = calibrant.evaluate(logits, labels, scale="logit", measures=list(names), seed=run, **options)
    return dict(found.measures)


def coverage(cell: Cell) -> dict[str, tuple[float, float]]:
    """Return the share of batches whose interval covers the truth, and the share without an interval."""
    true = truths(cell)
    shares: dict[str, tuple[float, float]] = {}
    for names, runs in ((PARAMETERS, RUNS), (tuple(name for name in CURVES if name in true), CURVE_RUNS)):
        if not names:
            continue
        covered, without = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
        for run in range(runs):
            for name, result in measured(cell, run, names, intervals=True).items():
                if result.interval is None:
                    without[name] += 1
                else:
                    covered[name] += result.interval[0] <= true[name] <= result.interval[1]
        shares |= {name: (covered[name] / max(runs - without[name], 1), without[name] / runs) for name in names}
    return shares


def sizes(cell: Cell) -> dict[str, float]:
    """Return the share of calibrated batches that each test rejects at 5 %."""
    rejected = dict.fromkeys(TESTS, 0)
    for run in range(RUNS):
        for name, result in measured(cell, run, TESTS, intervals=False).items():
            rejected[name] += result.p_value is not None and result.p_value <= 0.05
    return {name: count / RUNS for name, count in rejected.items()}


def _table(cells: list[Cell], names: tuple[str, ...], shown: list[dict[str, str]]) -> list[str]:
    head = [f"{cell.n:,} rows, {cell.prevalence:.0%}" for cell in cells]
    lines = ["| | " + " | ".join(head) + " |", "|---|" + "---|" * len(cells)]
    return [*lines, *(f"| `{name}` | " + " | ".join(one.get(name, "") for one in shown) + " |" for name in names), ""]


def _shown(cell: Cell, shares: dict[str, tuple[float, float]]) -> dict[str, str]:
    """Return the texts of the shares; those beyond the goal by more than two standard errors are bold."""
    few = cell.n * min(cell.prevalence, 1.0 - cell.prevalence) < EXPECTED
    low, high = (FEW_COVERED, 1.0) if few else COVERED
    shown = {}
    for name, (share, without) in shares.items():
        runs = (CURVE_RUNS if name in CURVES else RUNS) * (1.0 - without)
        text = _of_goal(share, low, high, runs)
        shown[name] = text + (f" ({without:.1%} without)" if without else "")
    return shown


def _of_goal(share: float, low: float, high: float, runs: float) -> str:
    margin = 2.0 * float(np.sqrt(share * (1.0 - share) / max(runs, 1.0)))
    return f"{share:.3f}" if low - margin <= share <= high + margin else f"**{share:.3f}**"


def _error(runs: int) -> float:
    """The standard error of a share of 95 %."""
    return float((0.05 * 0.95 / runs) ** 0.5)


def main() -> None:
    """Simulate and write the page."""
    lines = [
        "# Clinical measures: coverage and size",
        "",
        f"Generated by `make clinical`. Each figure is a share of {RUNS:,} simulated batches ({CURVE_RUNS} for `ici`,",
        f"`e50` and `e90`, with {RESAMPLES} resamples); the standard error of 95 % is {_error(RUNS):.3f}",
        f"({_error(CURVE_RUNS):.3f}). Log-odds of the predictions are normal with standard deviation 1;",
        "outcomes follow logit P(Y = 1) = a + b logit p.",
        "",
        f"The goal of coverage is {COVERED[0]:.0%} to {COVERED[1]:.0%} where {EXPECTED} events and other rows each",
        f"are expected, and at least {FEW_COVERED:.0%} elsewhere; that of a size is {SIZE[0]:.1%} to {SIZE[1]:.1%}.",
        "Figures that miss their goal by more than two standard errors are bold. Batches without an interval, such as",
        "those without an event, are counted apart. The truth of `ici`, `e50` and `e90` is the limit of the smoother,",
        f"and distances of at least {LEAST_DISTANCE} are measured.",
        "",
    ]
    with Pool(PROCESSES) as pool:
        for title, recalibration in (("Calibrated", CALIBRATED), ("Distorted", DISTORTED)):
            cells = [Cell(n, rate, recalibration) for n, rate in product(ROWS, PREVALENCES)]
            shares = list(pool.map(coverage, cells))
            shown = [_shown(cell, of_cell) for cell, of_cell in zip(cells, shares, strict=True)]
            names = tuple(name for name in (*PARAMETERS, *CURVES) if any(name in of_cell for of_cell in shares))
            a, b = recalibration
            lines += [
                f"## {title}: a = {a}, b = {b}",
                "",
                "Coverage of 95 % intervals:",
                "",
                *_table(cells, names, shown),
            ]
            print(*lines[-14:], sep="\n", file=sys.stderr, flush=True)
            if recalibration == CALIBRATED:
                rejected = [
                    {name: _of_goal(share, *SIZE, RUNS) for name, share in of_cell.items()}
                    for of_cell in pool.map(sizes, cells)
                ]
                lines += ["Share of batches that a test rejects at 5 %:", "", *_table(cells, TESTS, rejected)]
                print(*lines[-14:], sep="\n", file=sys.stderr, flush=True)
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
