"""What a Parquet file says that it holds, read before pyarrow believes it.

The footer may say anything; the reader follows each page's own header, allocates what that states and unpacks no
more. So the sum over all pages bounds what a file becomes (parquet.thrift, FileMetaData and PageHeader).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tabular.bounds import Limits
from tabular.errors import DamagedFile, FileTooLarge
from tabular.thrift import Struct, read_struct

_MAGIC = b"PAR1"
#: Fields of FileMetaData, SchemaElement, RowGroup, ColumnChunk and ColumnMetaData.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_NAME, _CHILDREN = 4, 5
_CHUNKS, _FILE_PATH, _COLUMN = 1, 1, 3
_N_VALUES, _N_BYTES, _DATA_AT, _DICTIONARY_AT = 5, 7, 9, 11
#: Fields of a PageHeader, and in the headers of the kinds of pages: count of values and encoding.
_UNPACKED, _PACKED = 2, 3
_KINDS = {5: (1, 2), 7: (1, 2), 8: (1, 4)}
#: A value takes at most so many bytes as a number, a level or a code.
_VALUE_BYTES = 8
#: Encodings that give at most what their bytes hold, or a value a code. DELTA_BYTE_ARRAY (7) repeats prefixes.
_ENCODINGS = frozenset({0, 2, 3, 4, 5, 6, 8, 9})
#: A footer is parsed in Python; one a page or column costs more than its bytes: so many are free, and one for each KiB.
_FOOTER_BYTES, _FREE, _BYTES_EACH = 4 * 1024 * 1024, 4096, 1024


def check_file(body: memoryview, limits: Limits) -> list[str]:
    """The names of the columns, after a look at everything that the file states.

    Raises the limits' own error for rows, columns or bytes over them, stated by the footer or by the pages,
    ``FileTooLarge`` for too many pages, and ``DamagedFile`` for a file whose parts do not fit each other or whose
    encodings could unpack without bound.
    """
    footer = _footer(body)
    limits.check_rows(_natural(footer.get(_ROWS)))
    elements = [element for element in _list(footer, _SCHEMA)[1:] if isinstance(element, dict)]
    n_leaves = sum(not element.get(_CHILDREN) for element in elements)
    limits.check_classes(n_leaves - 3)
    most, pages, unpacked = _FREE + len(body) // _BYTES_EACH, 0, 0
    for chunk in _chunks(footer, n_leaves):
        for page in _pages(body, chunk):
            pages += 1
            unpacked += page
            limits.check_bytes(unpacked)
            if pages > most:
                raise FileTooLarge("the file has too many pages for its size")
    names = [element.get(_NAME) for element in elements]
    return [name.decode("utf-8", "replace") for name in names if isinstance(name, bytes)]


def _footer(body: memoryview) -> Struct:
    size = int.from_bytes(body[-8:-4], "little")
    if bytes(body[:4]) != _MAGIC or bytes(body[-4:]) != _MAGIC or not 0 < size <= len(body) - 12:
        raise DamagedFile("this is not a Parquet file, or is cut off")
    if size > _FOOTER_BYTES:
        raise FileTooLarge(f"the footer may have at most {_FOOTER_BYTES} bytes")
    return read_struct(body[-8 - size : -8], 0)[0]


def _chunks(footer: Struct, n_leaves: int) -> Iterator[Struct]:
    """The column chunks of every row group, one for each leaf of the schema."""
    for group in _list(footer, _GROUPS):
        chunks = _list(group, _CHUNKS) if isinstance(group, dict) else []
        if len(chunks) != n_leaves:
            raise DamagedFile("a row group lacks a column")
        for chunk in chunks:
            column = chunk.get(_COLUMN) if isinstance(chunk, dict) else None
            if not isinstance(column, dict) or _FILE_PATH in chunk:
                raise DamagedFile("a column is encrypted, or stands in another file")
            yield column


def _pages(body: memoryview, column: Struct) -> Iterator[int]:
    """The bytes that each page of a column chunk may become; a dictionary stands before the data."""
    if not _natural(column.get(_N_VALUES)):
        return  # no page is read, and the offsets are anything
    at, dictionary = _natural(column.get(_DATA_AT)), column.get(_DICTIONARY_AT)
    if dictionary is not None and 0 < _natural(dictionary) < at:
        at = dictionary
    end = at + _natural(column.get(_N_BYTES))
    if end > len(body):
        raise DamagedFile("a column lies outside the file")
    while at < end:
        header, at = read_struct(body, at)
        at += _natural(header.get(_PACKED))
        yield _page(header)


def _page(header: Struct) -> int:
    values = 0
    for kind, (count, encoding) in _KINDS.items():
        if kind in header:
            inner = header[kind] if isinstance(header[kind], dict) else {}
            values += _natural(inner.get(count))
            if _natural(inner.get(encoding)) not in _ENCODINGS:
                raise DamagedFile("a page has an encoding that is not read here")
    return _natural(header.get(_UNPACKED)) + values * _VALUE_BYTES


def _list(struct: Struct, field: int) -> list[Any]:
    found = struct.get(field)
    if not isinstance(found, list):
        raise DamagedFile("the footer lacks a list")
    return found


def _natural(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise DamagedFile("a header lacks a size")
    return number
