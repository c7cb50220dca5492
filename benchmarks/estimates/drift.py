"""False alarms and delays of the test of prediction drift; the reference differs in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import beta, binomtest

from calibrant.core.cells import Floats
from calibrant.monitoring.drift import counts_by_range, drift_of_counts
from calibrant.monitoring.tally import borders

RUNS, BUCKET, BUCKETS = 2000, 10_000, 100
SPREADS = ((1.0, 1.0), (2.0, 5.0), (0.5, 0.5), (5.0, 1.0))
REFERENCES = (2_000, 20_000, 200_000)
ALPHAS = (0.05, 0.01)
#: The prediction is shifted by this number of logits after 20 buckets.
SHIFTS, DELAY_RUNS, START = (0.02, 0.05, 0.1), 8, 20


def shares(a: float, b: float, shift: float = 0.0) -> Floats:
    """Probabilities of the cells under Beta(a, b) predictions, with the logit shifted."""
    edges = borders()
    moved = edges * np.exp(-shift) / (1.0 - edges + edges * np.exp(-shift))
    return np.diff(beta.cdf(moved, a, b))


def counted(random: np.random.Generator, rows: int, share: Floats) -> Floats:
    return counts_by_range(random.multinomial(rows, share / share.sum()))


def false_alarms() -> dict[str, Any]:
    """The highest evidence of streams of a million rows without drift, checked after every bucket."""
    highest = []
    for run in range(RUNS):
        random, share = np.random.default_rng([31, run]), shares(*SPREADS[run % len(SPREADS)])
        reference = counted(random, REFERENCES[run % len(REFERENCES)], share)
        stream = np.array([counted(random, BUCKET, share) for _ in range(BUCKETS)])
        highest.append(max(drift_of_counts(reference, stream[: last + 1]).log_e for last in range(BUCKETS)))
    results: dict[str, Any] = {"runs": RUNS}
    for alpha in ALPHAS:
        alarms = sum(log_e >= -np.log(alpha) for log_e in highest)
        ends = binomtest(alarms, RUNS).proportion_ci()
        results[str(alpha)] = {"share": alarms / RUNS, "low": float(ends.low), "high": float(ends.high)}
    return results


def delays() -> dict[str, Any]:
    """Buckets until an alarm at alpha = 0.01 after a shift of the logits; None is no alarm in 80 buckets."""
    results = {}
    for shift in SHIFTS:
        waits = []
        for run in range(DELAY_RUNS):
            random, spread = np.random.default_rng([32, run]), SPREADS[run % len(SPREADS)]
            reference = counted(random, REFERENCES[-1], shares(*spread))
            stream = np.array(
                [counted(random, BUCKET, shares(*spread, shift if t >= START else 0.0)) for t in range(BUCKETS)]
            )
            alarms = (t for t in range(START, BUCKETS) if drift_of_counts(reference, stream[: t + 1]).level <= 0.01)
            waits.append(next(alarms, 10 * BUCKETS) - START + 1)
        median = float(np.median(waits))
        results[str(shift)] = {
            "median": median if median <= BUCKETS else None,
            "alarms": float(np.mean(np.array(waits) <= BUCKETS)),
        }
    return results
