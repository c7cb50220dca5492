from __future__ import annotations

import numpy as np
import pytest

from calibrant.core.cells import sort_rows
from calibrant.core.errors import LengthMismatch, OutOfRange, TooFewRows
from calibrant.piecewise.families import Family
from calibrant.piecewise.fitting import fit_cells, fit_piecewise
from calibrant.piecewise.folds import CellStream
from calibrant.piecewise.options import PiecewiseOptions
from tests.rows import draw_distorted

GRID = np.linspace(0.001, 0.999, 999)


def test_a_stream_counts_every_row_once_in_its_fold() -> None:
    random = np.random.default_rng(0)
    p, y = random.random(10_007), random.integers(0, 2, 10_007)
    whole, parts = CellStream(7), CellStream(7)
    whole.add(p, y)
    for part in np.array_split(np.arange(10_007), 13):
        parts.add(p[part], y[part])
    one, other = whole.cells(), parts.cells()
    np.testing.assert_allclose(one.p, other.p)
    np.testing.assert_array_equal(one.w, other.w)
    np.testing.assert_array_equal(one.wy, other.wy)
    np.testing.assert_array_equal(one.w.sum(axis=1), np.bincount(np.arange(10_007) % 7))
    assert one.wy.sum() == y.sum()
    assert float(one.w.sum(axis=0) @ one.p) == pytest.approx(p.sum())
    assert len(whole) == 10_007


@pytest.mark.parametrize("family", ["pl", "pl3"])
def test_a_fit_from_a_stream_is_near_that_of_the_rows(family: Family) -> None:
    p, y = draw_distorted(300_000, 1, dtype=np.int8)
    stream = CellStream()
    stream.add(p, y)
    options = PiecewiseOptions(candidates=(1, 2, 4), final="refit")
    streamed, details = fit_cells(family, stream.cells(), (1, 2, 4), options)
    direct, details_of_rows = fit_piecewise(family, sort_rows(p, y), options)
    assert details["pieces"] == details_of_rows["pieces"]
    assert np.abs(streamed(GRID) - direct(GRID)).mean() < 1e-3


def test_few_predictions_and_certain_ones_keep_their_values() -> None:
    stream = CellStream(2)
    stream.add(np.array([0.0, 0.25, 1.0, 1.0]), np.array([0, 1, 1, 0]))
    cells = stream.cells()
    np.testing.assert_array_equal(cells.p, [0.0, 0.25, 1.0])
    np.testing.assert_array_equal(cells.w.sum(axis=0), [1, 1, 2])


def test_a_wrong_row_is_named_and_nothing_of_its_chunk_counts() -> None:
    stream = CellStream(2)
    with pytest.raises(OutOfRange) as caught:
        stream.add(np.array([0.1, np.nan, 2.0]), np.array([0, 1, 1]))
    assert caught.value.offences[0].pointer == "/predictions/1"
    with pytest.raises(OutOfRange) as caught:
        stream.add(np.array([0.1, 0.2]), np.array([0, 2]))
    assert caught.value.offences[0].pointer == "/labels/1"
    with pytest.raises(LengthMismatch):
        stream.add(np.array([0.1, 0.2]), np.array([0]))
    stream.add(np.array([]), np.array([], np.int64))
    assert len(stream) == 0
    with pytest.raises(TooFewRows):
        stream.cells()
