"""Readers of Parquet files, Arrow (Feather) files and Arrow streams, which check the metadata before pyarrow runs."""

from __future__ import annotations

import struct
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import chain, cycle
from typing import Any, BinaryIO, TypeVar

import numpy as np

from calibrant.core.errors import CalibrationError
from calibrant.io.errors import (
    TEXTS,
    VECTORS,
    DamagedFile,
    DuplicateColumns,
    EmptyFile,
    Field,
    FileTooLarge,
    MissingValue,
    NotLabels,
    TabularError,
    TextInNumbers,
    UnmatchedArrays,
    needed_pyarrow,
)
from calibrant.io.limits import NUMBER_BYTES, STRING_BYTES, FileLimits, Limits
from calibrant.io.npz import numbers_of, texts_of
from calibrant.io.shared import check_decoded, leaf_types, text_bytes, validated, without_views
from calibrant.io.source import bytes_of
from calibrant.io.table import Array, Body, Coded, Column, ColumnPlaces, Floats, Ints, Values, sample_rows
from calibrant.io.texts import Coding, listed, number, quoted, refusal, row_of
from calibrant.io.texts import is_number as is_number_text
from calibrant.io.thrift import Struct, ThriftReader

# --- Checks of an Arrow stream before pyarrow reads it
#
# A compressed buffer begins with its decompressed size; pyarrow allocates that size and never decompresses more. So
# these sizes bound the memory of a stream. Messages are flatbuffers whose offsets pyarrow has validated (Arrow columnar
# format 1.5, "Encapsulated message format", "RecordBatch message").

_DICTIONARY, _RECORDS = 2, 3
#: Field indices in the flatbuffer tables.
_HEADER_TYPE, _HEADER = 1, 2
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_DATA_OF_DICTIONARY, _IS_DELTA = 1, 2
#: Fields of the footer of a file with the blocks of dictionaries and record batches; bytes after the footer.
_BLOCKS, _FOOTER_END = (2, 3), 10
#: First bytes of a file, which a stream follows, and of a message.
_FILE_MAGIC, _CONTINUATION = b"ARROW1\0\0", b"\xff\xff\xff\xff"
#: A message is expensive to read: on top of the free ones, one is allowed for each KiB.
_FREE_MESSAGES, _BYTES_A_MESSAGE = 256, 1024


def check_messages(arrow: Any, buffer: object, n_bytes: int, limits: Limits) -> None:
    """Check the rows and decompressed bytes that a stream declares; raises the error of the limits.

    ``arrow`` is pyarrow, ``buffer`` its Buffer of the stream. Also raises ``FileTooLarge`` for too many messages, and
    ``DamagedFile`` for a damaged message.
    """
    rows, unpacked, dictionaries = 0, n_bytes, 0
    for count, (metadata, body) in enumerate(_messages(arrow, buffer)):
        if count > _FREE_MESSAGES + n_bytes // _BYTES_A_MESSAGE:
            raise FileTooLarge("the stream has too many messages for its size")
        try:
            batch, is_dictionary, is_delta = _batch(metadata)
            if batch is None:
                continue
            stated, grown = _stated(batch, body)
        except (struct.error, IndexError) as error:
            raise DamagedFile("the stream has a damaged message") from error
        rows += 0 if is_dictionary else stated
        dictionaries += len(body) + grown if is_dictionary else 0
        unpacked += grown + (dictionaries if is_delta else 0)  # pyarrow copies the dictionary that a delta extends
        limits.check_rows(rows)
        limits.check_bytes(unpacked)
    limits.reserve(unpacked - n_bytes)


def _stream_of(arrow: Any, body: memoryview) -> Any:
    """Return the buffer of the stream of a file or stream.

    Polars writes the schema of a file only into its footer, and dictionaries after the rows that use them.
    """
    if bytes(body[: len(_FILE_MAGIC)]) != _FILE_MAGIC:
        return arrow.py_buffer(body)
    stream = body[len(_FILE_MAGIC) :]
    if bytes(stream[: len(_CONTINUATION)]) == _CONTINUATION:
        return arrow.py_buffer(stream)
    schema = arrow.ipc.open_file(arrow.py_buffer(body)).schema  # which validates the footer
    end = len(body) - _FOOTER_END
    try:
        data = body[end - _natural(_read("<i", body, end)) : end]
        footer = _Table(data, _read("<I", data, 0))
        vectors = [vector for field in _BLOCKS if (vector := footer.vector(field)) is not None]
        blocks = [struct.unpack_from("<qixxxxq", data, at + 24 * i) for at, count in vectors for i in range(count)]
    except (struct.error, IndexError) as error:
        raise DamagedFile("the file has a damaged footer") from error
    if min(map(min, blocks), default=0) < 0 or sum(head + size for _, head, size in blocks) > len(body):
        raise DamagedFile("the file has a damaged footer")
    parts = [schema.serialize(), *(body[at : at + head + size] for at, head, size in blocks)]
    return arrow.py_buffer(b"".join(parts))


