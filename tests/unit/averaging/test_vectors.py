from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant.averaging.members import Member, MemberRows, isotonic_member, rows_of, temperature_member
from calibrant.averaging.vectors import average_of, combine, fit_averaged_vector, log_pool, mixture_by_em
from calibrant.core.errors import InvalidOption, NotConverged
from calibrant.core.reductions import Vector
from calibrant.maps.ensemble import Ensemble, VectorIdentity
from calibrant.maps.transforms import Transform
from tests.unit.maps.drawn import drawn_logits, drawn_vector, log_loss, softmax


def test_permuting_the_classes_permutes_the_map() -> None:
    z, y = drawn_logits(400, 4)
    order = np.array([2, 0, 3, 1])
    new = np.argsort(order)
    first = calibrant.fit("averaged", softmax(z), y)
    other = calibrant.fit("averaged", softmax(z)[:, order], new[y])
    np.testing.assert_allclose(other.apply(softmax(z)[:, order]), first.apply(softmax(z))[:, order], atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 10])
def test_it_is_better_than_temperature_scaling_on_new_rows(K: int) -> None:
    z, y = drawn_logits(4000, K)
    fitted = {m: calibrant.fit(m, z[:2000], y[:2000], scale="logit") for m in ("averaged", "temperature")}
    losses = {m: log_loss(f.apply(z[2000:]), y[2000:]) for m, f in fitted.items()}
    assert losses["averaged"] < losses["temperature"]
    gain = fitted["averaged"].diagnostics["held_out_gain"]
    measured = log_loss(softmax(z[2000:]), y[2000:]) - losses["averaged"]
    assert abs(gain["log_loss"] - measured) < 5 * gain["standard_error"]


@pytest.mark.slow
def test_the_gain_is_not_optimistic() -> None:
    random = np.random.default_rng(0)
    reported, measured = [], []
    for _ in range(20):
        z = random.standard_normal((5_200, 5))
        y = (0.8 * z + random.gumbel(size=z.shape)).argmax(axis=1)
        p = softmax(z)
        transform, diagnostics = fit_averaged_vector(Vector(p[:200], y[:200]))
        rest = p[200:] if isinstance(transform, VectorIdentity) else transform(np.log(p[200:]))
        reported.append(diagnostics["held_out_gain"]["log_loss"])
        measured.append(log_loss(p[200:], y[200:]) - log_loss(rest, y[200:]))
    differences = np.subtract(reported, measured)
    assert differences.mean() < 2.0 * differences.std(ddof=1) / np.sqrt(len(differences))


def test_a_member_without_a_fit_to_all_rows_is_left_out_and_the_others_are_weighed_again() -> None:
    z, y = drawn_logits(600, 3)
    rows = rows_of(Vector(softmax(2.0 * z), y), 5, 0)

    def not_converging(_: MemberRows) -> Transform:
        raise NotConverged("there is no optimum")

    identity = Member("identity", np.log(rows.p), lambda _: VectorIdentity())
    good, isotonic = temperature_member(rows), isotonic_member(rows)
    best = Member("best", np.log(np.where(np.arange(3)[:, None] == rows.labels, 0.9, 0.05)), not_converging)
    averaged, diagnostics = average_of([identity, good, best, isotonic], rows, rows, 5, keep_order=False)
    expected, without = average_of([identity, good, isotonic], rows, rows, 5, keep_order=False)
    assert diagnostics == without
    assert isinstance(averaged, Ensemble)
    np.testing.assert_array_equal(averaged(z), expected(z))


@pytest.mark.slow
def test_the_gain_with_keep_order_is_that_of_the_map_with_it() -> None:
    random = np.random.default_rng(1)
    z = 2.0 * random.standard_normal((4000, 4))
    scores = z @ (np.eye(4) + 0.6 * np.roll(np.eye(4), 1, axis=1))  # ranks differ from those of z
    y = (scores + random.gumbel(size=z.shape)).argmax(axis=1)
    gains, losses = [], []
    for keep_order in (False, True):
        fitted = calibrant.fit("averaged", z[:2000], y[:2000], scale="logit", keep_order=keep_order)
        gain = fitted.diagnostics["held_out_gain"]
        losses.append(log_loss(fitted.apply(z[2000:]), y[2000:]))
        measured = log_loss(softmax(z[2000:]), y[2000:]) - losses[-1]
        assert abs(gain["log_loss"] - measured) < 4 * gain["standard_error"]
        gains.append(gain["log_loss"])
    assert gains[1] < gains[0] - 0.02
    tempered = calibrant.fit("temperature", z[:2000], y[:2000], scale="logit").apply(z[2000:])
    assert losses[1] < log_loss(tempered, y[2000:])


def test_numbers_of_pieces_are_of_events_alone() -> None:
    z, y = drawn_logits(300, 3)
    with pytest.raises(InvalidOption, match="candidates must be null for vectors of more than two classes"):
        calibrant.fit("averaged", z, y, scale="logit", candidates=(1, 2))
    assert calibrant.fit("averaged", softmax(z)[:, 0], y == 0, candidates=(1, 2)).n_classes is None


@pytest.mark.slow
def test_calibrated_predictions_are_mostly_left_alone() -> None:
    random, same = np.random.default_rng(0), 0
    for _ in range(20):
        p = random.dirichlet([0.7] * 3, 300)
        y = (p.cumsum(axis=1) > random.random((300, 1))).argmax(axis=1)
        transform, diagnostics = fit_averaged_vector(Vector(p, y))
        if isinstance(transform, VectorIdentity):
            same += 1
            np.testing.assert_array_equal(transform(p), p)
            assert diagnostics["held_out_gain"]["log_loss"] <= 0.0
    assert same >= 8


