"""Size of tests and coverage of intervals under importance weights, resuming a previous run.

``python -m benchmarks.weights`` writes docs/benchmarks/weights.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from scipy.stats import norm

import calibrant
from benchmarks.checks import PageCheck, PagePart
from benchmarks.coverage import draw
from benchmarks.provenance import Pool
from benchmarks.records import append, current, publish, read
from calibrant.core.reductions import Classes, Event, Subject, Vector
from calibrant.measures.catalogue import read_requests
from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import MeasureRequest

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "weights.md"
ROWS, LEVEL = 1_000, 0.95
#: Resamples of an interval, and of those that compute the measure again for each.
RESAMPLES, FEW_RESAMPLES = 400, 100
#: Samples of each setting, and of those measures and comparisons that take longer.
RUNS, SOME_RUNS, FEW_RUNS = 300, 100, 50
#: Rows of the true value, each with every label; fewer for measures that compare all pairs or simulate a law.
TRUE_ROWS, TRUE_FEW = 50_000, 2_000
FEW = frozenset({"ks", "ks-by-predicted-class", "kuiper", "mmce", "skce", "smooth-test"})
#: Measures that choose the number of bins; without noise, they would choose infinitely many.
ADAPTIVE = frozenset({"ece-cv", "ece-sweep"})
#: Their true value depends on the number of rows and the weights: the mean over the samples is used.
BY_SIZE = frozenset({"ece-by-chance", "l2-bias", "recalibration-improvement"})
SLOW = frozenset({"ece-cv", "kde-ece"})
SLOWEST = frozenset({"decomposition", "ece-by-chance", "l2-bias"})
#: Calibration errors by fitting; the intervals of the others differ in the map alone.
FITTED = (
    *("ece-platt", "ece-temperature", "ece-beta", "ece-isotonic", "ece-histogram", "ece-spline", "ece-kde"),
    *("ece-pl", "ece-pl3", "ece-averaged"),
)
#: Standard deviation of the logarithm of a weight.
SPREAD = 1.0
#: Fraction of the rows of outcome 0 that a sample with weights of outcomes keeps.
KEPT = 0.2
#: Runs of each task of a process.
_PART = 25
_MEASURES, _SLOW, _SLOWEST = "Classes", "Cross-validated bins and densities", "Measures of resampled rows or labels"
_FITTED, _FORECASTS = "Calibration errors by fitting", "Forecasts of a number"
_PAIRS, _GROUPS = "Two models and two forecasts", "Two groups"
_TITLES = (_MEASURES, _SLOW, _SLOWEST, _FITTED, _FORECASTS, _PAIRS, _GROUPS)
_ABOUT = {
    _SLOW: "For `ece-cv` the true value is that of `ece`.",
    _SLOWEST: "With 100 resamples. For `ece-by-chance` and `l2-bias` the true value is the mean of the values.",
    _FITTED: "The true value is the mean of |p - c|. The intervals of other fits differ in the map alone.",
    _FORECASTS: "Calibrated normal forecasts, and their quantiles, samples and intervals.",
    _PAIRS: "Two models that are equally wrong in opposite directions: intervals and p-values of the difference.",
    _GROUPS: "Calibrated rows, a third of them in the smaller group; with 100 resamples.",
}

Array = npt.NDArray[np.float64]


Weights = Literal["no", "independent", "dependent", "outcome"]


class WeightedCase(NamedTuple):
    """Predictions of a ``kind`` with this error; weights that depend on nothing, on the predictions or on outcomes."""

    kind: Literal["event", "rare", "classwise", "canonical"]
    error: float
    weights: Weights

    def __str__(self) -> str:
        weights = "weights of outcomes" if self.weights == "outcome" else f"{self.weights} weights"
        return f"{self.kind}, error {self.error:g}, {weights}"


EVENTS = (
    WeightedCase("event", 0.0, "independent"),
    WeightedCase("event", 0.0, "dependent"),
    WeightedCase("event", 0.03, "dependent"),
    WeightedCase("rare", 0.0, "outcome"),
)
#: For what does not keep its level with weights.
UNWEIGHTED, RARE = WeightedCase("event", 0.0, "no"), WeightedCase("rare", 0.0, "no")
CLASSWISE, CANONICAL = WeightedCase("classwise", 0.0, "dependent"), WeightedCase("canonical", 0.0, "dependent")


def weights_of(p: Array, random: np.random.Generator, *, depends: bool) -> Array:
    """Draw log-normal weights of mean about 1; if they depend on ``p``, half of the variance of the logarithm does."""
    z = random.normal(size=len(p))
    if depends:
        first = p if p.ndim == 1 else p[:, 0]
        z = (z + (first - 0.5) * np.sqrt(12.0)) / np.sqrt(2.0)
    return np.exp(SPREAD * z - SPREAD**2 / 2.0)


def predictions_of(setting: WeightedCase, n: int, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw predictions and their true probabilities."""
    if setting.kind == "event":
        return draw(setting.error, n, random)
    truth = random.random(n) ** 3 if setting.kind == "rare" else random.dirichlet(np.ones(3), n)
    return truth, truth


