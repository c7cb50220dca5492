"""The tests that a verdict rests on: is calibration rejected, in which ranges, and for which classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reports import found, numbers
from reports.regions import Region, find_regions

#: Calibration is rejected below this p-value.
ALPHA = 0.05
#: Where the variance of the number of events is below this, KS is asked: the smooth test rejects too often there.
LEAST_VARIANCE = 10.0

_WORDS = {
    "smooth-test": "The smooth test",
    "ks": "The Kolmogorov-Smirnov test",
    "confidence-gap": "The test of mean confidence against accuracy",
    "ks-end": "The test of mean prediction against label share",
}


@dataclass(frozen=True)
class Tested:
    """The test asked, its p-value, and those of the classes one by one where there are some."""

    name: str
    p_value: float
    of_classes: tuple[float, ...] | None = None

    @property
    def sentence(self) -> str:
        """What it says."""
        verb = "rejects" if self.p_value < ALPHA else "does not reject"
        corrected = "" if self.of_classes is None else ", corrected for the number of classes"
        return f"{_WORDS[self.name]} {verb} calibration ({numbers.p_value(self.p_value)}{corrected})."


def tested(side: Mapping[str, Any]) -> Tested | None:
    """The test of one side of a report: the best of those made whose size holds on these rows; None without any."""
    order = ["smooth-test", "ks", "confidence-gap", "ks-end"]
    if _few_events(side):
        order = ["ks", *order]
    for name in order:
        answer = found.measure(side, name)
        if answer is not None and answer.get("p_value") is not None:
            of_classes = answer.get("parts", {}).get("classes_p_value")
            # A class on which nothing can be tested is not rejected.
            told = None if of_classes is None else tuple(1.0 if p is None else float(p) for p in of_classes)
            return Tested(name, float(answer["p_value"]), told)
    return None


def _few_events(side: Mapping[str, Any]) -> bool:
    """Whether so few events are expected that the normal law of the smooth test does not hold."""
    shown = found.diagram(side, "reliability")
    if shown is None:
        return False
    rows, p = np.asarray(shown["rows"]), np.asarray(shown["mean_prediction"])
    # Within a bin predictions vary, so that this is a little more than the variance.
    return float(rows @ (p * (1.0 - p))) < LEAST_VARIANCE


def clear_regions(side: Mapping[str, Any]) -> tuple[Region, ...]:
    """The ranges of predictions that chance does not explain; none where rows hang together."""
    shown = found.diagram(side, "reliability")
    return () if shown is None or shown["low"] is None else find_regions(shown)


def worst_classes(side: Mapping[str, Any], names: Sequence[str] | None) -> list[tuple[str, float | None]]:
    """The classes whose calibration is rejected, and the error of each, from the largest; corrected by Holm's method.

    Classes without a name are called by their number.
    """
    test = tested(side)
    if test is None or test.of_classes is None:
        return []
    p = np.asarray(test.of_classes)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    answer = found.measure(side, "ece", norm=1)
    parts = {} if answer is None else answer.get("parts", {})
    errors = parts.get("classes_debiased") or parts.get("classes")
    chosen = [int(k) for k in order[adjusted < ALPHA]]
    told = [(_named(k, names), None if errors is None else max(errors[k], 0.0)) for k in chosen]
    return sorted(told, key=lambda named: -(named[1] or 0.0))


def _named(k: int, names: Sequence[str] | None) -> str:
    return f"class {k}" if names is None or k >= len(names) else f"class {names[k]}"
