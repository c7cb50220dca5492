from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant.measures.cumulative import ks_error, ks_p_value
from calibrant.reductions import Event


def test_ks_agrees_with_the_reference(golden: dict[str, Any], golden_event: Event) -> None:
    assert ks_error(golden_event.cells) == pytest.approx(golden["ks"]["KS_error_max"], abs=1e-12)


def test_ks_reads_the_gap_at_the_end_of_a_tie() -> None:
    one = Event(np.array([0.5, 0.5]), np.array([0, 1], np.int8))
    other = Event(np.array([0.5, 0.5]), np.array([1, 0], np.int8))
    assert ks_error(one.cells) == ks_error(other.cells) == 0.0


def test_ks_rejects_calibrated_rows_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    rejected = 0
    for _ in range(1000):
        p = random.random(300)
        cells = Event(p, (random.random(300) < p).astype(np.int8)).cells
        rejected += ks_p_value(cells, ks_error(cells)) < 0.05
    assert 30 <= rejected <= 70


def test_certain_predictions_are_refuted_by_any_gap() -> None:
    wrong = Event(np.array([0.0, 1.0]), np.array([0, 0], np.int8)).cells
    right = Event(np.array([0.0, 1.0]), np.array([0, 1], np.int8)).cells
    assert ks_p_value(wrong, ks_error(wrong)) == 0.0
    assert ks_p_value(right, ks_error(right)) == 1.0


def test_importance_weights_can_be_rescaled() -> None:
    random = np.random.default_rng(1)
    p, y, w = random.random(200), random.integers(0, 2, 200).astype(np.int8), random.random(200)
    a, b = Event(p, y, w, "importance").cells, Event(p, y, w * 100, "importance").cells
    assert ks_error(a) == pytest.approx(ks_error(b))
    assert ks_p_value(a, ks_error(a)) == pytest.approx(ks_p_value(b, ks_error(b)))
