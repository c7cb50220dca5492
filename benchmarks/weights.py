"""Size of tests and coverage of intervals under importance weights. Writes docs/benchmarks/weights.md."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import calibrant
from benchmarks.coverage import draw
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest, MeasureResult
from calibrant.reductions import Classes, Event, Subject, Vector

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "weights.md"
ROWS, RUNS, RESAMPLES, LEVEL = 1_000, 400, 200, 0.95
#: Rows of the true value, each with every label; fewer for measures that compare all pairs or simulate a law.
TRUE_ROWS, TRUE_FEW = 50_000, 2_000
FEW = frozenset({"ks", "ks-by-predicted-class", "kuiper", "mmce", "skce", "smooth-test"})
SWEEP = "ece-sweep"
#: Not simulated: fits, and what takes longer than all others together.
SLOW = frozenset({"decomposition", "ece-cv", "kde-ce", "kde-ece", "recalibration-improvement"})
#: Standard deviation of the logarithm of a weight.
SPREAD = 1.0
#: Runs of each task of a process.
_PART = 50

Array = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """Predictions of ``event``, ``classwise`` or ``canonical`` with this error; weights that depend on them or not."""

    kind: str
    error: float
    depends: bool

    def __str__(self) -> str:
        weights = "dependent" if self.depends else "independent"
        return f"{self.kind}, error {self.error:g}, {weights} weights"


SETTINGS = (
    Setting("event", 0.0, depends=False),
    Setting("event", 0.0, depends=True),
    Setting("event", 0.03, depends=True),
    Setting("canonical", 0.0, depends=True),
)


def weights_of(p: Array, random: np.random.Generator, *, depends: bool) -> Array:
    """Draw log-normal weights of mean about 1; if they depend on ``p``, half of the variance of the logarithm does."""
    z = random.normal(size=len(p))
    if depends:
        first = p if p.ndim == 1 else p[:, 0]
        z = (z + (first - 0.5) * np.sqrt(12.0)) / np.sqrt(2.0)
    return np.exp(SPREAD * z - SPREAD**2 / 2.0)


def predictions_of(setting: Setting, n: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw predictions and their true probabilities."""
    if setting.kind == "event":
        return draw(setting.error, n, random)
    truth = random.dirichlet(np.ones(3), n)
    return truth, truth


