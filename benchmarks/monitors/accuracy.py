"""Measures of tallies compared with measures of their rows. Writes docs/benchmarks/tally-accuracy.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.calibration_test import SHAPES, Array
from benchmarks.checks import CellComparison, PageCheck, PagePart
from benchmarks.markdown import figures, tables
from benchmarks.monitors.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from benchmarks.monitors.streams import SPREADS
from benchmarks.records import publish
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.tally import Tally, tally_of

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "tally-accuracy.md"
ROWS, GOAL, ERRORS = 1_000_000, 1e-4, (0.0, 0.02, 0.05, 0.1)
REQUESTS = read_requests(
    [
        "ece",
        {"name": "ece", "binning": "equal-width", "as": "ece, equal-width"},
        "ks",
        "log-loss",
        "brier",
    ]
)
BOUNDED: Mapping[str, Callable[[Tally], MeasureBounds]] = {
    "ece": equal_mass_bounds,
    "ece, equal-width": equal_width_bounds,
    "ks": ks_bounds,
    "log-loss": log_loss_bounds,
    "brier": brier_bounds,
}
#: Distributions of true probabilities; predictions equal them or differ by a shape.
TRUE: Mapping[str, Callable[[int, np.random.Generator], Array]] = {
    name: SPREADS[name] for name in ("uniform", "Beta(.5, .5)", "Beta(5, 1), as a confidence")
}

Rows = tuple[Array, Array]


def shaped(spread: str, shape: str, error: float, random: np.random.Generator) -> Rows | None:
    """Predictions (1 - w) c + w f(c) of true probabilities c; None if no w up to 1 gives the error."""
    c = TRUE[spread](ROWS, random)
    off = SHAPES[shape][0](c) - c
    w = error / float(np.abs(off).mean())
    return (c + w * off, c) if w <= 1.0 else None


def hard(random: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Distributions of predictions that are difficult for cells."""
    c = random.random(ROWS)
    yield "two decimals", (np.round(c, 2), c)
    yield "one decimal", (np.round(c, 1), c)
    yield "half at 0.2, the others uniform", (np.where(random.random(ROWS) < 0.5, 0.2, c), c)
    yield "single precision", (c.astype(np.float32).astype(np.float64), c**1.1)
    yield "constant 0.3", (np.full(ROWS, 0.3), np.full(ROWS, 0.31))
    near = 1e-6 * np.exp(random.normal(0.0, 1.0, ROWS))
    yield "close to 1e-6, true probability 3 times as high", (near, 3.0 * near)
    high = 1.0 - 1e-3 * np.exp(random.normal(0.0, 0.3, ROWS))
    yield "close to 0.999, true probability 0.99", (high, np.full(ROWS, 0.99))
    yield "0.999 to 0.99901, true probability 0.999", (0.999 + 1e-5 * random.random(ROWS), np.full(ROWS, 0.999))
    sure = 1.0 / (1.0 + np.exp(-random.normal(0.0, 8.0, ROWS)))
    yield "logits N(0, 8^2), true logits half as large", (sure, 1.0 / (1.0 + np.sqrt(1.0 / sure - 1.0)))
    surer = 1.0 / (1.0 + np.exp(-random.normal(0.0, 20.0, ROWS)))
    yield "logits N(0, 20^2), true probabilities clipped to 0.02 to 0.98", (surer, np.clip(surer, 0.02, 0.98))


def compared(rows: Rows, random: np.random.Generator) -> tuple[dict[str, float], dict[str, float]]:
    """The differences between measures of the tally and of the rows, and their bounds."""
    p, c = rows
    event = Event(p, (random.random(len(p)) < c).astype(np.int8))
    tally = tally_of(p, event.y)
    errors, widths = {}, {}
    for request in REQUESTS:
        exact, value = (request.compute(of).value for of in (event, tally.event()))
        bounds = BOUNDED[request.key](tally)
        if exact is None or value is None or not bounds.low - 1e-7 <= exact <= bounds.high + 1e-7:
            raise AssertionError(f"{request.key} is not within its bounds")
        errors[request.key] = abs(value - exact)
        widths[request.key] = bounds.apart(value)
    return errors, widths


