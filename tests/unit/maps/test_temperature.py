from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.core.batch import read_predictions
from calibrant.core.errors import NotConverged, OnePrediction
from calibrant.maps import temperature as module
from calibrant.maps.temperature import VectorLogits, optimal_temperature
from tests.unit.maps.drawn import drawn_logits, softmax


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs are large: they begin with a few of their rows, in single precision, and nothing is kept."""
    monkeypatch.setattr(module, "_FEW", 600)
    monkeypatch.setattr(module, "_KEPT", 600)
    monkeypatch.setattr(module, "_BLOCK", 512)


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 80])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("probabilities", [True, False])
@pytest.mark.parametrize("heat", [0.05, 1.7, 30.0])
def test_large_inputs_have_the_same_optimum(
    K: int, dtype: Any, probabilities: bool, heat: float, request: pytest.FixtureRequest
) -> None:
    z, y = drawn_logits(2000, K, heat=heat)
    y[:100] = 0
    scores = (softmax(z) if probabilities else z).astype(dtype)
    plain = optimal_temperature(VectorLogits(scores, y, probabilities))
    request.getfixturevalue("all_large")
    optimum = optimal_temperature(VectorLogits(scores, y, probabilities))
    assert optimum.value == pytest.approx(plain.value, rel=1e-9)
    assert optimum.log_loss == pytest.approx(plain.log_loss, rel=1e-9)
    np.testing.assert_allclose(optimum.slope, plain.slope, rtol=1e-4, atol=1e-4 * float(np.abs(plain.slope).max()))


def test_large_inputs_without_an_optimum_are_refused(all_large: None) -> None:
    z, y = drawn_logits(2000, 3)
    with pytest.raises(NotConverged, match="no prediction is wrong"):
        optimal_temperature(VectorLogits(z, z.argmax(axis=1)))
    with pytest.raises(NotConverged, match="do not have larger logits"):
        optimal_temperature(VectorLogits(z, z.argmin(axis=1)))
    with pytest.raises(OnePrediction):
        optimal_temperature(VectorLogits(np.full((2000, 3), 0.5), y))
    # The few rows that the search begins with tell another story than all of them.
    flipped = np.where(np.arange(2000) % 10 == 0, y, z.argmin(axis=1))
    with pytest.raises(NotConverged, match="do not have larger logits"):
        optimal_temperature(VectorLogits(z, flipped))


def test_probabilities_of_logits_are_computed_on_first_use() -> None:
    z, y = drawn_logits(100, 3)
    read = read_predictions(z, scale="logit")
    assert "values" not in vars(read)
    np.testing.assert_array_equal(read.values, softmax(z))
    chosen = np.array([3, 5, 5])
    np.testing.assert_array_equal(read.rows(chosen).values, read.values[chosen])
    fitted = calibrant.fit("temperature", z.astype(np.float32), y, scale="logit")
    again = read_predictions(z.astype(np.float32), scale="logit")
    fitted.apply_checked(again)
    assert "values" not in vars(again)
