"""Measures from tallies beside those of the rows they count. Writes docs/benchmarks/tally-accuracy.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from benchmarks.calibration_test import SHAPES, Array
from benchmarks.monitors.streams import SPREADS
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from calibrant.monitoring.tally import Tally, tally_of
from calibrant.reductions import Event

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
#: True probabilities whose predictions are the same, or off by a shape.
TRUE: Mapping[str, Callable[[int, np.random.Generator], Array]] = {
    name: SPREADS[name] for name in ("uniform", "Beta(.5, .5)", "Beta(5, 1), as a confidence")
}

Rows = tuple[Array, Array]


def shaped(spread: str, shape: str, error: float, random: np.random.Generator) -> Rows | None:
    """Predictions (1 - w) c + w f(c) of true probabilities c; None where no w up to 1 makes so large an error."""
    c = TRUE[spread](ROWS, random)
    off = SHAPES[shape][0](c) - c
    w = error / float(np.abs(off).mean())
    return (c + w * off, c) if w <= 1.0 else None


def hard(random: np.random.Generator) -> Iterator[tuple[str, Rows]]:
    """Predictions that are hard on cells."""
    c = random.random(ROWS)
    yield "two decimals", (np.round(c, 2), c)
    yield "one decimal", (np.round(c, 1), c)
    yield "one half at 0.2, the others uniform", (np.where(random.random(ROWS) < 0.5, 0.2, c), c)
    yield "single precision", (c.astype(np.float32).astype(np.float64), c**1.1)
    yield "one value, 0.3", (np.full(ROWS, 0.3), np.full(ROWS, 0.31))
    near = 1e-6 * np.exp(random.normal(0.0, 1.0, ROWS))
    yield "crowded at 1e-6, true 3 times as likely", (near, 3.0 * near)
    high = 1.0 - 1e-3 * np.exp(random.normal(0.0, 0.3, ROWS))
    yield "crowded at 0.999, true 0.99", (high, np.full(ROWS, 0.99))
    yield "0.999 to within 1e-5, true 0.999", (0.999 + 1e-5 * random.random(ROWS), np.full(ROWS, 0.999))
    sure = 1.0 / (1.0 + np.exp(-random.normal(0.0, 8.0, ROWS)))
    yield "sharp logits, N(0, 8^2), true half as sharp", (sure, 1.0 / (1.0 + np.sqrt(1.0 / sure - 1.0)))
    surer = 1.0 / (1.0 + np.exp(-random.normal(0.0, 20.0, ROWS)))
    yield "saturated logits, N(0, 20^2), wrong in 2% at the ends", (surer, np.clip(surer, 0.02, 0.98))


def compared(rows: Rows, random: np.random.Generator) -> tuple[dict[str, float], dict[str, float]]:
    """How far the tally's measures are from those of the rows, and how far they may be by the bounds."""
    p, c = rows
    event = Event(p, (random.random(len(p)) < c).astype(np.int8))
    tally = tally_of(p, event.y)
    errors, widths = {}, {}
    for request in REQUESTS:
        exact, value = (request.compute(of).value for of in (event, tally.event()))
        told = BOUNDED[request.key](tally)
        if exact is None or value is None or not told.low - 1e-7 <= exact <= told.high + 1e-7:
            raise AssertionError(f"{request.key} is not within its bounds")
        errors[request.key] = abs(value - exact)
        widths[request.key] = told.apart(value)
    return errors, widths


def line(title: str, found: list[tuple[dict[str, float], dict[str, float]]]) -> str:
    """The largest error of several batches, and the largest bound."""
    cells = []
    for request in REQUESTS:
        error, width = (max(of[part][request.key] for of in found) for part in (0, 1))
        cells.append(f"{'**' if error > GOAL else ''}{error:.1e}{'**' if error > GOAL else ''} ({width:.0e})")
    return f"| {title} | {' | '.join(cells)} |"


def main() -> None:
    """Compare and write the page."""
    random = np.random.default_rng(31)
    header = ["| " + " | ".join(["predictions", *(r.key for r in REQUESTS)]) + " |", "|---|" + "---|" * len(REQUESTS)]
    shapes = []
    for spread in TRUE:
        for error in ERRORS:
            made = [shaped(spread, shape, error, random) for shape in SHAPES]
            found = [compared(rows, random) for rows in made if rows is not None]
            kind = f"error {error:g} ({len(found)} shapes)" if error else f"calibrated ({len(found)} batches)"
            if found:
                shapes.append(line(f"{spread}, {kind}", found))
    difficult = [line(title, [compared(rows, random)]) for title, rows in hard(random)]
    lines = [
        "# What tallies lose",
        "",
        f"Made by `make tally-accuracy`: how far measures read off a tally are from those of the {ROWS:,} rows that it",
        "counts, and in brackets how far they could be, told from the tally alone (`calibrant.monitoring.bounds`,",
        f"which proves it). Bold: above {GOAL:g}. ECE has 15 bins.",
        "",
        "## The five shapes",
        "",
        "True probabilities c are spread as told, and predictions are (1 - w) c + w f(c), with w such that the mean",
        "|p - c| is the error; the shapes f are those of [the smooth test's page](calibration-test.md), those of them",
        "that reach the error. The largest of all shapes.",
        "",
        *header,
        *shapes,
        "",
        "## Hard ones",
        "",
        *header,
        *difficult,
        "",
        "The log loss of rows that are sure, wrong and nearer to 0 or 1 than 6e-7, the width of the first cell, is",
        "told too low; the bound in brackets says by how much at most.",
        "",
    ]
    PAGE.write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    main()
