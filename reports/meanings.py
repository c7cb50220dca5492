"""What each measure means, in a sentence for whoever has not met it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.measures.catalogue import MEASURES

#: By the measure's name; the catalogue's definition stands for those that are not here.
MEANINGS: Mapping[str, tuple[str, str]] = {
    "ece": (
        "Expected calibration error",
        "How far the label share lies from the prediction, on average over bins of rows; 0 is perfect. The debiased "
        "value leaves out what chance alone adds.",
    ),
    "ece-sweep": (
        "Calibration error, bins by the sweep",
        "The same with as many bins as keep label shares rising with predictions.",
    ),
    "ece-isotonic": (
        "Calibration error by an isotonic fit",
        "Mean distance between the predictions and the best rising curve through the labels; needs no bins.",
    ),
    "ece-platt": (
        "Calibration error by a logistic fit",
        "Mean distance between the predictions and the best logistic curve through the labels.",
    ),
    "mce": (
        "Maximum calibration error",
        "The largest distance of any bin; a few unlucky rows are enough to raise it.",
    ),
    "rmsce": (
        "Root mean squared calibration error",
        "As the calibration error, but large distances count for more.",
    ),
    "ks": (
        "Kolmogorov-Smirnov error",
        "The largest difference between predicted and true events added up from the lowest prediction; needs no bins. "
        "Errors of both signs cancel in part.",
    ),
    "ks-end": (
        "Mean label less mean prediction",
        "Whether predictions are too high (below 0) or too low (above 0) overall.",
    ),
    "kuiper": ("Kuiper error", "As the Kolmogorov-Smirnov error, wherever on the axis the difference lies."),
    "smooth-ece": (
        "Smooth calibration error",
        "The calibration error with neighbouring predictions smoothed instead of binned; no bins to choose.",
    ),
    "smooth-test": (
        "Smooth test of calibration",
        "The p-value is how often calibrated predictions would look at least this wrong. The value itself has no unit.",
    ),
    "confidence-gap": (
        "Mean confidence less accuracy",
        "Above 0 the model is surer than it is right; errors of both signs cancel.",
    ),
    "optimal-temperature": (
        "Temperature of least log loss",
        "Above 1 predictions are too extreme, below 1 too timid; 1 needs no change. Dividing logits by it is the "
        "simplest repair.",
    ),
    "log-loss": (
        "Log loss (nats)",
        "A proper score: honest probabilities have the least. It counts calibration and discrimination, and punishes "
        "certainty that was wrong most of all.",
    ),
    "brier": (
        "Brier score",
        "Mean squared distance from the labels, a proper score: honest probabilities have the least.",
    ),
    "root-brier": ("Root Brier score", "The root of the Brier score, on the scale of probabilities."),
    "decomposition": (
        "Miscalibration part of the score",
        "The share of the proper score that a recalibration could take away.",
    ),
    "accuracy": ("Accuracy", "Share of right decisions; recalibration hardly changes it."),
    "auroc": (
        "Area under the ROC curve",
        "How well predictions rank events above the rest: 0.5 not at all, 1 perfectly. Calibration is no part of it.",
    ),
}


def column(key: str, definition: Mapping[str, Any]) -> str:
    """The title of a measure over a column, with its key where that is another."""
    name = str(definition.get("name", key))
    title = meaning(name)[0]
    return title if key == name else f"{title} ({key})"


def meaning(name: str) -> tuple[str, str]:
    """Title and meaning of a measure."""
    if name in MEANINGS:
        return MEANINGS[name]
    entry = MEASURES.get(name)
    return (name, "") if entry is None else (entry.title, entry.definition)