def _messages(arrow: Any, buffer: object) -> Iterator[tuple[memoryview, memoryview]]:
    reader = arrow.ipc.MessageReader.open_stream(buffer)
    with suppress(StopIteration):
        while True:
            message = reader.read_next_message()
            yield memoryview(message.metadata), memoryview(message.body or b"")


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: memoryview, at: int) -> None:
        self.data, self.at = data, at
        self._fields = at - _read("<i", data, at)

    def place(self, field: int) -> int | None:
        """Return the offset of a field's value, or None if the field is absent."""
        if 4 + 2 * field >= _read("<H", self.data, self._fields):
            return None
        offset = _read("<H", self.data, self._fields + 4 + 2 * field)
        return self.at + offset if offset else None

    def table(self, field: int) -> _Table | None:
        """Return the table that a field points to, or None if the field is absent."""
        at = self.place(field)
        return None if at is None else _Table(self.data, at + _read("<I", self.data, at))

    def vector(self, field: int) -> tuple[int, int] | None:
        """Return the offset and the length of the vector that a field points to, or None if the field is absent."""
        at = self.place(field)
        start = None if at is None else at + _read("<I", self.data, at)
        return None if start is None else (start + 4, _read("<I", self.data, start))


def _batch(metadata: memoryview) -> tuple[_Table | None, bool, bool]:
    """Return the record batch of a message, whether it belongs to a dictionary, and whether to a delta of one."""
    message = _Table(metadata, _read("<I", metadata, 0))
    kind = message.place(_HEADER_TYPE)
    kind = None if kind is None else metadata[kind]
    header = message.table(_HEADER)
    if header is None or kind not in (_DICTIONARY, _RECORDS):
        return None, False, False
    if kind == _RECORDS:
        return header, False, False
    delta = header.place(_IS_DELTA)
    return header.table(_DATA_OF_DICTIONARY), True, delta is not None and metadata[delta] != 0


def _stated(batch: _Table, body: memoryview) -> tuple[int, int]:
    """Return the declared rows of a batch and the declared decompressed bytes of its buffers."""
    at = batch.place(_LENGTH)
    rows = 0 if at is None else _read("<q", batch.data, at)
    buffers = batch.vector(_BUFFERS)
    if batch.place(_COMPRESSION) is None or buffers is None:
        return _natural(rows), 0
    start, count = buffers
    unpacked = 0
    for i in range(count):
        offset, length = struct.unpack_from("<qq", batch.data, start + 16 * i)
        if length:
            # -1 marks a buffer that is not compressed.
            unpacked += max(0, _read("<q", body, _natural(offset)))
    return _natural(rows), unpacked


def _natural(number: int) -> int:
    if number < 0:
        raise DamagedFile("the stream has a negative size")
    return number


def _read(form: str, data: memoryview, at: int) -> int:
    return int(struct.unpack_from(form, data, at)[0])


# --- Checks of the footer and page headers of a Parquet file before pyarrow reads it
#
# The footer may be wrong; the reader follows the header of each page, allocates the declared size and decompresses no
# more. So the sum over all pages bounds the memory of a file (parquet.thrift, FileMetaData and PageHeader).

_MAGIC = b"PAR1"
#: Fields of FileMetaData, SchemaElement, RowGroup, ColumnChunk and ColumnMetaData.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_WIDTH, _CHILDREN = 2, 5
_CHUNKS, _FILE_PATH, _COLUMN = 1, 1, 3
_N_VALUES, _N_BYTES, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
#: Fields of a PageHeader; for each kind of page, the fields of the number of values and of the encoding.
_UNPACKED, _PACKED = 2, 3
_KINDS = {5: (1, 2), 7: (1, 2), 8: (1, 4)}
#: The most bytes of a value: a number, a level or a code. Values of a fixed width may be wider.
_VALUE_BYTES = 8
#: Encodings whose output is bounded by the input or by the number of values. DELTA_BYTE_ARRAY (7) repeats prefixes.
_ENCODINGS = frozenset({0, 2, 3, 4, 5, 6, 8, 9})
#: The largest footer, which is parsed in Python. A page is expensive: on top of the free ones, one is allowed per KiB.
_FOOTER_BYTES, _FREE, _BYTES_EACH = 4 * 1024 * 1024, 4096, 1024
#: The most values of a footer, and of the header of a page, which has about twenty; and the bytes of one once parsed.
_FOOTER_VALUES, _PAGE_VALUES, _FOOTER_VALUE_BYTES = 1_000_000, 64, 80


