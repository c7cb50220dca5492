"""Columns whose rows share their strings: dictionaries and views, in which few bytes can stand for many."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from calibrant.io.arrow import validated
from calibrant.io.calibrated import calibrated_arrow
from calibrant.io.detection import open_table
from calibrant.io.errors import FileTooLarge, MalformedArrow, TabularError
from calibrant.io.files import FileOptions, read_sheet
from calibrant.io.limits import FileLimits, Limits
from calibrant.io.strict import REGRESSION, read_arrow, read_parquet
from tests.unit.io.memory import peak_of
from tests.unit.io.refused import refused

LIMITS = Limits(1 << 24, 1_000, 10)
BATCHES = 100


def stream(batches: list[pa.RecordBatch], *, deltas: bool = False) -> bytes:
    file = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=deltas)
    with pa.ipc.new_stream(file, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return file.getvalue()


def batch(groups: Any) -> pa.RecordBatch:
    n = len(groups)
    return pa.record_batch({"predictions": np.full(n, 0.5), "labels": np.arange(n) % 2, "groups": groups})


def _growing(length: int) -> bytes:
    """A stream of a dictionary that begins with a long string and gets a short one in each batch."""
    texts = ["x" * length, *map(str, range(BATCHES + 1))]
    return stream(
        [batch(pa.DictionaryArray.from_arrays(pa.array([1, i + 1]), pa.array(texts[: i + 2]))) for i in range(BATCHES)],
        deltas=True,
    )


def test_a_dictionary_that_grows_counts_as_often_as_it_is_copied() -> None:
    groups = read_arrow(_growing(100), LIMITS)["groups"]
    np.testing.assert_array_equal(groups[1::2], [str(i) for i in range(BATCHES)])
    assert refused(lambda: read_arrow(_growing(1_000_000), LIMITS)) == ("too-large", "")
    with pytest.raises(FileTooLarge, match="bytes after decompression"):
        read_sheet(io.BytesIO(_growing(1_000_000)), name="a", max_rows=None, max_bytes=1 << 24)


def _shared(length: int, n_batches: int) -> bytes:
    """A stream of many batches with one dictionary, whose first string no row has."""
    texts = pa.array(["x" * length, "a", "b"])
    return stream([batch(pa.DictionaryArray.from_arrays(pa.array([1, 2]), texts)) for _ in range(n_batches)])


def test_batches_with_one_dictionary_are_one_chunk() -> None:
    with pa.ipc.open_stream(_shared(10, 3)) as reader:
        table = validated(reader.read_all(), LIMITS)
    assert table.column("groups").num_chunks == 1
    assert table.column("groups").to_pylist() == ["a", "b"] * 3
    np.testing.assert_array_equal(read_arrow(_shared(10, 3), LIMITS)["groups"], ["a", "b"] * 3)


def test_a_code_beyond_the_dictionary_is_refused() -> None:
    texts = pa.array(["a", "b"])
    wrong = pa.DictionaryArray.from_arrays(pa.array([0, 2]), texts, safe=False)
    right = pa.DictionaryArray.from_arrays(pa.array([0, 1]), texts)
    body = stream([batch(right), batch(wrong)])
    assert refused(lambda: read_arrow(body, LIMITS)) == ("malformed-arrow", "")


def test_a_file_in_place_of_a_stream_is_refused_with_the_remedy() -> None:
    file = pa.BufferOutputStream()
    columns = pa.table({"predictions": [0.1, 0.9], "labels": [0, 1]})
    with pa.ipc.new_file(file, columns.schema) as writer:
        writer.write_table(columns)
    with pytest.raises(MalformedArrow, match="not a stream; write one with pyarrow"):
        read_arrow(file.getvalue().to_pybytes(), LIMITS)


def test_a_dictionary_that_is_replaced_keeps_its_rows() -> None:
    groups = [pa.array(texts).dictionary_encode() for texts in (["a", "b"], ["b", "c"], ["b", "c"], ["a", "b"])]
    read_groups = read_arrow(stream([batch(names) for names in groups]), LIMITS)["groups"]
    np.testing.assert_array_equal(read_groups, ["a", "b", "b", "c", "b", "c", "a", "b"])


def _views(n: int, length: int, kind: Any) -> pa.Array:
    """A column of views that all show the same string."""
    views = np.zeros((n, 4), np.int32)
    views[:, 0], views[:, 1] = length, int.from_bytes(b"xxxx", "little")
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"x" * length)])


def test_views_of_a_long_string_count_each_time() -> None:
    groups = read_arrow(stream([batch(_views(100, 20, pa.string_view()))]), LIMITS)["groups"]
    np.testing.assert_array_equal(groups, ["x" * 20] * 100)
    body = stream([batch(_views(100, 1_000_000, pa.string_view()))])
    assert refused(lambda: read_arrow(body, LIMITS)) == ("too-large", "")
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1]), _views(100, 1_000_000, pa.string_view()))
    assert refused(lambda: read_arrow(stream([batch(coded)]), LIMITS)) == ("too-large", "")


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()])
def test_views_in_other_columns_of_a_file_count_too(kind: Any, inside: bool) -> None:
    views = _views(100, 1_000_000, kind)
    note = pa.StructArray.from_arrays([views], ["text"]) if inside else views
    body = stream([pa.record_batch({"p": np.full(100, 0.5), "y": np.arange(100) % 2, "note": note})])
    with pytest.raises(FileTooLarge, match="bytes after decompression"):
        read_sheet(io.BytesIO(body), name="a", max_rows=None, max_bytes=1 << 24)


def test_views_are_strings_in_files() -> None:
    texts = ["a long name of a group", None, "b", "a long name of a group"]
    for groups in (pa.array(texts, pa.string_view()), pa.array(texts[::-1], pa.string_view())):
        for column in (groups, pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), groups)):
            columns = {"p": [0.1, 0.2, 0.3, 0.4], "y": [0, 1, 0, 1], "g": column}
            options = FileOptions(groups=("g",))
            sheet = read_sheet(io.BytesIO(stream([pa.record_batch(columns)])), name="a", options=options, max_rows=None)
            assert sheet.groups is not None
            assert list(sheet.groups) == [text or "(missing)" for text in groups.to_pylist()]


def _parquet(**columns: Any) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file, store_schema=False)
    return file.getvalue()


def _repeated(length: int, kind: Any = None) -> pa.DictionaryArray:
    """A hundred times the same string."""
    return pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(100, np.int8)), pa.array(["x" * length]).cast(kind or "string")
    )


@pytest.mark.parametrize("name", ["clusters", "by", "times", "known", "groups"])
def test_repeated_strings_of_a_parquet_body_take_no_memory_of_their_own(name: str) -> None:
    zeros = np.zeros(100)
    body = _parquet(mean=zeros, std=zeros + 1, observed=zeros, **{name: _repeated(1_000_000)})
    assert peak_of(lambda: refused(lambda: read_parquet(body, LIMITS, REGRESSION))) < 20 << 20
    assert refused(lambda: read_parquet(body, LIMITS, REGRESSION)) == ("invalid-option", f"/{name}/0")
    assert list(
        read_parquet(_parquet(mean=zeros, std=zeros + 1, **{name: _repeated(3)}), LIMITS, REGRESSION)[name]
    ) == (["xxx"] * 100)


NOTES = {
    "binary": _repeated(1_000_000, "binary"),
    "list": pa.ListArray.from_arrays(pa.array(np.arange(101, dtype=np.int32)), _repeated(1_000_000)),
    "struct": pa.StructArray.from_arrays([_repeated(1_000_000)], ["text"]),
}


@pytest.mark.parametrize("note", NOTES)
def test_other_columns_of_a_parquet_file_take_no_memory_of_their_own(note: str) -> None:
    body = _parquet(p=np.full(100, 0.5), y=np.arange(100) % 2, note=NOTES[note])
    limits = FileLimits(1 << 24, None)

    def calibrated() -> None:
        too_large = pytest.raises(FileTooLarge, match="bytes after decompression")
        with open_table(io.BytesIO(body), "a", limits) as table, too_large:
            calibrated_arrow(table, np.full(100, 0.5))

    assert peak_of(lambda: read_sheet(io.BytesIO(body), name="a", max_rows=None, max_bytes=1 << 24)) < 20 << 20
    assert peak_of(calibrated) < 20 << 20


def test_lists_of_strings_are_no_labels() -> None:
    pairs = pa.FixedSizeListArray.from_arrays(_repeated(1_000_000), 2)
    body = _parquet(p=np.full(50, 0.5), y=pairs)

    def read() -> None:
        with pytest.raises(TabularError, match="type list"):
            read_sheet(io.BytesIO(body), name="a", options=FileOptions(labels="y"), max_rows=None)

    assert peak_of(read) < 20 << 20


def test_the_columns_of_a_calibrated_parquet_file_keep_their_types() -> None:
    columns = {"p": [0.5], "y": [1], "b": [b"x"], "l": [["x", "y"]], "s": [{"text": "x"}], "m": [[("k", "v")]]}
    kinds = {"m": pa.map_(pa.string(), pa.string())}
    original = pa.table({name: pa.array(column, kinds.get(name)) for name, column in columns.items()})
    file = io.BytesIO()
    pa.parquet.write_table(original, file)
    with open_table(file, "a", FileLimits()) as table:
        calibrated = calibrated_arrow(table, np.array([0.5]))
    assert calibrated.select(original.column_names).equals(original)


def test_wide_values_of_a_fixed_width_count_with_their_width() -> None:
    wide = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(100, np.int8)), pa.array([b"x" * 1_000_000], pa.binary(1_000_000))
    )
    body = _parquet(p=np.full(100, 0.5), y=np.arange(100) % 2, note=wide)
    with pytest.raises(FileTooLarge, match="bytes after decompression"):
        read_sheet(io.BytesIO(body), name="a", max_rows=None, max_bytes=1 << 24)
