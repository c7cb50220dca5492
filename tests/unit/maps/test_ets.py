from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import calibrant
from calibrant.core.errors import NotConverged
from calibrant.core.reductions import Vector
from calibrant.maps.ets import EnsembleTemperature, fit_ets, mixture_weights
from tests.conftest import GOLDEN
from tests.unit.maps.drawn import assert_refused, drawn_logits, drawn_vector, log_loss, softmax


def test_the_mixture_agrees_with_the_released_code() -> None:
    golden = json.loads((GOLDEN / "ets_ten_classes.json").read_text("utf-8"))
    drawn = np.load(GOLDEN / "ten_classes_n2000.npz")
    vector = Vector(softmax(drawn["logits"]), drawn["labels"].astype(np.int64), logits=drawn["logits"])
    fitted, optimum = fit_ets(vector)
    loss = optimum["log_loss"]
    assert 0.0 <= optimum["gradient"] <= 1e-9
    assert fitted.temperature == pytest.approx(golden["temperature"], abs=1e-5)  # theirs stops early
    np.testing.assert_allclose(fitted.weights, golden["weights"], atol=1e-2)
    theirs = EnsembleTemperature(golden["temperature"], np.array(golden["weights"]))
    assert loss <= log_loss(theirs(drawn["logits"]), vector.labels) + 1e-12
    assert loss == pytest.approx(log_loss(fitted(drawn["logits"]), vector.labels))


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_the_best_on_the_simplex(seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = random.beta(random.random() + 0.2, 1.0, (60, 3)) * random.random(3)
    parts[:, 2] = parts[0, 2]
    w = random.random(60)
    w /= w.sum()
    weights = mixture_weights(parts, w)
    assert weights.min() >= 0.0
    assert weights.sum() == pytest.approx(1.0, abs=1e-15)
    gain = w @ (parts / (parts @ weights)[:, None])
    assert gain.max() <= 1.0 + 1e-10  # Karush, Kuhn and Tucker
    np.testing.assert_allclose(gain[weights > 0.0], 1.0, atol=1e-10)
    theirs = minimize(
        lambda v: -float(w @ np.log(parts @ v)),
        np.full(3, 1 / 3),
        bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
    )
    assert -float(w @ np.log(parts @ weights)) <= theirs.fun + 1e-9


@pytest.mark.parametrize("seed", [300, 328, 375])
def test_the_votes_of_a_few_trees_have_an_optimum(seed: int) -> None:
    """Rows of exact zeros and ties: at the optimum the loss changes by less than it is rounded by."""
    random = np.random.default_rng(seed)
    K, trees = 100, 1 if seed % 2 else 3
    p = random.dirichlet(np.full(K, 0.05 if seed % 3 == 0 else 1.0), 200)
    votes = np.array([random.multinomial(trees, row) for row in p]) / trees
    true = p if seed % 5 else 0.05 * p + 0.95 / K
    labels = np.array([random.choice(K, p=row / row.sum()) for row in true])
    fitted, _ = fit_ets(Vector(votes, labels))
    own = np.arange(200), labels
    parts = [EnsembleTemperature(t, np.array([1.0, 0.0, 0.0])) for t in (fitted.temperature, 1)]
    logits = np.log(np.maximum(votes, 2.0**-52))
    columns = np.column_stack([*(part(logits)[own] for part in parts), np.full(200, 1.0 / K)])
    mixed = fitted(logits)[own]
    assert (columns / mixed[:, None]).mean(axis=0).max() <= 1.0 + 1e-9  # Karush, Kuhn and Tucker


def test_a_row_without_weight_changes_nothing_even_without_a_probability() -> None:
    z, y = drawn_logits(300, 4, seed=1)
    with_one = np.vstack([z, [[5000.0, 0.0, 0.0, 0.0]]]), np.append(y, 1)
    w = np.append(np.ones(300), 0.0)
    first = calibrant.fit("ets", z, y, scale="logit").function.parameters()
    other = calibrant.fit("ets", *with_one, scale="logit", weights=w).function.parameters()
    assert first["temperature"] == pytest.approx(other["temperature"], rel=1e-9)
    np.testing.assert_allclose(first["weights"], other["weights"], atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_mixture_is_never_worse_than_temperature_and_sums_to_1(dtype: Any) -> None:
    for seed in range(5):
        z, y = drawn_logits(300, 4, seed=seed)
        y[:20] = seed % 4  # labels that no temperature explains
        z = z.astype(dtype)
        fitted, plain = (calibrant.fit(m, z, y, scale="logit") for m in ("ets", "temperature"))
        q = fitted.apply(z)
        assert log_loss(q, y) <= log_loss(plain.apply(z), y) + 1e-12
        np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_array_equal(q.argmax(axis=1), z.argmax(axis=1))


def test_noise_in_the_labels_gives_the_uniform_part_its_share() -> None:
    z, y = drawn_logits(20_000, 5)
    noisy = np.random.default_rng(9).random(20_000) < 0.2
    y = np.where(noisy, np.random.default_rng(8).integers(0, 5, 20_000), y)
    weights = calibrant.fit("ets", z, y, scale="logit").function.parameters()["weights"]
    assert weights[2] > 0.1


def test_damaged_documents_are_refused() -> None:
    z, y = drawn_logits(200, 3)
    fitted = calibrant.fit("ets", z, y, scale="logit")
    assert fitted.function.parameters() == fit_ets(drawn_vector(200, 3))[0].parameters()
    damages: list[tuple[dict[str, Any], str]] = [
        ({"temperature": 0.0}, "temperature"),
        ({"weights": [0.5, 0.5]}, "weights"),
        ({"weights": [0.5, 0.5, 0.5]}, "weights"),
        ({"weights": [1.5, -0.5, 0.0]}, "weights/0"),
    ]
    assert_refused(fitted.to_document(), damages)


def test_rows_without_an_optimal_temperature_are_refused() -> None:
    z, _ = drawn_logits(50, 3)
    with pytest.raises(NotConverged):
        calibrant.fit("ets", z, z.argmax(axis=1), scale="logit")


def test_a_part_that_some_rows_rule_out_leaves_the_mixture() -> None:
    """Rows of probability 0 under two of the parts: their optimum lies where those weights are all but 0."""
    random = np.random.default_rng(9)
    sure = random.random(2000) < 0.97
    parts = np.column_stack([np.where(sure, 0.9, 1e-8), np.where(sure, 0.99, 1e-28), np.full(2000, 0.5)])
    w = np.full(2000, 1.0 / 2000)
    weights = mixture_weights(parts, w)
    gains = w @ (parts / (parts @ weights)[:, None])
    assert gains.max() <= 1.0 + 1e-9
    assert weights.sum() == pytest.approx(1.0)
