"""Catalogue entries of hypothesis tests of calibration."""

from __future__ import annotations

import math

from calibrant.measures.intervals import Resampling
from calibrant.measures.measure import Measure, MeasureResult
from calibrant.measures.smooth import MAX_TERMS, smooth_test
from calibrant.options import Option
from calibrant.reductions import Event


def _compute(event: Event, _: Resampling, *, n_terms: int) -> MeasureResult:
    statistic, p_value = smooth_test(event.cells, n_terms)
    if math.isfinite(statistic):
        return MeasureResult(statistic, p_value=p_value)
    problem = "no value: the statistic is infinite, because a prediction of (almost) 0 or 1 was wrong"
    return MeasureResult(None, p_value=p_value, problem=problem)


MEASURES = (
    Measure(
        "smooth-test",
        "Smooth test of calibration",
        "Tests",
        "sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F, with U_j = sum w (y - p) phi_j(v), phi_j the Legendre polynomials "
        "orthonormal on [0, 1], and v the fraction of the variance F = sum w p (1 - p) (importance weights: w^2) up to "
        "the middle of a tie. The p-value is from the distribution of a weighted sum of squares of normal variables",
        "Neyman (1937); Eubank & LaRiccia (1992); Rice (1980) for the distribution",
        0.0,
        None,
        "O(n log n + n n_terms^2)",
        event=_compute,
        options={"n_terms": Option(8, high=MAX_TERMS)},
        resampled=False,
    ),
)
