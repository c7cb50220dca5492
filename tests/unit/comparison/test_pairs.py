from __future__ import annotations

import numpy as np
import pytest

from calibrant.comparison import ContestantValue, compare_pairs
from calibrant.comparison.pairs import Correction, holm
from tests.known import known

RANDOM = np.random.default_rng(0)
COMMON = RANDOM.normal(0, 0.01, 999)


def _standings(*errors: float, noise: float = 0.002) -> list[ContestantValue]:
    return [
        ContestantValue(f"m{i}", error, COMMON + RANDOM.normal(0, noise, 999), (0.0, 0.001))
        for i, error in enumerate(errors)
    ]


def test_equal_contestants_differ_by_exactly_nothing() -> None:
    same = [ContestantValue(name, 0.03, COMMON, (0.0, 0.01)) for name in "ab"]
    other = ContestantValue("c", 0.05, COMMON * 0.5, (0.0, 0.01))
    pair = compare_pairs(
        [*same, other], level=0.95, apart=lambda first, second: 0.0 if {first, second} == {"a", "b"} else 1.0
    )[0]
    assert (pair.difference, pair.interval, pair.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_differences_are_antisymmetric() -> None:
    standings = _standings(0.02, 0.03, 0.035)
    forth = {pair.between: pair for pair in compare_pairs(standings, level=0.9)}
    for pair in compare_pairs(standings[::-1], level=0.9):
        back = forth[pair.between[::-1]]
        assert pair.difference == -back.difference
        assert back.interval is not None
        assert known(pair.interval) == pytest.approx((-back.interval[1], -back.interval[0]))
        assert pair.p_value == back.p_value


@pytest.mark.parametrize("correction", ["max-t", "holm"])
def test_corrected_intervals_contain_those_of_a_pair_alone(correction: Correction) -> None:
    standings = _standings(0.02, 0.03, 0.035, 0.02)
    for pair in compare_pairs(standings, level=0.9, correction=correction):
        alone = compare_pairs([s for s in standings if s.name in pair.between], level=0.9)[0]
        assert pair.interval is not None
        assert alone.interval is not None
        assert pair.interval[0] <= alone.interval[0] <= alone.interval[1] <= pair.interval[1]
        assert pair.unadjusted == alone.p_value
        assert pair.unadjusted is not None
        assert known(pair.p_value) >= pair.unadjusted


def test_a_bias_that_may_be_widens_the_interval_and_weakens_the_p_value() -> None:
    first, second = ContestantValue("one", 0.05, COMMON), ContestantValue("two", 0.03, -COMMON)
    plain = compare_pairs([first, second], level=0.95)[0]
    biased = compare_pairs([ContestantValue("one", 0.05, COMMON, (0.0, 0.02)), second], level=0.95)[0]
    assert plain.interval is not None
    assert biased.interval is not None
    assert biased.interval[0] == pytest.approx(plain.interval[0] - 0.02)
    assert biased.interval[1] == plain.interval[1]
    assert biased.p_value == 1.0


def test_holm_is_that_of_its_definition() -> None:
    p = np.array([0.2, 0.001, 0.02, 0.02])
    assert holm(p).tolist() == pytest.approx([0.2, 0.004, 0.06, 0.06])


def test_the_family_wise_error_is_held_on_simulated_nulls() -> None:
    """200 nulls of five equal contestants with dependent estimates; the level is one in ten."""
    random = np.random.default_rng(7)
    spread = random.normal(size=(5, 8))
    false = {"max-t": 0, "holm": 0, "none": 0}
    for _ in range(200):
        estimates = 0.05 + 0.01 * (spread @ random.normal(size=8))
        draws = 0.01 * (spread @ random.normal(size=(8, 300)))
        standings = [
            ContestantValue(str(i), float(v), d) for i, (v, d) in enumerate(zip(estimates, draws, strict=True))
        ]
        for correction in ("max-t", "holm"):
            pairs = compare_pairs(standings, level=0.9, correction=correction)
            false[correction] += any(pair.p_value is not None and pair.p_value <= 0.1 for pair in pairs)
        false["none"] += any(pair.unadjusted is not None and pair.unadjusted <= 0.1 for pair in pairs)
    most = 0.1 * 200 + 3.0 * (200 * 0.1 * 0.9) ** 0.5
    assert false["max-t"] <= most
    assert false["holm"] <= most
    assert false["max-t"] >= 5, "an error that never happens was held by no correction"
    assert false["none"] > most
