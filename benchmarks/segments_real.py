"""Maps of segments on census rows, beside MCGrad. Writes docs/benchmarks/segments-real.md.

``python -m benchmarks.segments_real DATA [--seconds SECONDS]`` resumes a previous run, by seeds. DATA is a folder
with the files of NannyML's example and of Adult (docs/benchmarks/data-sets.md). ``make segments-real`` installs MCGrad.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet

import calibrant
from benchmarks.data_sets import verified
from benchmarks.records import append, current, publish, read
from benchmarks.segments import (
    ERROR_MARGIN,
    LEVEL,
    LOSS_MARGIN,
    ROWS,
    SEEDS,
    SEGMENT,
    SegmentSample,
    methods,
    upper_bound,
)

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "segments-real.md"
#: The most new rows, and the groups and draws of the multipliers of the bounds of the harm.
NEW, GROUPS, DRAWS = 20_000, 512, 1000
#: Rows of Adult to which the model is fitted, and the seed by which they are chosen.
TRAINING, TRAINING_SEED = 10_000, 2024
#: Columns that are no features.
_OTHERS = ("id", "employed", "year", "prediction", "predicted_probability")
#: Sets in the code of MCGrad's paper that are not measured, and why.
MISSING = {
    "ACSIncome, Bank Marketing, Credit Default, HMDA and MEPS": "which it downloads from the US Census Bureau, the UCI "
    "repository and GitHub; none of the packages with data sets that were tried ships them",
    "CelebA, Camelyon17, CivilComments and Amazon Polarity": "images and texts, which also need networks of their own",
}

Array = npt.NDArray[Any]


def employment(data: Path, period: str) -> SegmentSample:
    """Read a period of the census rows, whose predictions are given; the true probabilities are unknown."""
    table = pyarrow.parquet.read_table(verified(data / f"employment_MA_{period}.pq")).to_pandas()
    if period == "analysis":
        target = pyarrow.parquet.read_table(verified(data / "employment_MA_analysis_target.pq")).to_pandas()
        table = table.merge(target, on="id")
    features = {
        column: table[column].to_numpy(float if column == "AGEP" else str)
        for column in table.columns
        if column not in _OTHERS
    }
    p, y = table["predicted_probability"].to_numpy(float), table["employed"].to_numpy(int)
    return SegmentSample(p, y, np.full(len(y), np.nan), features)


def adult(data: Path, classifier: str) -> SegmentSample:
    """Read Adult, with the predictions of a model that was fitted to other rows of it."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.preprocessing import StandardScaler

    table = pyarrow.parquet.read_table(verified(data / "adult.parquet.brotli"))
    columns = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    y = (columns.pop("income") == ">50K").astype(int)
    del columns["fnlwgt"], columns["educational-num"]  # a weight of the survey, and the number of the education
    features = {name: own.astype(float) if own.dtype.kind in "if" else own for name, own in columns.items()}
    numbers = [own[:, None] for own in features.values() if own.dtype.kind == "f"]
    dummies = [own[:, None] == np.unique(own) for own in features.values() if own.dtype.kind != "f"]
    x = np.hstack([StandardScaler().fit_transform(np.hstack(numbers)), *dummies])
    order = np.random.default_rng(TRAINING_SEED).permutation(len(y))
    train, rest = order[:TRAINING], order[TRAINING:]
    model = LogisticRegression(max_iter=1000) if classifier == "logistic regression" else BernoulliNB()
    p = model.fit(x[train], y[train]).predict_proba(x[rest])[:, 1]
    return taken(SegmentSample(p, y[rest], np.full(len(rest), np.nan), {k: v[rest] for k, v in features.items()}))


SETS: Mapping[str, Callable[[Path], SegmentSample]] = {
    "employment, first period": partial(employment, period="reference"),
    "employment, later period": partial(employment, period="analysis"),
    "Adult, logistic regression": partial(adult, classifier="logistic regression"),
    "Adult, naive Bayes": partial(adult, classifier="naive Bayes"),
}


def taken(sample: SegmentSample, rows: Array | slice = slice(None)) -> SegmentSample:
    """Return the chosen rows."""
    features = {name: column[rows] for name, column in sample.features.items()}
    return SegmentSample(sample.p[rows], sample.y[rows], sample.truth[rows], features)


