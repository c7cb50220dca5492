"""Every measure of one classifier at one severity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import calibrant
from benchmarks.revisiting.models import SeverityLogits, temperature_of

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
#: The severities of Figure 12, in place of ImageNet and ImageNet-R.
DECIDED = (0, 2)
#: Its eight pairs (a) to (h): two classifiers of a family, two ways to train one, and two families.
PAIRS: tuple[tuple[tuple[str, str], tuple[str, str]], ...] = (
    (("network", "8 units"), ("network", "128 units")),
    (("network", "32 units"), ("network", "128 units")),
    (("logistic regression", "C = 0.03"), ("logistic regression", "C = 30")),
    (("random forest", "10 trees"), ("random forest", "200 trees")),
    (("naive Bayes", "smoothing 0.001"), ("naive Bayes", "smoothing 0.1")),
    (("label smoothing", "0"), ("label smoothing", "0.03")),
    (("label smoothing", "0"), ("label smoothing", "0.4")),
    (("logistic regression", "C = 1"), ("random forest", "200 trees")),
)


class SeverityFigures(NamedTuple):
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


class Decisions(NamedTuple):
    """Two classifiers at one severity: their classification errors and ECE, and their costs.

    ``accurate`` and ``calibrated`` are the numbers of settings, of ``settings``, in which the classifier with the lower
    classification error, and that with the lower ECE, costs less.
    """

    severity: int
    errors: tuple[float, float]
    eces: tuple[float, float]
    accurate: int
    calibrated: int
    settings: int


def decisions(by_family: Mapping[str, Mapping[str, Sequence[SeverityLogits]]]) -> dict[str, list[Decisions]]:
    """The costs of the decisions of every pair, before temperature scaling (Figure 12)."""
    return {
        " and ".join(f"{family} ({name})" for family, name in pair): [
            _decisions(severity, *(by_family[family][name][severity] for family, name in pair)) for severity in DECIDED
        ]
        for pair in PAIRS
        if all(name in by_family.get(family, {}) for family, name in pair)
    }


def _decisions(severity: int, first: SeverityLogits, other: SeverityLogits) -> Decisions:
    plane = calibrant.cost_plane(first.before, other.before, first.labels, scale="logit")
    reduction, measure = VARIANTS[MAIN]
    errors, eces = [], []
    for logits in (first, other):
        errors.append(float(np.mean(logits.before.argmax(axis=1) != logits.labels)))
        report = calibrant.evaluate(
            logits.before, logits.labels, scale="logit", reduction=reduction, measures=[measure]
        )
        eces.append(float(report["ece"].value or 0.0))
    cheaper = [int((sign * plane.relative < 0.0).sum()) for sign in (1.0, -1.0)]
    return Decisions(
        severity,
        (errors[0], errors[1]),
        (eces[0], eces[1]),
        cheaper[int(errors[1] < errors[0])],
        cheaper[int(eces[1] < eces[0])],
        plane.relative.size,
    )


def figures(logits: SeverityLogits) -> SeverityFigures:
    """Measure the predictions of a classifier at one severity."""
    reduction, measure = VARIANTS[MAIN]
    plain = calibrant.evaluate(logits.before, logits.labels, scale="logit", reduction=reduction, measures=[measure])[
        "ece"
    ]
    scores = calibrant.evaluate(
        logits.after, logits.labels, scale="logit", reduction="canonical", measures=["log-loss", "brier"]
    )
    variants = {name: _value(logits, *of) for name, of in VARIANTS.items()}
    return SeverityFigures(
        float(np.mean(logits.before.argmax(axis=1) != logits.labels)),
        float(plain.value or 0.0),
        float(plain.debiased or 0.0),
        variants[MAIN],
        temperature_of(logits.before, logits.labels),
        float(scores["log-loss"].value or 0.0),
        float(scores["brier"].value or 0.0),
        variants,
    )


def _value(logits: SeverityLogits, reduction: str, measure: dict[str, Any]) -> float:
    report = calibrant.evaluate(logits.after, logits.labels, scale="logit", reduction=reduction, measures=[measure])
    return float(report[measure["name"]].value or 0.0)
