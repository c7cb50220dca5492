from __future__ import annotations

import numpy as np
import pytest

from calibrant.monitoring.evidence import Shift, bets_placed, block_of_cell, shifts
from calibrant.monitoring.tally import borders


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (Shift("line", 0.1), "predictions are too low"),
        (Shift("line", -0.1, 0.02), "predictions are too high"),
        (Shift("line", 0.0, -0.1), "predictions below 0.5 are too low, those above too high"),
        (Shift("line", 0.1, 0.1), "predictions above 0.12 are too low, those below too high"),
        (Shift("line", -0.1, 0.05), "predictions below 0.982 are too high, those above too low"),
        (Shift("curve", -0.1), "predictions near 0 and near 1 are too high, those between too low"),
        (Shift("part", 0.1, low=0.0, high=0.0024), "predictions between 0 and 0.0024 are too low"),
        (Shift("part", -0.1, low=0.9976, high=1.0), "predictions between 0.9976 and 1 are too high"),
    ],
)
def test_a_shift_describes_which_predictions_are_wrong(shift: Shift, message: str) -> None:
    assert shift.message() == message


def test_a_shift_adds_its_stated_amount() -> None:
    p = np.array([0.001, 0.2, 0.5, 0.9])
    logit = np.log(p / (1.0 - p)).clip(-6.0, 6.0)
    np.testing.assert_allclose(Shift("line", 0.1, -0.4).at(p), 0.1 - 0.2 * logit)
    np.testing.assert_allclose(Shift("curve", 0.2).at(p), 0.1 * (np.abs(logit) - 1.0))
    np.testing.assert_allclose(Shift("part", 0.3, low=0.1, high=0.6).at(p), [0.0, 0.3, 0.3, 0.0])


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