def test_two_classes_are_fitted_as_one_event() -> None:
    z, y = drawn_logits(600, 2)
    p = softmax(z)
    both = calibrant.fit("averaged", p, y)
    event = calibrant.fit("averaged", p, y, reduction="binary")
    assert both.reduction == "canonical"
    np.testing.assert_allclose(both.apply(p)[:, 1], event.apply(p[:, 1]), atol=1e-12)


def test_the_order_of_the_classes_can_be_kept() -> None:
    z, y = drawn_logits(500, 5)
    p = softmax(z)
    free, ordered = (calibrant.fit("averaged", p, y, keep_order=keep) for keep in (False, True))
    assert (free.apply(p).argmax(axis=1) != p.argmax(axis=1)).any()
    np.testing.assert_array_equal(np.argsort(ordered.apply(p), axis=1), np.argsort(p, axis=1))


def test_exact_zeros_missing_classes_and_float32_are_coped_with() -> None:
    z, y = drawn_logits(300, 4)
    p = softmax(z)
    p[:100] = np.eye(4)[p[:100].argmax(axis=1)]
    for predictions, labels in ((p, y), (p.astype(np.float32), y), (p, np.where(y == 3, 0, y))):
        q = calibrant.fit("averaged", predictions, labels).apply(predictions)
        assert np.isfinite(q).all()
        np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-12)
        assert log_loss(q, labels) < log_loss(p, labels)


def test_frequency_weights_are_repetitions_with_the_copies_in_one_fold() -> None:
    vector = drawn_vector(240, 3)
    counts = np.random.default_rng(1).integers(1, 4, 240).astype(float)
    rows = rows_of(Vector(vector.probabilities, vector.labels, counts, logits=vector.logits), 4, 0)
    times = rows.w.astype(int)
    repeated: MemberRows = replace(
        rows,
        z=np.repeat(rows.z, times, axis=1),
        labels=np.repeat(rows.labels, times),
        w=np.ones(times.sum()),
        fold=np.repeat(rows.fold, times),
    )
    first, other = isotonic_member(rows), isotonic_member(repeated)
    np.testing.assert_allclose(np.repeat(first.held_out, times, axis=1), other.held_out, atol=1e-9)
    weighted, counted = (combine([m, m], r) for m, r in ((first, rows), (other, repeated)))
    np.testing.assert_allclose(weighted.mixture, counted.mixture, atol=1e-9)
    assert float(rows.w @ weighted.gain) == pytest.approx(float(counted.gain.sum()), abs=1e-9)


def test_the_pool_and_the_mixture_find_the_better_part() -> None:
    z, y = drawn_logits(2000, 3, heat=1.0)
    z = z - np.linspace(-0.5, 0.5, 3)
    good, bad = (np.log(softmax(scores)).T for scores in (z, np.zeros_like(z)))
    w = np.ones(2000)
    exponents, own = log_pool([good, bad], y, w)
    assert exponents[0] == pytest.approx(1.0, abs=0.1)
    assert -own.mean() <= log_loss(softmax(z), y) + 1e-9
    parts = np.exp(np.stack([good[y, np.arange(2000)], bad[y, np.arange(2000)]]))
    weights = mixture_by_em(parts, w)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] > 0.9


def test_the_map_is_a_small_document() -> None:
    z, y = drawn_logits(600, 6)
    fitted = calibrant.fit("averaged", z, y, scale="logit")
    function: Any = fitted.function
    assert isinstance(function, Ensemble)
    assert function.mixture.sum() + function.pool_share == pytest.approx(1.0)
    names = list(fitted.diagnostics["held_out_losses"])
    assert names[0] == "identity"
    assert set(fitted.diagnostics["weights"]) <= set(names)
    assert len(function.members) <= len(names)


@pytest.mark.slow
def test_the_gain_has_the_standard_error_between_clusters() -> None:
    random = np.random.default_rng(0)
    p = random.dirichlet([1.0, 1.0, 1.0], 200)
    y = (np.log(p) / 2.0 + random.gumbel(size=p.shape)).argmax(axis=1)
    alone = calibrant.fit("averaged", p, y).diagnostics["held_out_gain"]
    copies = np.repeat(np.arange(200), 5)
    together = calibrant.fit("averaged", p[copies], y[copies], clusters=copies).diagnostics["held_out_gain"]
    apart = calibrant.fit("averaged", p[copies], y[copies]).diagnostics["held_out_gain"]
    assert together["standard_error"] == pytest.approx(alone["standard_error"], rel=0.3)
    assert apart["standard_error"] < 0.6 * together["standard_error"]


def test_the_order_of_one_hot_rows_does_not_matter() -> None:
    random = np.random.default_rng(1)
    p = np.eye(4)[random.integers(0, 4, 300)]
    p[:160] = random.dirichlet([0.5] * 4, 160)
    y = (np.log(p + 0.2) + random.gumbel(size=p.shape)).argmax(axis=1)
    order = random.permutation(300)
    first, other = calibrant.fit("averaged", p, y), calibrant.fit("averaged", p[order], y[order])
    np.testing.assert_allclose(first.apply(p), other.apply(p), atol=1e-10)