def drawn(setting: WeightedCase, random: np.random.Generator, n: int = ROWS) -> Subject:
    """Draw a sample with importance weights; with weights of outcomes, few of the rows of outcome 0 are sampled."""
    by_outcome = setting.weights == "outcome"
    p, truth = predictions_of(setting, 8 * n if by_outcome else n, random)
    if setting.kind in ("classwise", "canonical"):
        w = weights_of(p, random, depends=setting.weights == "dependent")
        labels = (random.random(n)[:, None] > np.cumsum(truth, axis=1)).sum(axis=1)
        vector = Vector(p, labels, w, "importance")
        return vector if setting.kind == "canonical" else Classes(vector)
    y = (random.random(len(p)) < truth).astype(np.int8)
    if by_outcome:
        rows = np.flatnonzero(random.random(len(p)) < np.where(y == 1, 1.0, KEPT))[:n]
        return Event(p[rows], y[rows], np.where(y[rows] == 1, KEPT, 1.0), "importance")
    if setting.weights == "no":
        return Event(p, y)
    return Event(p, y, weights_of(p, random, depends=setting.weights == "dependent"), "importance")


def noiseless(setting: WeightedCase, n: int) -> Subject:
    """Return rows with every label, weighted by the true probabilities and the mean of the weights given p."""
    p, truth = predictions_of(setting, n, np.random.default_rng(1))
    first = p if p.ndim == 1 else p[:, 0]
    w = np.exp(SPREAD * (first - 0.5) * np.sqrt(6.0)) if setting.weights == "dependent" else np.ones(n)
    if setting.kind in ("event", "rare"):
        y = np.repeat(np.array([0, 1], np.int8), n)
        return Event(np.tile(p, 2), y, np.concatenate([(1.0 - truth) * w, truth * w]), "importance")
    labels = np.repeat(np.arange(3), n)
    vector = Vector(np.tile(p, (3, 1)), labels, (truth * w[:, None]).T.ravel(), "importance")
    return vector if setting.kind == "canonical" else Classes(vector)


def names_of(setting: WeightedCase) -> tuple[str, ...]:
    """Return the measures with a p-value or an interval, without those that take long."""
    compute = "vector" if setting.kind == "canonical" else "event"
    return tuple(
        entry.name
        for entry in calibrant.MEASURES.values()
        if entry.runs == "inline"
        and entry.name not in SLOW | SLOWEST
        and getattr(entry, compute) is not None
        and (entry.distance or entry.influence or entry.name == "smooth-test")
    )


def true_value(request: MeasureRequest, setting: WeightedCase) -> float | None:
    """Return the value of an infinite sample, or None if it depends on the number of rows."""
    if request.key in BY_SIZE:
        return None
    if request.key in FITTED:
        p, truth = predictions_of(setting, TRUE_ROWS, np.random.default_rng(1))
        w = np.exp(SPREAD * (p - 0.5) * np.sqrt(6.0)) if setting.weights == "dependent" else np.ones(TRUE_ROWS)
        return float(w @ np.abs(p - truth) / w.sum())
    if request.key in ADAPTIVE:
        request = read_requests(["ece"])[0]
    subject = noiseless(setting, TRUE_FEW if request.key in FEW else TRUE_ROWS)
    value = request.compute(subject).value or 0.0
    # Without noise, a debiased estimate of 0 can be below 0.
    return value if request.measure.better == "neither" else max(value, 0.0)