def losses(q: Array, y: Array) -> Array:
    """Return the log loss of each row, in nats."""
    q = np.clip(q, 1e-9, 1.0 - 1e-9)
    row_losses: Array = -np.where(y == 1, np.log(q), np.log1p(-q))
    return row_losses


def cells_of(sample: SegmentSample) -> Iterator[Array]:
    """Yield the segment of each row: by category, tenths of numbers and of p, and their pairs."""
    tenths = np.arange(1, 10) / 10.0
    columns = {**sample.features, "p": sample.p}
    codes = [
        np.unique(
            np.searchsorted(np.quantile(own, tenths), own) if own.dtype.kind == "f" else own, return_inverse=True
        )[1]
        for own in columns.values()
    ]
    for i, first in enumerate(codes):
        for second in [np.zeros_like(first), *codes[i + 1 :]]:
            yield np.unique(first * 1000 + second, return_inverse=True)[1]


class WorstSegment(NamedTuple):
    """The worst segment: the mean difference of the log loss, and the simultaneous upper bound of all segments."""

    mean: float
    bound: float
    segments: int


def harm_of(sample: SegmentSample, difference: Array, seed: int) -> WorstSegment:
    """Return the largest mean of ``difference (n,)`` over segments of enough rows, and the largest upper bound.

    The bounds hold for all segments together: mean + c * standard error, with c the quantile of the largest of normal
    variables that have the covariances of the means, drawn with a multiplier for each of random groups of rows.
    """
    random = np.random.default_rng(seed)
    group, normals = random.integers(GROUPS, size=len(difference)), random.standard_normal((GROUPS, DRAWS))
    largest, means, errors = np.full(DRAWS, -np.inf), list[Array](), list[Array]()
    for cell in cells_of(sample):
        count = np.bincount(cell)
        large = count >= SEGMENT
        mean = np.bincount(cell, difference) / count
        off = difference - mean[cell]
        error = np.sqrt(np.bincount(cell, off * off)) / count
        means.append(mean[large])
        errors.append(error[large])
        sums = np.bincount(cell * GROUPS + group, off, minlength=len(count) * GROUPS).reshape(-1, GROUPS)
        known = large & (error > 0.0)
        if known.any():
            drawn = (sums[known] @ normals) / (count * error)[known, None]
            largest = np.maximum(largest, drawn.max(axis=0))
    every, error = np.concatenate(means), np.concatenate(errors)
    critical = float(np.quantile(largest, LEVEL)) if np.isfinite(largest).all() else 0.0  # without any difference
    return WorstSegment(float(every.max()), float((every + critical * error).max()), len(every))


class SegmentScores(NamedTuple):
    """Of a method and a seed: log loss, multicalibration error, and harm beside the predictions as given."""

    loss: float
    error: float
    harm: WorstSegment


def measured(sample: SegmentSample, seed: int) -> dict[str, SegmentScores]:
    """Return the result of each method on new rows, after fits to the same other rows."""
    order = np.random.default_rng(seed).permutation(len(sample.p))
    fit, new = taken(sample, order[:ROWS]), taken(sample, order[ROWS : ROWS + NEW])
    before, results = losses(new.p, new.y), {}
    for name, run in methods().items():
        q = run(fit, new)
        error = calibrant.multicalibration_error(q, new.y, new.features, max_depth=2, resamples=None).value or 0.0
        after = losses(q, new.y)
        results[name] = SegmentScores(float(after.mean()), error, harm_of(new, after - before, seed))
    return results


def table_of(name: str, results: Sequence[Mapping[str, SegmentScores]]) -> list[str]:
    """Return the lines of a set: the mean of each method over the seeds."""
    lines = [
        f"## {name[0].upper()}{name[1:]}",
        "",
        f"{results[0]['segments'].harm.segments:,} segments:",
        "",
        "| map | log loss | multicalibration error | harm of the worst segment | its upper bound |",
        "|---|---:|---:|---:|---:|",
    ]
    for method in results[0]:
        own = [result[method] for result in results]
        loss, error = np.mean([r.loss for r in own]), np.mean([r.error for r in own])
        harm, bound = np.mean([r.harm.mean for r in own]), np.mean([r.harm.bound for r in own])
        lines.append(f"| {method} | {loss:.5f} | {error:.2f} | {harm:+.4f} | {bound:+.4f} |")
    return [*lines, ""]


