from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import calibrant
from calibrant.calibrators.fitting import Fitting
from calibrant.calibrators.smoothing import AMOUNTS
from calibrant.core.batch import read_batch
from calibrant.core.errors import InvalidDocument
from tests.unit.maps.drawn import log_loss


def _forest(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Mean votes of ten trees, many of them exactly 0 or 1, for three classes."""
    random = np.random.default_rng(seed)
    p = random.dirichlet([0.3] * 3, n)
    y = np.array([random.choice(3, p=0.9 * row + 0.1 / 3) for row in p])
    return np.array([random.multinomial(10, row) for row in p]) / 10.0, y


@pytest.mark.parametrize("method", ["platt", "beta", "temperature", "affine", "quadratic"])
def test_exact_zeros_and_ones_of_an_event_are_smoothed(method: str) -> None:
    (p, y), (new, labels) = _forest(1500), _forest(1500, seed=1)
    fitted = calibrant.fit(method, p[:, 1], (y == 1).astype(int))
    amount = fitted.diagnostics["smoothing"]
    assert amount in AMOUNTS
    assert amount > 0.0
    q = fitted.apply(new[:, 1])
    assert log_loss(np.column_stack([1 - q, q]), (labels == 1).astype(int)) < 0.45
    ends = fitted.apply([0.0, 1.0])
    assert 0.001 < ends[0] < 0.2
    assert ends[1] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "vector", "matrix", "ets", "dirichlet-l2", "matrix-odir"])
def test_exact_zeros_of_a_vector_are_smoothed(method: str) -> None:
    (p, y), (new, labels) = _forest(600), _forest(600, seed=1)
    fitted = calibrant.fit(method, p, y)
    assert fitted.diagnostics["smoothing"] > 0.0
    assert log_loss(fitted.apply(new), labels) < 0.75
    again = calibrant.load(fitted.to_document())
    np.testing.assert_array_equal(again.apply(new), fitted.apply(new))


def test_other_predictions_and_logits_are_not_smoothed() -> None:
    p, y = _forest(300)
    inside = np.clip(p, 0.01, 0.98)
    assert "smoothing" not in calibrant.fit("temperature", inside / inside.sum(axis=1, keepdims=True), y).diagnostics
    assert "smoothing" not in calibrant.fit("vector", 100.0 * p, y, scale="logit").diagnostics


def test_damaged_documents_are_refused() -> None:
    p, y = _forest(300)
    document = calibrant.fit("platt", p[:, 0], (y == 0).astype(int)).to_document()
    damages: list[dict[str, Any]] = [
        {"smoothing": 2.0},
        {"curves": []},
        {"curves": [{"family": "smoothed", "parameters": {}}]},
    ]
    for damage in damages:
        with pytest.raises(InvalidDocument):
            calibrant.load({**document, "parameters": {**document["parameters"], **damage}})


@pytest.mark.parametrize(("method", "more"), [("temperature", 17), ("vector", 170), ("dirichlet-l2", 8), ("kde", 1)])
def test_exact_zeros_take_more_fits_and_so_more_estimated_time(method: str, more: int) -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet([1.0, 1.0, 1.0], 300)
    y = random.integers(0, 3, 300)
    fitting = Fitting.read(method, {}, None)
    whole = fitting.seconds(read_batch(p, y))
    p[0] = [0.0, 0.5, 0.5]
    assert fitting.seconds(read_batch(p, y)) == pytest.approx(more * whole)
    assert fitting.seconds(read_batch(np.log(np.maximum(p, 1e-30)), y, scale="logit")) == pytest.approx(whole)


def test_fits_to_many_predictions_of_0_or_1_warn() -> None:
    random = np.random.default_rng(0)
    p = random.uniform(size=100)
    y = (random.uniform(size=100) < p).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrant.fit("platt", p, y)
        calibrant.fit("platt", np.log(p / (1.0 - p)), y, scale="logit")
    p[:80] = p[:80].round()
    with pytest.warns(UserWarning, match="80 % of the predictions are exactly 0 or 1"):
        calibrant.fit("platt", p, y)
    X = random.standard_normal((200, 3))
    forest = RandomForestClassifier(3, random_state=0)
    with pytest.warns(UserWarning, match="of the predictions are exactly 0 or 1"):
        calibrant.CalibrantClassifier(forest, method="platt").fit(X, X[:, 0] > 0.0)


@pytest.mark.filterwarnings("ignore:77 % of the predictions:UserWarning")
def test_equal_losses_of_amounts_do_not_make_the_map_depend_on_the_order_of_rows() -> None:
    random = np.random.default_rng(0)
    p = random.choice([0.0, 0.5, 1.0], 56)
    y = np.where(p == 0.5, random.random(56) < 0.5, p > 0.5).astype(int)
    fits = [calibrant.fit("platt", p[order], y[order]) for order in (random.permutation(56) for _ in range(6))]
    # A line through the log-odds of 0, 1/2 and 1 is the same for every amount.
    assert {fitted.diagnostics["smoothing"] for fitted in fits} == {0.0}
