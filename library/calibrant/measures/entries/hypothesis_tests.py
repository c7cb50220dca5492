"""Hypothesis tests of calibration in the catalogue."""

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
    problem = "no value: it is infinite, as a prediction of 0 or 1, or next to it, was wrong"
    return MeasureResult(None, p_value=p_value, problem=problem)


MEASURES = (
    Measure(
        "smooth-test",
        "Smooth test of calibration",
        "Tests",
        "sum_{j < n_terms} (1 + j)^-1.5 U_j^2 / F, U_j = sum w (y - p) phi_j(v), over the Legendre "
        "polynomials phi_j that are orthonormal on [0, 1], at v, the share of the variance F = sum w p (1 - p) "
        "(importance weights: w^2) up to the middle of a tie; p-value by the law of a weighted sum of squares",
        "Neyman (1937); Eubank & LaRiccia (1992); Rice (1980) for the law",
        0.0,
        None,
        "O(n log n + n n_terms^2)",
        event=_compute,
        options={"n_terms": Option(8, high=MAX_TERMS)},
        resampled=False,
    ),
)
