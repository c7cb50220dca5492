"""Decision curves and logistic recalibration beside dcurves and statsmodels. Writes docs/benchmarks/clinical-speed.md.

Its environment is that of ``benchmarks/peers/clinical.txt``.
"""

from __future__ import annotations

import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

import calibrant
from benchmarks.records import publish
from benchmarks.timing import machine, medians

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "clinical-speed.md"
N, CLUSTERS, ROUNDS, GOAL = 100_000, 500, 9, 5.0
PEERS = ("dcurves", "statsmodels", "numpy", "scipy")
RECALIBRATION = ("calibration-slope", "logistic-intercept", "calibration-intercept")

Array = npt.NDArray[Any]


class TimedMeasure(NamedTuple):
    """What was timed: seconds of both, and the largest difference of their values."""

    what: str
    ours: float
    peer: float
    difference: float

    def row(self) -> str:
        """Its row of the table."""
        ratio = self.peer / self.ours
        met = "met" if ratio >= GOAL else "**missed**"
        return (
            f"| {self.what} | {1e3 * self.ours:.1f} | {1e3 * self.peer:.1f} | {ratio:.1f} | {met} | "
            f"{self.difference:.1g} |"
        )


def rows() -> tuple[Array, Array, Array]:
    """Return log-odds, labels and clusters."""
    random = np.random.default_rng(0)
    logits = random.standard_normal(N) - 1.0
    labels = (random.random(N) < expit(0.2 + 0.9 * logits)).astype(int)
    return logits, labels, random.integers(0, CLUSTERS, N)


def decision_curves(logits: Array, labels: Array) -> TimedMeasure:
    """The decision curve at 99 thresholds; that of dcurves has no intervals."""
    import pandas as pd
    from dcurves import dca

    p = expit(logits)
    data = pd.DataFrame({"y": labels, "model": p})
    at = [i / 100 for i in range(1, 100)]

    def peer() -> Any:
        return dca(data=data, outcome="y", modelnames=["model"], thresholds=at)

    theirs = peer().query("model == 'model'").sort_values("threshold")["net_benefit"].to_numpy()
    ours = calibrant.decision_curve(p, labels, thresholds=at).net_benefit["model"].value
    seconds = medians(
        {"ours": lambda: calibrant.decision_curve(p, labels, thresholds=at), "peer": peer},
        rounds=ROUNDS,
        clock=time.process_time,
    )
    what = "Decision curve, 99 thresholds: with intervals; dcurves: without"
    return TimedMeasure(what, seconds["ours"], seconds["peer"], float(np.abs(ours - theirs).max()))


def recalibration(logits: Array, labels: Array) -> TimedMeasure:
    """Slope, its intercept, and the intercept with the slope fixed at 1: statsmodels has Wald intervals."""
    import statsmodels.api as sm

    p, x = expit(logits), sm.add_constant(logits)
    intercept, family = np.ones(N), sm.families.Binomial()

    def peer() -> list[float]:
        both = sm.Logit(labels, x).fit(disp=0)
        large = sm.GLM(labels, intercept, family, offset=logits).fit()
        both.conf_int(), large.conf_int()
        return [*both.params[::-1], *large.params]

    def ours() -> list[float]:
        report = calibrant.evaluate(p, labels, measures=list(RECALIBRATION), interval=0.95)
        return [float(report[name].value or 0.0) for name in RECALIBRATION]

    seconds = medians({"ours": ours, "peer": peer}, rounds=ROUNDS, clock=time.process_time)
    what = "Slope and both intercepts: with profile intervals and p-values; statsmodels: with Wald intervals"
    return TimedMeasure(what, seconds["ours"], seconds["peer"], float(np.abs(np.subtract(ours(), peer())).max()))


def clustered(logits: Array, labels: Array, clusters: Array) -> TimedMeasure:
    """The standard error of the slope for rows in clusters, with the correction of statsmodels."""
    import statsmodels.api as sm

    x = sm.add_constant(logits)

    def peer() -> float:
        fitted = sm.Logit(labels, x).fit(disp=0, cov_type="cluster", cov_kwds={"groups": clusters})
        fitted.conf_int()
        return float(fitted.bse[1])

    def ours() -> float:
        options: dict[str, Any] = {"measures": ["calibration-slope"], "interval": 0.95, "cluster_variance": "cr1"}
        report = calibrant.evaluate(logits, labels, scale="logit", clusters=clusters, **options)
        return float(report["calibration-slope"].parts["standard_error"])

    seconds = medians({"ours": ours, "peer": peer}, rounds=ROUNDS, clock=time.process_time)
    what = f"Slope with the error of {CLUSTERS} clusters"
    return TimedMeasure(what, seconds["ours"], seconds["peer"], abs(ours() - peer()))


def main() -> None:
    """Time and write the page."""
    warnings.simplefilter("ignore")
    logits, labels, clusters = rows()
    contests = [decision_curves(logits, labels), recalibration(logits, labels), clustered(logits, labels, clusters)]
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    lines = [
        "# Decision curves and recalibration: speed beside other packages",
        "",
        f"Generated by `make clinical-speed` ({machine()}). {N:,} rows; medians of {ROUNDS} interleaved",
        f"runs in processor milliseconds, on one thread. Versions: {versions}.",
        f"The goal is {GOAL:g} times the speed, intervals included.",
        "",
        "| | calibrant, ms | other, ms | times as fast | goal | largest difference of values |",
        "|---|---|---|---|---|---|",
        *(contest.row() for contest in contests),
        "",
        "A logistic recalibration of many rows is fitted at a few Chebyshev nodes, over which the rows are spread",
        "exactly up to rounding. Rows in clusters take longer: clusters are read and checked, all rows are sorted, and",
        "the variance needs the terms of every row.",
        "",
    ]
    publish(PAGE, "\n".join(lines))


if __name__ == "__main__":
    main()