def check_file(body: memoryview, limits: Limits) -> None:
    """Check all declared sizes of a Parquet file.

    Raises the error of the limits for too many rows, columns or bytes, ``FileTooLarge`` for too many pages, and
    ``DamagedFile`` for an inconsistent file or an encoding whose output is not bounded.
    """
    footer = _footer(body, limits)
    limits.check_rows(_natural_field(footer.get(_ROWS)))
    elements = [element for element in _list_field(footer, _SCHEMA)[1:] if isinstance(element, dict)]
    widths = [_natural_field(element.get(_WIDTH, 0)) for element in elements if not element.get(_CHILDREN)]
    limits.check_classes(len(widths) - 3)
    most, pages, unpacked = _FREE + len(body) // _BYTES_EACH, 0, 0
    for chunk, width in zip(_chunks(footer, len(widths)), cycle(widths), strict=False):
        for page in _pages(body, chunk, max(width, _VALUE_BYTES)):
            pages += 1
            unpacked += page
            limits.check_bytes(unpacked)
            if pages > most:
                raise FileTooLarge("the file has too many pages for its size")
    limits.reserve(2 * unpacked)  # pyarrow reads into buffers that double


def _footer(body: memoryview, limits: Limits) -> Struct:
    size = int.from_bytes(body[-8:-4], "little")
    if bytes(body[:4]) != _MAGIC or bytes(body[-4:]) != _MAGIC or not 0 < size <= len(body) - 12:
        raise DamagedFile("the file is not a Parquet file, or it is truncated")
    if size > _FOOTER_BYTES:
        raise FileTooLarge(f"the footer may have at most {_FOOTER_BYTES} bytes")
    limits.reserve(_FOOTER_VALUE_BYTES * min(size, _FOOTER_VALUES))
    return ThriftReader(body[-8 - size : -8], _FOOTER_VALUES).struct(0)[0]


def _chunks(footer: Struct, n_leaves: int) -> Iterator[Struct]:
    """Yield the column chunks of every row group, one for each leaf of the schema."""
    for group in _list_field(footer, _GROUPS):
        chunks = _list_field(group, _CHUNKS) if isinstance(group, dict) else []
        if len(chunks) != n_leaves:
            raise DamagedFile("a row group lacks a column")
        for chunk in chunks:
            column = chunk.get(_COLUMN) if isinstance(chunk, dict) else None
            if not isinstance(column, dict) or _FILE_PATH in chunk:
                raise DamagedFile("a column is encrypted or in another file")
            yield column


def _pages(body: memoryview, column: Struct, width: int) -> Iterator[int]:
    """Yield the most bytes of each page of a column chunk; the dictionary page is before the data pages.

    ``width`` is the most bytes of a value.
    """
    if not _natural_field(column.get(_N_VALUES)):
        return  # no page is read, and the offsets are arbitrary
    at, dictionary = _natural_field(column.get(_DATA_AT)), column.get(_DICTIONARY_AT)
    if dictionary is not None and 0 < _natural_field(dictionary) < at:
        at = dictionary
    end = at + _natural_field(column.get(_N_BYTES))
    if end > len(body):
        raise DamagedFile("a column lies outside the file")
    while at < end:
        header, at = ThriftReader(body, _PAGE_VALUES).struct(at)
        at += _natural_field(header.get(_PACKED))
        yield _page(header, width)


def _page(header: Struct, width: int) -> int:
    values = 0
    for kind, (count, encoding) in _KINDS.items():
        if kind in header:
            inner = header[kind] if isinstance(header[kind], dict) else {}
            values += _natural_field(inner.get(count))
            if _natural_field(inner.get(encoding)) not in _ENCODINGS:
                raise DamagedFile("a page has an unsupported encoding")
    return _natural_field(header.get(_UNPACKED)) + values * width


def _list_field(struct: Struct, field: int) -> list[Any]:
    values = struct.get(field)
    if not isinstance(values, list):
        raise DamagedFile("the footer lacks a list")
    return values


def _natural_field(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise DamagedFile("a header lacks a size")
    return number


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
    numbers: Array = decoded(column).to_numpy(zero_copy_only=False)
    return numbers


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
    if bytes(data[: len(_FILE_MAGIC)]) == _FILE_MAGIC:
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
            if len(set(names)) < len(names):
                twice = sorted(name for name, count in Counter(names).items() if count > 1)
                raise DuplicateColumns(f"the file has {listed(twice)} more than once; rename the duplicates")
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
        values = np.array([_number(text) for text in texts], dtype=np.float64)
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
            self._buffer = _stream_of(arrow, bytes_of(file))
            check_messages(arrow, self._buffer, self._buffer.size, limits)
            with arrow.ipc.open_stream(self._buffer) as reader:
                first = next((batch for batch in reader if batch.num_rows), None)
                table = reader.schema.empty_table() if first is None else arrow.Table.from_batches([first])
        super().__init__(arrow, table, limits)

    def _whole(self, names: list[str]) -> Any:
        with self._arrow.ipc.open_stream(self._buffer) as reader:
            return reader.read_all().select(names)


def _number(text: str | None) -> float:
    """Parse a number; NaN if it is none."""
    return number(text) if text is not None and is_number_text(text) else np.nan


def _kind(kind: Any) -> str:
    """Return the name of a type, without its parameters."""
    return str(kind).split("<", 1)[0].split("[", 1)[0]
