"""Coverage of the intervals of decision curves. Writes docs/benchmarks/decision-curves.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.portions import Goal, SimulationJob, counts, fewer, seconds_asked, standard_error
from benchmarks.records import publish

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "decision-curves.md"
RUNS = 2_000
#: The goal of coverage.
COVERAGE = Goal(0.92, 0.97)
ROWS = (200, 1_000, 10_000)
PREVALENCES = (0.02, 0.2, 0.5)
#: Thresholds in units of the prevalence.
THRESHOLDS = (0.5, 1.0, 1.6)
#: Rows that stand for an infinite sample.
MANY = 2_000_000
QUANTITIES = ("net_benefit", "standardised", "over_treat_all", "differences")

Array = npt.NDArray[np.float64]


class Population(NamedTuple):
    """Batches of n rows with this rate of events; one model has both features, another only one and a wrong slope."""

    n: int
    prevalence: float

    @property
    def thresholds(self) -> Array:
        """The thresholds."""
        return self.prevalence * np.array(THRESHOLDS)

    def draw(self, n: int, random: np.random.Generator, centre: float) -> tuple[dict[str, Array], Array]:
        """Return the predictions of the models, and the chances of events."""
        z, u = random.standard_normal((2, n))
        chance = expit(centre + z + 0.7 * u)
        return {"full": chance, "part": expit(centre + 0.2 + 0.6 * z)}, chance


@lru_cache(maxsize=8)
def centre_of(prevalence: float) -> float:
    """Return the mean of the log-odds at which events have the prevalence."""
    z = np.linspace(-8.0, 8.0, 20_001)
    weight = np.exp(-z * z / 2.0)
    weight /= weight.sum()
    spread = np.hypot(1.0, 0.7)
    return float(brentq(lambda m: float(weight @ expit(m + spread * z)) - prevalence, -15.0, 15.0))


@lru_cache(maxsize=16)
def truths(population: Population, centre: float) -> Mapping[str, Array]:
    """Return the true value of each quantity at each threshold."""
    models, chance = population.draw(MANY, np.random.default_rng(0), centre)
    odds = population.thresholds / (1.0 - population.thresholds)

    def benefit(p: Array) -> Array:
        return np.array(
            [
                np.mean((p >= t) * (chance - w * (1.0 - chance)))
                for t, w in zip(population.thresholds, odds, strict=True)
            ]
        )

    full, part, treat_all = benefit(models["full"]), benefit(models["part"]), benefit(np.ones(MANY))
    return {
        "net_benefit": full,
        "standardised": full / chance.mean(),
        "over_treat_all": full - treat_all,
        "differences": full - part,
    }


def coverage(population: Population, runs: range) -> Counter[str]:
    """Count the intervals, and those that cover the truth, by quantity and threshold."""
    centre = centre_of(population.prevalence)
    true = truths(population, centre)
    results: Counter[str] = Counter()
    for run in runs:
        random = np.random.default_rng([run, population.n, round(100 * population.prevalence)])
        models, chance = population.draw(population.n, random, centre)
        labels = (random.random(population.n) < chance).astype(int)
        curve = calibrant.decision_curve(models, labels, thresholds=population.thresholds.tolist())
        for name in QUANTITIES:
            intervals = getattr(curve, name).get("full - part" if name == "differences" else "full")
            if intervals is not None:  # standardised without events
                results[f"{name} known"] += 1
                covers = (intervals.low <= true[name]) & (true[name] <= intervals.high)
                results.update({f"{name} at {t}": int(of) for t, of in zip(THRESHOLDS, covers, strict=True)})
    return results


POPULATIONS = tuple(Population(n, rate) for n, rate in product(ROWS, PREVALENCES))


def job_of(population: Population) -> SimulationJob:
    """Return the batches of a population."""
    key = f"{population.n:,}, {population.prevalence:.0%}"
    return SimulationJob(key, RUNS, partial(coverage, population))


HEAD = (
    "| rows, prevalence | " + " | ".join(f"`{name}`" for name in QUANTITIES) + " |",
    "|---|" + "---|" * len(QUANTITIES),
)


def row(key: str, total: Counter[str]) -> str:
    """Return the row of a population."""
    cells = []
    for name in QUANTITIES:
        known = total[f"{name} known"]
        shares = [total[f"{name} at {t}"] / known for t in THRESHOLDS if known]
        cells.append(", ".join(COVERAGE.text(share, known) for share in shares))
    return f"| {key} | " + " | ".join(cells) + " |"


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the rows, each of which can be computed alone."""
    del data

    def lines(population: Population) -> list[str]:
        job = job_of(population)
        return [*HEAD, row(job.key, job.whole())]

    return [PageCheck(job_of(of).key, partial(lines, of)) for of in POPULATIONS]


def main() -> None:
    """Simulate and write the page."""
    totals = counts([job_of(of) for of in POPULATIONS], __file__, seconds_asked(__doc__))
    lines = [
        "# Decision curves: coverage",
        "",
        f"Generated by `make decision-curves`: shares of {RUNS:,} simulated batches whose 95 % interval covers the",
        f"truth, at thresholds of {', '.join(map(str, THRESHOLDS))} times the prevalence; standard errors are about",
        f"{standard_error(0.95, RUNS):.3f}. Shares outside {COVERAGE.low:.0%} to {COVERAGE.high:.0%} by more than",
        "two standard errors are bold: intervals are too long with few events, and `differences` are those of two",
        "models on the same rows, of which few are decided differently. Speed and values beside other packages are",
        "[on another page](clinical-speed.md).",
        "",
        *fewer(totals, RUNS),
        *HEAD,
        *(row(key, total) for key, total in totals.items()),
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
