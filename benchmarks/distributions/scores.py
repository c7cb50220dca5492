"""Scores of predictive distributions beside scoringrules and Uncertainty Toolbox: agreement and time.

``make distribution-scores`` runs it in an environment of its own, and writes results/scores.json and
docs/benchmarks/distributions.md.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.stats import norm

import calibrant
from benchmarks.distributions.page import FOLDER, write
from benchmarks.records import save
from benchmarks.timing import machine, medians
from calibrant.distributions import scores
from calibrant.distributions.forecasts import read_forecasts

MANY, ROWS = 1_000_000, 100_000
LEVELS = np.array([0.01, 0.025, *np.arange(1, 20) / 20.0, 0.975, 0.99])

#: Ours and theirs.
Pair = tuple[Callable[[], Any], Callable[[], Any]]


def pairs() -> dict[str, Pair]:
    """The scores that scoringrules has under the same definition, on a million and 100,000 rows."""
    import scoringrules as sr

    random = np.random.default_rng(0)
    mean, std = random.normal(size=MANY), np.exp(0.3 * random.normal(size=MANY))
    y = mean + std * random.normal(size=MANY)
    normal = read_forecasts(mean=mean, variance=std * std)
    table = mean[:ROWS, None] + std[:ROWS, None] * norm.ppf(LEVELS)
    quantiles, samples, own = read_forecasts(quantiles=table, levels=LEVELS), read_forecasts(samples=table), y[:ROWS]
    K = len(LEVELS) // 2
    ends = table[:, :K], table[:, :K:-1]

    def intervals() -> Any:
        return sr.weighted_interval_score(own, table[:, K], *ends, 2.0 * LEVELS[:K])

    return {
        "CRPS, normal": (lambda: scores.crps(normal, y), lambda: sr.crps_normal(y, mean, std)),
        "log score, normal": (lambda: scores.log_score(normal, y), lambda: sr.logs_normal(y, mean, std)),
        "CRPS, 23 quantiles": (lambda: scores.crps(quantiles, own), lambda: sr.crps_quantile(own, table, LEVELS)),
        # With the median and symmetric levels it is twice the mean pinball loss, which crps is.
        "weighted interval score alone, 23 quantiles": (lambda: scores.crps(quantiles, own), intervals),
        "weighted interval score and its parts, 23 quantiles": (
            lambda: scores.weighted_interval(quantiles, own)["score"],
            intervals,
        ),
        "interval score": (
            lambda: scores.interval_score(quantiles, own, level=0.9),
            lambda: sr.interval_score(own, table[:, 2], table[:, -3], 0.1),
        ),
        "CRPS, 23 samples": (lambda: scores.crps(samples, own), lambda: sr.crps_ensemble(own, table, estimator="nrg")),
        "fair CRPS, 23 samples": (
            lambda: scores.crps(samples, own, fair=True),
            lambda: sr.crps_ensemble(own, table, estimator="fair"),
        ),
        "threshold-weighted CRPS, 23 samples": (
            lambda: scores.threshold_weighted_crps(samples, own, low=-1.0, high=2.0),
            lambda: sr.twcrps_ensemble(own, table, -1.0, 2.0, estimator="nrg"),
        ),
    }


def panel() -> dict[str, float]:
    """Seconds of all measures of normal forecasts of 100,000 rows that both libraries have."""
    import uncertainty_toolbox as ut

    random = np.random.default_rng(1)
    mean, std = random.normal(size=ROWS), np.exp(0.3 * random.normal(size=ROWS))
    y = mean + std * random.normal(size=ROWS)
    names = ["mae", "rmse", "quantile-calibration-error", "pit-ks", "sharpness", "log-score", "crps", "interval-score"]

    def theirs() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            ut.get_all_metrics(mean, std, y, verbose=False)

    ours = {"ours": lambda: calibrant.evaluate_distribution(y, mean=mean, std=std, measures=names), "theirs": theirs}
    return medians(ours, rounds=3)


def main() -> None:
    """Measure, and write the page."""
    warnings.simplefilter("ignore")
    rows = {}
    for name, (ours, theirs) in pairs().items():
        ours_scored, other = np.asarray(ours()), np.asarray(theirs())
        apart = float(np.max(np.abs(ours_scored - other) / np.maximum(np.abs(other), 1.0)))
        taken = medians({"ours": ours, "theirs": theirs}, rounds=21, clock=time.process_time)
        rows[name] = {"apart": apart, **taken}
        print(name, rows[name], flush=True)
    packages = {name: version(name) for name in ("scoringrules", "uncertainty-toolbox")}
    results = {"machine": machine(), "packages": packages, "scores": rows, "panel": panel()}
    save(FOLDER / "scores.json", results)
    write()


if __name__ == "__main__":
    main()
