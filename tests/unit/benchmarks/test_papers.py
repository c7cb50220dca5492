"""What the page of the papers says of their errors: each is shown by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

import calibrant
from benchmarks.papers.__main__ import TEMPLATE
from tests.rows import draw_distorted

TEXT = " ".join(TEMPLATE.read_text("utf-8").partition("## Errors in the papers")[2].split())


def test_the_examples_of_a_batch_size_are_those_of_the_minimum() -> None:
    smaller, larger = ([function(n // 4, 512) for n in (1_000, 10_000)] for function in (min, max))
    assert f"{smaller[0]} of 1,000 rows and {smaller[1]} of 10,000" in TEXT
    assert f"The maximum would be {larger[0]} and {larger[1]:,}" in TEXT


def test_the_frequency_below_one_half_is_the_false_omission_rate_and_above_it_the_precision() -> None:
    p, y = draw_distorted(500, 0, 2.0)
    below, above = calibrant.fit("side-means", p, y).apply([0.2, 0.8])
    tn, fp, fn, tp = confusion_matrix(y, p >= 0.5).ravel()
    assert [below, above] == pytest.approx([fn / (fn + tn), tp / (tp + fp)])


def test_the_temperature_above_one_of_overconfident_logits_divides_them() -> None:
    logits, labels, _ = calibrant.logistic_normal(4_000, n_classes=5, accuracy=0.7, temperature=2.0, seed=0)
    options: dict[str, Any] = {"measures": ["optimal-temperature"], "scale": "logit", "reduction": "canonical"}
    assert calibrant.evaluate(logits, labels, **options)["optimal-temperature"].value == pytest.approx(2.0, abs=0.1)
    divided = calibrant.evaluate(logits / 2.0, labels, **options)["optimal-temperature"].value
    assert divided == pytest.approx(1.0, abs=0.05)


def test_a_kernel_times_four_doubles_mmce_so_that_the_bound_divides_by_its_root() -> None:
    random = np.random.default_rng(0)
    f = random.random(200)
    gap = f**2 - f
    kernel = np.exp(-np.abs(f[:, None] - f) / 0.4)
    tce = np.abs(gap).mean()
    for factor in (1.0, 4.0, 100.0):
        mmce = float(np.sqrt(gap @ (factor * kernel) @ gap)) / len(f)
        root = float(np.sqrt(factor * kernel.diagonal().max()))
        assert tce >= mmce / root
        assert (tce >= mmce * root) == (factor == 1.0)
