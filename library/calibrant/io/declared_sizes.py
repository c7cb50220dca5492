"""Checks of the sizes that an Arrow stream or a Parquet file states, before pyarrow reads it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from typing import Any

from calibrant.io.errors import (
    DamagedFile,
    FileTooLarge,
)
from calibrant.io.limits import Limits

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
FILE_MAGIC, _CONTINUATION = b"ARROW1\0\0", b"\xff\xff\xff\xff"
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


def stream_of(arrow: Any, body: memoryview) -> Any:
    """Return the buffer of the stream of a file or stream.

    Polars writes the schema of a file only into its footer, and dictionaries after the rows that use them.
    """
    if bytes(body[: len(FILE_MAGIC)]) != FILE_MAGIC:
        return arrow.py_buffer(body)
    stream = body[len(FILE_MAGIC) :]
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


# --- Thrift structs in the compact protocol, the format of the footer and page headers of Parquet
#
# pyarrow aborts the process on a footer with inconsistent list lengths, so the footer is parsed and checked here first.

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
#: The largest shift of a 64-bit varint, and the deepest nesting of structs and lists.
_MOST_BITS, _DEEPEST = 63, 12
#: Length code of a list whose length is in a varint.
_LONG_LIST = 15

Struct = dict[int, Any]


class ThriftReader:
    """A parser of structs that reads at most ``most`` values; strings are views of the data.

    Raises ``DamagedFile`` or ``FileTooLarge``, or ``IndexError`` for a truncated struct.
    """

    def __init__(self, data: memoryview, most: int) -> None:
        self._data, self._left = data, most

    def struct(self, at: int, depth: int = 0) -> tuple[Struct, int]:
        """Parse a struct; returns its values by field number, and the offset of its end."""
        if depth > _DEEPEST:
            raise DamagedFile("a header is nested too deeply")
        fields: Struct = {}
        field = 0
        while head := self._data[at]:
            at += 1
            if head >> 4:
                field += head >> 4
            else:
                field, at = _signed(self._data, at)
            self._count()
            # The type of a boolean field is its value.
            if head & 15 <= _FALSE:
                fields[field] = head & 15 == _TRUE
            else:
                fields[field], at = self._value(at, head & 15, depth)
        return fields, at + 1

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise FileTooLarge("a header of the file has too many values")

    def _value(self, at: int, kind: int, depth: int) -> tuple[Any, int]:
        data = self._data
        if kind in (_I16, _I32, _I64):
            return _signed(data, at)
        if kind == _BINARY:
            length, at = _unsigned(data, at)
            return data[at : at + length], at + length
        if kind == _STRUCT:
            return self.struct(at, depth + 1)
        if kind in (_LIST, _SET):
            return self._list(at, depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            return data[at], at + (8 if kind == _DOUBLE else 1)
        raise DamagedFile("a header has a field of an unknown type")

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        if depth > _DEEPEST:
            raise DamagedFile("a header is nested too deeply")
        length, kind = self._data[at] >> 4, self._data[at] & 15
        at += 1
        if length == _LONG_LIST:
            length, at = _unsigned(self._data, at)
        elements = []
        for _ in range(length):
            self._count()
            value, at = self._value(at, kind, depth)
            elements.append(value)
        return elements, at


def _signed(data: memoryview, at: int) -> tuple[int, int]:
    number, at = _unsigned(data, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
        if shift > _MOST_BITS:
            raise DamagedFile("a header has a number of more than 64 bits")


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
