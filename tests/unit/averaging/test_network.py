from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.averaging.members import MemberRows, rows_of, temperature_member
from calibrant.averaging.network import NetworkMember, _InOrder, _scores, _train
from calibrant.averaging.vectors import fit_averaged_vector
from calibrant.core.cells import Floats
from calibrant.core.errors import NotConverged
from calibrant.core.progress import reporting
from calibrant.core.reductions import Vector
from calibrant.maps.softmax_map import NetworkSoftmax
from tests.unit.maps.drawn import assert_refused, log_loss, softmax

N, K = 2_000, 3


def _steps(n: int, seed: int) -> tuple[Floats, Any]:
    """Probabilities whose true probabilities are a step of the second class, and labels."""
    random = np.random.default_rng(seed)
    z = 1.5 * random.standard_normal((n, K))
    scores = z + 3.0 * (z[:, [1]] > z[:, [2]]) * np.array([1.0, -1.0, 0.0])
    return softmax(z), (scores + random.gumbel(size=z.shape)).argmax(axis=1)


@cache
def _rows() -> MemberRows:
    p, y = _steps(N, 0)
    return rows_of(Vector(p, y), 3, 0)


@cache
def _network() -> NetworkSoftmax:
    network = NetworkMember("network").fit(_rows()).refit(_rows())
    assert isinstance(network, NetworkSoftmax)
    return network


def _document() -> dict[str, Any]:
    network = _network()
    head = {"format": 1, "method": "averaged", "reduction": "canonical", "scale": "probability", "n_classes": K}
    return {**head, "family": network.family, "parameters": network.parameters()}


def test_a_network_learns_a_step_that_temperature_scaling_does_not() -> None:
    p, y = _steps(5_000, 1)
    rows = _rows()
    z = np.log(p)
    tempered = log_loss(temperature_member(rows).refit(rows)(z), y)
    assert log_loss(_network()(z), y) < 0.85 * tempered


def test_the_held_out_loss_of_a_network_is_that_on_new_rows() -> None:
    p, y = _steps(5_000, 1)
    rows = _rows()
    held_out = NetworkMember("network").fit(rows).held_out
    np.testing.assert_allclose(np.exp(held_out).sum(axis=0), 1.0, atol=1e-9)
    own = -rows.own(held_out)
    assert abs(own.mean() - log_loss(_network()(np.log(p)), y)) < 4.0 * own.std() / np.sqrt(N)


def test_permuting_the_classes_permutes_the_network() -> None:
    rows, order = _rows(), np.array([2, 0, 1])
    place = np.argsort(order)
    other = replace(rows, z=rows.z[order], labels=place[rows.labels], prior=rows.prior[order])
    first, second = NetworkMember("network").fit(rows), NetworkMember("network").fit(other)
    np.testing.assert_allclose(second.held_out, first.held_out[order], atol=1e-8)
    np.testing.assert_allclose(second.refit(other)(other.z.T), first.refit(rows)(rows.z.T)[:, order], atol=1e-5)


def test_the_map_of_a_network_is_the_network_that_was_trained() -> None:
    own = _InOrder.of(_rows())
    features = own.features(own.rows)
    trained = _train(features, own.rows, own.start(), np.ones((1, N), bool))
    expected = softmax(_scores(features, trained, 0))
    np.testing.assert_allclose(own.map(trained)(_rows().z.T)[:, own.classes], expected, atol=1e-4)


def test_only_the_ratios_of_weights_matter() -> None:
    heavy = replace(_rows(), w=2.5 * _rows().w)
    np.testing.assert_allclose(
        NetworkMember("network").fit(heavy).refit(heavy)(heavy.z.T), _network()(heavy.z.T), atol=1e-5
    )


def test_rows_without_influence_do_not_change_a_network() -> None:
    rows = _rows()
    light = replace(rows, w=np.where(rows.labels == 0, 1e-9, 1.0))
    q = NetworkMember("network").fit(light).refit(light)(rows.z.T)
    assert q[:, 0].max() < 0.05


