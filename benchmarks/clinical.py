"""Coverage of intervals and size of tests of the clinical measures. Writes docs/benchmarks/clinical.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.portions import BATCHES, Goal, SimulationJob, counts, fewer, seconds_asked, standard_error
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "clinical.md"
RUNS, RESAMPLES = 2_000, 400
ROWS = (200, 1_000, 10_000)
PREVALENCES = (0.02, 0.2, 0.5)
#: The goal of coverage with so many expected events and other rows, and with fewer; and that of a size.
COVERAGE, EXPECTED, FEW_COVERAGE = Goal(0.92, 0.97), 20, Goal(0.93, 1.0)
SIZE = Goal(0.035, 0.065)
#: The least distance from a curve that is measured.
LEAST_DISTANCE = 0.03
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
    "chi-squared",
)
#: Measures that are computed for ``TESTS``; one has the law of many rows whatever is expected.
_REQUESTS: Mapping[str, Any] = {
    "chi-squared": {"name": "hosmer-lemeshow", "law": "asymptotic", "as": "chi-squared"},
}
#: Intercept and slope of the recalibration: calibrated, and too low and too extreme.
CALIBRATED, DISTORTED = (0.0, 1.0), (0.4, 0.7)
KINDS = {CALIBRATED: "calibrated", DISTORTED: "distorted"}

Array = npt.NDArray[np.float64]


class Cell(NamedTuple):
    """A simulated population: batches of n rows with this rate of events, and the intercept and slope of the truth."""

    n: int
    prevalence: float
    recalibration: tuple[float, float]

    @property
    def head(self) -> str:
        """The head of its column."""
        return f"{self.n:,} rows, {self.prevalence:.0%}"

    @property
    def goal(self) -> Goal:
        """The goal of coverage."""
        few = self.n * min(self.prevalence, 1.0 - self.prevalence) < EXPECTED
        return FEW_COVERAGE if few else COVERAGE


@lru_cache(maxsize=64)
def centre(cell: Cell) -> float:
    """The mean of the predicted log-odds, of standard deviation 1, at which events have the prevalence."""
    a, b = cell.recalibration
    z, weight = _nodes()
    return float(brentq(lambda m: float(weight @ expit(a + b * (m + z))) - cell.prevalence, -15.0, 15.0))


def _nodes() -> tuple[Array, Array]:
    z = np.linspace(-8.0, 8.0, NODES)
    weight = np.exp(-z * z / 2.0)
    return z, weight / weight.sum()


@lru_cache(maxsize=64)
def truths(cell: Cell) -> Mapping[str, float]:
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


def measured(cell: Cell, run: int, names: Sequence[str]) -> Mapping[str, Any]:
    """Return the results of one simulated batch."""
    random = np.random.default_rng([run, cell.n, round(100 * cell.prevalence)])
    logits = centre(cell) + random.standard_normal(cell.n)
    a, b = cell.recalibration
    labels = (random.random(cell.n) < expit(a + b * logits)).astype(int)
    requests = [_REQUESTS.get(name, name) for name in names]
    options: dict[str, Any] = {"interval": 0.95, "resamples": RESAMPLES, "seed": run}
    return calibrant.evaluate(logits, labels, scale="logit", measures=requests, **options).measures


def covered(cell: Cell, names: Sequence[str], tests: Sequence[str], runs: range) -> Counter[str]:
    """Count the intervals that cover the truth, the results without one, and the tests that reject at 5 %."""
    true, results = truths(cell), Counter[str]()
    for run in runs:
        measures = measured(cell, run, tuple(dict.fromkeys((*names, *tests))))
        for name in names:
            ends = measures[name].interval
            results[f"{name} without"] += ends is None
            results[f"{name} covers"] += ends is not None and ends[0] <= true[name] <= ends[1]
        for name in tests:
            p_value = measures[name].p_value
            results[f"{name} rejects"] += p_value is not None and p_value <= 0.05
    return results


def coverage_job(cell: Cell, names: Sequence[str], tests: Sequence[str] = ()) -> SimulationJob:
    """Return the job of some measures of a cell."""
    key = f"{KINDS[cell.recalibration]}, {cell.head}{', curves' if names[0] in CURVES else ''}"
    return SimulationJob(key, RUNS, partial(covered, cell, names, tests))


#: The parts of a column, in the order of the page: intervals of parameters, those of curves, and tests.
Column = Mapping[str, str]


def coverage_column(cell: Cell, names: Sequence[str], total: Counter[str]) -> Column:
    """Return the texts of the shares of intervals that cover, and of batches without one."""
    column = {}
    for name in names:
        without = total[f"{name} without"]
        runs = total[BATCHES] - without
        if runs > 0:
            text = cell.goal.text(total[f"{name} covers"] / runs, runs)
            column[name] = text + (f" ({without / total[BATCHES]:.1%} without)" if without else "")
    return column


def size_column(total: Counter[str]) -> Column:
    """Return the texts of the shares of batches that tests reject."""
    runs = total[BATCHES]
    return {name: SIZE.text(total[f"{name} rejects"] / runs, runs) for name in TESTS} if runs else {}


def table(columns: Mapping[str, Column], names: Sequence[str]) -> list[str]:
    """Return a table of columns by their head, without rows that have no text."""
    used = [name for name in names if any(name in column for column in columns.values())]
    return [
        "| | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
        *(f"| `{name}` | " + " | ".join(of.get(name, "") for of in columns.values()) + " |" for name in used),
        "",
    ]


CELLS = {of: [Cell(n, rate, of) for n, rate in product(ROWS, PREVALENCES)] for of in KINDS}


def known_curves(cell: Cell) -> list[str]:
    """Return the distances of a cell that are large enough."""
    return [name for name in CURVES if name in truths(cell)]


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the parts of columns that can be computed alone."""
    del data

    def parameters(cell: Cell) -> list[str]:
        tests = TESTS if cell.recalibration == CALIBRATED else ()
        total = coverage_job(cell, PARAMETERS, tests).whole()
        sizes = table({cell.head: size_column(total)}, TESTS) if tests else []
        return [*table({cell.head: coverage_column(cell, PARAMETERS, total)}, PARAMETERS), *sizes]

    def curves(cell: Cell) -> list[str]:
        names = known_curves(cell)
        total = coverage_job(cell, names).whole() if names else Counter[str]()
        return table({cell.head: coverage_column(cell, names, total)}, CURVES)

    return [
        *(
            PageCheck(f"{KINDS[of]}, {cell.head}", partial(parameters, cell), title(of))
            for of in KINDS
            for cell in CELLS[of]
        ),
        *(PageCheck(f"curves, {cell.head}", partial(curves, cell), title(DISTORTED)) for cell in CELLS[DISTORTED]),
    ]


