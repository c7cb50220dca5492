"""Laws of tallies, and the bounds of the measures of their rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.monitors.bounds import (
    MeasureBounds,
    brier_bounds,
    equal_mass_bounds,
    equal_width_bounds,
    ks_bounds,
    log_loss_bounds,
)
from calibrant.core.reductions import Event
from calibrant.measures.catalogue import read_requests
from calibrant.monitoring.evidence import bets_placed, block_of_cell, evidence, log_factors, shifts
from calibrant.monitoring.tally import CELLS, Tally, borders, from_bytes, merged, place, tally_of

# Drawn predictions may look like those of the other class.
pytestmark = pytest.mark.filterwarnings("ignore:predictions are clearly lower")

predictions = st.one_of(
    st.floats(0.0, 1.0), st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 1.0 - 1e-12, 1.0]), st.floats(0.4, 0.6)
)
rows = st.lists(st.tuples(predictions, st.integers(0, 1), st.integers(0, 3), st.integers(0, 4)), max_size=60)
Rows = list[tuple[float, int, int, int]]


def _counted(of: Rows) -> Tally:
    p, y, groups, folds = (np.array(column) for column in (zip(*of, strict=True) if of else ([], [], [], [])))
    return tally_of(p.astype(np.float64), y.astype(np.int8), groups.astype(np.int64), folds.astype(np.int64))


def _same(first: Tally, other: Tally) -> None:
    np.testing.assert_array_equal(first.keys, other.keys)
    np.testing.assert_array_equal(first.rows, other.rows)
    np.testing.assert_allclose(first.p_sum, other.p_sum, rtol=1e-14, atol=0.0)


@pytest.mark.slow
@given(rows, rows, rows)
def test_merging_tallies_in_any_order_equals_counting_together(a: Rows, b: Rows, c: Rows) -> None:
    first, second, third = (_counted(part) for part in (a, b, c))
    whole = _counted(a + b + c)
    _same(merged([first, second, third]), whole)
    _same(merged([merged([first, second]), third]), whole)
    _same(merged([third, merged([second, first])]), whole)
    _same(merged([whole, _counted([])]), whole)


@given(rows)
def test_a_tally_survives_its_bytes_exactly(of: Rows) -> None:
    tally = _counted(of)
    again = from_bytes(tally.to_bytes())
    for before, after in ((tally.keys, again.keys), (tally.rows, again.rows), (tally.p_sum, again.p_sum)):
        assert before.dtype == after.dtype
        np.testing.assert_array_equal(before, after)


@given(rows, st.data())
def test_bytes_that_changed_are_refused(of: Rows, data: st.DataObject) -> None:
    changed = bytearray(_counted(of).to_bytes())
    at = data.draw(st.integers(0, len(changed) - 1).filter(lambda i: not 12 <= i < 16))  # the header's empty end
    changed[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ValueError, match="tally"):
        from_bytes(bytes(changed))


@given(rows)
def test_groups_and_folds_partition_the_rows(of: Rows) -> None:
    tally = _counted(of)
    _same(merged([tally.of_group(group) for group in range(4)]), tally)
    _same(merged([tally.of_folds([0, 3]), tally.of_folds([1, 2, 4])]), tally)
    assert len(tally.of_group(2)) == sum(row[2] == 2 for row in of)
    assert len(tally.of_folds([1])) == sum(row[3] == 1 for row in of)
    assert len(tally) == len(tally.pooled()) == len(of)


@given(st.lists(predictions, min_size=1))
def test_every_prediction_lies_in_its_cell(of: list[float]) -> None:
    p = np.array(of)
    cell, edges = place(p), borders()
    assert cell.min() >= 0
    assert cell.max() < CELLS
    assert np.all(edges[cell] - 1e-15 <= p)
    assert np.all(p <= edges[cell + 1] + 1e-15)


def _by_row(p: npt.NDArray[np.float64], y: npt.NDArray[np.int8]) -> npt.NDArray[np.float64]:
    """The likelihood ratio of each shift, multiplied over the rows: what the bets from a tally are never above."""
    bets = bets_placed()
    ends = np.append(bets.first[1:], len(bets.block))
    deltas = np.zeros((len(shifts()), int(block_of_cell()[-1]) + 1))
    for shift, (first, end) in enumerate(pairwise([*bets.first, ends[-1]])):
        deltas[shift, bets.block[first:end]] = bets.delta[first:end]
    delta = deltas[:, block_of_cell()[place(p)]]
    ratio: npt.NDArray[np.float64] = (delta * (y - p) - (np.log1p(p * np.expm1(delta)) - delta * p)).sum(axis=1)
    return ratio


@given(rows.filter(bool))
@settings(deadline=None)
def test_bets_from_a_tally_are_never_above_the_product_over_its_rows(of: Rows) -> None:
    p, y, *_ = (np.array(column) for column in zip(*of, strict=True))
    assert np.all(log_factors(_counted(of)) <= _by_row(p.astype(np.float64), y.astype(np.int8)) + 1e-9)


@given(rows, rows)
@settings(deadline=None)
def test_evidence_does_not_depend_on_the_order_or_the_batches(a: Rows, b: Rows) -> None:
    shuffled = sorted(a, key=lambda row: hash((row, 3)))
    apart = merged([_counted(shuffled[:7]), _counted(shuffled[7:])])
    together, other = (
        evidence(np.array([log_factors(first), log_factors(_counted(b))])) for first in (_counted(a), apart)
    )
    assert together.log_e == pytest.approx(other.log_e, abs=1e-9)


#: Crowded, so that cells hold many rows.
crowded_predictions = st.one_of(
    st.floats(0.0, 1.0),
    st.floats(0.3328, 0.3345),
    st.floats(0.0, 1e-6),
    st.floats(1.0 - 1e-6, 1.0 - 1e-7),
    st.sampled_from([0.0, 0.2, 1 / 3, 0.5, 0.6, 1.0]),
)
crowded_rows = st.lists(st.tuples(crowded_predictions, st.integers(0, 1)), min_size=1, max_size=80)
BOUNDED: list[tuple[str | dict[str, object], Callable[..., MeasureBounds]]] = [
    ("ks", ks_bounds),
    ("log-loss", log_loss_bounds),
    ("brier", brier_bounds),
    ("ece", equal_mass_bounds),
    ({"name": "ece", "binning": "equal-width"}, equal_width_bounds),
]


@pytest.mark.slow
@pytest.mark.parametrize(("measure", "bounds"), BOUNDED, ids=["ks", "log-loss", "brier", "equal-mass", "equal-width"])
@given(of=crowded_rows)
@example(of=[(0.2, 1)] * 3 + [(0.2000001, 0)] * 2)
@settings(deadline=None)
def test_the_measures_of_the_rows_lie_within_the_bounds(
    measure: str | dict[str, object], bounds: Callable[..., MeasureBounds], of: list[tuple[float, int]]
) -> None:
    p, y = np.array([row[0] for row in of]), np.array([row[1] for row in of], dtype=np.int8)
    tally = tally_of(p, y)
    bound = bounds(tally)
    (request,) = read_requests([measure])
    exact, read = (request.compute(event).value for event in (Event(p, y), tally.event()))
    assert exact is not None
    assert read is not None
    assert bound.low - 1e-7 <= exact <= bound.high + 1e-7
    assert abs(exact - read) <= bound.apart(read) + 1e-7
    if bounds in (ks_bounds, equal_mass_bounds, equal_width_bounds):
        assert bound.low - 1e-7 <= read <= bound.high + 1e-7
