"""Curves over the threshold of decisions: net benefit, and the mean elementary score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.core.cells import Floats
from calibrant.core.reductions import Event
from calibrant.diagrams.diagram import Picture, no_intervals
from calibrant.measures.intervals import Resampling
from calibrant.measures.net_benefit import EVENTS, Estimates, combined, net_benefit, outcome_shares, weighted_sum


@dataclass(frozen=True)
class ThresholdCurve(Picture):
    """Data of a curve over thresholds, arrays ``(t,)``; ``reference`` is the curve without a model."""

    thresholds: Floats
    value: Floats
    low: Floats | None
    high: Floats | None
    reference: Floats
    prevalence: float


def decision_curve(event: Event, _: Resampling, *, points: int, highest: float, level: float) -> ThresholdCurve:
    """Compute the net benefit of decisions p >= t, with that of treating all rows as reference. O(n log t)."""
    at = highest * np.arange(1, points + 1) / points
    of = outcome_shares(event, at)
    rate = float(weighted_sum(of, EVENTS)[0])
    curve = net_benefit(of, at, level)
    return _curve(event, at, curve, rate - at / (1.0 - at) * (1.0 - rate), rate)


def murphy(event: Event, _: Resampling, *, points: int, level: float) -> ThresholdCurve:
    """Compute the mean elementary score of mean-values (Ehm et al. 2016): |y - t| if t separates p and y.

    It separates them if min(p, y) < t <= max(p, y). The reference predicts the rate of events for all rows. O(n log t).
    """
    at = np.arange(1, points + 1) / (points + 1)
    of = outcome_shares(event, at)
    rate = float(weighted_sum(of, EVENTS)[0])
    zero = np.zeros_like(at)
    curve = combined(of, np.stack([zero, at, 1.0 - at, zero]), level)
    return _curve(event, at, curve, np.where(at <= rate, at * (1.0 - rate), rate * (1.0 - at)), rate)


def _curve(event: Event, at: Floats, of: Estimates, reference: Floats, rate: float) -> ThresholdCurve:
    if problem := no_intervals(event):
        return ThresholdCurve(at, of.value, None, None, reference, rate, problem=problem)
    return ThresholdCurve(at, of.value, of.low, of.high, reference, rate)