class SampleOutcome(NamedTuple):
    """Result of one sample: ends of the interval and p-value, None without, and the value."""

    low: float | None
    high: float | None
    p_value: float | None
    value: float | None


#: Results by measure.
Outcomes = dict[str, list[SampleOutcome]]


def outcome_of(result: Any, value: float | None) -> SampleOutcome:
    """Return the outcome of a result with an interval and a p-value."""
    low, high = result.interval or (None, None)
    return SampleOutcome(low, high, result.p_value, value)


def of_measures(setting: WeightedCase, names: Sequence[str], runs: range) -> Outcomes:
    """Compute measures of these samples."""
    requests = read_requests(list(names))
    resamples = FEW_RESAMPLES if SLOWEST.issuperset(names) else RESAMPLES
    outcomes: Outcomes = {request.key: [] for request in requests}
    for run in runs:
        subject = drawn(setting, np.random.default_rng([7, run]))
        for request in requests:
            result = request.compute(subject, Resampling(LEVEL, resamples, run))
            outcomes[request.key].append(outcome_of(result, result.value))
    return outcomes


# --- Forecasts of a number

Forecast = Literal["normal", "quantiles", "samples", "interval"]
TESTS = ("quantile-calibration-error", "pit-ks", "pit-kuiper", "pit-anderson-darling")
_CONDITIONAL = {"name": "conditional-coverage", "by": "centre"}
#: Measures by kind of forecast; those without a p-value have an interval.
FORECAST_MEASURES: Mapping[Forecast, tuple[str | dict[str, Any], ...]] = {
    "normal": (
        *("crps", "log-score", "dawid-sebastiani", "coverage", "interval-score", "mae", "rmse", "bias", "sharpness"),
        *("variance-ratio", {"name": "threshold-weighted-crps", "low": 1.0}, "recalibration-improvement"),
        *({"name": "upper-bound", "least_variance": 0.25}, *TESTS, _CONDITIONAL),
    ),
    "quantiles": ("quantile-score", "weighted-interval-score", "coverage", "interval-score", "mae", *TESTS),
    "samples": ("crps", "mae", "rmse", *TESTS),
    "interval": ("interval-score", "coverage", "quantile-calibration-error"),
}
LEVELS = np.array([0.01, 0.025, *np.arange(1, 20) / 20.0, 0.975, 0.99])


def drawn_numbers(weights: Weights, random: np.random.Generator, n: int = ROWS) -> tuple[Array, Array, Array, Array]:
    """Draw outcomes, the means and standard deviations of calibrated forecasts, and weights.

    With weights of outcomes, few of the outcomes below the mean are sampled.
    """
    c = random.random(4 * n if weights == "outcome" else n)
    std = 0.5 + c
    y = c + std * random.normal(size=len(c))
    if weights == "outcome":
        rows = np.flatnonzero(random.random(len(c)) < np.where(y < c, KEPT, 1.0))[:n]
        return y[rows], c[rows], std[rows], np.where(y[rows] < c[rows], 1.0, KEPT)
    return y, c, std, weights_of(c, random, depends=weights == "dependent")


def forecast_of(kind: Forecast, mean: Array, std: Array, random: np.random.Generator) -> dict[str, Any]:
    """Return calibrated forecasts of a kind."""
    if kind == "normal":
        return {"mean": mean, "std": std}
    if kind == "quantiles":
        return {"quantiles": mean[:, None] + std[:, None] * norm.ppf(LEVELS), "levels": LEVELS}
    if kind == "interval":
        return {
            "lower": mean - 1.2816 * std,
            "upper": mean + 1.2816 * std,
            "level": float(norm.cdf(1.2816) * 2.0 - 1.0),
        }
    return {"samples": mean[:, None] + std[:, None] * random.normal(size=(len(mean), 20))}


