"""Readers of Parquet files, Arrow (Feather) files and Arrow streams."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, groupby
from typing import Any, BinaryIO, TypeVar

import numpy as np

from calibrant.core.errors import CalibrationError
from calibrant.io.declared_sizes import FILE_MAGIC, check_file, check_messages, stream_of
from calibrant.io.errors import (
    TEXTS,
    VECTORS,
    DamagedFile,
    EmptyFile,
    Field,
    MissingValue,
    NotLabels,
    TabularError,
    TextInNumbers,
    UnmatchedArrays,
    needed_pyarrow,
)
from calibrant.io.limits import NUMBER_BYTES, STRING_BYTES, FileLimits, Limits
from calibrant.io.npz import numbers_of, texts_of
from calibrant.io.source import bytes_of
from calibrant.io.table import Array, Body, Coded, Column, ColumnPlaces, Floats, Ints, Values, sample_rows
from calibrant.io.texts import Coding, check_distinct, number_or_nan, quoted, refusal, row_of

# --- Columns of pyarrow as arrays of numpy, without a copy if a column has one chunk and no nulls


def whole(column: Any) -> Any:
    """Return a column as one chunk, with unified dictionaries."""
    if not hasattr(column, "chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return (column.unify_dictionaries() if _types().is_dictionary(column.type) else column).combine_chunks()


def decoded(column: Any) -> Any:
    """Return a column as one chunk, without a dictionary."""
    plain = whole(column)
    return plain.dictionary_decode() if _types().is_dictionary(plain.type) else plain


def value_type(kind: Any) -> Any:
    """Return the value type of a dictionary; any other type unchanged."""
    return kind.value_type if _types().is_dictionary(kind) else kind


def is_list(kind: Any) -> bool:
    """Whether a type is a list, of fixed or variable length."""
    types = _types()
    return bool(types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a type is an integer or a float; a boolean is neither."""
    return bool(_types().is_integer(kind) or _types().is_floating(kind))


def is_text(kind: Any) -> bool:
    """Whether a type is a string."""
    types = _types()
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def spark_vectors(column: Any) -> tuple[Any, Ints]:
    """Return a column of Spark's vectors, which are structs, as lists, with the indices of sparse vectors.

    Other columns are returned unchanged.
    """
    if not _types().is_struct(column.type) or not {"type", "values"} <= {field.name for field in column.type}:
        return column, np.empty(0, np.int64)
    compute, rows = needed_pyarrow("compute", "Arrow data").compute, whole(column)
    dense = compute.equal(compute.struct_field(rows, "type"), 1).fill_null(True)
    return compute.struct_field(rows, "values"), np.flatnonzero(~dense.to_numpy(zero_copy_only=False))


def null_rows(column: Any) -> Ints:
    """Return the indices of null rows, including nulls in a dictionary."""
    plain = whole(column)
    if _types().is_dictionary(plain.type) and plain.dictionary.null_count:
        codes = _codes(plain)
        empty = plain.dictionary.is_null().to_numpy(zero_copy_only=False)
        return np.flatnonzero((codes < 0) | empty[codes])
    if not plain.null_count:
        return np.empty(0, np.int64)
    return np.flatnonzero(plain.is_null().to_numpy(zero_copy_only=False))


def number_array(column: Any) -> Array:
    """Convert a numeric column to an array; null becomes NaN."""
    plain = decoded(column)
    if plain.null_count or plain.type.bit_width not in (8, 16, 32, 64):
        numbers: Array = plain.to_numpy(zero_copy_only=False)
        return numbers
    return np.from_dlpack(plain)  # without a copy, and unlike to_numpy without an import of pandas


def lists_of(column: Any) -> tuple[Ints, Any]:
    """Return the length of each list of a column, -1 for null, and all elements as one column."""
    rows = whole(column)
    lengths = rows.value_lengths()
    if rows.null_count:
        lengths = lengths.fill_null(-1)
    return lengths.to_numpy(zero_copy_only=False), rows.flatten()


def unboxed(column: Any) -> Any:
    """Return the elements of a column whose lists have one each; other columns as they are."""
    if not is_list(column.type):
        return column
    lengths, flat = lists_of(column)
    return flat if len(lengths) and (lengths == 1).all() else column


