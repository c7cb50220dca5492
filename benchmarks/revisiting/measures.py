"""Every measure of one classifier at one severity."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import calibrant
from benchmarks.revisiting.models import Predictions, temperature_of

#: The variants of ECE of the paper's Figures 15 to 17, the first of which is that of its other figures: reduction,
#: measure.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "equal mass, 100 bins": ("confidence", {"name": "ece", "binning": "adaptive", "n_bins": 100}),
    "equal mass, 15 bins": ("confidence", {"name": "ece", "binning": "adaptive", "n_bins": 15}),
    "equal width, 100 bins": ("confidence", {"name": "ece", "binning": "equal-width", "n_bins": 100}),
    "equal width, 15 bins": ("confidence", {"name": "ece", "binning": "equal-width", "n_bins": 15}),
    "equal mass, 100 bins, L2": ("confidence", {"name": "rmsce", "binning": "adaptive", "n_bins": 100}),
    "equal width, 100 bins, L2": ("confidence", {"name": "rmsce", "binning": "equal-width", "n_bins": 100}),
    "all probabilities, 100 bins": ("pooled", {"name": "ece", "binning": "adaptive", "n_bins": 100}),
    "class-wise, 15 bins": ("classwise", {"name": "ece", "binning": "adaptive", "n_bins": 15}),
}
MAIN = next(iter(VARIANTS))


class Figures(NamedTuple):
    """Numbers of one classifier at one severity; ECE by variant is after temperature scaling.

    ``debiased`` is the debiased ECE of the main variant before temperature scaling, whose plain values are ``before``
    and ``after``.
    """

    error: float
    before: float
    debiased: float
    after: float
    temperature: float
    log_loss: float
    brier: float
    variants: dict[str, float]


def figures(given: Predictions) -> Figures:
    """Measure the predictions of a classifier at one severity."""
    reduction, measure = VARIANTS[MAIN]
    plain = calibrant.evaluate(given.before, given.labels, scale="logit", reduction=reduction, measures=[measure])[
        "ece"
    ]
    scores = calibrant.evaluate(
        given.after, given.labels, scale="logit", reduction="canonical", measures=["log-loss", "brier"]
    )
    variants = {name: _value(given, *of) for name, of in VARIANTS.items()}
    return Figures(
        float(np.mean(given.before.argmax(axis=1) != given.labels)),
        float(plain.value or 0.0),
        float(plain.debiased or 0.0),
        variants[MAIN],
        temperature_of(given.before, given.labels),
        float(scores["log-loss"].value or 0.0),
        float(scores["brier"].value or 0.0),
        variants,
    )


def _value(given: Predictions, reduction: str, measure: dict[str, Any]) -> float:
    report = calibrant.evaluate(given.after, given.labels, scale="logit", reduction=reduction, measures=[measure])
    return float(report[measure["name"]].value or 0.0)