def of_forecasts(weights: Weights, runs: range, n: int = ROWS) -> Outcomes:
    """Compute measures of calibrated forecasts."""
    outcomes: Outcomes = {}
    for run in runs:
        random = np.random.default_rng([8, run, n])
        y, mean, std, w = drawn_numbers(weights, random, n)
        for kind, names in FORECAST_MEASURES.items():
            forecast = forecast_of(kind, mean, std, random)
            report = calibrant.evaluate_distribution(
                y, **forecast, weights=w, measures=list(names), interval=LEVEL, seed=run
            )
            for key, result in report.measures.items():
                outcomes.setdefault(f"{key}, {kind}", []).append(outcome_of(result, result.value))
    return outcomes


# --- Comparisons of two models, and gaps between groups

COMPARED = ("ece", "ks", "mmce", "brier", "log-loss", "auroc")
#: The predictions of one model are too high by this in logits, those of the other too low.
_OFF = 0.15


def of_comparisons(weights: Weights, runs: range) -> Outcomes:
    """Compare two models: their expected scores are equal, and their errors too unless weights depend on them."""
    document = {"format": 1, "method": "platt", "family": "platt", "reduction": "binary", "scale": "probability"}
    parameters = {"slope": 1.0, "intercept": -2.0 * _OFF}
    maps = {"other": calibrant.load({**document, "n_classes": None, "parameters": parameters, "diagnostics": {}})}
    outcomes: Outcomes = {}
    for run in runs:
        random = np.random.default_rng([9, run])
        c = np.clip(random.random(ROWS), 1e-9, 1.0 - 1e-9)
        y = random.random(ROWS) < c
        w = None if weights == "no" else weights_of(np.abs(2.0 * c - 1.0), random, depends=weights == "dependent")
        p = expit(logit(c) + _OFF)
        report = calibrant.compare(p, y, maps, weights=w, measures=list(COMPARED), resamples=RESAMPLES, seed=run)
        for key, compared in report.measures.items():
            pair = compared.pairs[0]
            outcomes.setdefault(f"{key}, two models", []).append(outcome_of(pair, pair.difference))
        y_n, mean, std, v = drawn_numbers(weights, random)
        both = {name: {"mean": mean + off, "std": std} for name, off in (("high", 0.1), ("low", -0.1))}
        difference = calibrant.compare_distributions(y_n, both, weights=None if weights == "no" else v).pairs[0]
        outcomes.setdefault("crps, two forecasts", []).append(outcome_of(difference, difference.difference))
    return outcomes


GAPS = ("ece", "ks", "ks-end", "brier")


def of_gaps(weights: Weights, runs: range) -> Outcomes:
    """Compare two groups of calibrated rows that do not differ."""
    outcomes: Outcomes = {}
    for run in runs:
        random = np.random.default_rng([10, run])
        c = random.random(ROWS)
        y = random.random(ROWS) < c
        w = weights_of(c, random, depends=weights == "dependent")
        groups = random.choice(["a", "b"], ROWS, p=[2 / 3, 1 / 3])
        report = calibrant.evaluate(
            c, y, weights=w, measures=list(GAPS), groups=groups, interval=LEVEL, resamples=FEW_RESAMPLES, seed=run
        )
        for key, gap in (report.gaps or {}).items():
            outcomes.setdefault(f"{key}, two groups", []).append(outcome_of(gap, gap.value))
    return outcomes


# --- Counts and the page


class CoverageCounts(NamedTuple):
    """Intervals, those that cover the truth, p-values, those at most 1 - LEVEL, and samples."""

    intervals: int
    covered: int
    p_values: int
    rejected: int
    runs: int

    @classmethod
    def of(cls, outcomes: Sequence[SampleOutcome], truth: float | None) -> CoverageCounts:
        """Count outcomes; without a true value, that is the mean of the values."""
        if truth is None:
            truth = float(np.mean([outcome.value for outcome in outcomes if outcome.value is not None]))
        intervals = [(low, high) for low, high, *_ in outcomes if low is not None and high is not None]
        p_values = [outcome.p_value for outcome in outcomes if outcome.p_value is not None]
        return cls(
            len(intervals),
            sum(low <= truth + 1e-9 and truth <= high + 1e-9 for low, high in intervals),
            len(p_values),
            sum(p <= 1.0 - LEVEL for p in p_values),
            len(outcomes),
        )