def line(title: str, differences: list[tuple[dict[str, float], dict[str, float]]]) -> str:
    """The largest error of several batches, and the largest bound."""
    cells = []
    for request in REQUESTS:
        error, width = (max(of[part][request.key] for of in differences) for part in (0, 1))
        cells.append(f"{'**' if error > GOAL else ''}{error:.1e}{'**' if error > GOAL else ''} ({width:.0e})")
    return f"| {title} | {' | '.join(cells)} |"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return both tables: their rows are drawn by one generator, one after the other."""
    del data

    def lines() -> list[str]:
        shapes, difficult = compared_rows()
        return [*head(), *shapes, "", *head(), *difficult]

    # Differences of rounding depend on the processor; they are at most a thousandth of the goal.
    return [TallyCheck("both tables", lines)]


@dataclass(frozen=True)
class TallyCheck(PageCheck):
    """Figures below a thousandth of the goal are differences of rounding, of which only the size is compared."""

    def compare(self, page: str) -> CellComparison:
        """Compare the tables, with small figures as zero."""
        comparison = CellComparison()
        for printed, computed in zip(tables(page), tables("\n".join(self.compute())), strict=True):
            for old, new in zip(printed.rows, computed.rows, strict=True):
                for name, printed_cell, other in zip(printed.head[1:], old[1:], new[1:], strict=True):
                    comparison.add(
                        f"{printed.section}, {old[0]}, {name}", _rounded(printed_cell), _rounded(other), 0.01
                    )
        return comparison


def _rounded(cell: str) -> str:
    error, bound = (figure.value for figure in figures(cell))
    return f"{0.0 if error < GOAL / 1e3 else error:.1e} ({bound:.0e})"


def head() -> list[str]:
    """The head of both tables."""
    return ["| " + " | ".join(["predictions", *(r.key for r in REQUESTS)]) + " |", "|---|" + "---|" * len(REQUESTS)]


def compared_rows() -> tuple[list[str], list[str]]:
    """The rows of both tables."""
    random = np.random.default_rng(31)
    shapes = []
    for spread in TRUE:
        for error in ERRORS:
            drawn = [shaped(spread, shape, error, random) for shape in SHAPES]
            differences = [compared(rows, random) for rows in drawn if rows is not None]
            kind = (
                f"error {error:g} ({len(differences)} shapes)" if error else f"calibrated ({len(differences)} batches)"
            )
            if differences:
                shapes.append(line(f"{spread}, {kind}", differences))
    return shapes, [line(title, [compared(rows, random)]) for title, rows in hard(random)]


def main() -> None:
    """Compare and write the page."""
    shapes, difficult = compared_rows()
    lines = [
        "# Accuracy of measures from tallies",
        "",
        "Generated by `make tally-accuracy`: the difference between "
        f"measures of a tally and measures of its {ROWS:,} rows.",
        "In brackets: a bound of the difference, computed from the tally alone and proven in "
        "`benchmarks.monitors.bounds`.",
        f"Differences above {GOAL:g} are bold. ECE has 15 bins.",
        "",
        "## Five shapes",
        "",
        "True probabilities c have the given distribution. "
        "Predictions are (1 - w) c + w f(c), with w such that the mean",
        "|p - c| is the error. The shapes f are those of [the "
        "smooth test](calibration-test.md) that can reach the error.",
        "Each figure is the largest over the shapes.",
        "",
        *head(),
        *shapes,
        "",
        "## Difficult distributions",
        "",
        *head(),
        *difficult,
        "",
        "The log loss is too low for rows with a wrong prediction that is closer to 0 or 1 than 6e-7, the width of the",
        "first cell. The bound in brackets limits this error.",
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
