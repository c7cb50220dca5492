"""The model average of an event keeps the order of the rows."""

from __future__ import annotations

import json
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, softmax
from scipy.stats import rankdata

import calibrant
from calibrant.maps.averaged import Averaged, increasing, table_knots
from calibrant.maps.curves import CurvePlaces
from calibrant.maps.ranks import OneVsRest, Ranks

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

#: Predictions around spikes at 0 and 1, near them and between.
NEAR = np.array([0.0, 1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.01])
GRID = np.concatenate([NEAR, np.linspace(0.02, 0.98, 97), 1.0 - NEAR[::-1]])


def _spikes(share: float, n: int = 2000, seed: int = 0) -> tuple[Floats, Labels]:
    """Draw predictions of which the lowest and highest are exactly 0 and 1, though their events are not certain."""
    random = np.random.default_rng(seed)
    c = random.random(n)
    p = np.where(c < share, 0.0, np.where(c > 1.0 - share, 1.0, c))
    return p, (random.random(n) < 0.1 + 0.8 * p).astype(np.int64)


def _steps(n: int = 2000, seed: int = 0) -> tuple[Floats, Labels]:
    random = np.random.default_rng(seed)
    p = random.random(n)
    return p, (random.random(n) < np.floor(5 * p) / 5 + 0.1).astype(np.int64)


def _logits(n: int = 2000, seed: int = 0) -> tuple[Floats, Labels]:
    random = np.random.default_rng(seed)
    z = 6.0 * random.standard_normal(n)
    return expit(z), (random.random(n) < expit(z / 3.0)).astype(np.int64)


DATA = {
    "spikes at 0 and 1": _spikes(0.1),
    "small spikes": _spikes(0.02, 600, 1),
    "an observed frequency in steps": _steps(),
    "overconfident logits": _logits(),
    "few rows": _spikes(0.2, 40, 2),
}


def _auroc(p: Floats, y: Labels) -> float:
    ranks, positives = rankdata(p), int(y.sum())
    return float((ranks[y == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(y) - positives)))


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_the_default_map_of_an_event_keeps_the_order_of_the_rows_and_their_auroc(name: str) -> None:
    p, y = DATA[name]
    for fitted in (
        calibrant.fit("averaged", p, y),
        calibrant.fit("averaged", np.column_stack([1.0 - p, p]), y),
        calibrant.fit("averaged", np.column_stack([1.0 - p, p]), y, reduction="class:1"),
    ):
        rows = GRID if fitted.n_classes is None else np.column_stack([1.0 - GRID, GRID])
        calibrated = fitted.apply(rows)
        assert np.all(np.diff(calibrated if calibrated.ndim == 1 else calibrated[:, 1]) >= 0.0)
    assert _auroc(calibrant.fit("averaged", p, y).apply(p), y) == pytest.approx(_auroc(p, y), abs=1e-12)


def test_the_map_may_reorder_rows_without_keep_order() -> None:
    p, y = _spikes(0.1)
    free, ordered = (calibrant.fit("averaged", p, y, keep_order=keep) for keep in (False, True))
    assert np.diff(free.apply(GRID)).min() < -0.01
    np.testing.assert_array_equal(calibrant.fit("averaged", p, y).apply(GRID), ordered.apply(GRID))


@pytest.mark.slow
@pytest.mark.parametrize("reduction", ["classwise", "ranks", "within-ranks", "top-label"])
def test_curves_of_classes_and_ranks_keep_the_order_unless_keep_order_is_false(reduction: Any) -> None:
    random = np.random.default_rng(3)
    z = 4.0 * random.standard_normal((600, 3))
    p = softmax(z, axis=1)
    p = np.where(p.max(axis=1, keepdims=True) > 0.95, np.eye(3)[p.argmax(axis=1)], p)
    y = np.array([random.choice(3, p=row) for row in softmax(z / 3.0, axis=1)])
    free = calibrant.fit("averaged", p, y, reduction=reduction, keep_order=False)
    default = calibrant.fit("averaged", p, y, reduction=reduction)
    increases = [
        [bool(np.all(np.diff(curve(GRID)) >= 0.0)) for curve in cast(OneVsRest | Ranks, fitted.function).curves]
        for fitted in (free, default)
    ]
    assert all(increases[1])
    assert not all(increases[0])


def test_the_gain_of_the_ordered_map_is_that_of_new_rows() -> None:
    random = np.random.default_rng(0)

    def rows(n: int) -> tuple[Floats, Labels]:
        p = random.random(n)
        return p, (random.random(n) < 1.0 - p).astype(np.int64)

    def log_loss(p: Floats, y: Labels) -> float:
        return float(-np.log(np.where(y == 1, p, 1.0 - p)).mean())

    p, y = rows(3000)
    new, happened = rows(100_000)
    with pytest.warns(UserWarning, match="predictions are clearly lower"):
        maps = [calibrant.fit("averaged", p, y, keep_order=keep) for keep in (False, True)]
    gains = [fitted.diagnostics["held_out_gain"]["log_loss"] for fitted in maps]
    true = [log_loss(new, happened) - log_loss(fitted.apply(new), happened) for fitted in maps]
    np.testing.assert_allclose(gains, true, atol=0.06)
    assert gains[1] < gains[0] - 0.15


def test_the_measure_of_falling_frequencies_is_that_of_a_free_map_without_keep_order() -> None:
    p = np.random.default_rng(0).random(2000)
    y = (np.random.default_rng(1).random(2000) < 1.0 - p).astype(np.int64)
    measures: list[Any] = [{"name": "ece-averaged", "keep_order": False, "as": "free"}, "ece-averaged"]
    with pytest.warns(UserWarning, match="predictions are clearly lower"):
        free, ordered = (measure.value for measure in calibrant.evaluate(p, y, measures=measures).measures.values())
    assert free == pytest.approx(0.5, abs=0.02)
    assert ordered == pytest.approx(0.25, abs=0.02)


def test_pooled_values_are_means_over_the_rows() -> None:
    knots, probabilities = table_knots()
    bent = Averaged(knots, np.where((probabilities > 0.3) & (probabilities < 0.5), knots - 1.0, knots))
    random = np.random.default_rng(0)
    p, w = np.sort(random.random(5000)), random.random(5000)
    ordered = increasing(bent, CurvePlaces(p), w)
    assert np.diff(ordered.logits).min() > 0.0
    assert w @ ordered(p) == pytest.approx(w @ bent(p), rel=1e-4)
    outside = (p < 0.2) | (p > 0.6)
    np.testing.assert_allclose(ordered(p)[outside], bent(p)[outside], atol=1e-6)


def test_an_ordered_map_is_stored_as_it_is_applied() -> None:
    fitted = calibrant.fit("averaged", *_spikes(0.1))
    loaded = calibrant.load(json.loads(json.dumps(fitted.to_document())))
    np.testing.assert_array_equal(loaded.apply(GRID), fitted.apply(GRID))
