"""How often the intervals of the calibration errors cover the truth. Writes docs/interval-coverage.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant.averaging.process import fit_process
from calibrant.measures.catalogue import read_requests
from calibrant.measures.fitted import debiased, fitted_error, interval_about, process_belief
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest
from calibrant.piecewise.folds import fold_cells
from calibrant.reductions import Event

PAGE = Path(__file__).parents[1] / "docs" / "interval-coverage.md"
RUNS = 600
LEVEL = 0.95
#: The fits take longer, and run less often.
FITTED: tuple[str, ...] = ("pl3", "pl")
FITTED_RUNS = 60
MEASURES: list[str | dict[str, Any]] = [{"name": "ece"}, {"name": "ece", "norm": 2, "as": "ece, norm 2"}, "ks"]

Array = npt.NDArray[np.float64]


def draw(error: float, n: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Predictions and their true probabilities c, uniform: p = (1 - a) c + a c^2 with a = 6 x error."""
    c = random.random(n)
    return (1 - 6 * error) * c + 6 * error * c**2, c


def truths(error: float) -> dict[str, float]:
    """The measures on the true probabilities of two million rows: bins and cumulative gaps without label noise."""
    p, c = draw(error, 2_000_000, np.random.default_rng(1))
    order = np.argsort(p)
    gap = (p - c)[order]
    bins = np.array([part.mean() for part in np.array_split(gap, 15)])
    return {
        "ece": float(np.abs(bins).mean()),
        "ece, norm 2": float((bins**2).mean()),
        "ks": float(np.abs(np.cumsum(gap)).max() / len(gap)),
    }


def covered(error: float, n: int, requests: tuple[MeasureRequest, ...]) -> dict[str, float]:
    """Share of the runs in which each measure's interval holds the truth."""
    truth = truths(error)
    hits = dict.fromkeys(truth, 0)
    for run in range(RUNS):
        random = np.random.default_rng([7, run, n])
        p, c = draw(error, n, random)
        event = Event(p, (random.random(n) < c).astype(np.int8))
        for request in requests:
            low, high = request.compute(event, Resampling(LEVEL, 1000, run)).interval or (1.0, 0.0)
            hits[request.key] += low <= truth[request.key] + 1e-9 and truth[request.key] <= high + 1e-9
    return {key: count / RUNS for key, count in hits.items()}


def covered_by_fits(error: float, n: int) -> tuple[list[float], float]:
    """Shares of the runs in which the intervals of ``ece-averaged``, ``ece-pl3`` and ``ece-pl`` hold the truth."""
    p, c = draw(error, 2_000_000, np.random.default_rng(1))
    truth = float(np.abs(p - c).mean())
    hits, fits, width = 0, [0, 0], 0.0
    for run in range(RUNS):
        random = np.random.default_rng([8, run, n])
        p, c = draw(error, n, random)
        event = Event(p, (random.random(n) < c).astype(np.int8))
        # The interval of the average is that of its process: the other half need not be fitted.
        belief = process_belief(fit_process(fold_cells(event.counted_rows, 10, 0)))
        low, high = interval_about(belief, debiased(belief, 1), 1, LEVEL)
        hits += low <= truth <= high
        width += (high - low) / RUNS
        if run < FITTED_RUNS:
            for i, name in enumerate(FITTED):
                low, high = fitted_error(event, name, norm=1, folds=10, level=LEVEL).interval or (1.0, 0.0)
                fits[i] += low <= truth <= high
    return [hits / RUNS, *(count / FITTED_RUNS for count in fits)], width


def fit_lines() -> list[str]:
    """The table of the errors by fitting."""
    lines = [
        "## By fitting",
        "",
        f"The same for mean |p - c|, without bins; PL and PL3 in {FITTED_RUNS} runs (standard error "
        f"{np.sqrt(LEVEL * (1 - LEVEL) / FITTED_RUNS):.3f}).",
        "",
        "| calibration error | n | ece-averaged | ece-pl3 | ece-pl | mean width, ece-averaged |",
        "|---|---|---|---|---|---|",
    ]
    for error in (0.0, 0.03, 0.1):
        for n in (300, 1_000, 10_000):
            shares, width = covered_by_fits(error, n)
            lines.append(f"| {error:g} | {n:,} | {' | '.join(f'{s:.3f}' for s in shares)} | {width:.4f} |")
    return lines


def main() -> None:
    """Simulate and write the page."""
    requests = read_requests(MEASURES)
    lines = [
        "# Coverage of the intervals",
        "",
        f"Made by `make coverage`: the share of {RUNS} simulated batches whose {LEVEL:.0%} interval holds the truth.",
        f"One binomial standard error is {np.sqrt(LEVEL * (1 - LEVEL) / RUNS):.3f}. Predictions p = (1 - a) c + a c^2",
        "of uniform true probabilities c; 15 equal-mass bins; the truth is that of the bins, without label noise.",
        "",
        "| calibration error | n | " + " | ".join(r.key for r in requests) + " |",
        "|---|---|" + "---|" * len(requests),
    ]
    for error in (0.0, 0.03, 0.1):
        for n in (300, 1_000, 10_000):
            share = covered(error, n, requests)
            lines.append(f"| {error:g} | {n:,} | " + " | ".join(f"{share[r.key]:.3f}" for r in requests) + " |")
    page = "\n".join([*lines, "", *fit_lines(), ""])
    PAGE.write_text(page, "utf-8")
    print(page)


if __name__ == "__main__":
    main()