#: Strings that are converted to Python's at once.
_BLOCK = 8192


class _Texts:
    """The distinct strings of a column, whose memory is reserved before Python has them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places: dict[str | None, int] = {}
        self._block_bytes = 0  # reserved for one block

    def places(self, values: Any) -> Ints:
        """Return the place of each string of an Arrow array among the distinct ones."""
        places = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), _BLOCK):
            block = values.slice(start, _BLOCK)
            self.reserve_block(text_bytes(block))
            texts = block.to_pylist()
            fresh = set(texts).difference(self._places)
            self._limits.reserve(sum(STRING_BYTES + sys.getsizeof(text) for text in fresh))
            places[start : start + len(texts)] = [self._places.setdefault(text, len(self._places)) for text in texts]
        return places

    def reserve_block(self, size: int) -> None:
        """Reserve the bytes of one block at a time."""
        self._limits.reserve(max(0, size - self._block_bytes))
        self._block_bytes = max(size, self._block_bytes)

    def values(self) -> list[str | None]:
        """Return the distinct strings in the order of their places."""
        return list(self._places)


def codes_of(column: Any, limits: Limits) -> tuple[Ints, list[str | None]]:
    """Dictionary-encode a column of strings; returns the codes, -1 for null, and the distinct strings.

    A null in a dictionary is one of the strings, which no code refers to. Reserves the memory of the strings;
    raises the error of the limits.
    """
    texts = _Texts(limits)
    codes = np.empty(len(column), dtype=np.int64)
    at = 0
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        size = max(1, len(chunk)) if _types().is_dictionary(chunk.type) else _BLOCK
        for start in range(0, len(chunk), size):
            part = chunk.slice(start, size)
            if not _types().is_dictionary(part.type):
                texts.reserve_block(2 * part.nbytes)  # pyarrow encodes into a buffer that it copies
                part = part.dictionary_encode()
            places = np.append(texts.places(part.dictionary), -1)
            places[:-1][part.dictionary.is_null().to_numpy(zero_copy_only=False)] = -1
            codes[at : at + len(part)] = places[_codes(part)]
            at += len(part)
    return codes, texts.values()


def _codes(coded: Any) -> Ints:
    """Return the indices of a dictionary-encoded array, -1 for null."""
    indices = coded.indices.cast("int64")
    codes: Ints = (indices.fill_null(-1) if coded.null_count else indices).to_numpy(zero_copy_only=False)
    return codes


def cells_of(column: Any, limits: Limits, rows: int) -> Iterator[list[Any]]:
    """Convert some rows of a column at a time to Python values; equal strings of a dictionary are one object."""
    if not (_types().is_dictionary(column.type) and is_text(column.type.value_type)):
        for start in range(0, len(column), rows):
            yield decoded(column.slice(start, rows)).to_pylist()
        return
    codes, values = codes_of(column, limits)
    values.append(None)
    for start in range(0, len(codes), rows):
        yield [values[code] for code in codes[start : start + rows].tolist()]


@cache
def _types() -> Any:
    return needed_pyarrow("types", "Arrow data").types


# --- Columns whose rows share their strings: dictionaries and string views, in which few bytes stand for many

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


# --- Streams and files that are read whole, after a check of their schema

Read = TypeVar("Read")


def read_stream(data: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Read]) -> Read:
    """Read an Arrow stream.

    Parameters
    ----------
    data : bytes or bytearray
        The stream.
    limits : Limits
        Raises its own error.
    check : callable
        Called with the schema before any row is read.
    read : callable
        Called with the table; its result is returned.

    Raises
    ------
    FileTooLarge, DamagedFile, MissingExtra
        And the errors of ``limits``, ``check`` and ``read``.
    """
    arrow = needed_pyarrow("ipc", "an Arrow or Feather file")
    limits.check_bytes(len(data))
    if bytes(data[: len(FILE_MAGIC)]) == FILE_MAGIC:
        raise DamagedFile("the body is an Arrow or Feather file, not a stream; write one with pyarrow.ipc.new_stream")
    buffer = arrow.py_buffer(data)
    with damage(arrow):
        check_messages(arrow, buffer, len(data), limits)
        with arrow.ipc.open_stream(buffer) as reader:
            check(reader.schema)
            return read(without_views(validated(reader.read_all(), limits)))


def read_parquet(data: Body, limits: Limits, check: Callable[[Any], None], read: Callable[[Any], Read]) -> Read:
    """Read a Parquet file like ``read_stream``; strings stay dictionary-encoded."""
    arrow = needed_pyarrow("parquet", "a Parquet file")
    limits.check_bytes(len(data))
    with damage(arrow):
        check_file(memoryview(data), limits)
        with _parquet_file(arrow, data) as file:
            check(file.schema_arrow)
            return read(without_views(validated(file.read(use_threads=False), limits)))


def _parquet_file(arrow: Any, data: Body | memoryview) -> Any:
    """Open a file; strings stay dictionary-encoded, also inside lists, so that repeated ones take little memory.

    Raises ``DamagedFile`` if a column of values of variable length cannot stay encoded, such as one of decimals.
    """
    source = arrow.py_buffer(data)
    with arrow.parquet.ParquetFile(arrow.BufferReader(source)) as file:
        leaves = [file.schema.column(i) for i in range(len(file.schema))]
    varying = [leaf.physical_type == "BYTE_ARRAY" for leaf in leaves]
    coded = [leaf.path for leaf, varies in zip(leaves, varying, strict=True) if varies]
    file = arrow.parquet.ParquetFile(arrow.BufferReader(source), read_dictionary=coded, arrow_extensions_enabled=False)
    kinds = [kind for field in file.schema_arrow for kind in leaf_types(field.type)]
    for leaf, kind, varies in zip(leaves, kinds, varying, strict=True):
        if varies and not _types().is_dictionary(kind):
            file.close()
            raise DamagedFile(
                f"column {quoted(leaf.path)} has values of variable length that are not text, such as decimals stored "
                "as BYTE_ARRAY; cast it to double"
            )
    return file


@contextmanager
def damage(arrow: Any) -> Iterator[None]:
    """Convert the errors of a damaged file to ``DamagedFile``."""
    broken = (arrow.ArrowException, OSError, MemoryError, LookupError, ValueError, NotImplementedError)
    try:
        yield
    except (TabularError, CalibrationError):
        raise
    except broken as error:
        raise DamagedFile("the Parquet or Arrow file is damaged or truncated") from error


# --- Files as tables: first the first rows, then the chosen columns


class _Columns(ABC):
    """Base of the tables read by pyarrow; ``first`` are the first rows, ``_whole`` reads columns by name."""

    notes: tuple[str, ...] = ()

    def __init__(self, arrow: Any, first: Any, limits: FileLimits) -> None:
        self._arrow, self._limits = arrow, limits
        with damage(arrow):
            names = first.schema.names
            limits.check_classes(len(names))
            first = first.slice(0, sample_rows(len(names)))
            check_distinct(names, "file")
            if not first.num_rows:
                raise EmptyFile("the file has no rows")
            first = without_views(validated(first, limits))
            self.columns = tuple(self._column(name, first.column(name)) for name in names)

    def read(self, places: ColumnPlaces) -> Values:
        """Read some columns; raises the ``TabularError`` of the first bad one."""
        with damage(self._arrow):
            names = [self.columns[at].name for at in (*places.numbers, *places.texts)]
            table = without_views(validated(self._whole(names), self._limits))
            width = sum(self.columns[at].width for at in places.numbers)
            self._limits.check_rows(table.num_rows, width=width)
            self._limits.reserve(3 * table.num_rows * (width + len(places.texts)) * NUMBER_BYTES)  # with copies

            def read(at: int, field: Field) -> Any:
                name = self.columns[at].name
                column, sparse = spark_vectors(table.column(name))
                if len(sparse):
                    raise UnmatchedArrays(
                        f"{row_of(int(sparse[0]))} of column {quoted(name)} is a sparse vector; save arrays, as with "
                        "pyspark.ml.functions.vector_to_array",
                        field=field,
                    )
                column = unboxed(column)
                return self._texts(column, name, field) if field in TEXTS else self._numbers(column, name, field)

            return Values.of(places, read)

    def scan(self, places: Sequence[int], add: Callable[[int, Sequence[str]], object]) -> None:
        """Pass on the cells of some columns as strings; null becomes empty."""
        names = [self.columns[at].name for at in places]
        with damage(self._arrow):
            table = without_views(validated(self._whole(names), self._limits))
            for at, name in zip(places, names, strict=True):
                column = unboxed(spark_vectors(table.column(name))[0])
                width = self.columns[at].width
                for cells in self._cells(column, name, width):
                    add(at, cells)

    def _cells(self, column: Any, name: str, width: int) -> Iterator[list[str]]:
        types = self._arrow.types
        is_time = types.is_timestamp(column.type) or types.is_date(column.type)
        if not (is_number(column.type.value_type) if width > 1 else is_time or self._is_plain(column.type)):
            raise NotLabels(
                f"column {quoted(name)} has the type {_kind(column.type)}; it must be numbers or strings",
                field="file",
            )
        for cells in cells_of(column, self._limits, sample_rows(width) if width > 1 else _BLOCK):
            yield [
                "" if cell is None else cell.isoformat() if hasattr(cell, "isoformat") else str(cell) for cell in cells
            ]

    def whole(self) -> Any:
        """Read all columns as a pyarrow table."""
        with damage(self._arrow):
            table = validated(self._whole([column.name for column in self.columns]), self._limits)
            check_decoded(table.columns, self._limits)
            return table

    @abstractmethod
    def _whole(self, names: list[str]) -> Any:
        """Read these columns as a pyarrow table."""

    def _column(self, name: str, first: Any) -> Column:
        """Describe a column by its first rows; the width of lists is the length of the first."""
        first = unboxed(spark_vectors(first)[0])
        if is_list(first.type):
            lengths = lists_of(first)[0]
            return Column(name, (), max(1, int(lengths[np.argmax(lengths >= 0)])))
        if not self._is_plain(first.type):
            return Column(name, ("a value of another kind",))
        cells = chain.from_iterable(cells_of(first, self._limits, _BLOCK))
        return Column(name, tuple("" if value is None else str(value) for value in cells))

    def _numbers(self, column: Any, name: str, field: Field) -> Floats:
        if is_list(column.type) and field in VECTORS:
            return self._lists(column, name, field)
        if is_text(value_type(column.type)):
            return self._parsed(column, name, field)
        if not (is_number(column.type) or self._arrow.types.is_decimal(column.type)):
            raise TextInNumbers(
                f"column {quoted(name)} has the type {_kind(column.type)}; {field} must be numbers", field=field
            )
        self._refuse_null(column, name, field)
        return numbers_of(self._floats(column), name, field)

    def _parsed(self, column: Any, name: str, field: Field) -> Floats:
        """Convert a column of strings as a text file's."""
        self._refuse_null(column, name, field)
        codes, texts = codes_of(column, self._limits)
        values = np.array([*map(number_or_nan, texts)], dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(values[codes]))
        if len(bad):
            raise refusal(texts[codes[bad[0]]], name, field, int(bad[0]))
        return values[codes]

    def _floats(self, column: Any) -> Array:
        return number_array(column.cast(self._arrow.float64(), safe=False))

    def _lists(self, column: Any, name: str, field: Field) -> Floats:
        """Convert a column of lists to (n, K)."""
        if not is_number(column.type.value_type):
            raise TextInNumbers(
                f"column {quoted(name)} has lists of other values; {field} must be numbers", field=field
            )
        self._refuse_null(column, name, field)
        lengths, flat = lists_of(column)
        width = int(lengths[0])
        if not width or np.any(lengths != width):
            row = row_of(int(np.argmax(lengths != width)))
            raise UnmatchedArrays(
                f"{row} of column {quoted(name)} does not have the length of the first row", field=field
            )
        if len(empty := null_rows(flat)):
            row = row_of(int(empty[0]) // width)
            raise MissingValue(f"{row} of column {quoted(name)} has a missing number", field=field)
        return numbers_of(self._floats(flat).reshape(-1, width), name, field)

    def _texts(self, column: Any, name: str, field: Field) -> Coded:
        kind = value_type(column.type)
        if field == "groups" and len(empty := null_rows(column)):
            return self._with_gaps(column, empty, name)
        self._refuse_null(column, name, field)
        if is_text(kind):
            coding = Coding(name, field)
            codes, values = codes_of(column, self._limits)
            coding.add_coded([value or "" for value in values], codes)
            return coding.done()
        if not (is_number(kind) or self._arrow.types.is_boolean(kind)):
            raise NotLabels(
                f"column {quoted(name)} has the type {_kind(kind)}; {field} must be numbers or strings", field=field
            )
        return texts_of(number_array(column), name, field)

    def _with_gaps(self, column: Any, empty: Ints, name: str) -> Coded:
        """Convert groups of which the rows ``empty`` are missing, and become empty strings."""
        present = np.ones(len(column), dtype=np.bool_)
        present[empty] = False
        filled = self._texts(column.filter(self._arrow.array(present)), name, "groups")
        codes = np.full(len(column), len(filled.texts), dtype=np.int64)
        codes[present] = filled.codes
        return Coded((*filled.texts, ""), codes)

    def _refuse_null(self, column: Any, name: str, field: Field) -> None:
        empty = null_rows(column)
        if n := len(empty):
            row, where = row_of(int(empty[0])), f"column {quoted(name)}"
            what = f"{n:,} rows of {where} are empty, first {row}" if n > 1 else f"{row} of {where} is empty"
            raise MissingValue(
                f"{what}; fill {'them' if n > 1 else 'it'} in or remove the {'rows' if n > 1 else 'row'}",
                field=field,
            )

    def _is_plain(self, kind: Any) -> bool:
        kind = value_type(kind)
        types = self._arrow.types
        return bool(is_number(kind) or is_text(kind) or types.is_boolean(kind) or types.is_decimal(kind))


class ParquetTable(_Columns):
    """A ``Table`` of a Parquet file; raises ``MissingExtra``, ``DamagedFile`` or ``FileTooLarge``."""

    def __init__(self, file: BinaryIO, limits: FileLimits) -> None:
        arrow = self._arrow = needed_pyarrow("parquet", "a Parquet file")
        self._body = bytes_of(file)
        with damage(arrow):
            check_file(self._body, limits)
            opened = _parquet_file(arrow, self._body)
            schema = opened.schema_arrow
            batches = opened.iter_batches(sample_rows(len(schema)), use_threads=False)
            first = next((batch for batch in batches if batch.num_rows), None)
            table = schema.empty_table() if first is None else arrow.Table.from_batches([first])
        super().__init__(arrow, table, limits)

    def _whole(self, names: list[str]) -> Any:
        return _parquet_file(self._arrow, self._body).read(columns=names, use_threads=False)

    def whole(self) -> Any:
        """Read all columns as a pyarrow table; only columns of strings are dictionary-encoded."""
        coded = [field.name for field in super().whole().schema if is_text(value_type(field.type))]
        source = self._arrow.BufferReader(self._arrow.py_buffer(self._body))
        with damage(self._arrow):
            return self._arrow.parquet.ParquetFile(source, read_dictionary=coded).read(use_threads=False)


class ArrowTable(_Columns):
    """A ``Table`` of an Arrow stream or file; raises as ``ParquetTable`` does."""

    def __init__(self, file: BinaryIO, limits: FileLimits) -> None:
        arrow = needed_pyarrow("ipc", "an Arrow or Feather file")
        with damage(arrow):
            self._buffer = stream_of(arrow, bytes_of(file))
            check_messages(arrow, self._buffer, self._buffer.size, limits)
            with arrow.ipc.open_stream(self._buffer) as reader:
                first = next((batch for batch in reader if batch.num_rows), None)
                table = reader.schema.empty_table() if first is None else arrow.Table.from_batches([first])
        super().__init__(arrow, table, limits)

    def _whole(self, names: list[str]) -> Any:
        with self._arrow.ipc.open_stream(self._buffer) as reader:
            return reader.read_all().select(names)


def _kind(kind: Any) -> str:
    """Return the name of a type, without its parameters."""
    return str(kind).split("<", 1)[0].split("[", 1)[0]