def title(recalibration: tuple[float, float]) -> str:
    """Return the heading of the tables of a recalibration."""
    a, b = recalibration
    return f"{KINDS[recalibration].capitalize()}: a = {a:g}, b = {b:g}"


def _outside(cells: Mapping[str, Column], what: str) -> list[str]:
    """Return a line for each measure with bold cells."""
    lines = []
    for name in dict.fromkeys(name for column in cells.values() for name in column):
        bold = {head: column[name] for head, column in cells.items() if "**" in column.get(name, "")}
        shown = "; ".join(f"{text.split('**')[1]} in {head}" for head, text in bold.items())
        lines += [f"- {what} of `{name}`: {shown}. {_WHY.get(name, '')}".rstrip()] if bold else []
    return lines


#: Why a measure misses the goal of some cells.
_WHY: Mapping[str, str] = {}


def main() -> None:
    """Simulate what no earlier run of the same code has, and write the page."""
    seconds = seconds_asked(__doc__)
    parameters = {cell: coverage_job(cell, PARAMETERS, TESTS) for cell in CELLS[CALIBRATED]}
    parameters |= {cell: coverage_job(cell, PARAMETERS) for cell in CELLS[DISTORTED]}
    curves = {cell: coverage_job(cell, names) for cell in CELLS[DISTORTED] if (names := known_curves(cell))}
    totals = counts([*parameters.values(), *curves.values()], __file__, seconds)
    columns = {cell: dict(coverage_column(cell, PARAMETERS, totals[job.key])) for cell, job in parameters.items()}
    for cell, job in curves.items():
        columns[cell] |= coverage_column(cell, known_curves(cell), totals[job.key])
    sizes = {cell.head: size_column(totals[parameters[cell].key]) for cell in CELLS[CALIBRATED]}
    lines = [
        "# Clinical measures: coverage and size",
        "",
        f"Generated by `make clinical`. Each figure is a share of {RUNS:,} simulated batches, with {RESAMPLES}",
        f"resamples; the standard error of 95 % is {standard_error(0.95, RUNS):.3f}. Log-odds of the predictions are",
        "normal with standard deviation 1; outcomes follow logit P(Y = 1) = a + b logit p.",
        "",
        f"The goal of coverage is {COVERAGE.low:.0%} to {COVERAGE.high:.0%} where {EXPECTED} events and other rows",
        f"each are expected, and at least {FEW_COVERAGE.low:.0%} elsewhere; that of a size is {SIZE.low:.1%} to",
        f"{SIZE.high:.1%}. Figures that miss their goal by more than two standard errors are bold. Batches without an",
        "interval, such as those without an event, are counted apart. The truth of `ici`, `e50` and `e90` is the",
        f"limit of the smoother, and distances of at least {LEAST_DISTANCE} are measured.",
        "",
        "`chi-squared` is `hosmer-lemeshow` with `law` `asymptotic`, as in R's packages. `hosmer-lemeshow` itself",
        "draws the events of its groups where they expect few, which its result says.",
        "",
        *fewer(totals, RUNS),
    ]
    outside = []
    for of, kind in KINDS.items():
        shown = {cell.head: columns[cell] for cell in CELLS[of]}
        lines += [f"## {title(of)}", "", "Coverage of 95 % intervals:", "", *table(shown, (*PARAMETERS, *CURVES))]
        outside += _outside(shown, f"{kind.capitalize()}, coverage")
        if of == CALIBRATED:
            lines += ["Share of batches that a test rejects at 5 %:", "", *table(sizes, TESTS)]
            outside += _outside(sizes, "Size")
    lines += ["## Outside the goal", "", *(outside or ["None."]), ""]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
