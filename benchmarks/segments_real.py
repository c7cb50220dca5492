"""Maps of segments on census rows, beside MCGrad. Writes docs/benchmarks/segments-real.md.

``python -m benchmarks.segments_real DATA``, the folder with ``employment_MA_reference.pq`` and the later files of
NannyML's example. MCGrad is a column if it is installed: ``pip install mcgrad``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.parquet

import calibrant
from benchmarks.records import publish
from benchmarks.segments import SEGMENT, SegmentSample, methods

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "segments-real.md"
#: Rows of a fit and the most new rows, seeds, the level of the bound, and the groups and draws of its multipliers.
ROWS, NEW, SEEDS, LEVEL, GROUPS, DRAWS = 10_000, 20_000, 3, 0.95, 512, 1000
#: Columns that are no features.
_OTHERS = ("id", "employed", "year", "prediction", "predicted_probability")
_PERIODS = {"reference": "first", "analysis": "later"}

Array = npt.NDArray[Any]


def rows_of(data: Path) -> dict[str, SegmentSample]:
    """Read the rows of both periods; their true probabilities are unknown, and are not used."""
    tables = {name: pyarrow.parquet.read_table(data / f"employment_MA_{name}.pq").to_pandas() for name in _PERIODS}
    target = pyarrow.parquet.read_table(data / "employment_MA_analysis_target.pq").to_pandas()
    tables["analysis"] = tables["analysis"].merge(target, on="id")
    samples = {}
    for name, table in tables.items():
        features = {
            column: table[column].to_numpy(float if column == "AGEP" else str)
            for column in table.columns
            if column not in _OTHERS
        }
        p, y = table["predicted_probability"].to_numpy(float), table["employed"].to_numpy(int)
        samples[name] = SegmentSample(p, y, np.full(len(y), np.nan), features)
    return samples


def taken(sample: SegmentSample, rows: Array) -> SegmentSample:
    """Return the chosen rows."""
    features = {name: column[rows] for name, column in sample.features.items()}
    return SegmentSample(sample.p[rows], sample.y[rows], sample.truth[rows], features)


def losses(q: Array, y: Array) -> Array:
    """Return the log loss of each row, in nats."""
    q = np.clip(q, 1e-9, 1.0 - 1e-9)
    found: Array = -np.where(y == 1, np.log(q), np.log1p(-q))
    return found


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


def measured(samples: Mapping[str, SegmentSample], period: str, seed: int) -> dict[str, SegmentScores]:
    """Return the result of each method on new rows of a period, after fits to the same other rows of the period."""
    order = np.random.default_rng(seed).permutation(len(samples[period].p))
    fit, new = taken(samples[period], order[:ROWS]), taken(samples[period], order[ROWS : ROWS + NEW])
    before, results = losses(new.p, new.y), {}
    for name, run in methods().items():
        q = run(fit, new)
        error = calibrant.multicalibration_error(q, new.y, new.features, max_depth=2, resamples=None).value or 0.0
        after = losses(q, new.y)
        results[name] = SegmentScores(float(after.mean()), error, harm_of(new, after - before, seed))
    return results


def main(data: Path) -> None:
    """Measure, and write the page."""
    samples, names = rows_of(data), list(methods())
    lines = [
        "# Segments of real rows",
        "",
        "Generated by `python -m benchmarks.segments_real DATA`. A classifier of employment in Massachusetts (US",
        "census, from NannyML's examples) with 16 features. Maps are fitted to",
        f"{ROWS:,} rows of a period, and measured on {NEW:,} other rows of it, over {SEEDS} seeds: log loss in",
        "nats, the multicalibration error with at most two features, and the harm, the log loss after minus before",
        f"the map in the worst segment of at least {SEGMENT} rows: categories, tenths of numbers and of predictions,",
        "and their pairs.",
        f"The bound of the harm holds for all segments together, at {LEVEL:.0%}.",
    ]
    for period, what in _PERIODS.items():
        results = [measured(samples, period, seed) for seed in range(SEEDS)]
        lines += [
            "",
            f"The {what} period, {results[0][names[0]].harm.segments:,} segments:",
            "",
            "| map | log loss | multicalibration error | harm of the worst segment | its upper bound |",
            "|---|---:|---:|---:|---:|",
        ]
        for name in names:
            own = [result[name] for result in results]
            loss, error = np.mean([r.loss for r in own]), np.mean([r.error for r in own])
            harm, bound = np.mean([r.harm.mean for r in own]), np.mean([r.harm.bound for r in own])
            lines.append(f"| {name} | {loss:.5f} | {error:.2f} | {harm:+.4f} | {bound:+.4f} |")
            print(period, lines[-1], file=sys.stderr)
        if "MCGrad" in names:
            for of, unit in (("loss", ".5f"), ("error", ".2f")):
                gap = np.array([getattr(r["segments"], of) - getattr(r["MCGrad"], of) for r in results])
                deviation = gap.std(ddof=1) / np.sqrt(len(gap))
                label = {"loss": "log loss", "error": "multicalibration error"}[of]
                lines += ["", f"`segments` minus MCGrad, {label}: {gap.mean():+{unit}} +- {deviation:{unit}}."]
    publish(PAGE, "\n".join([*lines, ""]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