def paired(name: str, results: Sequence[Mapping[str, SegmentScores]]) -> str:
    """Return the row of a set in the table of differences: means over the seeds, and their upper bounds."""
    cells = []
    for of, unit in (("loss", "+.5f"), ("error", "+.2f")):
        gap = np.array([getattr(r["segments"], of) - getattr(r["MCGrad"], of) for r in results])
        cells += [f"{gap.mean():{unit}}", f"{upper_bound(gap):{unit}}"]
    return f"| {name} | " + " | ".join(cells) + " |"


def page_of(results: Mapping[str, Sequence[Mapping[str, SegmentScores]]]) -> str:
    """Return the page."""
    lines = [
        "# Segments of real rows",
        "",
        "Generated by `make segments-real DATA=folder`, with MCGrad 0.1.5 and its defaults. Two classifiers: of",
        "employment in Massachusetts (US census, NannyML's example, 16 features, two periods), and of an income above",
        f"50,000 dollars (Adult, 12 features), fitted to {TRAINING:,} other rows. Maps are fitted to",
        f"{ROWS:,} rows, and measured on {NEW:,} other ones, over {SEEDS} seeds: log loss in nats, the",
        "multicalibration error with at most two features, and the harm, the log loss after minus before the map in",
        f"the worst segment of at least {SEGMENT} rows: categories, tenths of numbers and of predictions, and their",
        f"pairs. The bound of the harm holds for all segments together, at {LEVEL:.0%}.",
        "",
        "Sets in the code of [MCGrad's paper](https://arxiv.org/abs/2509.19884) that are not measured here:",
        "",
        *(f"- {names}, {reason}" for names, reason in MISSING.items()),
        "",
        "Employment has the survey of ACSIncome and another task, Adult the task of ACSIncome in an older survey.",
        "",
    ]
    for name, of_seeds in results.items():
        lines += table_of(name, of_seeds)
    if all("MCGrad" in result for of_seeds in results.values() for result in of_seeds):
        lines += [
            "## `segments` minus MCGrad",
            "",
            "On the same rows: means over the seeds, and one-sided upper bounds of the means at",
            f"{LEVEL:.0%}, as if the seeds were independent. The goals are a difference of the log loss of at most",
            f"{LOSS_MARGIN:g}, and a bound of the multicalibration error of at most {ERROR_MARGIN:g}.",
            "",
            "| set | log loss | its bound | multicalibration error | its bound |",
            "|---|---:|---:|---:|---:|",
            *(paired(name, of_seeds) for name, of_seeds in results.items()),
            "",
        ]
    return "\n".join(lines)


def scores_of(record: Mapping[str, Any]) -> dict[str, SegmentScores]:
    """Return the scores of a record."""
    return {
        method: SegmentScores(loss, error, WorstSegment(*harm))
        for method, (loss, error, harm) in record["scores"].items()
    }


def main(data: Path, seconds: float) -> None:
    """Measure what no record has until the seconds are over, and write the page if nothing is missing."""
    path, end = current("seeds", __file__), time.monotonic() + seconds
    names = list(methods())
    results = {
        (record["set"], record["seed"]): scores_of(record) for record in read(path) if list(record["scores"]) == names
    }
    for name, sample_of in SETS.items():
        missing = [seed for seed in range(SEEDS) if (name, seed) not in results]
        sample = sample_of(data) if missing else None
        for seed in missing:
            if sample is None or time.monotonic() > end:
                sys.stderr.write(f"{len(results)} of {len(SETS) * SEEDS} seeds are measured: run again\n")
                return
            results[name, seed] = measured(sample, seed)
            append(path, {"set": name, "seed": seed, "scores": results[name, seed]})
            print(name, seed, {method: own.loss for method, own in results[name, seed].items()}, file=sys.stderr)
    publish(PAGE, page_of({name: [results[name, seed] for seed in range(SEEDS)] for name in SETS}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    arguments = parser.parse_args()
    main(arguments.data, arguments.seconds)