def drawn(setting: Setting, random: np.random.Generator, n: int = ROWS) -> Subject:
    """Draw a sample with importance weights."""
    p, truth = predictions_of(setting, n, random)
    w = weights_of(p, random, depends=setting.depends)
    if setting.kind == "event":
        return Event(p, (random.random(n) < truth).astype(np.int8), w, "importance")
    labels = (random.random(n)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
    vector = Vector(p, labels, w, "importance")
    return vector if setting.kind == "canonical" else Classes(vector)


def noiseless(setting: Setting, n: int) -> Subject:
    """Return rows with every label, weighted by the true probabilities and the mean of the weights given p."""
    p, truth = predictions_of(setting, n, np.random.default_rng(1))
    first = p if p.ndim == 1 else p[:, 0]
    w = np.exp(SPREAD * (first - 0.5) * np.sqrt(6.0)) if setting.depends else np.ones(n)
    if setting.kind == "event":
        y = np.repeat(np.array([0, 1], np.int8), n)
        return Event(np.tile(p, 2), y, np.concatenate([(1.0 - truth) * w, truth * w]), "importance")
    labels = np.repeat(np.arange(3), n)
    vector = Vector(np.tile(p, (3, 1)), labels, (truth * w[:, None]).T.ravel(), "importance")
    return vector if setting.kind == "canonical" else Classes(vector)


def requests_of(setting: Setting, names: Collection[str] | None = None) -> tuple[MeasureRequest, ...]:
    """Return the measures, or those of ``names``, with a p-value or an interval that needs no resampled rows."""
    compute = "vector" if setting.kind == "canonical" else "event"
    return read_requests(
        [
            entry.name
            for entry in calibrant.MEASURES.values()
            if entry.runs == "inline"
            and entry.name not in SLOW
            and (names is None or entry.name in names)
            and getattr(entry, compute) is not None
            and (entry.distance or entry.influence or entry.name == "smooth-test")
        ]
    )


def true_values(setting: Setting, names: Collection[str] | None = None) -> dict[str, float]:
    """Return the values of an infinite sample; without noise, a debiased estimate of 0 can be below 0."""
    many, few = noiseless(setting, TRUE_ROWS), noiseless(setting, TRUE_FEW)
    requests = requests_of(setting, names)
    found = {r.key: r.compute(few if r.key in FEW else many).value or 0.0 for r in requests if r.key != SWEEP}
    # Without noise, it would choose infinitely many bins.
    return found | {r.key: found["ece"] for r in requests if r.key == SWEEP}


class Counts(NamedTuple):
    """Intervals, those that cover the truth, p-values, and those at most 1 - LEVEL."""

    intervals: int = 0
    covered: int = 0
    p_values: int = 0
    rejected: int = 0

    def plus(self, result: MeasureResult, truth: float) -> Counts:
        """Count one result."""
        low, high = result.interval or (1.0, 0.0)
        held = low <= max(truth, 0.0 if low >= 0.0 else truth) + 1e-9 and truth <= high + 1e-9
        has_p, p = result.p_value is not None, result.p_value or 0.0
        return Counts(
            self.intervals + (result.interval is not None),
            self.covered + (result.interval is not None and held),
            self.p_values + has_p,
            self.rejected + (has_p and p <= 1.0 - LEVEL),
        )


def counted(setting: Setting, runs: range, truth: Mapping[str, float]) -> dict[str, Counts]:
    """Return what is counted in these runs, by measure."""
    counts = dict.fromkeys(truth, Counts())
    for run in runs:
        subject = drawn(setting, np.random.default_rng([7, run]))
        for request in requests_of(setting, truth):
            result = request.compute(subject, Resampling(LEVEL, RESAMPLES, run))
            counts[request.key] = counts[request.key].plus(result, truth[request.key])
    return counts


#: Measures of normal forecasts, of which those without a p-value have an interval.
FORECAST_MEASURES: tuple[str | dict[str, str], ...] = (
    *("crps", "log-score", "coverage", "rmse", "bias", "sharpness", "variance-ratio", "quantile-calibration-error"),
    *("pit-ks", "pit-kuiper", "pit-anderson-darling"),
    {"name": "conditional-coverage", "by": "centre"},
)


def counted_forecasts(runs: range, *, depends: bool) -> dict[str, Counts]:
    """Return what is counted for calibrated normal forecasts; weights may depend on the mean and the variance."""
    true: dict[str, float] = {}
    counts: dict[str, Counts] = {}
    for run in (-1, *runs):
        n = TRUE_ROWS if run < 0 else ROWS
        random = np.random.default_rng([8, max(run, 0), n])
        c = random.random(n)
        std = 0.5 + c
        y = c + std * random.normal(size=n)
        w = weights_of(c, random, depends=depends)
        names = list(FORECAST_MEASURES)
        report = calibrant.evaluate_distribution(
            y, mean=c, std=std, weights=w, measures=names, interval=LEVEL, seed=max(run, 0)
        )
        for key, result in report.measures.items():
            if run < 0:
                true[key], counts[key] = result.value or 0.0, Counts()
            else:
                counts[key] = counts[key].plus(result, true[key])
    return counts


def added(parts: Sequence[Mapping[str, Counts]]) -> dict[str, Counts]:
    """Add the counts of several parts."""
    return {key: Counts(*(sum(one) for one in zip(*(part[key] for part in parts), strict=True))) for key in parts[0]}


def parts_of(runs: int) -> list[range]:
    """Cut the runs into those of a task each."""
    return [range(start, min(start + _PART, runs)) for start in range(0, runs, _PART)]


def table(columns: Mapping[str, Mapping[str, Counts]]) -> list[str]:
    """Return a table of coverages and sizes."""
    keys = list(dict.fromkeys(key for counts in columns.values() for key in counts))

    def cell(counts: Counts | None) -> str:
        if counts is None:
            return ""
        covered = f"{counts.covered / counts.intervals:.3f}" if counts.intervals else "-"
        rejected = f"{counts.rejected / counts.p_values:.3f}" if counts.p_values else "-"
        return f"{covered} / {rejected}"

    lines = ["| measure | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    return lines + [f"| `{key}` | " + " | ".join(cell(of.get(key)) for of in columns.values()) + " |" for key in keys]


def outside(columns: Mapping[str, Mapping[str, Counts]], test: Callable[[Counts], bool]) -> str:
    """Return the measures and settings for which a test of the counts holds."""
    found = [f"`{key}` ({name})" for name, of in columns.items() for key, counts in of.items() if test(counts)]
    return ", ".join(found) or "none"


def lines_of(columns: Mapping[str, Mapping[str, Counts]], forecasts: Mapping[str, Mapping[str, Counts]]) -> list[str]:
    """Return the page."""
    everything = {**columns, **forecasts}
    calibrated = {name: of for name, of in everything.items() if "error 0.03" not in name}
    low = outside(everything, lambda counts: counts.intervals > 0 and counts.covered < 0.91 * counts.intervals)
    large = outside(calibrated, lambda counts: counts.p_values > 0 and counts.rejected > 0.08 * counts.p_values)
    return [
        "# Importance weights: size and coverage",
        "",
        f"Generated by `make weights`. {RUNS} samples of {ROWS:,} rows with log-normal weights. Their logarithm has a",
        f"standard deviation of {SPREAD:g}, so that about {ROWS / np.exp(SPREAD**2):.0f} rows are effective. They are",
        "independent of the rows or depend on the predictions. Each cell has the share of intervals of level",
        f"{LEVEL:g}, from {RESAMPLES} resamples, that cover the true value, and the share of p-values of at most",
        f"{1 - LEVEL:.2f}; - if there is none. At error 0 the predictions are calibrated. The standard error of a",
        f"share of {LEVEL:g} is {np.sqrt(LEVEL * (1 - LEVEL) / RUNS):.3f}. As frequencies, such weights covered 41 %.",
        "",
        "## Classes",
        "",
        *table(columns),
        "",
        "## Forecasts of a number",
        "",
        "Calibrated normal forecasts.",
        "",
        *table(forecasts),
        "",
        f"Coverage below 0.91: {low}.",
        "",
        f"Size above 0.08 at error 0: {large}.",
        "",
    ]


def main() -> None:
    """Simulate and write the page."""
    columns: dict[str, dict[str, Counts]] = {}
    forecasts: dict[str, dict[str, Counts]] = {}
    with ProcessPoolExecutor(2) as pool:
        for setting in SETTINGS:
            truth = true_values(setting)
            tasks = [pool.submit(counted, setting, part, truth) for part in parts_of(RUNS)]
            columns[str(setting)] = added([task.result() for task in tasks])
        for depends in (False, True):
            numbers = [pool.submit(counted_forecasts, part, depends=depends) for part in parts_of(RUNS)]
            forecasts[f"{'' if depends else 'in'}dependent weights"] = added([task.result() for task in numbers])
    PAGE.write_text("\n".join(lines_of(columns, forecasts)), "utf-8")


if __name__ == "__main__":
    main()
