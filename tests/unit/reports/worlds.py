"""Synthetic worlds whose miscalibration is known, and their reports as the wire has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, logit

import calibrant
from calibrant.core.cells import Floats, Outcomes
from calibrant.evaluation import report_document
from calibrant.reports import panel

#: The true probability by the predicted one.
TRUTHS: dict[str, Callable[[Floats], Floats]] = {
    "calibrated": lambda p: p,
    "overconfident": lambda p: expit(logit(p) / 1.6),
    "underconfident": lambda p: expit(logit(p) * 1.6),
    "mixed": lambda p: np.where(p > 0.5, expit(logit(p) / 1.6), expit(logit(p) * 2.5)),
    "shifted": lambda p: expit(logit(p) - 0.5),
    "one-region": lambda p: np.where((p > 0.4) & (p < 0.55), p - 0.2, p),
    "top": lambda p: np.where(p > 0.7, 0.7 + (p - 0.7) * 0.6, p),
}


def draw(truth: str, n: int = 10_000, seed: int = 0) -> tuple[Floats, Outcomes]:
    random = np.random.default_rng(seed)
    p: Floats = expit(random.normal(0.0, 2.0, n))
    return p, (random.random(n) < TRUTHS[truth](p)).astype(np.int8)


def report_of(p: Any, y: Any, reduction: str | None = None, **more: Any) -> dict[str, Any]:
    """What ``POST /evaluate`` answers to the panel's options."""
    n_classes = None if np.ndim(p) == 1 else np.shape(p)[1]
    options = panel.full(len(p), n_classes, reduction)
    name = None if more.get("map") is None else "map_1"
    return report_document(calibrant.evaluate(p, y, reduction=reduction, **options, **more), name)


def many_classes(K: int = 4, n: int = 6_000, temperature: float = 1.6) -> tuple[Floats, Any]:
    random = np.random.default_rng(1)
    logits = random.normal(0.0, 1.5, (n, K))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (true.cumsum(axis=1) > random.random((n, 1))).argmax(axis=1)
    sharp = np.exp(logits * temperature)
    return sharp / sharp.sum(axis=1, keepdims=True), labels
