"""Rows that are counted in a table of cells, beside the tallies of the same rows."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import calibrant
from calibrant.core.errors import CalibrationError, NotFinite, OutOfRange, WrongShape
from calibrant.distributed.arrow import Columns, RowCounter
from calibrant.distributed.scan import ahead
from calibrant.monitoring.event_tally import EventTally
from calibrant.monitoring.tally import BEGINS, CELLS, CellTable, place, tally_of
from tests.known import known

N = 20_000
_COLUMNS = Columns.read(prediction="p", label="y", group="g")


def _counted(batch: pa.RecordBatch, columns: Columns = _COLUMNS, keys: Mapping[str, str | None] | None = None) -> Any:
    counter = RowCounter(columns)
    for start in range(0, batch.num_rows, 7000):
        counter.add(batch.slice(start, 7000), keys or {})
    return counter.result()


def _check(counted: EventTally, expected: EventTally) -> None:
    assert counted.groups == expected.groups
    assert_array_equal(counted.tally.keys, expected.tally.keys)
    assert_array_equal(counted.tally.rows, expected.tally.rows)
    assert_allclose(counted.tally.p_sum, expected.tally.p_sum, rtol=1e-12)


def _rows(kind: str = "float64") -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[Any]]:
    random = np.random.default_rng(6)
    p = random.beta(0.1, 0.3, N)
    p[:4] = (0.0, -0.0, 1.0, 0.5)
    groups = np.array(["a", "b", None, "é"], dtype=np.object_)[random.integers(0, 4, N)]
    return p.astype(kind), (random.random(N) < p).astype(np.int64), groups


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1) | st.sampled_from(BEGINS.tolist())))
def test_a_prediction_is_in_a_cell_that_does_not_contain_it(p: npt.NDArray[np.float64]) -> None:
    p = np.concatenate([p, np.nextafter(p, 0.0), np.nextafter(p, 1.0)])
    ends = np.append(BEGINS[1:], np.inf)
    cells = place(p)
    assert_array_equal((BEGINS[cells] <= p) & (p < ends[cells]), True)
    assert_array_equal(place(p.astype(np.float32)), place(p.astype(np.float32).astype(np.float64)))


def test_a_step_of_the_lookup_has_another_cell_at_one_of_its_ends() -> None:
    steps = np.arange((1 << 16) + 1) / (1 << 16)
    p = np.concatenate([steps, np.nextafter(steps, 0.0), np.nextafter(steps, 1.0).clip(0, 1)])
    assert_array_equal(place(p), np.minimum(np.searchsorted(BEGINS, p, side="right") - 1, CELLS - 1))


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("labels", [pa.int64(), pa.uint64(), pa.int8(), pa.bool_()])
@pytest.mark.parametrize("coded", [None, pa.int8(), pa.uint8(), pa.int32()])
def test_a_table_has_other_counts_than_the_tally_of_its_rows(kind: str, labels: Any, coded: Any) -> None:
    p, y, groups = _rows(kind)
    column = pa.array(groups, pa.string())
    if coded is not None:
        column = column.cast(pa.dictionary(coded, pa.string()))
    batch = pa.record_batch({"p": p, "y": pa.array(y).cast(labels), "g": column})
    _check(_counted(batch), calibrant.tally(p.astype(np.float64), y, groups=list(groups)))


def test_many_equal_predictions_are_added_up_with_their_rounding() -> None:
    table = CellTable()
    for _ in range(40):
        table.add(np.full(100_000, 0.3), np.zeros(100_000, np.int8))
    (total,) = table.tally([0]).p_sum
    assert total == pytest.approx(0.3 * 4_000_000, rel=1e-13)
    assert len(table.tally([0])) == 4_000_000


def test_a_value_of_a_dictionary_without_rows_is_a_group() -> None:
    p, y, _ = _rows()
    column = pa.DictionaryArray.from_arrays(pa.array(np.ones(N, np.int8)), pa.array(["never", "b", "x" * 300]))
    tally = _counted(pa.record_batch({"p": p, "y": y, "g": column}).slice(0, 100))
    assert tally.groups == ("b",)


@pytest.mark.parametrize("groups", [300, 250])
def test_many_groups_are_counted_otherwise_than_few(groups: int) -> None:
    p, y, _ = _rows()
    names = [f"g{k % groups}" for k in range(N)]
    batch = pa.record_batch({"p": p, "y": y, "g": names})
    _check(_counted(batch), calibrant.tally(p, y, groups=names))


@pytest.mark.parametrize("key", ["no", None])
def test_a_group_in_the_name_of_a_folder_is_another_than_in_a_column(key: str | None) -> None:
    p, y, _ = _rows()
    tally = _counted(pa.record_batch({"p": p, "y": y}), keys={"g": key})
    _check(tally, calibrant.tally(p, y, groups=[key] * N))


def test_rows_without_a_group_are_in_another_than_the_missing_one() -> None:
    p, y, groups = _rows()
    counter = RowCounter(_COLUMNS, missing="(missing)")
    counter.add(pa.record_batch({"p": p, "y": y, "g": groups.tolist()}), {})
    tally = known(counter.result())
    names = ["(missing)" if name is None else name for name in groups]
    _check(tally, calibrant.tally(p, y, groups=names))


def test_batches_that_need_more_are_not_added_to_those_of_the_table() -> None:
    p, y, groups = _rows()
    plain = pa.record_batch({"p": p, "y": y, "g": groups.tolist()})
    clipped = pa.record_batch({"p": np.append(p[:10], 1.00001), "y": np.append(y[:10], 1), "g": ["a"] * 11})
    floats = pa.record_batch({"p": p, "y": y.astype(np.float64), "g": groups.tolist()})
    counter = RowCounter(_COLUMNS)
    for batch in (plain, clipped, floats):
        counter.add(batch, {})
    tally = known(counter.result())
    assert (len(tally), tally.clipped) == (2 * N + 11, 1)
    whole = np.concatenate([p, p[:10], [1.0], p]), np.concatenate([y, y[:10], [1], y])
    _check(tally, calibrant.tally(*whole, groups=[*groups, *["a"] * 11, *groups]))


@pytest.mark.parametrize(
    ("p", "error"), [([0.5, np.nan], NotFinite), ([0.5, 1.1], OutOfRange), ([[0.5, 0.5], [0.1, 0.9]], WrongShape)]
)
def test_invalid_rows_are_counted_in_the_table(p: Any, error: type[CalibrationError]) -> None:
    counter = RowCounter(Columns.read(prediction="p", label="y"))
    counter.add(pa.record_batch({"p": [0.5], "y": [1]}), {})
    with pytest.raises(error):
        counter.add(pa.record_batch({"p": p, "y": [0, 1]}), {})
    tally = known(counter.result())
    assert len(tally) == 1


def test_a_value_is_read_again_or_its_error_is_lost() -> None:
    threads = set()

    def values() -> Generator[int]:
        try:
            for i in range(1, 4):
                threads.add(threading.current_thread().name)
                yield i
            raise OutOfRange("a row")
        finally:
            threads.add("closed")

    read = ahead(values())
    assert [next(read) for _ in range(3)] == [1, 2, 3]
    with pytest.raises(OutOfRange):
        next(read)
    assert threading.current_thread().name not in threads
    threads.clear()
    first = ahead(values())
    assert next(first) == 1
    first.close()
    assert "closed" in threads


def test_an_empty_table_has_rows() -> None:
    assert CellTable().held() == []
    assert RowCounter(_COLUMNS).result() is None
    assert len(tally_of(np.zeros(0), np.zeros(0, np.int8))) == 0