class WeightsColumn(NamedTuple):
    """A column of a table: which samples to compute, and how."""

    title: str
    column: str
    runs: int
    compute: Callable[[range], Outcomes]
    truth: Callable[[str], float | None]

    def parts(self) -> list[range]:
        """Cut the runs into those of a task each."""
        return [range(start, min(start + _PART, self.runs)) for start in range(0, self.runs, _PART)]

    def counts(self, parts: Sequence[Outcomes]) -> dict[str, CoverageCounts]:
        """Count the outcomes of all parts by measure."""
        return {
            key: CoverageCounts.of(
                [SampleOutcome(*outcome) for part in parts for outcome in part[key]], self.truth(key)
            )
            for key in parts[0]
        }


def of_setting(setting: WeightedCase, names: Sequence[str], runs: int, title: str) -> WeightsColumn:
    """Return the job of measures in a setting."""

    def truth(key: str) -> float | None:
        return true_value(next(r for r in read_requests(list(names)) if r.key == key), setting)

    return WeightsColumn(title, str(setting), runs, partial(of_measures, setting, names), truth)


_COLUMNS: Mapping[Weights, str] = {
    "independent": "independent weights",
    "dependent": "dependent weights",
    "outcome": "weights of outcomes",
}


def forecast_truth(weights: Weights) -> Callable[[str], float | None]:
    """Return a function for the value of a measure of forecasts on many rows."""
    outcomes: Outcomes = {}

    def truth(key: str) -> float | None:
        if key.startswith("recalibration-improvement"):
            return None
        if not outcomes:
            outcomes.update(of_forecasts("dependent" if weights == "dependent" else "independent", range(1), TRUE_ROWS))
        return outcomes[key][0].value

    return truth


def no_difference(_key: str) -> float:
    """Return the true difference of models, forecasts and groups that do not differ."""
    return 0.0


def jobs() -> list[WeightsColumn]:
    """Return every job; those that take longest have the fewest runs."""
    parts = [of_setting(s, names_of(s), RUNS, _MEASURES) for s in EVENTS]
    parts.append(of_setting(CLASSWISE, names_of(CLASSWISE), SOME_RUNS, _MEASURES))
    parts.append(of_setting(CANONICAL, names_of(CANONICAL), 2 * SOME_RUNS, _MEASURES))
    parts += [of_setting(s, sorted(SLOW), SOME_RUNS, _SLOW) for s in (*EVENTS[1:], RARE)]
    parts += [of_setting(s, sorted(SLOWEST), FEW_RUNS, _SLOWEST) for s in (*EVENTS[1:3], UNWEIGHTED)]
    parts += [of_setting(s, FITTED, FEW_RUNS, _FITTED) for s in EVENTS[1:]]
    for weights, column in _COLUMNS.items():
        parts.append(
            WeightsColumn(_FORECASTS, column, 2 * SOME_RUNS, partial(of_forecasts, weights), forecast_truth(weights))
        )
        if weights != "outcome":
            parts.append(WeightsColumn(_PAIRS, column, SOME_RUNS, partial(of_comparisons, weights), no_difference))
            parts.append(WeightsColumn(_GROUPS, column, FEW_RUNS, partial(of_gaps, weights), no_difference))
    return [*parts, WeightsColumn(_PAIRS, "no weights", SOME_RUNS, partial(of_comparisons, "no"), no_difference)]


Tables = Mapping[str, Mapping[str, Mapping[str, CoverageCounts]]]
#: Standard errors beyond which a share is listed.
_FAR = 2.5


