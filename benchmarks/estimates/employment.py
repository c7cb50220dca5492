"""Estimated performance on the employment files, beside NannyML's, and on streams without shift."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

from benchmarks.data_sets import verified
from calibrant import PerformanceEstimate, PerformanceEstimator, density_ratios, fit_performance_estimator

CHUNKS, STREAMS = 20, 200
#: Beta distributions of the true probabilities of the simulated streams.
SPREADS = ((2.0, 2.0), (0.7, 1.5), (5.0, 2.0), (1.0, 6.0))
NAMES = ("accuracy", "auroc", "f1")

Found = dict[str, dict[str, float]]


def summary(estimates: list[PerformanceEstimate]) -> Found:
    """Error, covered chunks, and width of the interval relative to that of sampling alone, by figure."""
    errors: Found = {}
    for name in estimates[0].figures:
        figures = [estimate.figures[name] for estimate in estimates]
        errors[name] = {
            "error": float(np.mean([abs(figure.value - (figure.realised or 0.0)) for figure in figures])),
            "covered": sum(figure.covered is True for figure in figures),
            "width": float(
                np.median([(figure.high - figure.low) / (2.0 * 1.959964 * figure.sampling) for figure in figures])
            ),
            # The mean absolute value of a normal variable, times its standard deviation.
            "floor": float(np.mean([figure.sampling for figure in figures]) * np.sqrt(2.0 / np.pi)),
        }
    return errors


def compared(estimator: PerformanceEstimator, p: Any, y: Any) -> PerformanceEstimate:
    """An estimate with the realised figures."""
    return estimator.realised(estimator.estimate(p), p, y)


def employment(data: Path, cbpe: dict[str, Any]) -> dict[str, Any]:
    """The employment files: 20 equal chunks in the order of the file."""
    import pandas as pd

    files = [
        pd.read_parquet(verified(data / f"employment_MA_{name}.pq"))
        for name in ("reference", "analysis", "analysis_target")
    ]
    reference, analysis, target = files
    p, y = reference.predicted_probability.to_numpy(), reference.employed.to_numpy()
    features = [name for name in reference.columns if name.isupper()]
    size = len(analysis) // CHUNKS
    edges = [size * j for j in range(CHUNKS)] + [len(analysis)]
    chunks = [slice(first, last) for first, last in pairwise(edges)]
    late, labels = analysis.predicted_probability.to_numpy(), target.employed.to_numpy()
    plain = {method: fit_performance_estimator(p, y, method=method) for method in ("isotonic", "spline")}
    by_method = {
        f"predictions, {method}": [compared(estimator, late[at], labels[at]) for at in chunks]
        for method, estimator in plain.items()
    }
    by_method["predictions and 16 features"] = [
        compared(
            fit_performance_estimator(p, y, weights=density_ratios(reference[features], analysis[features].iloc[at])),
            late[at],
            labels[at],
        )
        for at in chunks
    ]
    first = by_method["predictions, isotonic"]
    theirs = {
        name: float(
            np.mean(
                [
                    abs(x - (estimated.figures[name].realised or 0.0))
                    for x, estimated in zip(cbpe[name], first, strict=True)
                ]
            )
        )
        for name in NAMES
    }
    return {
        "nannyml": cbpe["version"],
        "cbpe": theirs,
        **{name: summary(figures_of_method) for name, figures_of_method in by_method.items()},
    }


def without_shift() -> dict[str, float]:
    """The share of simulated streams whose interval contains the realised figure."""
    covered: dict[str, list[bool]] = {}
    for run in range(STREAMS):
        random, (a, b), n = np.random.default_rng([5, run]), SPREADS[run % len(SPREADS)], 20_000
        c = random.beta(a, b, 25_000)
        p, y = expit(1.4 * logit(c) + 0.3), (random.uniform(size=len(c)) < c).astype(np.int64)
        for name, figure in compared(fit_performance_estimator(p[:n], y[:n]), p[n:], y[n:]).figures.items():
            covered.setdefault(name, []).append(figure.covered is True)
    return {name: float(np.mean(covered_windows)) for name, covered_windows in covered.items()}
