"""Columns of Arrow whose rows share their strings: dictionaries and string views, in which few bytes stand for many."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from calibrant.io.errors import needed_pyarrow
from calibrant.io.limits import NUMBER_BYTES, STRING_BYTES, Limits

#: A view of a string has 16 bytes, of which the first four are the length.
_VIEW_WORDS = 4


def validated(table: Any, limits: Limits) -> Any:
    """Validate a table, in a time that its bytes bound; successive chunks with the same dictionary become one chunk.

    Raises the error of the limits for too many rows, and if the strings of views, or the dictionaries inside lists and
    structs, have too many bytes in all rows together.
    """
    limits.check_rows(table.num_rows)
    table.validate()  # the sizes of buffers, on which the next lines rely
    for at, column in enumerate(table.columns):
        if _types().is_dictionary(column.type) and column.num_chunks > 1:
            limits.reserve(sum(chunk.indices.nbytes for chunk in column.chunks))
            table = table.set_column(at, table.field(at), _joined(column))
    again = sum(_read_again(chunk) for column in table.columns for chunk in column.chunks)
    limits.check_bytes(again)
    limits.reserve(again)
    table.validate(full=True)  # pyarrow does not check the offsets of a stream
    return table


def without_views(table: Any) -> Any:
    """Return a valid table with strings instead of string views, which many functions of pyarrow do not support."""
    arrow = needed_pyarrow("types", "Arrow data")
    for at, column in enumerate(table.columns):
        if _types().is_string_view(column.type):
            table = table.set_column(at, table.column_names[at], column.cast(arrow.large_string()))
        elif _types().is_dictionary(column.type) and _types().is_string_view(column.type.value_type):
            kind = arrow.dictionary(column.type.index_type, arrow.large_string(), column.type.ordered)
            chunks = [_coded(chunk, chunk.indices, chunk.dictionary.cast(kind.value_type)) for chunk in column.chunks]
            table = table.set_column(at, table.column_names[at], arrow.chunked_array(chunks, kind))
    return table


def check_decoded(columns: Iterable[Any], limits: Limits) -> None:
    """Check the bytes of columns without dictionaries, in which one long string can stand for many."""
    size = sum(_decoded_bytes(chunk) for column in columns for chunk in column.chunks)
    limits.check_bytes(size)
    limits.reserve(size)


def bytes_to_convert(column: Any, *, is_text: bool = False) -> int:
    """Return the most bytes that are allocated to convert a column to an array: none for a view of a column of numbers.

    Strings become codes, which are copied if some are null, and references.
    """
    if is_text:
        return 3 * NUMBER_BYTES * len(column)
    kind = column.type
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    is_view = len(chunks) == 1 and not column.null_count and not _types().is_dictionary(kind)
    is_view = is_view and not _types().is_boolean(kind)  # eight of which are in a byte
    if _types().is_fixed_size_list(kind) or _types().is_list(kind) or _types().is_large_list(kind):
        values = sum(len(chunk.values) for chunk in chunks)
        is_view = is_view and not chunks[0].values.null_count
        return 2 * NUMBER_BYTES * len(column) + (0 if is_view else 2 * NUMBER_BYTES * values)
    return 0 if is_view else 2 * NUMBER_BYTES * len(column)


def text_bytes(texts: Any) -> int:
    """Return the most bytes of an array of strings as Python's: up to four per character if some are not ASCII."""
    compute = needed_pyarrow("compute", "Arrow data").compute
    size = compute.sum(compute.binary_length(texts)).as_py() or 0
    characters = compute.sum(compute.utf8_length(texts)).as_py() or 0
    return STRING_BYTES * len(texts) + (size if characters == size else 4 * characters)


def _joined(column: Any) -> Any:
    """Join the chunks with the same dictionary, which pyarrow would validate and hash for each of them."""
    arrow, chunks = needed_pyarrow("types", "Arrow data"), []
    for _, run in groupby(column.chunks, _dictionary_of):
        first, *others = run
        indices = arrow.concat_arrays([first.indices, *(chunk.indices for chunk in others)]) if others else None
        chunks.append(_coded(first, indices, first.dictionary) if others else first)
    return arrow.chunked_array(chunks, column.type)


def _dictionary_of(chunk: Any) -> Hashable:
    """Return the place of a dictionary in memory."""
    values = chunk.dictionary
    return (
        len(values),
        values.offset,
        *(None if buffer is None else (buffer.address, buffer.size) for buffer in values.buffers()),
    )


def _coded(like: Any, indices: Any, values: Any) -> Any:
    return type(like).from_arrays(indices, values, ordered=like.type.ordered, safe=False)


def _read_again(array: Any) -> int:
    """Return the bytes of the strings of views, and of dictionaries, which other chunks may have too."""
    size = 0
    for leaf in _leaves(array):
        if _types().is_string_view(leaf.type) or _types().is_binary_view(leaf.type):
            size += int(np.sum(_lengths_of_views(leaf)))
        elif _types().is_dictionary(leaf.type):
            size += leaf.dictionary.nbytes + _read_again(leaf.dictionary)
    return size


def _decoded_bytes(array: Any) -> int:
    size = 0
    for leaf in _leaves(array):
        if not _types().is_dictionary(leaf.type):
            size += leaf.nbytes
            continue
        values = leaf.dictionary
        if _types().is_string_view(values.type) or _types().is_binary_view(values.type):
            sizes = _lengths_of_views(values)
        elif _types().is_primitive(values.type):
            sizes = np.full(len(values), values.type.bit_width // 8)
        else:
            sizes = needed_pyarrow("compute", "Arrow data").compute.binary_length(values).fill_null(0).to_numpy()
        codes = leaf.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
        size += int(np.bincount(codes + 1, minlength=len(sizes) + 1)[1:] @ sizes.astype(np.int64))
    return size


def _lengths_of_views(views: Any) -> Any:
    """Return the lengths of strings; 0 for null, whose view may be anything."""
    words = views.buffers()[1]
    if words is None:
        return np.zeros(len(views), np.int64)
    integers = np.frombuffer(words, np.int32)[: _VIEW_WORDS * (views.offset + len(views))]
    lengths = integers.reshape(-1, _VIEW_WORDS)[views.offset :, 0].astype(np.int64)
    return np.where(views.is_valid().to_numpy(zero_copy_only=False), np.maximum(lengths, 0), 0)


def _leaves(array: Any) -> Iterator[Any]:
    """Yield the arrays in an array of lists, structs, unions or extensions; a dictionary is one of them."""
    kind = array.type
    if hasattr(array, "storage"):
        yield from _leaves(array.storage)
    elif _types().is_struct(kind) or _types().is_union(kind):
        for i in range(kind.num_fields):
            yield from _leaves(array.field(i))
    elif kind.num_fields:
        yield from _leaves(array.values)
    else:
        yield array


def leaf_types(kind: Any) -> Iterator[Any]:
    """Yield the types in a type of lists, structs or extensions, in the order of their columns in a Parquet file."""
    if hasattr(kind, "storage_type"):
        yield from leaf_types(kind.storage_type)
    elif kind.num_fields:
        for i in range(kind.num_fields):
            yield from leaf_types(kind.field(i).type)
    else:
        yield kind


@cache
def _types() -> Any:
    return needed_pyarrow("types", "Arrow data").types