@pytest.mark.slow
def test_tied_constant_and_extreme_predictions_give_finite_networks() -> None:
    random = np.random.default_rng(3)
    y = random.integers(0, K, N)
    tied = np.eye(K)[random.integers(0, K, N)]
    for p in (tied, np.full((N, K), 1.0 / K), np.where(random.random((N, 1)) < 0.01, [[1.0, 0.0, 0.0]], 1.0 / K)):
        rows = rows_of(Vector(p, y), 3, 0)
        member = NetworkMember("network").fit(rows)
        assert np.isfinite(member.held_out).all()
        assert np.isfinite(member.refit(rows)(rows.z.T)).all()
    z = 1e150 * random.standard_normal((N, K))
    rows = rows_of(Vector(softmax(z), y, logits=z), 3, 0)
    assert np.isfinite(NetworkMember("network").fit(rows).held_out).all()


def test_a_network_that_overflows_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibrant.averaging.network._RATE", 1e200)
    with pytest.raises(NotConverged, match="the network did not converge"):
        NetworkMember("network").fit(_rows())


def test_the_training_of_a_network_can_be_cancelled() -> None:
    calls = 0

    def end(_done: int, _total: int, _stage: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), reporting(end):
        NetworkMember("network").fit(_rows())
    assert calls == 10


def test_a_network_is_a_document() -> None:
    document = _document()
    fitted = calibrant.load(document)
    p, _ = _steps(200, 2)
    np.testing.assert_array_equal(fitted.apply(p), _network()(np.log(p)))
    assert fitted.to_document()["parameters"] == document["parameters"]


def test_invalid_documents_of_networks_are_refused() -> None:
    document = _document()
    valid = document["parameters"]
    knots, hidden, weights = valid["knots"], valid["hidden"], valid["weights"]
    assert_refused(
        document,
        [
            ({"knots": [knots[0][::-1], *knots[1:]]}, "knots"),
            ({"knots": knots[:2]}, "knots"),
            ({"knots": [[*knots[0], 50.0], *knots[1:]]}, "knots/1"),
            ({"hidden": [hidden[0][:-1], *hidden[1:]]}, "hidden/0"),
            ({"offsets": valid["offsets"][1:]}, "offsets"),
            ({"weights": [weights[0], weights[1][1:], weights[2]]}, "weights/1"),
            ({"weights": [[float("nan"), *weights[0][1:]], *weights[1:]]}, "weights/0/0"),
            ({"intercepts": [0.0]}, "intercepts"),
            ({"smoothing": 1.5}, "smoothing"),
            ({"prior": [1.0, 0.0, 0.0]}, "prior"),
            ({"offsets": [0.0] * 1001, "hidden": [hidden[0]] * 1001, "weights": [[0.0] * (51 + 1001)] * 3}, "offsets"),
            (
                {
                    "knots": [[0.0] * 1001] * 3,
                    "hidden": [[0.0] * 3003],
                    "offsets": [0.0],
                    "weights": [[0.0] * 3004] * 3,
                },
                "knots",
            ),
        ],
    )


def test_adjacent_equal_and_subnormal_knots_are_steps_without_warnings() -> None:
    document = _document()
    document["parameters"]["knots"] = [[-1.0, -1.0, *[-1.0 + 5e-324] * 15]] * K
    q = calibrant.load(document).apply([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])
    assert np.isfinite(q).all()


@pytest.mark.slow
def test_a_network_is_a_member_from_5000_rows_on() -> None:
    p, y = _steps(5_000, 4)
    fitted, diagnostics = fit_averaged_vector(Vector(p, y))
    _, fewer = fit_averaged_vector(Vector(p[:-1], y[:-1]))
    assert "network" in diagnostics["held_out_losses"]
    assert "network" not in fewer["held_out_losses"]
    assert "network" in diagnostics["weights"] | diagnostics["exponents"]
    new, labels = _steps(20_000, 5)
    assert log_loss(fitted(np.log(new)), labels) < diagnostics["held_out_losses"]["sms"] - 0.05