def table(columns: Mapping[str, Mapping[str, CoverageCounts]]) -> list[str]:
    """Return a table of coverages and sizes."""
    keys = list(dict.fromkeys(key for counts in columns.values() for key in counts))

    def cell(counts: CoverageCounts | None) -> str:
        if counts is None:
            return ""
        covered = f"{counts.covered / counts.intervals:.3f}" if counts.intervals else "-"
        rejected = f"{counts.rejected / counts.p_values:.3f}" if counts.p_values else "-"
        return f"{covered} / {rejected}"

    lines = ["| measure | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    return lines + [f"| `{key}` | " + " | ".join(cell(of.get(key)) for of in columns.values()) + " |" for key in keys]


def outside(tables: Tables, test: Callable[[CoverageCounts], bool]) -> str:
    """Return the measures and columns for which a test of the counts holds."""
    wrong = [
        f"`{key}` ({column.rsplit(', ', 1)[0]})"
        for columns in tables.values()
        for column, of in columns.items()
        for key, counts in of.items()
        if test(counts)
    ]
    return ", ".join(wrong) or "none"


def error_of(runs: int) -> float:
    """Return the standard error of a share of the level."""
    return float(np.sqrt(LEVEL * (1.0 - LEVEL) / max(runs, 1)))


def lines_of(tables: Tables) -> list[str]:
    """Return the page."""

    def low(counts: CoverageCounts) -> bool:
        return counts.covered < (LEVEL - _FAR * error_of(counts.intervals)) * counts.intervals

    def large(counts: CoverageCounts) -> bool:
        return counts.rejected > (1.0 - LEVEL + _FAR * error_of(counts.p_values)) * counts.p_values

    calibrated = {
        title: {column: of for column, of in columns.items() if "error 0.03" not in column}
        for title, columns in tables.items()
    }
    lines = [
        "# Importance weights: size and coverage",
        "",
        f"Generated by `make weights` from samples of {ROWS:,} rows. Weights are log-normal; their logarithm has a",
        f"standard deviation of {SPREAD:g}, so that about {ROWS / np.exp(SPREAD**2):.0f} rows are effective. They are",
        "independent of the rows or depend on the predictions. *Weights of outcomes* are those of samples with only",
        f"{KEPT:.0%} of the rows of outcome 0 (forecasts: of outcomes below the median). Each cell has the share of",
        f"intervals of level {LEVEL:g}, from {RESAMPLES} resamples, that cover the true value, and the share of",
        f"p-values of at most {1 - LEVEL:.2f}; - if there is none. At error 0 the predictions are calibrated. The",
        f"standard error of a share of {LEVEL:g} is {error_of(RUNS):.3f} for {RUNS} samples, {error_of(SOME_RUNS):.3f}",
        f"for {SOME_RUNS} and {error_of(FEW_RUNS):.3f} for {FEW_RUNS}.",
        "Without weights: [coverage of intervals](interval-coverage.md).",
        "",
    ]
    for title, columns in tables.items():
        lines += [f"## {title}", "", *([_ABOUT[title], ""] if title in _ABOUT else []), *table(columns), ""]
    return [
        *lines,
        "## Outside their level",
        "",
        f"By more than {_FAR:g} standard errors.",
        "",
        f"Coverage too small: {outside(tables, low)}.",
        "",
        f"Size too large at error 0: {outside(calibrated, large)}.",
        "",
    ]


def checks(data: Path | None = None) -> list[PagePart]:
    """Return the columns, each of which can be computed alone."""
    del data

    def column(job: WeightsColumn) -> list[str]:
        return table({column_of(job): job.counts([job.compute(part) for part in job.parts()])})

    return [PageCheck(f"{job.title}, {job.column}", partial(column, job), job.title) for job in jobs()]


def column_of(job: WeightsColumn) -> str:
    """Return the head of the column of a job."""
    return f"{job.column}, {job.runs} samples"


def main() -> None:
    """Simulate what no earlier run of the same code has, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2, help="processes at the same time")
    asked = parser.parse_args()
    path, all_jobs = current("weights", __file__), jobs()
    done = {tuple(key): outcomes for key, outcomes in read(path)}
    with Pool(asked.processes) as pool:
        keys = {(job.title, job.column, part.start): (job, part) for job in all_jobs for part in job.parts()}
        running = {pool.submit(job.compute, part): key for key, (job, part) in keys.items() if key not in done}
        for count, finished in enumerate(as_completed(running), 1):
            key = running[finished]
            done[key] = finished.result()
            append(path, [key, done[key]])
            print(f"{count} of {len(running)}: {', '.join(map(str, key))}", flush=True)
    tables: dict[str, dict[str, dict[str, CoverageCounts]]] = {}
    for job in all_jobs:
        counts = job.counts([done[job.title, job.column, part.start] for part in job.parts()])
        tables.setdefault(job.title, {})[column_of(job)] = counts
    publish(PAGE, "\n".join(lines_of({title: tables[title] for title in _TITLES})))


if __name__ == "__main__":
    main()
