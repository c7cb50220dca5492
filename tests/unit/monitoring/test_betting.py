"""Evidence against calibration, and the shifts that are bet on."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import expit, logit

from calibrant.monitoring.evidence import (
    LogitShift,
    bets_placed,
    block_of_cell,
    evidence,
    log_factors,
    log_start_weight,
    log_weights,
    shifts,
    weight_from,
)
from calibrant.monitoring.tally import Tally, borders, merged, tally_of
from tests.rows import draw_distorted

Array = npt.NDArray[np.float64]


def _counted(p: list[float] | Array, y: list[int] | npt.NDArray[np.bool_]) -> Tally:
    return tally_of(np.asarray(p, dtype=np.float64), np.asarray(y).astype(np.int8))


def _drawn(n: int, seed: int, power: float = 1.0) -> Tally:
    return _counted(*draw_distorted(n, seed, power, dtype=bool))


def _logged(buckets: list[Tally], first: int = 0) -> float:
    return evidence(np.array([log_factors(tally) for tally in buckets]), first).log_e


def test_the_mean_of_e_is_1_where_every_row_has_a_cell_of_its_own() -> None:
    """By enumeration of all labels, of three time buckets."""
    buckets = [[0.1, 0.7], [0.35], [0.02, 0.999]]
    mean = 0.0
    for labels in product([0, 1], repeat=5):
        remaining, chance, tallies = iter(labels), 1.0, []
        for bucket in buckets:
            y = [next(remaining) for _ in bucket]
            chance *= float(np.prod([p if label else 1.0 - p for p, label in zip(bucket, y, strict=True)]))
            tallies.append(_counted(bucket, y))
        mean += chance * np.exp(_logged(tallies))
    assert mean == pytest.approx(1.0, abs=1e-12)


def test_the_mean_of_e_is_at_most_1_where_rows_share_a_block() -> None:
    p, mean = np.array([0.5, 0.51, 0.505, 0.52]), 0.0
    for y in product([0, 1], repeat=4):
        mean += float(np.prod(np.where(y, p, 1.0 - p))) * np.exp(_logged([_counted(p, list(y))]))
    assert 0.999 < mean <= 1.0 + 1e-12


@pytest.mark.slow
def test_e_is_a_martingale_in_any_order_of_the_labels() -> None:
    """At each label, the mean of what it may make of E is what E was: for all orders, and all labels before."""
    rows = [(0, 0.1), (0, 0.7), (1, 0.35), (2, 0.9)]

    def after(come: list[tuple[int, int]]) -> float:
        tallies = [
            _counted([rows[i][1] for i, _ in come if rows[i][0] == b], [y for i, y in come if rows[i][0] == b])
            for b in range(3)
        ]
        return float(np.exp(_logged(tallies)))

    for order in permutations(range(4)):
        for before in product([0, 1], repeat=3):
            come = list(zip(order, before, strict=False))
            for known in range(4):
                i = order[known]
                p = rows[i][1]
                mean = p * after([*come[:known], (i, 1)]) + (1 - p) * after([*come[:known], (i, 0)])
                assert mean == pytest.approx(after(come[:known]), abs=1e-12)


def test_certain_predictions_are_bet_on_without_end_or_error() -> None:
    right = _counted([0.0] * 1000 + [1.0] * 1000, [0] * 1000 + [1] * 1000)
    np.testing.assert_allclose(log_factors(right), 0.0, atol=1e-12)
    wrong = log_factors(_counted([0.0, 1.0] * 50, [1, 0] * 50))
    assert np.isfinite(wrong).all()
    assert evidence(wrong[None]).log_e > 30.0


def test_huge_tallies_do_not_overflow() -> None:
    counted = _counted([0.3, 0.3], [0, 1])
    shift = evidence(log_factors(Tally(counted.keys, counted.rows * 10**9, counted.p_sum * 10**9))[None])
    assert np.isfinite(shift.log_e)
    assert shift.log_e > 1e7
    assert shift.level == 0.0


def test_no_rows_are_no_evidence() -> None:
    assert evidence(np.zeros((0, len(shifts())))).log_e == 0.0
    assert evidence(log_factors(merged([]))[None]).level == pytest.approx(1.0, abs=1e-12)


def test_the_weights_are_a_distribution() -> None:
    assert np.exp(log_weights()).sum() == pytest.approx(1.0, abs=1e-12)
    assert weight_from(0) == 1.0
    for start in (1, 5, 300):
        total = sum(np.exp(log_start_weight(s)) for s in range(start))
        assert total + weight_from(start) == pytest.approx(1.0, abs=1e-12)
    # What is left at s is about half the integral of 1 / (x log^2 x), 1 / log(s), of the whole, 1 / log(8).
    assert weight_from(10**5) == pytest.approx(0.5 * np.log(7.5) / np.log(10**5 + 7.5), rel=1e-3)


def test_the_starts_of_forgotten_buckets_are_forgotten() -> None:
    buckets = [_drawn(500, seed) for seed in range(6)]
    factors = np.array([log_factors(tally) for tally in buckets])
    later = evidence(factors[2:], first=2)
    assert later.log_e < evidence(np.concatenate([np.zeros_like(factors[:2]), factors[2:]])).log_e
    assert later.start >= 2


def test_a_late_drift_is_found_sooner_by_starting_late() -> None:
    sound = [_drawn(10_000, seed) for seed in range(20)]
    drifted = [_drawn(1_000, 100 + seed, power=1.15) for seed in range(40)]
    factors = np.array([log_factors(tally) for tally in sound + drifted])

    def delay(late: bool) -> int:
        for count in range(len(drifted) + 1):
            seen = factors[: len(sound) + count]
            if not late:  # all rows in the first bucket, from which every start that is left bets on all or none
                seen = seen.sum(axis=0, keepdims=True)
            if evidence(seen).log_e >= np.log(100.0):
                return count
        return len(drifted) + 1

    assert delay(late=True) <= 12
    assert delay(late=False) > 2 * delay(late=True)


@pytest.mark.parametrize(("delta", "message"), [(-0.2, "predictions are too high"), (0.2, "predictions are too low")])
def test_the_strongest_shift_and_start_describe_the_error(delta: float, message: str) -> None:
    random = np.random.default_rng(1)
    p = random.random(60_000)
    sound, wrong = _drawn(60_000, 2), _counted(p, random.random(len(p)) < expit(logit(p) + delta))
    strongest = evidence(np.array([log_factors(tally) for tally in (sound, sound, wrong, wrong)]))
    assert (strongest.start, strongest.shift.message()) == (2, message)
    assert strongest.level < 1e-20


def test_an_error_of_a_range_is_described_with_its_range() -> None:
    random = np.random.default_rng(3)
    p = random.random(200_000)
    c = np.where((p > 0.7) & (p < 0.84), p - 0.1, p)
    shift = evidence(log_factors(_counted(p, random.random(len(p)) < c))[None]).shift
    assert (shift.shape, shift.delta < 0.0) == ("part", True)
    assert shift.low < 0.78 < shift.high
    assert shift.message() == f"predictions between {shift.low:.2f} and {shift.high:.2f} are too high"


def test_all_groups_and_folds_are_bet_on_together() -> None:
    p, y = np.array([0.2, 0.2, 0.2, 0.9]), np.array([0, 1, 1, 0], dtype=np.int8)
    apart = tally_of(p, y, np.array([0, 1, 2, 3]), np.array([4, 3, 2, 1]))
    np.testing.assert_allclose(log_factors(apart), log_factors(tally_of(p, y)), atol=1e-12)


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (LogitShift("line", 0.1), "predictions are too low"),
        (LogitShift("line", -0.1, 0.02), "predictions are too high"),
        (LogitShift("line", 0.0, -0.1), "predictions below 0.5 are too low, those above too high"),
        (LogitShift("line", 0.1, 0.1), "predictions above 0.12 are too low, those below too high"),
        (LogitShift("line", -0.1, 0.05), "predictions below 0.982 are too high, those above too low"),
        (LogitShift("curve", -0.1), "predictions near 0 and near 1 are too high, those between too low"),
        (LogitShift("part", 0.1, low=0.0, high=0.0024), "predictions between 0 and 0.0024 are too low"),
        (LogitShift("part", -0.1, low=0.9976, high=1.0), "predictions between 0.9976 and 1 are too high"),
    ],
)
def test_a_shift_describes_which_predictions_are_wrong(shift: LogitShift, message: str) -> None:
    assert shift.message() == message


def test_a_shift_adds_its_stated_amount() -> None:
    p = np.array([0.001, 0.2, 0.5, 0.9])
    logit = np.log(p / (1.0 - p)).clip(-6.0, 6.0)
    np.testing.assert_allclose(LogitShift("line", 0.1, -0.4).at(p), 0.1 - 0.2 * logit)
    np.testing.assert_allclose(LogitShift("curve", 0.2).at(p), 0.1 * (np.abs(logit) - 1.0))
    np.testing.assert_allclose(LogitShift("part", 0.3, low=0.1, high=0.6).at(p), [0.0, 0.3, 0.3, 0.0])


def test_parts_begin_and_end_with_blocks() -> None:
    edges, blocks = borders(), block_of_cell()
    ends = {round(float(edges[cell]), 9) for cell in range(len(blocks)) if not cell or blocks[cell] != blocks[cell - 1]}
    parts = [shift for shift in shifts() if shift.shape == "part"]
    assert {part.low for part in parts} <= ends
    assert {part.high for part in parts} <= ends | {1.0}


def test_every_shift_is_another_and_is_bet_on() -> None:
    assert len(set(shifts())) == len(shifts()) == len(bets_placed().first)
    assert np.all(np.diff(bets_placed().first) > 0)
    assert np.all(np.diff(block_of_cell()) >= 0)
